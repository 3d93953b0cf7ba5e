"""What the status says: counts of pods, the phase, and conditions. A decider.

    Accepted      False: the spec is wrong, and nothing is started
    Waiting       True: something keeps the job from going on; reason and message say what
    Running       True: every pod runs, or has ended well
    Restarting    True: from the decision to start pods again until all of them run
    Suspended     True: ``runPolicy.suspend``, or a queue of Kueue holds it: reasons Queued, Evicted
    Queued        False: its queue has no effect
    Succeeded     True: done, for ever
    Failed        True: failed, for ever
    SpecWarnings  True: the manifest has fields or words that have no effect; the message says which
    TemplateChanged  True: pods were made from an earlier template; the new one is used when they are made again

A condition that was never true is left out, Running and Accepted aside.
"""

from __future__ import annotations

from umiak.core.shown import one_line
from umiak.core.value import replace
from umiak.operator.values import PodPhase
from umiak.paddlejob.resource import Condition, JobPhase, PodRole, RoleCounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.operator.policies.view import JobView
    from umiak.operator.policies.waiting import Wait
    from umiak.operator.values import SeenPod
    from umiak.paddlejob.resource import JobReport

MOST_REFS = 100
LONGEST_WARNING = 900


def counts_of(view: JobView) -> tuple[RoleCounts, ...]:
    """Pods of the current attempt by how they are. One that ended well and is gone still counts."""
    pods: dict[PodRole, list[SeenPod]] = {wish.role: [] for wish in view.spec.roles}
    gone = dict.fromkeys(pods, 0)
    for slot in view.slots:
        pod = view.current.get(slot.name)
        if pod is not None:
            pods[slot.role].append(pod)
        elif slot.name in view.done:
            gone[slot.role] += 1
    return tuple([_counted(view, role, found, gone[role]) for role, found in pods.items()])


def last_counts(view: JobView) -> tuple[RoleCounts, ...]:
    """Counts of a job that is over: what ended stays counted when its pods are deleted,
    what runs is counted while it does.
    """
    before = {each.role: each for each in view.report.counts}
    counts = []
    for now in counts_of(view):
        old = before.get(now.role, now)
        counts.append(
            replace(
                now,
                succeeded=max(now.succeeded, old.succeeded),
                failed=max(now.failed, old.failed),
                refs=now.refs or old.refs,
            )
        )
    return tuple(counts)


def phase_of(view: JobView, counts: Iterable[RoleCounts], *, is_restarting: bool) -> JobPhase:
    """The phase of a job that is wanted and not over."""
    listed = list(counts)
    up = sum([each.running + each.succeeded for each in listed])
    before = view.report.phase
    if view.slots and up == len(view.slots) and not view.stale:
        return JobPhase.SCALING if view.surplus and view.spec.is_elastic else JobPhase.RUNNING
    if is_restarting:
        return JobPhase.RESTARTING
    if before in (JobPhase.RUNNING, JobPhase.SCALING, JobPhase.RESTARTING):
        sizes = {each.role: each.wanted for each in view.report.counts}
        grows = before is JobPhase.SCALING or sizes != {each.role: each.wanted for each in listed}
        return JobPhase.SCALING if view.spec.is_elastic and grows else JobPhase.RESTARTING
    return JobPhase.STARTING if any(each.running or each.starting for each in listed) else JobPhase.PENDING


def condition(
    conditions: tuple[Condition, ...], kind: str, is_true: bool, now_s: float, reason: str = "", message: str = ""
) -> tuple[Condition, ...]:
    """The conditions with one of them set. Its time changes when it turns true or false."""
    old = next((each for each in conditions if each.type == kind), None)
    since = old.since_s if old is not None and old.is_true is is_true else now_s
    condition = Condition(type=kind, is_true=is_true, reason=reason or kind, message=message, since_s=since)
    return (*[each for each in conditions if each.type != kind], condition)


def ended(
    conditions: tuple[Condition, ...], now_s: float, kinds: Iterable[str], reason: str = ""
) -> tuple[Condition, ...]:
    """The conditions of which some are not true any more; those that never were stay out."""
    for kind in kinds:
        old = next((each for each in conditions if each.type == kind), None)
        if old is not None and old.is_true:
            conditions = condition(conditions, kind, False, now_s, reason or f"Not{kind}")
    return conditions


def is_true(report: JobReport, kind: str) -> bool:
    """Whether the status says so."""
    return any(each.type == kind and each.is_true for each in report.conditions)


def waiting(conditions: tuple[Condition, ...], wait: Wait | None, now_s: float) -> tuple[Condition, ...]:
    """The conditions with what is waited for."""
    if wait is None:
        return ended(conditions, now_s, ("Waiting",))
    return condition(conditions, "Waiting", True, now_s, wait.reason, wait.message)


def warned(conditions: tuple[Condition, ...], text: str, now_s: float) -> tuple[Condition, ...]:
    """The conditions with what is doubtful in the manifest, or without if nothing is."""
    if text:
        return condition(conditions, "SpecWarnings", True, now_s, "SpecWarnings", one_line(text, LONGEST_WARNING))
    return tuple([each for each in conditions if each.type != "SpecWarnings"])


def warns_now(old: JobReport, new: JobReport) -> str:
    """What is said about the manifest in the new status and was not in the old one."""
    before, after = [{each.message for each in it.conditions if each.type == "SpecWarnings"} for it in (old, new)]
    return "".join(after - before)


def is_urgent(old: JobReport, new: JobReport) -> bool:
    """Whether the change of a status should be seen at once;
    counts, refs and what is waited for can wait for more of their kind.
    """
    if new.phase is not old.phase and new.phase is not JobPhase.STARTING:
        return True
    remembered = ("attempt", "restarts", "forgiven", "pod_restarts", "port", "node_ports", "start_s", "completion_s")
    if any(getattr(old, name) != getattr(new, name) for name in remembered):
        return True
    return _shown(old) != _shown(new)


def _shown(report: JobReport) -> set[tuple[str, bool, str]]:
    return {(each.type, each.is_true, each.reason) for each in report.conditions if each.type != "Waiting"}


def _counted(view: JobView, role: PodRole, pods: list[SeenPod], gone: int) -> RoleCounts:
    words = [_word(pod, view) for pod in pods]
    wish = view.spec.role(role)
    return RoleCounts(
        role=role,
        wanted=max(0, wish.replicas) if wish else 0,
        pending=words.count("pending"),
        starting=words.count("starting"),
        running=words.count("running"),
        failed=words.count("failed"),
        succeeded=words.count("succeeded") + gone,
        unknown=words.count("unknown"),
        refs=tuple(sorted([(pod.name, pod.uid) for pod in pods])[:MOST_REFS]),
    )


def _word(pod: SeenPod, view: JobView) -> str:
    match pod.phase:
        case PodPhase.SUCCEEDED:
            return "succeeded"
        case PodPhase.FAILED:
            return "stopped" if pod.is_told_to_end and pod.reason == "DeadlineExceeded" else "failed"
        case PodPhase.UNKNOWN:
            return "unknown"
    if view.is_lost(pod):
        return "unknown"
    if pod.phase is PodPhase.RUNNING:
        return "running"
    return "starting" if pod.node else "pending"
