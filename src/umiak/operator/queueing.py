"""Whether a job with a queue may have pods, and what is written about its Workload. A decider.

It is what Kueue does for the jobs that it knows itself. A job is *held* until its Workload is admitted; what takes the
admission away holds it again: an eviction, a Workload that is deactivated, deleted or does not fit the job any more.
Held jobs have no pods. The quota is given back when the last of them is gone, so that nobody else is admitted to what
is still in use.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.operator.objects.workloads import priority_of, queue_of, workload, workload_digest, workload_name
from umiak.operator.policies.gangs import driver_of
from umiak.operator.policies.waiting import refused
from umiak.operator.values import (
    FLAVOR,
    QUEUE_NAME,
    WORKLOAD,
    ClassLookup,
    CreateObject,
    DeleteObject,
    PatchWorkload,
    PodPlacement,
    ReplaceObject,
    WorkloadCondition,
)
from umiak.paddlejob.resource import JobPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.operator.policies.view import JobView
    from umiak.operator.values import FoundClass, Observed, OperatorAction, SeenObject, SeenWorkload
    from umiak.paddlejob.resource import PaddleJob

QUEUED, EVICTED = "Queued", "Evicted"
UNAVAILABLE = "KueueUnavailable"
REQUEUED_AT_ONCE = ("Preempted", "NodeFailures")
"""Reasons of evictions after which a job is queued again at once; after others Kueue says when."""


@value
class QueueStep:
    """What follows from the queue of a job."""

    actions: tuple[OperatorAction, ...] = ()
    hold: str = ""
    """Why it must not have pods, as a reason; empty: it may have them."""
    message: str = ""
    placements: tuple[tuple[str, PodPlacement], ...] = ()
    """By role, for pods that are made now."""
    lacks: str = ""
    """What has to be read first: nothing is made until then, and nothing that runs is touched."""
    unused: str = ""
    """Why the queue has no effect."""


def lookups(observed: Observed) -> tuple[ClassLookup, ...]:
    """What has to be known of the cluster to decide about this job."""
    job = observed.job
    if not queue_of(job) or not observed.facts.kueue or observed.problems or _is_over(job):
        return ()
    wanted = [each for each in (priority_of(job),) if each is not None]
    for each in observed.objects:
        if each.workload is not None and each.owner_uid == job.uid:
            names = {name for row in each.workload.assignments for name in row.flavors}
            wanted += [ClassLookup(kind=FLAVOR, name=name) for name in sorted(names)]
    return tuple(wanted)


def queue_step(view: JobView, observed: Observed) -> QueueStep:
    """What to do for a job that is wanted: not over, not wrong, not suspended by a person."""
    queue, ours = queue_of(view.job), _ours(view)
    if not queue:
        return QueueStep(actions=_deletions(ours))
    if observed.facts.kueue == "":
        why = f"this cluster does not serve {WORKLOAD}, or the operator runs without --kueue"
        text = f"the label {QUEUE_NAME} has no effect: {why}"
        return QueueStep(unused=text)
    if observed.facts.kueue is None:
        return QueueStep(hold=QUEUED, message=f"queue {queue}: it is not known yet whether this cluster has Kueue")
    workload = next((each for each in ours if each.name == workload_name(view.job)), None)
    spare = _deletions([each for each in ours if each is not workload])
    if workload is None or workload.workload is None:
        return _without_workload(view, observed, queue, spare)
    step = _with_workload(view, observed, workload, workload.workload)
    return QueueStep(
        actions=(*spare, *step.actions),
        hold=step.hold,
        message=f"queue {queue}: {step.message}" if step.hold else "",
        placements=step.placements,
        lacks=step.lacks,
    )


def finished(view: JobView) -> tuple[OperatorAction, ...]:
    """A job that is over gives its quota back. Its Workload stays until the job is deleted."""
    is_done = view.report.phase is JobPhase.COMPLETED
    wanted = WorkloadCondition(
        type="Finished",
        is_true=True,
        reason="Succeeded" if is_done else "Failed",
        message=next((each.message for each in view.report.conditions if each.type in ("Succeeded", "Failed")), ""),
    )
    return tuple([_patch(each, (wanted,)) for each in _ours(view) if not _has(each, wanted) and not each.is_deleting])


def withdrawn(view: JobView) -> tuple[OperatorAction, ...]:
    """A job that a person has suspended wants no place; its quota is given back when its pods are gone."""
    return () if _has_pods(view) else _deletions(_ours(view))


def ready(view: JobView, *, is_running: bool) -> tuple[OperatorAction, ...]:
    """Whether all pods run, told to Kueue, which may be waiting for it (``waitForPodsReady``)."""
    actions = []
    for each in _ours(view):
        if each.workload is None or each.is_deleting or not each.workload.is_true("Admitted"):
            continue
        was = each.workload.condition("PodsReady")
        if is_running:
            reason, text = "Started", "All pods were ready or succeeded since the workload admission"
        elif was is not None:
            reason, text = "WaitForRecovery", "At least one pod is not ready"
        else:
            continue
        if was is None or was.is_true is not is_running:
            wanted = WorkloadCondition(type="PodsReady", is_true=is_running, reason=reason, message=text)
            actions.append(_patch(each, (wanted,)))
    return tuple(actions)


# ---- inside


def _without_workload(view: JobView, observed: Observed, queue: str, spare: tuple[OperatorAction, ...]) -> QueueStep:
    if _has_pods(view):
        return QueueStep(actions=spare, hold=QUEUED, message=f"queue {queue}: it has no Workload, its pods are deleted")
    priority, trouble = _priority(observed)
    if trouble:
        return QueueStep(actions=spare, hold=QUEUED, message=f"queue {queue}: {trouble}")
    body = workload(view, str(observed.facts.kueue), driver_of(view), priority)
    name = body["metadata"]["name"]
    wait = refused([each for each in observed.refusals if each.kind == WORKLOAD])
    return QueueStep(
        actions=(*spare, CreateObject(kind=WORKLOAD, name=name, body=body)),
        hold=QUEUED,
        message=f"queue {queue}: {wait.message if wait else f'the Workload {name} is being created'}",
    )


def _with_workload(view: JobView, observed: Observed, seen: SeenObject, workload_seen: SeenWorkload) -> QueueStep:
    """The message of a hold is without the queue's name."""
    if seen.is_deleting:
        return QueueStep(hold=QUEUED, message=f"the Workload {seen.name} is being deleted")
    if workload_seen.is_true("Finished"):
        text = f"the Workload {seen.name} is finished, and the job is not; delete it to queue the job again"
        return QueueStep(hold=QUEUED, message=text)
    evicted = workload_seen.condition("Evicted")
    if evicted is not None and evicted.is_true:
        text = f"it was evicted ({evicted.reason}): {evicted.message}"
        actions: tuple[OperatorAction, ...] = ()
        if not _has_pods(view) and workload_seen.is_true("QuotaReserved"):
            actions = (_give_back(seen, workload_seen, evicted),)
        elif not workload_seen.is_true("QuotaReserved"):
            actions = _corrected(view, observed, seen, workload_seen)
        return QueueStep(actions=actions, hold=EVICTED, message=text)
    if seen.digest and seen.digest != workload_digest(view.job) and workload_seen.is_true("QuotaReserved"):
        text = "the job asks for something else than what was admitted, and is queued again"
        return QueueStep(actions=() if _has_pods(view) else _deletions([seen]), hold=QUEUED, message=text)
    if not workload_seen.is_active:
        return QueueStep(hold=QUEUED, message=f"the Workload {seen.name} is not active")
    if not workload_seen.is_true("Admitted"):
        actions = () if workload_seen.is_true("QuotaReserved") else _corrected(view, observed, seen, workload_seen)
        return QueueStep(actions=actions, hold=QUEUED, message=_what_kueue_says(workload_seen))
    return _placed(observed, workload_seen)


