"""A PaddleJob and its pods as the page shows a run. A decider.

    row_of(body, JobApi.BATCH, "cluster")          a line of the list, out of what the list of jobs has
    run_of(row, body, pods, now_s)                 the page of one
    log_files(row, pods)                           the logs that its containers have, by keys

What objects say was written by others, so nothing is relied upon: what can't be understood is left out.
"""

from __future__ import annotations

import hashlib
import json
import math

from umiak.contracts.secrets import HIDDEN, redacted
from umiak.core.shown import one_line
from umiak.core.status import State
from umiak.core.value import value
from umiak.dashboard.rows import RunKind, RunRow, as_data
from umiak.dashboard.run_files import KEY_DIGITS
from umiak.dashboard.sentences import span
from umiak.dashboard.workers.ranks import RankLook
from umiak.kube import times
from umiak.paddlejob.names import RES_TYPE
from umiak.paddlejob.report import report_of
from umiak.paddlejob.resource import JobApi, JobPhase, PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Protocol

    from umiak.core.json_types import JsonObject
    from umiak.paddlejob.resource import JobReport

    class ClusterReader(Protocol):
        """A cluster as one person may see it."""

        def bodies(self) -> tuple[list[tuple[JobApi, JsonObject]], list[str]]: ...
        def job(self, namespace: str, name: str, api: JobApi) -> tuple[JsonObject, list[JsonObject], str]: ...
        def lines(self, namespace: str, log: ContainerLog, most: int = ...) -> list[bytes]: ...
        def check(self) -> None: ...
        def close(self) -> None: ...


STATES = {
    JobPhase.PENDING: State.QUEUED,
    JobPhase.SUSPENDED: State.QUEUED,
    JobPhase.STARTING: State.STARTING,
    JobPhase.RUNNING: State.RUNNING,
    JobPhase.SCALING: State.RUNNING,
    JobPhase.COMPLETING: State.RUNNING,
    JobPhase.RESTARTING: State.RESTARTING,
    JobPhase.TERMINATING: State.STOPPING,
    JobPhase.COMPLETED: State.SUCCEEDED,
    JobPhase.FAILED: State.FAILED,
}
JOB_LABELS = {JobApi.BATCH: "batch.paddlepaddle.org/job-name", JobApi.KUBEFLOW: "training.kubeflow.org/job-name"}
ROLE_LABELS = (RES_TYPE, "training.kubeflow.org/replica-type")
INDEX_ANNOTATION = "batch.paddlepaddle.org/index"
ROLES = {"worker": "trainer", "ps": "server", "master": "server", "heter": "heter"}
MOST_PODS = 2000
MOST_SETTINGS = 1000
MOST_LETTERS = 1000
_METRICS = ("auc", "loss")
_PHASES = {"Pending": "starting", "Running": "running", "Succeeded": "done", "Failed": "failed"}


def id_of(namespace: str, name: str, api: JobApi) -> str:
    """Namespaces have no dots."""
    return f"{namespace}.{name}{'@kubeflow' if api is JobApi.KUBEFLOW else ''}"


def row_of(body: JsonObject, api: JobApi, place: str) -> RunRow:
    """A line of the list."""
    metadata, spec = _dict(body.get("metadata")), _dict(body.get("spec"))
    report = report_of(body.get("status"), api)
    state = State.STOPPING if metadata.get("deletionTimestamp") else STATES[report.phase or JobPhase.PENDING]
    name, namespace = one_line(str(metadata.get("name") or ""), 253), one_line(str(metadata.get("namespace") or ""), 63)
    progress = dict(report.progress)
    metric, number = _metric(progress)
    wanted = sum(each.wanted for each in report.counts) or _wanted(spec, api)
    created_s = times.maybe(_text(metadata.get("creationTimestamp")))
    ended_s = (report.completion_s or created_s) if state.is_over else None
    return RunRow(
        id=id_of(namespace, name, api),
        kind=RunKind.PADDLEJOB,
        name=name,
        place=f"{place}/{namespace}",
        directory="",
        state=state.value,
        reason=_reason(report),
        started_s=report.start_s or created_s,
        ended_s=ended_s,
        changed_s=ended_s or report.start_s or created_s,
        epoch=_epoch(progress.get("epoch", "")),
        step=_whole(progress.get("step") or progress.get("batch")),
        samples_per_s=_number(progress.get("samplesPerSecond")),
        metric=metric,
        metric_value=number,
        nodes_up=None if state.is_over else sum(each.running for each in report.counts),
        nodes_expected=wanted or None,
        restarts=report.restarts + sum(count for _, count in report.pod_restarts),
    )


