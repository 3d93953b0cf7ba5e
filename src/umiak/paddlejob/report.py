"""``status`` as JSON, and back: what the operator writes is what it remembers. A decider.

    status_of(report, job)          the JSON, with the field names of the old operator
    report_of(status, api)          the value; whatever the JSON is, nothing is raised

``report_of(status_of(report, job), job.api) == settled(report)``: times are whole seconds in JSON, and objects have no order.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.kube import times
from umiak.paddlejob.names import role_word
from umiak.paddlejob.resource import Condition, JobApi, JobMode, JobPhase, JobReport, PodRole, RoleCounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from enum import Enum
    from typing import Any, TypeVar

    from umiak.paddlejob.resource import PaddleJob

    E = TypeVar("E", bound=Enum)

MOST_REFS = 100
COUNTS = ("pending", "starting", "running", "failed", "succeeded", "unknown")
PAIRS = {
    "podRestarts": "pod_restarts",
    "completed": "completed",
    "hostPorts": "node_ports",
    "progress": "progress",
    "lastLogs": "last_logs",
}
"""Objects in JSON, tuples of pairs here."""
OLD_PHASES = {"Succeed": JobPhase.COMPLETED, "Aborted": JobPhase.FAILED, "Terminated": JobPhase.FAILED}
"""Words that the old operator declared and we have others for."""
KUBEFLOW_REASON = "PaddleJob"
"""Kubeflow's reasons begin so: PaddleJobRunning."""
LEAST = "SpecWarnings"
"""The condition that is shown where no other has anything to say."""
_LARGEST = 2**53
_LAST_TIME = 253402300799
"""The end of the year 9999."""


def status_of(report: JobReport, job: PaddleJob) -> dict[str, Any]:
    """The JSON of a report. Equal reports have equal JSON, so comparing it with the stored one tells whether to write it."""
    report = settled(report)
    status: dict[str, Any] = {}
    if report.phase:
        status["phase"] = report.phase.value
    if report.mode:
        status["mode"] = report.mode.value
    for counts in report.counts:
        status[counts.role.value] = _counts(counts, job)
    for name, at_s in (("startTime", report.start_s), ("completionTime", report.completion_s)):
        if at_s is not None:
            status[name] = times.text_of(int(at_s))
    if report.conditions:
        status["conditions"] = [_condition(each, job) for each in report.conditions]
    status |= _numbers(report)
    for name, field in PAIRS.items():
        if pairs := getattr(report, field):
            status[name] = dict(pairs)
    status |= _shown(report)
    if job.api is JobApi.KUBEFLOW:
        _as_kubeflow(report, job, status)
    return status


def report_of(status: Any, api: JobApi = JobApi.BATCH) -> JobReport:
    """What a status says; what can't be read in it counts as not written."""
    found = status if isinstance(status, dict) else {}
    counts = [_read_counts(role, found.get(role.value)) for role in PodRole if isinstance(found.get(role.value), dict)]
    conditions = found.get("conditions")
    read = [_read_condition(each) for each in conditions] if isinstance(conditions, list) else []
    if api is JobApi.KUBEFLOW:
        read = [each for each in read if each and not each.reason.startswith(KUBEFLOW_REASON)]
    phase = found.get("phase")
    report = JobReport(
        phase=_word(JobPhase, phase) or (OLD_PHASES.get(phase) if isinstance(phase, str) else None),
        mode=_word(JobMode, found.get("mode")),
        counts=tuple(counts),
        conditions=tuple({each.type: each for each in read if each}.values()),
        observed_generation=_number(found.get("observedGeneration")),
        attempt=_number(found.get("attempt")),
        restarts=_number(found.get("restarts")),
        forgiven=_number(found.get("forgivenRestarts")),
        port=_number(found.get("port")),
        start_s=_time(found.get("startTime")),
        completion_s=_time(found.get("completionTime")),
        pod_restarts=_number_pairs(found.get("podRestarts")),
        completed=_text_pairs(found.get("completed")),
        node_ports=_number_pairs(found.get("hostPorts")),
        progress=_text_pairs(found.get("progress")),
        last_logs=_text_pairs(found.get("lastLogs")),
        selector=_text(found.get("selector")),
    )
    return settled(report)


def settled(report: JobReport) -> JobReport:
    """The report as it reads after it was written: whole seconds, and an order of its own."""
    order = list(PodRole)
    counts = sorted(report.counts, key=lambda each: order.index(each.role))
    return replace(
        report,
        counts=tuple([replace(each, refs=tuple(sorted(each.refs)[:MOST_REFS])) for each in counts]),
        conditions=tuple(
            sorted(
                [replace(each, since_s=_whole(each.since_s)) for each in report.conditions], key=lambda each: each.type
            )
        ),
        start_s=None if report.start_s is None else _whole(report.start_s),
        completion_s=None if report.completion_s is None else _whole(report.completion_s),
        **{field: tuple(sorted(dict(getattr(report, field)).items())) for field in PAIRS.values()},
    )


# ---- writing


def _counts(counts: RoleCounts, job: PaddleJob) -> dict[str, Any]:
    made: dict[str, Any] = {name: number for name in COUNTS if (number := getattr(counts, name))}
    if counts.wanted:
        made["desired"] = counts.wanted
    if counts.refs:
        made["refs"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": job.namespace, "uid": uid}
            for name, uid in counts.refs
        ]
    return made