def _placed(observed: Observed, workload_seen: SeenWorkload) -> QueueStep:
    """An admitted job: where its pods go."""
    known = {each.lookup.name: each for each in observed.found if each.lookup.kind == FLAVOR}
    placements = []
    for row in workload_seen.assignments:
        flavors = [known.get(name) for name in row.flavors]
        for name, flavor in zip(row.flavors, flavors, strict=True):
            if flavor is None or flavor.trouble:
                why = f": {flavor.trouble}" if flavor is not None else ""
                return QueueStep(lacks=f"the ResourceFlavor {name} is being read{why}")
        parts = [
            *[PodPlacement(node_selector=each.node_labels, tolerations=each.tolerations) for each in flavors if each],
            *row.updates,
        ]
        placements.append((row.name, _merged(parts)))
    return QueueStep(placements=tuple(placements))


def _merged(parts: Iterable[PodPlacement]) -> PodPlacement:
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[object] = []
    for each in parts:
        labels |= dict(each.labels)
        annotations |= dict(each.annotations)
        node_selector |= dict(each.node_selector)
        tolerations += [one for one in each.tolerations if one not in tolerations]
    return PodPlacement(
        labels=tuple(labels.items()),
        annotations=tuple(annotations.items()),
        node_selector=tuple(node_selector.items()),
        tolerations=tuple([one for one in tolerations if isinstance(one, dict)]),
    )


