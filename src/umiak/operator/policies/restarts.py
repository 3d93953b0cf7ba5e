"""What is started again after a failure, how often, and how soon. A decider.

The budget (``backoffLimit``) is spent by failures of the program alone, whether the operator starts pods again or the
node starts containers again in their pods. What takes part in a restart is the *scope*: the pod, its role, or the whole
job. docs/decisions/0016-restart-scopes.md says why it can be wider than asked for.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.operator.policies.failures import Fault, Trouble, trouble_of
from umiak.operator.values import PodPhase, SeenPod
from umiak.paddlejob.resource import Intranet, JobApi, JobMode, JobPhase, PodRole, RestartScope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.operator.policies.view import JobView, PodSlot
    from umiak.paddlejob.resource import JobReport, JobSpec

DEFAULT_LIMIT = 3
DEFAULT_RESET_S = 3600
"""After so long without a failure the budget is whole again: a job of a month is not ended by its fourth failure."""
FIRST_DELAY_S, LONGEST_DELAY_S = 10.0, 360.0
LEAST_APART_S = 10.0
"""Between restarts that cost nothing: a node that refuses a pod at once must not be asked a hundred times a second.
The pause doubles with each of them; a job that ran for longer than the pause is started again at once.
"""
CAUSE_S = 180.0
"""How long the cause of a failure is waited for that a launcher blames on another pod.
Clusters notice a silent node after 50 s, and it counts as lost a minute later.
"""


@value
class Reaction:
    """What follows from the troubles of a job's pods."""

    troubles: tuple[Trouble, ...]
    failed: str = ""
    """Why the job has failed; empty: it goes on."""
    scope: RestartScope = RestartScope.POD
    cost: int = 0
    """How much of the budget this takes."""
    restarted: tuple[str, ...] = ()
    """Names of pods that are started again one by one, or as a role, and whose numbers change."""
    replaced: tuple[str, ...] = ()
    """Names of pods that are deleted and made again without a number of their own: the cluster took them away."""
    wait_s: float = 0.0
    """Not before this time has passed: the restart before it was a moment ago, and has not led to anything yet."""
    again_in_s: float | None = None
    """When to look again at pods that were refused by their node as soon as they were made,
    and are left there for a while.
    """

    @property
    def reason(self) -> str:
        return self.troubles[0].reason

    @property
    def message(self) -> str:
        more = f" (and {len(self.troubles) - 1} more)" if len(self.troubles) > 1 else ""
        return self.troubles[0].message + more


def reaction(view: JobView) -> Reaction | None:
    """What the failures of the current attempt lead to; None: nothing has failed."""
    troubles = [trouble for pod in view.current.values() if (trouble := trouble_of(pod, view))]
    vanished = _vanished(view, of_any_role=any(each.is_consequence for each in troubles))
    in_place = _in_place(view.current.values())
    limit = limit_of(view.spec)
    before = spent(view)
    if before > limit:
        worst = min(view.current.values(), key=lambda pod: (-pod.container_restarts, pod.name))
        why = f"containers were restarted {in_place} times by their nodes, most often that of {worst.name}"
        worn_out = Trouble(pod=worst, fault=Fault.PROGRAM, reason="BackoffLimitExceeded", message=why)
        return Reaction(troubles=(worn_out,), failed=f"{why}; backoffLimit is {limit}")
    if not troubles and not vanished:
        return None
    if final := next((each for each in troubles if each.fault is Fault.FINAL), None):
        why = final.message if final.is_ruled else f"{final.message}; a restart would not help"
        return Reaction(troubles=(final,), failed=why)
    troubles += [_gone(slot) for slot in vanished]
    troubles.sort(key=_importance)
    by_role = _scopes(view)
    scopes = {each.pod.name: by_role.get(each.pod.role, RestartScope.JOB) for each in troubles}
    if not view.spec.is_elastic:  # launchers that end because of one another end all
        scopes |= {each.pod.name: RestartScope.JOB for each in troubles if each.is_consequence}
    program = [each for each in troubles if each.fault is Fault.PROGRAM]
    is_cluster = len(program) < len(troubles)
    if RestartScope.JOB in scopes.values():
        if not is_cluster and (wait_s := _cause_s(view, program)):
            return Reaction(troubles=tuple(troubles), scope=RestartScope.JOB, wait_s=wait_s)
        own = 0 if is_cluster else 1
        return _within(before, _whole(view, tuple(troubles), cost=own + in_place), own, limit)
    roles = {each.pod.role for each in troubles if scopes[each.pod.name] is RestartScope.ROLE}
    named = {slot.name for slot in view.slots if slot.role in roles} | {each.pod.name for each in program}
    replaced = [each for each in troubles if each.pod.name not in named]
    ages = {each.pod.name: view.now_s - each.pod.created_s for each in replaced if each.pod.phase is PodPhase.FAILED}
    young = {name: LEAST_APART_S - age for name, age in ages.items() if age < LEAST_APART_S}
    own = len([each for each in program if each.pod.role not in roles])
    own += len({each.pod.role for each in program if each.pod.role in roles})
    return _within(
        before,
        Reaction(
            troubles=tuple(troubles),
            scope=RestartScope.ROLE if roles else RestartScope.POD,
            cost=own + _in_place([view.current[name] for name in named if name in view.current]),
            restarted=tuple([slot.name for slot in view.slots if slot.name in named]),
            replaced=tuple([each.pod.name for each in replaced if each.pod.name not in young]),
            wait_s=_apart_s(view) if roles else 0.0,
            again_in_s=min(young.values(), default=None),
        ),
        own,
        limit,
    )


