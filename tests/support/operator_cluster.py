"""A small simulated cluster for the operator's decisions: an API with objects as JSON, nodes that start pods, and an operator.

What passes between the operator and the cluster is the JSON of the real API: jobs are read, statuses written and pods reduced by the
functions that the controller uses. Nodes start a container only when the ConfigMap that it asks for is there and has its keys.

    cluster = OperatorCluster(manifest)
    cluster.settle()              the operator decides and acts, nodes start pods, until nothing changes
    cluster.fail("job-worker-0", code=1)
    cluster.operate(kill_after=2) the operator is killed behind its second write
"""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.support import operator_containers as containers
from umiak.core.value import replace
from umiak.kube.times import text_of
from umiak.operator.controller.seen_objects import object_of, pod_of
from umiak.operator.objects.names import WOKEN
from umiak.operator.objects.workloads import with_conditions
from umiak.operator.reconcile import reconcile
from umiak.operator.values import (
    ClusterFacts,
    CreateObject,
    Decision,
    DeleteObject,
    FoundClass,
    KeepLogs,
    Observed,
    PatchWorkload,
    RecordEvent,
    Refusal,
    RemoveFinalizer,
    ReplaceObject,
    StopPod,
    WakePod,
)
from umiak.paddlejob.reading import read
from umiak.paddlejob.report import report_of, status_of
from umiak.paddlejob.resource import JobReport, PaddleJob

BEGINNING_S = 1_790_000_000
MOST_ROUNDS = 400


class Killed(Exception):
    """The operator was killed here."""


