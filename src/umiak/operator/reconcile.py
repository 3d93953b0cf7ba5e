"""What to do about one job, from everything that is known of it at one moment. A decider.

    reconcile(observed, now_s) -> Decision

The status is the only memory, so whatever could not be decided again from the cluster alone is written there first, as
a *turning point*: that the job is over, that an attempt begins, ports of hosts. What follows a turning point is decided
when it is seen, and an operator may be killed between any two steps. Everything else follows from what is there: pods
that are missing are made, pods of earlier attempts are deleted, and nothing is counted or remembered on the way.

The questions are asked in this order: is it ours, is it being deleted, over, wrong, suspended, done, held in a queue,
too late, has something failed, do its pods take too long to start, was its size changed, does it have its ports; then
what it should have is made (`operator.upkeep`).
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.operator import queueing as queues
from umiak.operator.objects.names import selector
from umiak.operator.policies import limits, phases
from umiak.operator.policies.limits import is_done, start_of
from umiak.operator.policies.ports import host_ports, job_port
from umiak.operator.policies.restarts import Reaction, forgiven, reaction
from umiak.operator.policies.scale import is_told_otherwise
from umiak.operator.policies.view import completed_ranges, view_of
from umiak.operator.policies.waiting import Wait
from umiak.operator.upkeep import Upkeep, addresses_changed, clean_up, release, upkeep
from umiak.operator.values import Decision, RecordEvent, RemoveFinalizer
from umiak.paddlejob.checks import message as said
from umiak.paddlejob.progress import done
from umiak.paddlejob.report import settled
from umiak.paddlejob.resource import OLD_FINALIZER, JobPhase, RestartScope, SuccessPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.operator.policies.view import JobView
    from umiak.operator.queueing import QueueStep
    from umiak.operator.values import Observed, OperatorAction
    from umiak.paddlejob.resource import Condition, JobReport, PaddleJob, RoleCounts

OURS = frozenset(["", "batch.paddlepaddle.org/paddle-operator", "kubeflow.org/training-operator"])
"""Words of ``runPolicy.managedBy`` that mean this operator."""
STATUS_MAY_WAIT_S = 2.0
_ACTIVE = ("Accepted", "Waiting", "Running", "Restarting", "Suspended")


def reconcile(observed: Observed, now_s: float) -> Decision:
    """What to do now. The same observation and time lead to the same decision, and nothing is raised for any spec."""
    job = observed.job
    if job.spec.run_policy.managed_by not in OURS:
        return Decision(report=job.report, waits_for=f"is managed by {job.spec.run_policy.managed_by}")
    decision = _decided(observed, now_s)
    if OLD_FINALIZER in job.finalizers:
        decision = replace(decision, actions=(*decision.actions, RemoveFinalizer(name=OLD_FINALIZER)))
    report = settled(decision.report)
    if warning := phases.warns_now(job.report, report):
        event = RecordEvent(reason="SpecWarnings", message=warning, is_warning=True)
        decision = replace(decision, actions=(*decision.actions, event))
    may_wait = not decision.is_turning_point and not phases.is_urgent(settled(job.report), report)
    return replace(decision, report=report, status_may_wait_s=STATUS_MAY_WAIT_S if may_wait else 0.0)


def _decided(observed: Observed, now_s: float) -> Decision:
    job = observed.job
    if job.is_deleting:  # owner references do the rest
        return Decision(report=replace(_seen(job), phase=JobPhase.TERMINATING), waits_for="is being deleted")
    view = view_of(observed, now_s)
    phase = job.report.phase
    if phase is not None and phase.is_over:
        return _over(view)
    if observed.problems:
        return _wrong(view, said(observed.problems))
    if job.spec.run_policy.suspend:
        return _suspended(view)
    if is_done(view):
        what = "all pods" if job.spec.run_policy.success is SuccessPolicy.ALL_ROLES else "all workers"
        return _finished(view, JobPhase.COMPLETED, "Completed", f"{what} have ended well")
    queue = queues.queue_step(view, observed)
    if queue.hold:
        return _held(view, queue)
    view = replace(view, placements=queue.placements)
    left = limits.deadline_in_s(job, now_s)
    if left == 0.0:
        limit = job.spec.run_policy.active_deadline_s
        return _finished(
            view, JobPhase.FAILED, "DeadlineExceeded", f"it ran longer than {limit} s (activeDeadlineSeconds)"
        )
    return _soonest(_going_on(view, observed, queue), left)


def _going_on(view: JobView, observed: Observed, queue: QueueStep) -> Decision:
    restart = reaction(view)
    if restart is not None and restart.failed:
        reason = "BackoffLimitExceeded" if "backoffLimit" in restart.failed else restart.reason
        return _finished(view, JobPhase.FAILED, reason, restart.failed)
    start = start_of(view)
    if restart is None and start.reason:
        return _finished(view, JobPhase.FAILED, start.reason, start.message)
    if is_told_otherwise(view):
        return _restarted(
            view, Reaction(troubles=(), scope=RestartScope.JOB), "SpecChanged", "the job has another size"
        )
    if restart is None and addresses_changed(view):
        return _restarted(
            view, Reaction(troubles=(), scope=RestartScope.JOB), "AddressChanged", "a pod has a new address"
        )
    if restart is not None and restart.wait_s <= 0 and (restart.scope is RestartScope.JOB or restart.restarted):
        return _restarted(view, restart, restart.reason, restart.message)
    ports = host_ports(view)
    if ports and ports != dict(view.report.node_ports):
        report = replace(_accepted(view), node_ports=tuple(sorted(ports.items())))
        return Decision(report=report, is_turning_point=True, waits_for="ports of its hosts are chosen")
    holds = restart is not None and restart.wait_s > 0
    if queue.lacks and not holds:
        hold: Wait | None = Wait(reason="ReadingFlavors", message=queue.lacks)
    else:
        hold = Wait(reason="Restarting", message="the last restart was a moment ago") if holds else None
    kept = upkeep(view, observed.refusals, () if restart is None else restart.replaced, hold)
    decision = _reported(view, kept, restart, queue)
    if holds:  # which pods were there is how it is known, until the restart is decided, that one of them is not
        before = {each.role: each.refs for each in view.report.counts}
        counts = [replace(each, refs=before.get(each.role, each.refs)) for each in decision.report.counts]
        decision = replace(decision, report=replace(decision.report, counts=tuple(counts)))
    decision = _soonest(decision, restart.wait_s if restart is not None and holds else None)
    decision = _soonest(decision, start.left_s if start.left_s is None else max(0.1, start.left_s))
    return _soonest(decision, None if restart is None else restart.again_in_s)


# ---- the status


def _reported(view: JobView, kept: Upkeep, restart: Reaction | None, queue: QueueStep) -> Decision:
    """Go on, and say how it is."""
    report = _accepted(view)
    phase = phases.phase_of(view, report.counts, is_restarting=phases.is_true(view.report, "Restarting"))
    conditions = phases.waiting(report.conditions, kept.wait, view.now_s)
    if phase is JobPhase.RUNNING:
        conditions = phases.condition(conditions, "Running", True, view.now_s, "AllPodsRun")
        conditions = phases.ended(conditions, view.now_s, ("Restarting",), "AllPodsRun")
    else:
        conditions = phases.ended(conditions, view.now_s, ("Running",), phase.value)
    if phase is JobPhase.RESTARTING and not phases.is_true(view.report, "Restarting"):
        reason, why = (restart.reason, restart.message) if restart is not None else ("PodDeleted", "a pod was deleted")
        conditions = phases.condition(conditions, "Restarting", True, view.now_s, reason, why)
    conditions = _with_drift(view, kept, conditions)
    conditions = tuple([each for each in conditions if each.type != "Queued"])
    if queue.unused:
        conditions = phases.condition(conditions, "Queued", False, view.now_s, queues.UNAVAILABLE, queue.unused)
    count, left_s = forgiven(view)
    report = replace(report, phase=phase, conditions=conditions, completed=completed_ranges(view), forgiven=count)
    events = queues.ready(view, is_running=phase is JobPhase.RUNNING)
    decision = Decision(
        actions=(*kept.actions, *queue.actions, *events),
        report=report,
        again_in_s=kept.again_in_s,
        waits_for="" if kept.wait is None else f"{kept.wait.reason}: {kept.wait.message}",
    )
    return _soonest(decision, left_s)


def _with_drift(view: JobView, kept: Upkeep, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    if kept.drifted:
        roles = ", ".join(kept.drifted)
        text = f"pods of {roles} were made from an earlier template; the new one is used when they are made again"
        conditions = phases.condition(conditions, "TemplateChanged", True, view.now_s, "TemplateChanged", text)
    else:
        conditions = phases.ended(conditions, view.now_s, ("TemplateChanged",), "TemplateUsed")
    if kept.ignored is not None:
        return phases.condition(
            conditions, "GangScheduling", False, view.now_s, kept.ignored.reason, kept.ignored.message
        )
    return tuple([each for each in conditions if each.type != "GangScheduling"])


def _seen(job: PaddleJob) -> JobReport:
    return replace(job.report, mode=job.spec.mode, observed_generation=job.generation)


def _accepted(view: JobView) -> JobReport:
    """The report of a job that is to run."""
    report = _seen(view.job)
    conditions = report.conditions
    if any(each.type == "Accepted" for each in conditions):
        conditions = phases.condition(conditions, "Accepted", True, view.now_s)
    conditions = phases.ended(conditions, view.now_s, ("Suspended",), "Resumed")
    conditions = phases.warned(conditions, view.warning, view.now_s)
    return replace(
        report,
        phase=JobPhase.PENDING if report.phase in (None, JobPhase.SUSPENDED) else report.phase,
        counts=phases.counts_of(view),
        conditions=conditions,
        port=job_port(view.job),
        start_s=view.now_s if report.start_s is None else report.start_s,
        progress=view.progress,
        selector=selector(view.job),
    )


# ---- turning points


def _restarted(view: JobView, restart: Reaction, reason: str, why: str) -> Decision:
    """Begin an attempt, of the job or of some pods."""
    report = _accepted(view)
    conditions = [each for each in report.conditions if each.type != "Restarting"]
    conditions = list(phases.ended(tuple(conditions), view.now_s, ("Running", "Waiting"), "Restarting"))
    marked = phases.condition(tuple(conditions), "Restarting", True, view.now_s, reason, why)
    report = replace(report, phase=JobPhase.RESTARTING, restarts=report.restarts + restart.cost, conditions=marked)
    if restart.scope is RestartScope.JOB:
        report = replace(
            report, attempt=report.attempt + 1, completed=(), last_logs=(), progress=(), counts=_without(report.counts)
        )
        what = "all pods are started again"
    else:
        names = set(restart.restarted)
        times = dict(report.pod_restarts)
        counted = {**times, **{name: times.get(name, 0) + 1 for name in names}}
        logs = tuple([each for each in report.last_logs if each[0] not in names])
        report = replace(
            report,
            pod_restarts=tuple(sorted(counted.items())),
            last_logs=logs,
            completed=completed_ranges(view, without=names),
            counts=_without(report.counts, names),
        )
        what = f"started again: {', '.join(sorted(names)[:5])}{' and more' if len(names) > 5 else ''}"
    event = RecordEvent(reason="Restarting", message=f"{why}; {what}", is_warning=True)
    return Decision(actions=(event,), report=report, is_turning_point=True, waits_for=f"{reason}: {why}")


def _without(counts: tuple[RoleCounts, ...], names: set[str] | None = None) -> tuple[RoleCounts, ...]:
    """Counts without the references to these pods, or to all: they belong to the attempt before."""
    return tuple(
        [
            replace(each, refs=() if names is None else tuple([ref for ref in each.refs if ref[0] not in names]))
            for each in counts
        ]
    )


def _finished(view: JobView, phase: JobPhase, reason: str, why: str) -> Decision:
    """The job is over, for ever."""
    report = _accepted(view)
    is_done = phase is JobPhase.COMPLETED
    conditions = phases.ended(report.conditions, view.now_s, _ACTIVE[1:], reason)
    conditions = phases.condition(conditions, "Succeeded" if is_done else "Failed", True, view.now_s, reason, why)
    report = replace(
        report,
        phase=phase,
        conditions=conditions,
        completion_s=view.now_s,
        completed=completed_ranges(view),
        progress=done(report.progress) if is_done else report.progress,
        last_logs=() if not is_done else report.last_logs,
    )
    event = RecordEvent(reason=phase.value, message=why, is_warning=not is_done)
    return Decision(actions=(event,), report=report, is_turning_point=True)


def _suspended(view: JobView) -> Decision:
    """A person, or Kueue for a job of kubeflow.org, wants it to wait."""
    actions = (*release(view), *queues.withdrawn(view))
    event = "its pods are deleted until runPolicy.suspend is false"
    return _stopped(view, actions, ("Suspended", "runPolicy.suspend is true"), event)


def _held(view: JobView, queue: QueueStep) -> Decision:
    """Its queue does not let it have pods, or not any more. That costs nothing of its budget of restarts."""
    ran = bool(view.current or view.stale or view.surplus)
    event = queue.message + ("; its pods are deleted" if ran else "")
    return _stopped(view, (*release(view), *queue.actions), (queue.hold, queue.message), event)


def _stopped(view: JobView, actions: tuple[OperatorAction, ...], why: tuple[str, str], event: str) -> Decision:
    """Nothing of it runs. Whatever ran belongs to an attempt that is over."""
    reason, message = why
    if view.report.phase is JobPhase.SUSPENDED:
        conditions = phases.condition(view.report.conditions, "Suspended", True, view.now_s, reason, message)
        report = replace(_seen(view.job), counts=phases.counts_of(view), conditions=conditions)
        return Decision(actions=actions, report=report, waits_for=_words(reason, message))
    report = _seen(view.job)
    ran = bool(view.current or view.stale or view.surplus)
    conditions = phases.ended(report.conditions, view.now_s, ("Waiting", "Running", "Restarting"), "Suspended")
    conditions = tuple([each for each in conditions if each.type != "Queued"])
    conditions = phases.condition(conditions, "Suspended", True, view.now_s, reason, message)
    report = replace(
        report,
        phase=JobPhase.SUSPENDED,
        attempt=report.attempt + 1 if ran else report.attempt,
        completed=(),
        progress=(),
        start_s=None,
        counts=_without(phases.counts_of(view)),
        conditions=conditions,
        selector=selector(view.job),
    )
    record = RecordEvent(reason=reason, message=event)
    return Decision(actions=(record,), report=report, is_turning_point=True, waits_for=_words(reason, message))


def _words(reason: str, message: str) -> str:
    return "is suspended" if reason == "Suspended" else f"{reason}: {message}"


# ---- jobs that don't go on


def _over(view: JobView) -> Decision:
    """Clean up, and delete the job itself when its time has come."""
    actions, again = clean_up(view)
    report = replace(_seen(view.job), counts=phases.last_counts(view))
    return Decision(actions=(*actions, *queues.finished(view)), report=report, again_in_s=again)


def _wrong(view: JobView, why: str) -> Decision:
    """A spec that can't be run. Pods of an earlier, better one are left alone."""
    report = _seen(view.job)
    conditions = phases.condition(report.conditions, "Accepted", False, view.now_s, "InvalidSpec", why)
    conditions = phases.warned(conditions, view.warning, view.now_s)
    actions: tuple[OperatorAction, ...] = ()
    if not phases.is_true(report, "Accepted") and not any(each.type == "Accepted" for each in report.conditions):
        actions = (RecordEvent(reason="InvalidSpec", message=why, is_warning=True),)
    phase = report.phase or JobPhase.PENDING
    return Decision(actions=actions, report=replace(report, phase=phase, conditions=conditions), waits_for=why)


def _soonest(decision: Decision, left_s: float | None) -> Decision:
    """Look again at the earlier of two times."""
    times = [each for each in (decision.again_in_s, left_s) if each is not None]
    return replace(decision, again_in_s=min(times)) if times else decision