def _condition(condition: Condition, job: PaddleJob) -> dict[str, Any]:
    at = times.text_of(int(condition.since_s))
    made = {"type": condition.type, "status": "True" if condition.is_true else "False", "lastTransitionTime": at}
    if condition.reason:
        made["reason"] = condition.reason
    if condition.message:
        made["message"] = condition.message
    if job.api is JobApi.KUBEFLOW:
        made["lastUpdateTime"] = at
    return made


def _numbers(report: JobReport) -> dict[str, int]:
    numbers = {
        "observedGeneration": report.observed_generation,
        "attempt": report.attempt,
        "restarts": report.restarts,
        "forgivenRestarts": report.forgiven,
        "port": report.port,
    }
    return {name: number for name, number in numbers.items() if number}


def _shown(report: JobReport) -> dict[str, Any]:
    """What follows from the rest, for `kubectl get -o wide` and the scale subresource. It is not read back."""
    made: dict[str, Any] = {}
    told = [each for each in report.conditions if each.message]
    if told:
        made["message"] = max(told, key=lambda each: (each.is_true, each.type != LEAST, each.since_s)).message
    workers = next((each for each in report.counts if each.role is PodRole.WORKER), None)
    if workers:
        there = sum(getattr(workers, name) for name in COUNTS)
        is_over = report.phase is not None and report.phase.is_over
        up = workers.running + (workers.succeeded if is_over else 0)
        made["workers"] = f"{up}/{workers.wanted or there}"
        made["replicas"] = there
    if report.selector:
        made["selector"] = report.selector
    return made


_KUBEFLOW_STATES = {
    JobPhase.PENDING: "Created",
    JobPhase.STARTING: "Created",
    JobPhase.RUNNING: "Running",
    JobPhase.SCALING: "Running",
    JobPhase.COMPLETING: "Running",
    JobPhase.RESTARTING: "Restarting",
    JobPhase.SUSPENDED: "Suspended",
    JobPhase.COMPLETED: "Succeeded",
    JobPhase.FAILED: "Failed",
}


def _as_kubeflow(report: JobReport, job: PaddleJob, status: dict[str, Any]) -> None:
    """Add what Kubeflow's tools look at: pods by its roles, and the state as the last condition."""
    status["replicaStatuses"] = {
        role_word(each.role, job.api).capitalize(): {
            "active": each.pending + each.starting + each.running + each.unknown,
            "succeeded": each.succeeded,
            "failed": each.failed,
        }
        for each in report.counts
        if each.role is not PodRole.HETER
    }
    state = _KUBEFLOW_STATES.get(report.phase) if report.phase else None
    if state is None:
        return
    at_s = report.completion_s if report.phase and report.phase.is_over else report.start_s
    said = Condition(
        type=state,
        is_true=True,
        reason=f"{KUBEFLOW_REASON}{state}",
        message=str(status.get("message") or f"PaddleJob {job.name} is {state.lower()}"),
        since_s=job.created_s if at_s is None else at_s,
    )
    created = Condition(
        type="Created",
        is_true=True,
        reason=f"{KUBEFLOW_REASON}Created",
        message=f"PaddleJob {job.name} is created",
        since_s=job.created_s,
    )
    first = [] if state == "Created" else [_condition(created, job)]  # it stays true, and Kubeflow's SDK looks for it
    others = [each for each in status.get("conditions", ()) if each["type"] != state]
    own = [each for each in status.get("conditions", ()) if each["type"] == state]
    status["conditions"] = [*first, *others, *(own or [_condition(said, job)])]


# ---- reading


def _read_counts(role: PodRole, item: Any) -> RoleCounts:
    refs = item.get("refs")
    pairs = [
        (each["name"], _text(each.get("uid")))
        for each in (refs if isinstance(refs, list) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    ]
    return RoleCounts(
        role=role,
        wanted=_number(item.get("desired")),
        refs=tuple(pairs),
        **{name: _number(item.get(name)) for name in COUNTS},
    )


def _read_condition(item: Any) -> Condition | None:
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return None
    return Condition(
        type=item["type"],
        is_true=item.get("status") == "True",
        reason=_text(item.get("reason")),
        message=_text(item.get("message")),
        since_s=_time(item.get("lastTransitionTime")) or 0.0,
    )


def _word(kind: type[E], item: Any) -> E | None:
    return next((each for each in kind if each.value == item), None)


def _text(item: Any) -> str:
    return item if isinstance(item, str) else ""


def _number(item: Any) -> int:
    return item if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < _LARGEST else 0


def _time(item: Any) -> float | None:
    found = None
    if isinstance(item, str):
        try:
            found = times.maybe(item)
        except (OverflowError, TypeError):
            found = None
    return None if found is None else _whole(found)


def _whole(seconds: float) -> float:
    """A time that JSON can hold."""
    return float(int(min(max(seconds, 0.0), _LAST_TIME)))


def _number_pairs(item: Any) -> tuple[tuple[str, int], ...]:
    return tuple((name, _number(each)) for name, each in item.items()) if isinstance(item, dict) else ()


def _text_pairs(item: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, _text(each)) for name, each in item.items()) if isinstance(item, dict) else ()