def run_of(row: RunRow, body: JsonObject, pods: Sequence[JsonObject], api: JobApi, now_s: float) -> JsonObject:
    """The page of a job: what that of a run here has, as far as a cluster knows it."""
    report = report_of(body.get("status"), api)
    files = log_files(pods)
    seen = [(pod, _look(pod, files)) for pod in pods[:MOST_PODS]]
    looks = sorted([look for _, look in seen], key=lambda each: (each.role != "server", each.role, each.rank))
    failures = [_failure(pod, look, report) for pod, look in seen if look.phase == "failed"]
    failures.sort(key=lambda each: float(each["at_s"] or 0.0))
    first = failures[0] if failures else None
    text, hint = _sentence(row, looks, first, now_s)
    return {
        "row": as_data(row),
        "sentence": text,
        "hint": hint,
        "handle": f"k8s://{row.place.rpartition('/')[2]}/paddlejob/{row.name}",
        "generations": [],
        "workers": [{"launcher": "", "workers": [each.data for each in looks]}],
        "failures": failures,
        "first_failure": first,
        "config": None,
        "settings": settings_of(body),
        "shares": {},
        "latest": {},
        "saved": [],
        "has_servers": False,
        "bad_lines": 0,
        "files": [each.data for each in files],
        "now_s": now_s,
    }


def settings_of(body: JsonObject) -> JsonObject:
    """The spec by dotted names, as its owner wrote it; what looks like a secret is covered."""
    flat = dict(_flat("", _dict(body.get("spec"))))
    texts = {name: each if isinstance(each, str) else json.dumps(each, default=str) for name, each in flat.items()}
    covered = redacted(texts)
    found: JsonObject = {}
    for name, item in sorted(flat.items())[:MOST_SETTINGS]:
        text = covered[name]
        plain = item if isinstance(item, (bool, int, float)) else one_line(text, MOST_LETTERS)
        found[name] = HIDDEN if text == HIDDEN else plain
    return found


# ---- logs


@value
class ContainerLog:
    """The log of one container."""

    key: str
    pod: str
    container: str
    role: str
    number: int
    is_previous: bool = False
    """Of the process before the container was started again."""

    @property
    def name(self) -> str:
        return f"{self.pod}/{self.container}{', before its restart' if self.is_previous else ''}"

    @property
    def data(self) -> JsonObject:
        kind = "rotated" if self.is_previous else "log"
        named = {"key": self.key, "name": self.name, "kind": kind, "role": self.role, "number": self.number}
        return {**named, "size_bytes": None, "changed_s": None, "launcher": ""}


def log_files(pods: Sequence[JsonObject]) -> list[ContainerLog]:
    """Of every container that was started once; a request names them by keys."""
    found = []
    for pod in pods[:MOST_PODS]:
        name, (role, number) = _name(pod), _seat(pod)
        for status in _list(_dict(pod.get("status")).get("containerStatuses")):
            container, restarts = _text(status.get("name")), status.get("restartCount") or 0
            if not container or ("waiting" in _dict(status.get("state")) and not restarts):
                continue
            for is_previous in (False, True) if restarts else (False,):
                text = f"{_dict(pod.get('metadata')).get('uid')}/{name}/{container}/{is_previous}"
                key = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:KEY_DIGITS]
                found.append(
                    ContainerLog(
                        key=key, pod=name, container=container, role=role, number=number, is_previous=is_previous
                    )
                )
    return sorted(found, key=lambda each: (each.is_previous, each.role != "trainer", each.number, each.container))


# ---- pods


def _look(pod: JsonObject, files: Sequence[ContainerLog]) -> RankLook:
    """What one pod does."""
    metadata, status = _dict(pod.get("metadata")), _dict(pod.get("status"))
    role, number = _seat(pod)
    phase = _PHASES.get(_text(status.get("phase")), "starting")
    containers = _list(status.get("containerStatuses"))
    waiting = next((each for row in containers if (each := _dict(_dict(row.get("state")).get("waiting")))), {})
    unscheduled = [
        each
        for each in _list(status.get("conditions"))
        if each.get("type") == "PodScheduled" and each.get("status") == "False"
    ]
    about = _told(waiting) if waiting else _told(unscheduled[0]) if unscheduled else ""
    is_held = phase in ("starting", "running") and bool(about)
    name = _name(pod)
    log = next((each for each in files if each.pod == name and not each.is_previous), None)
    return RankLook(
        key=f"{role}.{number}",
        launcher="",
        role=role,
        rank=number,
        host=one_line(_text(_dict(pod.get("spec")).get("nodeName")), 253),
        state="starting" if is_held else phase,
        phase="stopped"
        if metadata.get("deletionTimestamp") and phase == "running"
        else "waiting"
        if is_held
        else phase,
        starts=1 + sum(int(each.get("restartCount") or 0) for each in containers),
        since_s=times.maybe(_text(status.get("startTime") or metadata.get("creationTimestamp"))) or 0.0,
        reason=_ending(pod) if phase == "failed" else "",
        waits=about if is_held else "",
        log=log.key if log else "",
    )


def _seat(pod: JsonObject) -> tuple[str, int]:
    metadata = _dict(pod.get("metadata"))
    labels, annotations = _dict(metadata.get("labels")), _dict(metadata.get("annotations"))
    word = next((str(labels[each]) for each in ROLE_LABELS if labels.get(each)), "")
    text = _text(annotations.get(INDEX_ANNOTATION)) or _name(pod).rpartition("-")[2]
    return ROLES.get(word, one_line(word, 20) or "pod"), int(text) if text.isdecimal() and len(text) < 9 else 0