def spent(view: JobView) -> int:
    """What of the budget is used up: restarts by us and in their pods, but for those that are forgiven."""
    return max(0, view.report.restarts + _in_place(view.current.values()) - view.report.forgiven)


def forgiven(view: JobView) -> tuple[int, float | None]:
    """How many restarts no longer count, and how long it is until all don't; None: nothing is to be forgiven."""
    reset_s = view.spec.run_policy.backoff_reset_s
    reset_s = DEFAULT_RESET_S if reset_s is None else reset_s
    ran = next((each.since_s for each in view.report.conditions if each.type == "Running" and each.is_true), None)
    if reset_s == 0 or ran is None or not spent(view):
        return view.report.forgiven, None
    # A node that seems to be ahead may have been slow to start the pod:
    # then the budget is whole again that much too early, which does no harm.
    ends = [pod.last_end_s - pod.clock_ahead_s for pod in view.current.values() if pod.last_end_s is not None]
    well_since = max([ran, *ends])
    if (left_s := well_since + reset_s - view.now_s) > 0:
        return view.report.forgiven, left_s
    return view.report.forgiven + spent(view), None


def limit_of(spec: JobSpec) -> int:
    """The budget."""
    limit = spec.run_policy.backoff_limit
    return DEFAULT_LIMIT if limit is None else limit


def start_delays(view: JobView, slots: list[PodSlot]) -> dict[str, float]:
    """By name of the pod how long it must not be made yet, because its job (or it alone) was started again often."""
    since = restart_time(view.report)
    if since is None:
        return {}
    single = dict(view.report.pod_restarts)
    alone = {role for role in PodRole if scope_of(view.spec, role) is not RestartScope.JOB}
    delays = {}
    for slot in slots:
        times = single.get(slot.name, 0) if slot.role in alone else max(0, view.report.restarts - view.report.forgiven)
        if (left := since + delay_s(times) - view.now_s) > 0:
            delays[slot.name] = left
    return delays


def delay_s(times: int) -> float:
    """At once the first time, then 10 s, 20 s and so on."""
    return 0.0 if times < 2 else min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(times - 2, 30))


def restart_time(report: JobReport) -> float | None:
    """When the last restart was decided on, while it is under way."""
    return next((each.since_s for each in report.conditions if each.type == "Restarting" and each.is_true), None)


def scope_of(spec: JobSpec, role: PodRole | None) -> RestartScope:
    """What a pod of this role takes with it when it fails."""
    if spec.is_elastic:
        return RestartScope.POD
    asked = spec.run_policy.restart_scope
    if asked is None:
        asked = RestartScope.POD if spec.mode is JobMode.PS else RestartScope.JOB
    if asked is RestartScope.JOB or spec.mode is not JobMode.PS:
        return asked
    # Tables are in a server's memory; gloo's connections are made once, by all together.
    return asked if role is PodRole.WORKER and spec.with_gloo <= 0 else RestartScope.JOB


