"""Stories of the operator and one job in the simulated cluster of `tests.support.operator_cluster`.

$ operator ps=2 worker=2 [heter=1] [nodes=3] [intranet=Service] [withGloo=1] [elastic=1] [cleanPodPolicy=Never]
           [suspend=true] [backoffLimit=1] [backoffResetSeconds=600] [restartScope=Pod] [activeDeadlineSeconds=60] [ttlSecondsAfterFinished=60]
           [sidecar=1] [restartPolicy=Always] [successPolicy=AllRoles] [requests=1] [limits=4] [queue=q] [gang=volcano] [serves=volcano] [etcd=etcd:2379] [name=wide]
$ operate [kill=2]            the operator looks once, and acts; killed behind as many writes
$ nodes                       scheduler and nodes make one step
$ settle [60]                 both go on until nothing changes, and time passes; told are events, and phases as they come
$ fail wide-worker-0 [code=1] [reason=OOMKilled]
$ evict | remove | terminate wide-worker-0
$ finish [wide-worker-0]      without a name: all workers
$ lose wide-worker-0          the node that it is on
$ scale 3 | suspend | resume | delete | create | collect
$ foreign ConfigMap wide      an object of somebody else
$ own KIND wide               an object that a person has made for the job
$ free ConfigMap wide         it is gone
$ admit                       Volcano lets the PodGroup in
$ show                        the status, and pods with their attempts
$ told wide-worker-0          what its container was started with
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.support.operator_cluster import Killed, OperatorCluster, manifest
from umiak.operator.policies.gangs import DRIVERS
from umiak.operator.values import (
    ClusterFacts,
    CreateObject,
    DeleteObject,
    KeepLogs,
    ReplaceObject,
    StopPod,
    WakePod,
)

if TYPE_CHECKING:
    from umiak.operator.values import OperatorAction

POLICY = (
    "suspend",
    "backoffLimit",
    "backoffResetSeconds",
    "restartScope",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "successPolicy",
    "managedBy",
)
ROLE_FIELDS = ("requests", "limits")
ROLES = ("ps", "worker", "heter")


class OperatorStory:
    """One job, one cluster, one operator."""

    def __init__(self, nodes: str = "3", gang: str = "", serves: str = "", etcd: str = "", **given: str) -> None:
        name = given.pop("name", "wide")
        counts = {role: int(given.pop(role)) if role in given else None for role in ROLES}
        policy = {key: _read(given.pop(key)) for key in POLICY if key in given}
        pod = {"restartPolicy": given.pop("restartPolicy")} if "restartPolicy" in given else {}
        sidecars = [{"name": "a-sidecar", "image": "demo:v1"}] if given.pop("sidecar", "") else []
        worker = {key: int(given.pop(key)) for key in ROLE_FIELDS if key in given}
        fields: dict[str, Any] = {key: _read(text) for key, text in given.items()}
        if "queue" in fields:
            fields["schedulingPolicy"] = {"queue": fields.pop("queue")}
        if policy:
            fields["runPolicy"] = policy
        body = manifest(name, **counts, **fields)
        if worker:
            body["spec"]["worker"] |= worker
        for role in set(ROLES) & set(body["spec"]):
            own = body["spec"][role]["template"]["spec"]
            own |= {**pod, "containers": [*sidecars, *own["containers"]]}
        kinds = frozenset([DRIVERS[serves].kind]) if serves else frozenset()
        self.name = name
        self.cluster = OperatorCluster(
            body,
            facts=ClusterFacts(gang=gang, kinds=kinds, etcd=etcd),
            nodes=int(nodes),
            chance=random.Random(1),
        )
        self._events = 0

    def do_operate(self, kill: str | None = None) -> list[str]:
        decision = self.cluster.decide()
        if decision is None:
            return ["there is no job"]
        lines = []
        if decision.is_turning_point:
            lines.append("the status first")
        else:
            lines += _grouped(decision.actions)
        before = self.cluster.body.get("status") if self.cluster.body else None
        try:
            self.cluster.operate(kill_after=None if kill is None else int(kill), is_due=True)
        except Killed:
            lines = [f"killed behind {kill} of: {'; '.join(lines)}"]
        if self.cluster.body and self.cluster.body.get("status") != before:
            lines.append(f"status: {self._status()}")
        return lines + self._news()

    def do_nodes(self) -> list[str]:
        self.cluster.kubelets()
        return []

    def do_settle(self, seconds: str = "0") -> list[str]:
        seen = len(self.cluster.history)
        self.cluster.settle(float(seconds))
        phases: list[str] = []
        for report in self.cluster.history[seen:]:
            word = report.phase.value if report.phase else "-"
            if not phases or phases[-1] != word:
                phases.append(word)
        return [*self._news(), *([f"phases: {' '.join(phases)}"] if phases else [])]

    def do_fail(self, name: str, code: str = "1", reason: str = "Error", message: str = "") -> list[str]:
        self.cluster.fail(name, int(code), reason, message)
        return []

    def do_evict(self, name: str, reason: str = "Evicted") -> list[str]:
        self.cluster.evict(name, reason)
        return []

    def do_remove(self, name: str) -> list[str]:
        self.cluster.remove(name)
        return []

    def do_terminate(self, name: str) -> list[str]:
        self.cluster.terminate(name)
        return []

    def do_finish(self, *names: str) -> list[str]:
        self.cluster.finish(*names)
        return []

    def do_lose(self, name: str) -> list[str]:
        self.cluster.lose_node(self.cluster.pod(name)["spec"]["nodeName"])
        return []

    def do_scale(self, count: str) -> list[str]:
        self.cluster.edit(worker={"replicas": int(count)})
        return []

    def do_suspend(self) -> list[str]:
        self.cluster.edit(runPolicy={"suspend": True})
        return []

    def do_resume(self) -> list[str]:
        self.cluster.edit(runPolicy={"suspend": False})
        return []

    def do_delete(self) -> list[str]:
        self.cluster.delete_job(collects=False)
        return []

    def do_create(self) -> list[str]:
        self.cluster.create_job()
        return []

    def do_collect(self) -> list[str]:
        self.cluster.collect()
        return []

    def do_foreign(self, kind: str, name: str) -> list[str]:
        self.cluster.foreign(kind, name)
        return []

    def do_own(self, kind: str, name: str) -> list[str]:
        self.cluster.foreign(kind, name, owner="")
        return []

    def do_free(self, kind: str, name: str) -> list[str]:
        del self.cluster.objects[(kind, name)]
        return []

    def do_admit(self) -> list[str]:
        self.cluster.objects[(DRIVERS["volcano"].kind, self.name)]["status"] = {"phase": "Inqueue"}
        return []

    def do_show(self) -> list[str]:
        if self.cluster.body is None:
            return ["there is no job"]
        lines = [self._status()]
        lines += [
            f"{each.type} {each.is_true}: {each.reason}{f': {each.message}' if each.message else ''}"
            for each in self.cluster.report.conditions
            if each.is_true or each.type in ("Accepted", "GangScheduling")
        ]
        for (kind, name), body in sorted(self.cluster.objects.items()):
            if kind == "Pod" and "status" in body:
                attempt = body["metadata"]["annotations"]["batch.paddlepaddle.org/attempt"]
                leaving = ", being deleted" if body["metadata"].get("deletionTimestamp") else ""
                lines.append(f"{name}: {body['status']['phase']}, attempt {attempt}{leaving}")
        return lines

    def do_told(self, name: str) -> list[str]:
        found = self.cluster.environment(name)
        return [f"{key}={text}" for key, text in sorted(found.items()) if not key.startswith("PADDLEJOB_ATTEMPT_")]

    def _status(self) -> str:
        report = self.cluster.report
        words = [report.phase.value if report.phase else "no phase"]
        for each in report.counts:
            parts = [
                f"{count} {word}"
                for word in ("pending", "starting", "running", "failed", "succeeded", "unknown")
                if (count := getattr(each, word))
            ]
            words.append(f"{each.role.value} {' '.join(parts) or 'none'}")
        numbers = (("attempt", report.attempt), ("restarts", report.restarts), ("forgiven", report.forgiven))
        words += [f"{word} {number}" for word, number in numbers if number]
        words += [f"{name} again {times}x" for name, times in report.pod_restarts]
        words += [f"log of {name}" for name, _ in report.last_logs]
        return ", ".join(words)

    def _news(self) -> list[str]:
        events = self.cluster.events[self._events :]
        self._events = len(self.cluster.events)
        return [f"event {each.reason}: {each.message}" for each in events]


def _grouped(actions: tuple[OperatorAction, ...]) -> list[str]:
    """Actions in a few lines: ``create Pod a b``."""
    found: dict[str, list[str]] = {}
    for action in actions:
        match action:
            case CreateObject():
                found.setdefault(f"create {action.kind}", []).append(action.name)
            case ReplaceObject():
                found.setdefault(f"replace {action.kind}", []).append(action.name)
            case DeleteObject():
                by_force = " by force" if action.grace_s == 0 else ""
                found.setdefault(f"delete{by_force} {action.kind}", []).append(action.name)
            case StopPod():
                found.setdefault("stop Pod", []).append(action.name)
            case WakePod():
                found.setdefault("wake Pod", []).append(action.name)
            case KeepLogs():
                found.setdefault("keep the log of", []).append(action.pod)
    return [f"{what} {' '.join(sorted(names))}" for what, names in found.items()]


def _read(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text