def _name(pod: JsonObject) -> str:
    return one_line(_text(_dict(pod.get("metadata")).get("name")), 253)


def _ended(pod: JsonObject) -> JsonObject:
    """Of the container that ended badly."""
    rows = _list(_dict(pod.get("status")).get("containerStatuses"))
    ended = [_dict(_dict(each.get("state")).get("terminated")) for each in rows]
    return next((each for each in ended if each.get("exitCode")), {})


def _ending(pod: JsonObject) -> str:
    ended, status = _ended(pod), _dict(pod.get("status"))
    if ended:
        reason = _text(ended.get("reason"))
        more = f" ({one_line(reason, 60)})" if reason and reason != "Error" else ""
        return f"failed with exit code {ended.get('exitCode')}{more}"
    return f"failed: {_told(status) or 'its node did not say why'}"


def _failure(pod: JsonObject, look: RankLook, report: JobReport) -> JsonObject:
    ended = _ended(pod)
    excerpt = dict(report.last_logs).get(_name(pod)) or _text(ended.get("message"))
    return {
        "at_s": times.maybe(_text(ended.get("finishedAt"))),
        "generation": report.attempt + 1,
        "worker": look.key,
        "who": f"{look.name} on node {look.host or '?'}",
        "text": look.reason,
        "excerpt": "\n".join(one_line(line, 500) for line in excerpt.splitlines()[-30:]),
    }


# ---- words


def _sentence(row: RunRow, looks: Sequence[RankLook], first: JsonObject | None, now_s: float) -> tuple[str, str]:
    hint = f"`kubectl describe pdj {row.name} -n {row.place.rpartition('/')[2]}`"
    lasted = f" for {span(now_s - row.started_s)}" if row.started_s else ""
    ago = f" {span(now_s - row.ended_s)} ago" if row.ended_s else ""
    if row.state == State.FAILED.value:
        cause = f"{first['who']} {first['text']}" if first else ""
        return f"failed{ago}: {'; '.join(filter(None, [cause, row.reason])) or 'the operator did not say why'}", hint
    if row.state == State.SUCCEEDED.value:
        return f"succeeded{ago}", ""
    held = [each for each in looks if each.phase == "waiting"]
    up = sum(each.phase == "running" for each in looks)
    text = f"{row.state}{lasted}: {up} of {row.nodes_expected or len(looks)} pods up"
    if held:
        others = f", and {len(held) - 1} more" if len(held) > 1 else ""
        return f"{text}; {held[0].name} waits: {held[0].waits}{others}", hint
    return (f"{text}; {row.reason}" if row.reason else text), ""


def _reason(report: JobReport) -> str:
    told = [each for each in report.conditions if each.message and each.is_true]
    latest = max(told, key=lambda each: each.since_s, default=None)
    return one_line(latest.message, 1000) if latest else ""


def _told(item: JsonObject) -> str:
    """A reason and a message of Kubernetes."""
    parts = [_text(item.get(name)) for name in ("reason", "message")]
    return one_line(": ".join(filter(None, parts)), 500)


def _metric(progress: dict[str, str]) -> tuple[str, float | None]:
    for name in _METRICS:
        number = _number(progress.get(name))
        if number is not None:
            return f"train/{name}", number
    return "", None


def _wanted(spec: JsonObject, api: JobApi) -> int:
    roles = (
        _dict(spec.get("paddleReplicaSpecs"))
        if api is JobApi.KUBEFLOW
        else {r.value: spec.get(r.value) for r in PodRole}
    )
    counts = [_dict(each).get("replicas", 1) for each in roles.values() if isinstance(each, dict)]
    return sum(each for each in counts if isinstance(each, int))


def _flat(name: str, item: object) -> Iterator[tuple[str, object]]:
    if isinstance(item, dict):
        for key, each in item.items():
            yield from _flat(f"{name}.{key}" if name else str(key), each)
    elif isinstance(item, list) and item and all(isinstance(each, dict) for each in item):
        for number, each in enumerate(item):
            label = each.get("name")
            if set(each) <= {"name", "value"} and isinstance(label, str):  # a variable
                yield f"{name}.{label}", each.get("value")
            else:
                yield from _flat(f"{name}[{label if isinstance(label, str) else number}]", each)
    else:
        yield name, item


def _epoch(text: str) -> int | None:
    number = _whole(text.partition("/")[0])
    return None if number is None else max(0, number - 1)


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 16 else None


def _number(text: str | None) -> float | None:
    try:
        found = float(text) if text else None
    except ValueError:
        return None
    return found if found is not None and math.isfinite(found) else None


def _dict(item: object) -> JsonObject:
    return item if isinstance(item, dict) else {}


def _list(item: object) -> list[dict[str, Any]]:
    return [each for each in item if isinstance(each, dict)] if isinstance(item, list) else []


def _text(item: object) -> str:
    return item if isinstance(item, str) else ""