def _scopes(view: JobView) -> dict[PodRole | None, RestartScope]:
    """By role what a pod takes with it. Nobody knows the ports of pods that another operator made: they go together."""
    together = view.is_taken_over and not view.spec.is_elastic
    return {wish.role: RestartScope.JOB if together else scope_of(view.spec, wish.role) for wish in view.spec.roles}


def _vanished(view: JobView, *, of_any_role: bool) -> list[PodSlot]:
    """Pods that were there and simply are not any more,
    where others must be started again because of it, or ``of_any_role``.
    """
    missing = view.missing()
    if not missing or view.spec.is_elastic:
        return []
    scopes = _scopes(view)
    leaving = {pod.name for pod in view.stale}
    known = {name for counts in view.report.counts for name, _ in counts.refs}
    is_told_addresses = view.spec.intranet is not Intranet.SERVICE and view.job.api is JobApi.BATCH
    # A container that was told addresses has started when every pod had one.
    started = {pod.role for pod in view.current.values() if _has_started(pod)} if is_told_addresses else set()
    vanished = []
    for slot in missing:
        if (scopes[slot.role] is RestartScope.POD and not of_any_role) or slot.name in leaving:
            continue
        was_there = view.report.phase is JobPhase.RUNNING or slot.name in known or slot.role in started
        if was_there or (started and scopes[slot.role] is RestartScope.JOB):
            vanished.append(slot)
    return vanished


def _has_started(pod: SeenPod) -> bool:
    return pod.phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED) or (pod.phase.is_ended and pod.exit_code is not None)


def _gone(slot: PodSlot) -> Trouble:
    gone = SeenPod(name=slot.name, uid="", role=slot.role, index=slot.index, attempt=slot.attempt)
    return Trouble(pod=gone, fault=Fault.CLUSTER, reason="PodDeleted", message=f"{slot.name} was deleted")


def _whole(view: JobView, troubles: tuple[Trouble, ...], *, cost: int) -> Reaction:
    return Reaction(troubles=troubles, scope=RestartScope.JOB, cost=cost, wait_s=_apart_s(view))


def _cause_s(view: JobView, failed: list[Trouble]) -> float:
    """How long the cause may still show itself. It is in a pod that is said to run:
    its node may be lost, which is nobody's fault.
    """
    ended = {each.pod.name for each in failed}
    is_known = not all(each.is_consequence for each in failed)
    if is_known or all(name in ended for name in view.current):
        return 0.0
    first_s = min([view.now_s if each.pod.ended_s is None else each.pod.ended_s for each in failed])
    return max(0.0, first_s + CAUSE_S - view.now_s)


def _apart_s(view: JobView) -> float:
    """How long a restart has to wait: pods that are evicted again and again must not keep a cluster busy."""
    free = max(0, view.report.attempt - view.report.restarts)
    pause_s = delay_s(free + 1)
    since = restart_time(view.report)
    if since is not None:
        return max(0.0, since + max(LEAST_APART_S, pause_s) - view.now_s)
    ran = next((each.since_s for each in view.report.conditions if each.type == "Running" and each.is_true), None)
    return 0.0 if ran is None else max(0.0, ran + pause_s - view.now_s)


def _in_place(pods: Iterable[SeenPod]) -> int:
    """How often nodes have started containers again in these pods.
    With the pods the numbers go: they become the job's.
    """
    return sum([pod.container_restarts for pod in pods])


def _within(before: int, found: Reaction, own: int, limit: int) -> Reaction:
    """The reaction, or the end of the job if it costs more than is left.
    ``own``: its cost without what was spent in pods ``before``.
    """
    if not own or before + own <= limit:
        return found
    used = "no restarts are allowed" if limit == 0 else f"{before} of {limit} restarts are used up"
    return Reaction(troubles=found.troubles, failed=f"{found.message}; {used} (backoffLimit)")


def _importance(trouble: Trouble) -> tuple[bool, float, str]:
    """What the cluster did comes first, then what failed first: the rest may well be its consequence."""
    return (trouble.fault is not Fault.CLUSTER, trouble.pod.ended_s or float("inf"), trouble.pod.name)