class OperatorCluster:
    """One job in a cluster."""

    def __init__(
        self,
        manifest: dict[str, Any],
        *,
        facts: ClusterFacts = ClusterFacts(),  # noqa: B008 - a value
        nodes: int = 3,
        chance: random.Random | None = None,
        six: bool = False,
    ) -> None:
        self.now = float(BEGINNING_S)
        self.chance = chance or random.Random(1)
        self.facts = facts
        self.nodes = [f"node-{number}" for number in range(nodes)]
        self.lost: set[str] = set()
        self.clocks_ahead: dict[str, float] = {}
        """By node: how far its clock is ahead. What nodes write down is in their time."""
        self.manifest = copy.deepcopy(manifest)
        self.six = six
        self.body: dict[str, Any] | None = None
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.events: list[RecordEvent] = []
        self.writes: list[str] = []
        self.started_with: dict[str, dict[str, str]] = {}
        """By UID of the pod: the variables that its main container got."""
        self.refusals: dict[tuple[str, str], Refusal] = {}
        self.refuses: Refusal | None = None
        """What the API server says to every creation of a pod, if it refuses them."""
        self.progress: tuple[tuple[str, str], ...] = ()
        """What the log of the first worker says."""
        self.found: tuple[FoundClass, ...] = ()
        """Flavors and classes of priority that the operator has read."""
        self.image_trouble = ""
        self.too_few_nodes = ""
        self.history: list[JobReport] = []
        self.again: float | None = None
        self.decision: Decision | None = None
        self._uids = 0
        self._version = 0
        self._stale: tuple[dict[str, Any] | None, dict[tuple[str, str], dict[str, Any]]] | None = None
        self.create_job()

    # ---- people

    def create_job(self) -> None:
        """``kubectl create``."""
        self.body = copy.deepcopy(self.manifest)
        metadata = self.body.setdefault("metadata", {})
        metadata |= {"uid": self._uid(), "generation": 1, "resourceVersion": self._next(), "namespace": "default"}
        self.body.pop("status", None)

    def delete_job(self, *, collects: bool = True) -> None:
        """``kubectl delete``; children go when the cluster has collected them."""
        self.body = None
        if collects:
            self.collect()

    def collect(self) -> None:
        """The garbage collector: objects whose owner is gone go."""
        uid = self.body["metadata"]["uid"] if self.body else ""
        for key, each in list(self.objects.items()):
            owner = _owner(each)
            if owner and owner != uid and owner.startswith("uid-"):
                del self.objects[key]

    def edit(self, **changes: Any) -> None:
        """Change fields of the spec: ``edit(worker={"replicas": 3})`` merges one level."""
        assert self.body
        spec = self.body["spec"]
        for name, change in changes.items():
            if change is None:
                spec.pop(name, None)
            else:
                spec[name] = {**(spec.get(name) or {}), **change} if isinstance(change, dict) else change
        self.body["metadata"]["generation"] += 1
        self.body["metadata"]["resourceVersion"] = self._next()

    def foreign(self, kind: str, name: str, owner: str = "somebody") -> None:
        """An object of somebody else under a name of ours."""
        owners = [{"controller": True, "uid": owner}] if owner else []
        metadata = {"name": name, "uid": self._uid(), "ownerReferences": owners}
        self.objects[(kind, name)] = {"metadata": metadata, "data": {"FOREIGN": "1"}}

    # ---- nodes

    def fail(self, name: str, code: int = 1, reason: str = "Error", message: str = "") -> None:
        """The main container of a pod ends with an error."""
        pod = self.pod(name)
        policy = pod["spec"]["restartPolicy"]
        row = {"name": containers.main_of(pod), "restartCount": pod["status"].get("restarts", 0)}
        ended = {"exitCode": code, "reason": reason, "message": message, "finishedAt": self._time_at(pod)}
        if policy in ("OnFailure", "Always"):
            pod["status"]["restarts"] = row["restartCount"] = row["restartCount"] + 1
            row |= {"state": {"running": {}}, "lastState": {"terminated": ended}}
        else:
            row["state"] = {"terminated": ended}
            if not containers.sidecars_of(pod):
                pod["status"]["phase"] = "Failed"
        pod["status"]["containerStatuses"] = containers.with_sidecars(pod, row)

    def evict(self, name: str, reason: str = "Evicted", message: str = "The node was low on resource: memory.") -> None:
        """The cluster ends a pod, and leaves it there as failed."""
        self.pod(name)["status"] |= {"phase": "Failed", "reason": reason, "message": message}

    def finish(self, *names: str) -> None:
        """Containers end well; without names, those of all workers that run."""
        for name in names or [name for name in self.pods("Running") if "-worker-" in name]:
            pod = self.pod(name)
            ended = {"exitCode": 0, "reason": "Completed", "finishedAt": self._time_at(pod)}
            row = {"name": containers.main_of(pod), "state": {"terminated": ended}}
            pod["status"]["containerStatuses"] = containers.with_sidecars(pod, row)
            if not containers.sidecars_of(pod):
                pod["status"]["phase"] = "Succeeded"

    def has_ended(self, name: str) -> bool:
        """Whether the main container of a pod has, while others may go on."""
        pod = self.pod(name)
        rows = pod["status"].get("containerStatuses") or ()
        main = next((row for row in rows if row.get("name") == containers.main_of(pod)), {})
        return pod["status"]["phase"] in ("Succeeded", "Failed") or "terminated" in (main.get("state") or {})

    def break_sidecars(self, name: str, code: int = 3) -> None:
        """The ordinary sidecars of a pod that runs end with an error."""
        containers.break_sidecars(self.pod(name), code, self._time_at(self.pod(name)))

    def break_init(self, name: str, code: int = 4) -> None:
        """The init containers of a pod that has not started end with an error; it is started again in its pod, or not at all."""
        containers.break_init(self.pod(name), code, self._time_at(self.pod(name)))

    def change(self, key: tuple[str, str], **parts: Any) -> None:
        """Somebody writes an object: its spec, its status."""
        self.objects[key] |= copy.deepcopy(parts)
        self.objects[key]["metadata"]["resourceVersion"] = self._next()

    def remove(self, name: str) -> None:
        """A pod is deleted, and gone at once."""
        del self.objects[("Pod", name)]

    def terminate(self, name: str) -> None:
        """A pod is deleted, and ends within its grace period."""
        self.pod(name)["metadata"]["deletionTimestamp"] = _time(self.now)

    def lose_node(self, node: str) -> None:
        """A node does not speak any more; its pods stay in the API as they were."""
        self.lost.add(node)

    def kubelets(self) -> bool:
        """Scheduler, network and nodes make one step. Whether anything has changed."""
        changed = False
        for (kind, name), pod in list(self.objects.items()):
            if kind != "Pod" or "status" not in pod:
                continue
            status, node = pod["status"], pod["spec"].get("nodeName")
            if pod["metadata"].get("deletionTimestamp"):
                if node not in self.lost:
                    del self.objects[(kind, name)]
                    changed = True
            elif pod["spec"].get("activeDeadlineSeconds") and status["phase"] in ("Pending", "Running"):
                status |= {"phase": "Failed", "reason": "DeadlineExceeded"}
                changed = True
            elif status["phase"] == "Pending" and not node:
                changed |= self._schedule(pod)
            elif status["phase"] == "Pending" and node not in self.lost:
                changed |= self._start(pod)
        return changed

    def _schedule(self, pod: dict[str, Any]) -> bool:
        if self.too_few_nodes:
            said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": self.too_few_nodes}
            changed = pod["status"].get("conditions") != [said]
            pod["status"]["conditions"] = [said]
            return changed
        wanted = containers.host_ports(pod)
        for node in self.chance.sample(self.nodes, len(self.nodes)):
            if node in self.lost:
                continue
            others = [containers.host_ports(each) for each in self._pods_on(node)]
            if not any(wanted & other for other in others):
                pod["spec"]["nodeName"] = node
                placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _time(self.now)}
                pod["status"]["conditions"] = [placed]
                return True
        return False

    def _start(self, pod: dict[str, Any]) -> bool:
        status = pod["status"]
        if not status.get("podIPs"):
            number = self._next_number()
            own = f"fd00::{number:x}" if self.six else f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            if pod["spec"].get("hostNetwork"):
                own = f"192.168.0.{self.nodes.index(pod['spec']['nodeName']) + 1}"
            status["podIPs"] = [{"ip": own}]
            status["startTime"] = self._time_at(pod)
            return True
        if self.image_trouble:
            image = pod["spec"]["containers"][0]["image"]
            row = {"image": image, "state": {"waiting": {"reason": self.image_trouble, "message": "no such image"}}}
            changed = status.get("containerStatuses") != [row]
            status["containerStatuses"] = [row]
            return changed
        environment = self._environment(pod)
        if environment is None:
            return False
        status["phase"] = "Running"
        status.pop("containerStatuses", None)
        for row in status.get("initContainerStatuses") or ():
            row["state"] = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": self._time_at(pod)}}
        self.started_with[pod["metadata"]["uid"]] = environment
        return True

    def _time_at(self, pod: dict[str, Any]) -> str:
        """What the clock of its node says."""
        return _time(self.now + self.clocks_ahead.get(pod["spec"].get("nodeName") or "", 0.0))

    def _environment(self, pod: dict[str, Any]) -> dict[str, str] | None:
        """The variables of the main container; None: what it refers to is not there."""
        container = next(each for each in pod["spec"]["containers"] if each["name"] == containers.main_of(pod))
        found: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            body = self.objects.get(("ConfigMap", source["configMapRef"]["name"]))
            if body is None:
                return None
            found |= body["data"]
        for each in container.get("env") or ():
            if "value" in each:
                found[each["name"]] = containers.expanded(each["value"], found)
            elif "configMapKeyRef" in each["valueFrom"]:
                ref = each["valueFrom"]["configMapKeyRef"]
                body = self.objects.get(("ConfigMap", ref["name"]))
                if body is None or ref["key"] not in body["data"]:
                    return None
                found[each["name"]] = body["data"][ref["key"]]
            else:
                found[each["name"]] = pod["status"]["podIPs"][0]["ip"]
        return found

    # ---- the operator

    def job(self) -> PaddleJob:
        """The job as the API has it."""
        assert self.body
        return read(self.body).job

    @property
    def report(self) -> JobReport:
        assert self.body
        return report_of(self.body.get("status"))

    def keep_stale(self) -> None:
        """The operator's cache stands still from now on."""
        self._stale = copy.deepcopy((self.body, self.objects))

    def refresh(self) -> None:
        """The operator's cache is up to date from now on."""
        self._stale = None

    def observed(self) -> Observed | None:
        body, objects = self._stale or (self.body, self.objects)
        if body is None:
            return None
        reading = read(body)
        job = reading.job
        pods = [pod_of(each) for (kind, _), each in objects.items() if kind == "Pod"]
        others = [object_of(kind, each) for (kind, name), each in objects.items() if kind != "Pod"]
        return Observed(
            job=job,
            problems=reading.problems,
            warnings=reading.warnings,
            pods=tuple(pods),
            objects=tuple(others),
            refusals=tuple(self.refusals.values()),
            progress=self.progress,
            found=self.found,
            facts=replace(self.facts, lost_nodes=frozenset(self.lost)),
        )

    def decide(self) -> Decision | None:
        """What the operator would do."""
        seen = self.observed()
        if seen is None:
            return None
        self.decision = reconcile(seen, self.now)
        return self.decision

    def operate(self, *, kill_after: int | None = None, fail_writes: float = 0.0, is_due: bool = False) -> bool:
        """Decide and act once. Whether anything was written. ``Killed`` behind as many writes as said.

        A status that may wait is written when it is due.
        """
        seen = self.observed()
        if seen is None:
            return False
        decision = reconcile(seen, self.now)
        self.decision, self.again = decision, decision.again_in_s
        before = len(self.writes)
        budget = [kill_after]
        if decision.is_turning_point:
            if self._write_status(seen.job, decision.report, budget, fail_writes):
                self.events += [each for each in decision.actions if isinstance(each, RecordEvent)]
            return len(self.writes) > before
        report = decision.report
        actions = list(decision.actions)
        self.chance.shuffle(actions)
        for action in actions:
            if isinstance(action, KeepLogs):
                report = replace(report, last_logs=(*report.last_logs, (action.pod, f"last lines of {action.pod}")))
            elif isinstance(action, RecordEvent):
                self.events.append(action)
            elif self.chance.random() >= fail_writes:
                self._perform(seen.job, action)
                _spend(budget)
        if is_due or decision.status_may_wait_s <= 0 or report != decision.report:
            self._write_status(seen.job, report, budget, fail_writes)
        return len(self.writes) > before

    def settle(self, seconds: float = 0.0) -> None:
        """Operator and nodes act until nothing changes; then time passes, as far as said, and they act again."""
        until = self.now + seconds
        for _ in range(MOST_ROUNDS):
            if self.operate() | self.kubelets() or self.operate(is_due=True):
                continue
            if self.again is not None and self.now + self.again <= until:
                self.now += max(self.again, 1.0)
                continue
            if self.now >= until:
                return
            self.now = until
        raise AssertionError(f"it does not come to rest: {self.decision}")

    def _write_status(
        self, job: PaddleJob, report: JobReport, budget: list[int | None], fail_writes: float = 0.0
    ) -> bool:
        """Over the version that was decided on only; whether it is written now."""
        body = self.body
        if body is None or body["metadata"]["uid"] != job.uid:
            return False
        status = status_of(report, job)
        if status == (body.get("status") or {}):
            return True
        if body["metadata"]["resourceVersion"] != job.resource_version or self.chance.random() < fail_writes:
            return False
        body["status"] = status
        body["metadata"]["resourceVersion"] = self._next()
        self.writes.append("status")
        self.history.append(report)
        _spend(budget)
        return True

    def _perform(self, job: PaddleJob, action: Any) -> None:
        if isinstance(action, RemoveFinalizer):
            self._remove_finalizer(action)
            return
        key = (action.kind, action.name)
        if isinstance(action, CreateObject):
            self.writes.append(f"create {action.kind}")
            self._create(job, action)
        elif isinstance(action, ReplaceObject):
            self.writes.append(f"replace {action.kind}")
            if key in self.objects and self.objects[key]["metadata"]["uid"] == action.uid:
                status = self.objects[key].get("status")
                self.objects[key] = copy.deepcopy(action.body)
                self.objects[key]["metadata"] |= {"uid": action.uid, "resourceVersion": self._next()}
                if status is not None:
                    self.objects[key]["status"] = status
        elif isinstance(action, StopPod):
            self.writes.append("stop Pod")
            if key in self.objects and self.objects[key]["metadata"]["uid"] == action.uid:
                self.objects[key]["spec"]["activeDeadlineSeconds"] = 1
        elif isinstance(action, PatchWorkload):
            self._patch_workload(key, action)
        elif isinstance(action, WakePod):
            self.writes.append("wake Pod")
            if key in self.objects and self.objects[key]["metadata"]["uid"] == action.uid:
                self.objects[key]["metadata"].setdefault("annotations", {})[WOKEN] = action.note
        elif isinstance(action, DeleteObject):
            self.writes.append(f"delete {action.kind}")
            self._delete(action)

    def _remove_finalizer(self, action: RemoveFinalizer) -> None:
        assert self.body
        self.body["metadata"]["finalizers"].remove(action.name)
        self.writes.append("finalizer")

    def _patch_workload(self, key: tuple[str, str], action: PatchWorkload) -> None:
        self.writes.append("patch Workload")
        body = self.objects.get(key)
        if body is not None and body["metadata"]["resourceVersion"] == action.version:
            changes = with_conditions(body, action.conditions, self.now, drops_admission=action.drops_admission)
            self.change(key, status=changes)

    def _create(self, job: PaddleJob, action: CreateObject) -> None:
        key = (action.kind, action.name)
        if action.kind == "Pod" and self.refuses is not None:
            self.refusals[key] = replace(self.refuses, kind=action.kind, name=action.name)
            return
        self.refusals.pop(key, None)
        if self.body is None or self.body["metadata"]["uid"] != job.uid:
            return  # an owner that is gone: collected at once
        if key in self.objects:
            return
        body = copy.deepcopy(action.body)
        body["metadata"] |= {"uid": self._uid(), "creationTimestamp": _time(self.now), "resourceVersion": self._next()}
        if action.kind == "Pod":
            body["status"] = {"phase": "Pending"}
        self.objects[key] = body

    def _delete(self, action: DeleteObject) -> None:
        key = (action.kind, action.name)
        if action.kind == "PaddleJob":
            if self.body and self.body["metadata"]["uid"] == action.uid:
                self.delete_job()
            return
        found = self.objects.get(key)
        if found is None or found["metadata"]["uid"] != action.uid:
            return
        if action.kind == "Pod" and action.grace_s != 0:
            found["metadata"].setdefault("deletionTimestamp", _time(self.now))
        else:
            del self.objects[key]

    # ---- looking

    def pod(self, name: str) -> dict[str, Any]:
        return self.objects[("Pod", name)]

    def pods(self, phase: str | None = None) -> list[str]:
        """Names of pods that are not being deleted."""
        return sorted(
            name
            for (kind, name), each in self.objects.items()
            if kind == "Pod"
            and "status" in each
            and not each["metadata"].get("deletionTimestamp")
            and phase in (None, each["status"]["phase"])
        )

    def named(self, kind: str) -> list[str]:
        return sorted(name for each, name in self.objects if each == kind)

    def data(self) -> dict[str, str]:
        """What pods are told, without the key that says whom it is for."""
        found = self.objects[("ConfigMap", self.job().name)]["data"]
        return {name: text for name, text in found.items() if not name.startswith("PADDLEJOB_ATTEMPT_")}

    def environment(self, name: str) -> dict[str, str]:
        """What the first container of a pod was started with."""
        return self.started_with[self.pod(name)["metadata"]["uid"]]

    def condition(self, kind: str) -> tuple[bool, str, str] | None:
        found = next((each for each in self.report.conditions if each.type == kind), None)
        return None if found is None else (found.is_true, found.reason, found.message)

    def _pods_on(self, node: str) -> list[dict[str, Any]]:
        return [
            each
            for (kind, _), each in self.objects.items()
            if kind == "Pod" and each.get("spec", {}).get("nodeName") == node
        ]

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids:05}"

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _next_number(self) -> int:
        self._uids += 1
        return self._uids


def manifest(
    name: str = "wide", ps: int | None = None, worker: int | None = 2, heter: int | None = None, **fields: Any
) -> dict[str, Any]:
    """A PaddleJob with these numbers of pods, and other fields of its spec."""
    template = {"spec": {"containers": [{"name": "paddle", "image": "demo:v1"}]}}
    roles = {"ps": ps, "worker": worker, "heter": heter}
    spec = {role: {"replicas": count, "template": template} for role, count in roles.items() if count is not None}
    for role in list(fields):
        if role in spec:
            spec[role] |= fields.pop(role)
    return copy.deepcopy(
        {
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": name},
            "spec": {**spec, **fields},
        }
    )


def _owner(body: dict[str, Any]) -> str:
    return next(
        (str(each["uid"]) for each in body["metadata"].get("ownerReferences") or () if each.get("controller")), ""
    )


def _spend(budget: list[int | None]) -> None:
    if budget[0] is not None:
        budget[0] -= 1
        if budget[0] <= 0:
            raise Killed


def _time(seconds: float) -> str:
    return text_of(int(seconds))
