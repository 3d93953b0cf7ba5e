"""``status`` as JSON, and back: what the operator writes is what it remembers. A decider.

    status_of(report, job)          the JSON, with the field names of the old operator
    report_of(status, api)          the value; whatever the JSON is, nothing is raised

``report_of(status_of(report, job), job.api) == settled(report)``:
times are whole seconds in JSON, and objects have no order.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.kube import times
from umiak.paddlejob.field_reader import text_in, time_in
from umiak.paddlejob.fields import FieldKind
from umiak.paddlejob.names import role_word
from umiak.paddlejob.resource import Condition, JobApi, JobMode, JobPhase, JobReport, PodRole, RoleCounts
from umiak.paddlejob.status_fields import FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum
    from typing import TypeVar

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.paddlejob.resource import PaddleJob

    E = TypeVar("E", bound=Enum)

MOST_REFS = 100
COUNTS = ("pending", "starting", "running", "failed", "succeeded", "unknown")
NUMBERS = tuple([field for field in FIELDS if field.remembered and field.kind is FieldKind.INTEGER])
PAIRS = tuple([field for field in FIELDS if field.remembered and field.kind is not FieldKind.INTEGER])
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


def status_of(report: JobReport, job: PaddleJob) -> JsonObject:
    """The JSON of a report. Equal reports have equal JSON,
    so comparing it with the stored one tells whether to write it.
    """
    report = settled(report)
    status: JsonObject = {}
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
    for field in PAIRS:
        if pairs := getattr(report, field.remembered):
            status[field.name] = dict(pairs)
    status |= _shown(report)
    if job.api is JobApi.KUBEFLOW:
        _as_kubeflow(report, job, status)
    return status


def report_of(status: object, api: JobApi = JobApi.BATCH) -> JobReport:
    """What a status says; what can't be read in it counts as not written."""
    plain = status if isinstance(status, dict) else {}
    counts = [_read_counts(role, plain[role.value]) for role in PodRole if isinstance(plain.get(role.value), dict)]
    conditions = plain.get("conditions")
    read = [_read_condition(each) for each in conditions] if isinstance(conditions, list) else []
    if api is JobApi.KUBEFLOW:
        read = [each for each in read if each and not each.reason.startswith(KUBEFLOW_REASON)]
    phase = plain.get("phase")
    report = JobReport(
        phase=_word(JobPhase, phase) or (OLD_PHASES.get(phase) if isinstance(phase, str) else None),
        mode=_word(JobMode, plain.get("mode")),
        counts=tuple(counts),
        conditions=tuple({each.type: each for each in read if each}.values()),
        start_s=_time(plain.get("startTime")),
        completion_s=_time(plain.get("completionTime")),
        selector=text_in(plain.get("selector")),
    )
    read_back = {field.remembered: _READERS[field.kind](plain.get(field.name)) for field in (*NUMBERS, *PAIRS)}
    return settled(replace(report, **read_back))


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
        **{field.remembered: tuple(sorted(dict(getattr(report, field.remembered)).items())) for field in PAIRS},
    )


# ---- writing


def _counts(counts: RoleCounts, job: PaddleJob) -> JsonObject:
    numbers: JsonObject = {name: number for name in COUNTS if (number := getattr(counts, name))}
    if counts.wanted:
        numbers["desired"] = counts.wanted
    if counts.refs:
        numbers["refs"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": job.namespace, "uid": uid}
            for name, uid in counts.refs
        ]
    return numbers


def _condition(condition: Condition, job: PaddleJob) -> JsonObject:
    at = times.text_of(int(condition.since_s))
    written = {"type": condition.type, "status": "True" if condition.is_true else "False", "lastTransitionTime": at}
    if condition.reason:
        written["reason"] = condition.reason
    if condition.message:
        written["message"] = condition.message
    if job.api is JobApi.KUBEFLOW:
        written["lastUpdateTime"] = at
    return written


def _numbers(report: JobReport) -> dict[str, int]:
    return {field.name: number for field in NUMBERS if (number := getattr(report, field.remembered))}


def _shown(report: JobReport) -> JsonObject:
    """What follows from the rest, for `kubectl get -o wide` and the scale subresource. It is not read back."""
    shown: JsonObject = {}
    with_text = [each for each in report.conditions if each.message]
    if with_text:
        shown["message"] = max(with_text, key=lambda each: (each.is_true, each.type != LEAST, each.since_s)).message
    workers = next((each for each in report.counts if each.role is PodRole.WORKER), None)
    if workers:
        there = sum(getattr(workers, name) for name in COUNTS)
        is_over = report.phase is not None and report.phase.is_over
        up = workers.running + (workers.succeeded if is_over else 0)
        shown["workers"] = f"{up}/{workers.wanted or there}"
        shown["replicas"] = there
    if report.selector:
        shown["selector"] = report.selector
    return shown


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


def _as_kubeflow(report: JobReport, job: PaddleJob, status: JsonObject) -> None:
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
    last = Condition(
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
    status["conditions"] = [*first, *others, *(own or [_condition(last, job)])]


# ---- reading


def _read_counts(role: PodRole, item: JsonMapping) -> RoleCounts:
    refs = item.get("refs")
    pairs = [
        (each["name"], text_in(each.get("uid")))
        for each in (refs if isinstance(refs, list) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    ]
    return RoleCounts(
        role=role,
        wanted=_number(item.get("desired")),
        refs=tuple(pairs),
        **{name: _number(item.get(name)) for name in COUNTS},
    )


def _read_condition(item: object) -> Condition | None:
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return None
    return Condition(
        type=item["type"],
        is_true=item.get("status") == "True",
        reason=text_in(item.get("reason")),
        message=text_in(item.get("message")),
        since_s=_time(item.get("lastTransitionTime")) or 0.0,
    )


def _word(kind: type[E], item: object) -> E | None:
    return next((each for each in kind if each.value == item), None)


def _number(item: object) -> int:
    return item if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < _LARGEST else 0


def _time(item: object) -> float | None:
    at_s = time_in(item)
    return None if at_s is None else _whole(at_s)


def _whole(seconds: float) -> float:
    """A time that JSON can hold."""
    return float(int(min(max(seconds, 0.0), _LAST_TIME)))


def _number_pairs(item: object) -> tuple[tuple[str, int], ...]:
    return tuple((name, _number(each)) for name, each in item.items()) if isinstance(item, dict) else ()


def _text_pairs(item: object) -> tuple[tuple[str, str], ...]:
    return tuple((name, text_in(each)) for name, each in item.items()) if isinstance(item, dict) else ()


_READERS: dict[FieldKind, Callable[[object], object]] = {
    FieldKind.INTEGER: _number,
    FieldKind.NUMBERS: _number_pairs,
    FieldKind.TEXTS: _text_pairs,
}