def _corrected(
    view: JobView, observed: Observed, seen: SeenObject, workload_seen: SeenWorkload
) -> tuple[OperatorAction, ...]:
    """A Workload without quota is changed in place when its job has changed."""
    priority, trouble = _priority(observed)
    if trouble:
        return ()
    name, number = ("", 0) if priority is None else (priority.lookup.name, priority.priority)
    is_same = (seen.digest, workload_seen.queue) == (workload_digest(view.job), queue_of(view.job))
    if is_same and (workload_seen.priority_class, workload_seen.priority) == (name, number):
        return ()
    body = workload(view, str(observed.facts.kueue), driver_of(view), priority, is_active=workload_seen.is_active)
    return (ReplaceObject(kind=WORKLOAD, name=seen.name, uid=seen.uid, body=body),)


def _give_back(seen: SeenObject, workload_seen: SeenWorkload, evicted: WorkloadCondition) -> PatchWorkload:
    """Nothing of the job runs any more: the quota is free for others, and the job may be queued again."""
    is_at_once = evicted.reason in REQUEUED_AT_ONCE
    rows = [
        WorkloadCondition(type="Requeued", is_true=is_at_once, reason=evicted.reason, message=evicted.message),
        WorkloadCondition(type="QuotaReserved", is_true=False, reason="Pending", message=evicted.message),
    ]
    if workload_seen.is_true("Admitted"):
        text = "The workload has no reservation"
        rows.append(WorkloadCondition(type="Admitted", is_true=False, reason="NoReservation", message=text))
    if workload_seen.is_true("PodsReady"):
        text = "Not all pods are ready or succeeded"
        rows.append(WorkloadCondition(type="PodsReady", is_true=False, reason="WaitForStart", message=text))
    return _patch(seen, tuple(rows), drops_admission=True)


def _what_kueue_says(workload_seen: SeenWorkload) -> str:
    reserved = workload_seen.condition("QuotaReserved")
    if reserved is not None and reserved.is_true:
        return f"quota of ClusterQueue {workload_seen.cluster_queue} is reserved, its admission checks are not done"
    if reserved is not None and reserved.message:
        return reserved.message
    return "it waits to be admitted"


def _priority(observed: Observed) -> tuple[FoundClass | None, str]:
    """The class of a job as it was found, or what is wrong."""
    wanted = priority_of(observed.job)
    if wanted is None:
        return None, ""
    answer = next((each for each in observed.found if each.lookup == wanted), None)
    if answer is None:
        return None, f"the {wanted.kind} {wanted.name} is being read"
    return answer, f"the {wanted.kind} {wanted.name} can't be read: {answer.trouble}" if answer.trouble else ""


def _is_over(job: PaddleJob) -> bool:
    return job.report.phase is not None and job.report.phase.is_over


def _has_pods(view: JobView) -> bool:
    return bool(view.current or view.stale or view.surplus)


def _ours(view: JobView) -> list[SeenObject]:
    return [each for (kind, _), each in view.objects.items() if kind == WORKLOAD and each.owner_uid == view.job.uid]


def _has(seen: SeenObject, wanted: WorkloadCondition) -> bool:
    return seen.workload is not None and seen.workload.is_true(wanted.type)


def _patch(
    seen: SeenObject, conditions: tuple[WorkloadCondition, ...], *, drops_admission: bool = False
) -> PatchWorkload:
    version = seen.workload.version if seen.workload is not None else ""
    return PatchWorkload(
        name=seen.name, uid=seen.uid, version=version, conditions=conditions, drops_admission=drops_admission
    )


def _deletions(seen: Iterable[SeenObject]) -> tuple[OperatorAction, ...]:
    return tuple([DeleteObject(kind=each.kind, name=each.name, uid=each.uid) for each in seen if not each.is_deleting])
