"""What a job should have is made, what it should not have is deleted. A decider.

    PodIP, Host   pods, then the ConfigMap when all of them have addresses; containers wait for it
    Service       Services and the ConfigMap, then pods: names are known before there is a pod

A ConfigMap with addresses belongs to one set of pods. When one of them has to be made again it is deleted first, so
that the new pod can't start with an old list. Names are used again when the object that had them is gone; an object
under one of our names that is not ours is never touched, and nothing is made while it is there.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.operator.objects.names import CONFIG_MAP, DIGEST, POD, SERVICE, digest
from umiak.operator.objects.places import has_config_map, needs_addresses, told
from umiak.operator.objects.pod_groups import pod_group
from umiak.operator.objects.pods import body, prepared, template_digest
from umiak.operator.objects.services import config_map, service, slots_with_service
from umiak.operator.policies import clean_up as cleaning
from umiak.operator.policies import limits
from umiak.operator.policies.failures import Fault, trouble_of
from umiak.operator.policies.gangs import GROUP_KINDS, driver_of, gang_wait, unused_policy
from umiak.operator.policies.ports import host_ports
from umiak.operator.policies.restarts import scope_of, start_delays
from umiak.operator.policies.waiting import Wait, is_own_group, name_conflict, pods_wait, refused, waking
from umiak.operator.values import (
    CreateObject,
    DeleteObject,
    KeepLogs,
    PodPhase,
    RecordEvent,
    ReplaceObject,
    StopPod,
)
from umiak.paddlejob.resource import KIND, CleanPods, JobPhase, RestartScope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.operator.policies.gangs import GangDriver
    from umiak.operator.policies.view import JobView, PodSlot
    from umiak.operator.values import OperatorAction, Refusal, SeenObject, SeenPod

LOG_PATIENCE_S = 60.0
"""How long a pod that failed is kept for its log to be read."""
MOST_LOGS = 3
POLL_S = 5.0
"""How soon to look again where no event may tell: foreign objects, a refusal."""


@value
class Upkeep:
    """What is to be made and deleted, and what keeps the rest from being made."""

    actions: tuple[OperatorAction, ...] = ()
    wait: Wait | None = None
    again_in_s: float | None = None
    drifted: tuple[str, ...] = ()
    """Roles whose pods were made from an earlier template."""
    ignored: Wait | None = None
    """``schedulingPolicy`` that nobody reads."""


def upkeep(view: JobView, refusals: tuple[Refusal, ...], replaced: tuple[str, ...], hold: Wait | None) -> Upkeep:
    """The next step towards what the job should have. ``hold``: what must be there before anything is made."""
    gone = [view.current[name] for name in replaced if name in view.current]
    gone = [pod for pod in gone if pod.phase is PodPhase.FAILED or view.is_lost(pod)]
    actions: list[OperatorAction] = _deletions(view, [*view.stale, *view.surplus, *gone])
    driver = driver_of(view)
    drifted, ignored = _drifted(view), unused_policy(view)
    conflict = name_conflict(view)
    if conflict or hold:
        return Upkeep(
            actions=tuple(actions), wait=conflict or hold, again_in_s=POLL_S, drifted=drifted, ignored=ignored
        )
    made, held = _group(view, driver)
    actions += made
    if held is None:
        made, held = _names(view)
        actions += made
    again = None
    if held is None:
        made, held, again = _pods(view, driver)
        actions += made
    wait = refused(refusals) or held or pods_wait(view)
    if any(is_own_group(each) for each in view.objects.values()) and held is not None:
        again = POLL_S  # no watch tells of it
    if refusals:
        again = min(POLL_S, again) if again is not None else POLL_S
    if any(isinstance(each, KeepLogs) for each in actions):
        again = min(LOG_PATIENCE_S, again) if again is not None else LOG_PATIENCE_S
    return Upkeep(actions=tuple(actions), wait=wait, again_in_s=again, drifted=drifted, ignored=ignored)


def addresses_changed(view: JobView) -> bool:
    """Whether a pod has another address than its peers were told, and they have to be started again to learn it."""
    seen = _own(view, CONFIG_MAP, view.job.name)
    if seen is None or seen.attempt != view.report.attempt or not needs_addresses(view):
        return False
    if not seen.digest:  # of another operator, which chose other ports
        return False
    if all(scope_of(view.spec, wish.role) is not RestartScope.JOB for wish in view.spec.roles):
        return False
    if (
        seen.is_deleting or not view.done <= view.current.keys()
    ):  # an address is not known any more, and nobody needs it
        return False
    data = told(view)
    return data is not None and seen.digest != digest(data)


def release(view: JobView) -> tuple[OperatorAction, ...]:
    """Delete everything that runs or belongs to what ran: the job is suspended."""
    actions = _deletions(view, [*view.current.values(), *view.stale, *view.surplus], keeps_logs=False)
    actions += [_delete(each) for each in _ours(view, {CONFIG_MAP, *GROUP_KINDS})]
    return tuple(actions)


def clean_up(view: JobView) -> tuple[tuple[OperatorAction, ...], float | None]:
    """What is deleted of a job that is over, and when to look again."""
    phase, policy = view.report.phase, view.spec.clean_pods
    assert phase is not None
    pods = [*view.current.values(), *view.stale, *view.surplus]
    actions: list[OperatorAction] = [*_logs(view, pods)]
    waiting = {each.pod for each in actions if isinstance(each, KeepLogs)}
    goes = cleaning.to_delete(policy, phase, pods)
    actions += [_delete_pod(view, pod) for pod in goes if pod.name not in waiting]
    actions += [_delete_pod(view, pod) for pod in pods if pod.is_deleting and view.is_lost(pod)]
    actions += [StopPod(name=pod.name, uid=pod.uid) for pod in cleaning.to_stop(policy, phase, pods)]
    actions += [_delete(each) for each in _ours(view, GROUP_KINDS)]
    if cleaning.cleans_all(policy, phase) and not pods:
        actions += [_delete(each) for each in _ours(view, {SERVICE})]
    left = limits.expiry_in_s(view.job, view.now_s)
    if left == 0.0:
        return (DeleteObject(kind=KIND, name=view.job.name, uid=view.job.uid),), None
    if waiting:
        left = LOG_PATIENCE_S if left is None else min(left, LOG_PATIENCE_S)
    return tuple(actions), left


def _may_differ(view: JobView) -> bool:
    """Whether pods go on when a peer has another address:
    they are restarted one by one, and find each other by themselves.
    """
    alone = all(scope_of(view.spec, wish.role) is not RestartScope.JOB for wish in view.spec.roles)
    return alone and view.done <= view.current.keys()


# ---- making


def _group(view: JobView, driver: GangDriver | None) -> tuple[list[OperatorAction], Wait | None]:
    """The PodGroup, as large as the job is now; pods wait for it."""
    if driver is None:
        return [], None
    group = view.objects.get((driver.kind, view.job.name))
    if group is not None and is_own_group(group):
        return [], gang_wait(driver, view, group)
    group = _own(view, driver.kind, view.job.name)
    actions: list[OperatorAction] = []
    if driver.kind in view.facts.kinds:
        made = pod_group(view.job, driver)
        if group is None:
            actions.append(CreateObject(kind=driver.kind, name=view.job.name, body=made))
        elif group.digest and group.digest != made["metadata"]["annotations"][DIGEST]:
            actions.append(ReplaceObject(kind=driver.kind, name=group.name, uid=group.uid, body=made))
    return actions, gang_wait(driver, view, group)


def _names(view: JobView) -> tuple[list[OperatorAction], Wait | None]:
    """Services, and a ConfigMap of names: before there is a pod."""
    actions: list[OperatorAction] = []
    nameless = [slot for slot in slots_with_service(view) if _own(view, SERVICE, slot.name) is None]
    actions += [CreateObject(kind=SERVICE, name=slot.name, body=service(view.job, slot)) for slot in nameless]
    named = {slot.name for slot in view.slots}
    spare = [_delete(each) for each in _ours(view, {SERVICE}) if each.name not in named]
    if has_config_map(view) and not needs_addresses(view):
        data = told(view)
        assert data is not None
        seen = _own(view, CONFIG_MAP, view.job.name)
        if seen is None:
            actions.append(CreateObject(kind=CONFIG_MAP, name=view.job.name, body=config_map(view.job, data)))
        elif seen.digest != digest(data):
            actions.append(
                ReplaceObject(kind=CONFIG_MAP, name=seen.name, uid=seen.uid, body=config_map(view.job, data))
            )
    wait = Wait(reason="Preparing", message="Services and the ConfigMap are being created") if actions else None
    return [*spare, *actions], wait


def _pods(view: JobView, driver: GangDriver | None) -> tuple[list[OperatorAction], Wait | None, float | None]:
    """Pods that are missing; then, where they are told addresses, the ConfigMap."""
    actions: list[OperatorAction] = []
    missing = view.missing()
    earlier = [pod for pod in (*view.stale, *view.surplus) if pod.attempt < view.report.attempt]
    seen = _own(view, CONFIG_MAP, view.job.name) if needs_addresses(view) else None
    is_old = seen is not None and (seen.attempt != view.report.attempt or bool(missing))
    if seen is not None and is_old:
        if not seen.is_deleting:
            actions.append(_delete(seen))
        return actions, Wait(reason="Restarting", message="the list of addresses is being deleted"), None
    if earlier:
        first = min(pod.name for pod in earlier)
        text = f"{_pods_in_words(len(earlier))} of an earlier attempt must go first: {first}"
        return actions, Wait(reason="Restarting", message=text), None
    if missing:
        names = {pod.name for pod in (*view.stale, *view.surplus)}
        delays = start_delays(view, missing)
        ready = [slot for slot in missing if slot.name not in names and slot.name not in delays]
        actions += _creations(view, ready, driver)
        wait = None
        if delays:
            wait = Wait(
                reason="BackingOff", message=f"{_pods_in_words(len(delays))} failed often and will be started later"
            )
        return actions, wait, min(delays.values()) if delays else None
    if needs_addresses(view) and seen is None and (data := told(view)) is not None:
        actions.append(CreateObject(kind=CONFIG_MAP, name=view.job.name, body=config_map(view.job, data)))
    elif (
        seen is not None
        and seen.digest
        and _may_differ(view)
        and (data := told(view)) is not None
        and seen.digest != digest(data)
    ):
        map_of_addresses = config_map(view.job, data)
        actions.append(ReplaceObject(kind=CONFIG_MAP, name=seen.name, uid=seen.uid, body=map_of_addresses))
    elif seen is not None and not seen.is_deleting:
        woken, again = waking(view.current.values(), seen.digest, view.now_s)
        return [*actions, *woken], None, again
    return actions, None, None


def _creations(view: JobView, slots: list[PodSlot], driver: GangDriver | None) -> list[OperatorAction]:
    if not slots:
        return []
    ports = host_ports(view)
    wanted = {slot.role for slot in slots}
    roles = {wish.role: prepared(view, wish, driver) for wish in view.spec.roles if wish.role in wanted}
    actions: list[OperatorAction] = [
        CreateObject(kind=POD, name=slot.name, body=body(roles[slot.role], slot, view, ports)) for slot in slots
    ]
    if len(slots) == len(view.slots):
        actions.append(RecordEvent(reason="Created", message=f"created {_pods_in_words(len(slots))}"))
    return actions


def _pods_in_words(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _drifted(view: JobView) -> tuple[str, ...]:
    """Roles of which pods say that they were made from another template."""
    drifted = []
    for wish in view.spec.roles:
        now = template_digest(wish)
        pods = [view.current.get(slot.name) for slot in view.slots_of(wish.role)]
        if any(pod is not None and pod.digest and pod.digest.partition("-")[0] != now for pod in pods):
            drifted.append(wish.role.value)
    return tuple(drifted)


# ---- deleting


def _deletions(view: JobView, pods: Iterable[SeenPod], *, keeps_logs: bool = True) -> list[OperatorAction]:
    """Delete pods, but first read what failed ones said last."""
    listed = list(pods)
    actions: list[OperatorAction] = [*_logs(view, listed)] if keeps_logs else []
    waiting = {each.pod for each in actions if isinstance(each, KeepLogs)}
    gone = [pod for pod in listed if pod.name not in waiting and (not pod.is_deleting or view.is_lost(pod))]
    return [*actions, *[_delete_pod(view, pod) for pod in gone]]


def _logs(view: JobView, pods: Iterable[SeenPod]) -> list[KeepLogs]:
    """Logs of the pods that failed first and are not kept yet."""
    kept = {name for name, _ in view.report.last_logs}
    room = MOST_LOGS - len(kept)
    failed = [pod for pod in pods if pod.name not in kept and (_has_log(view, pod) or _crashes(view, pod))]
    failed.sort(key=lambda pod: (pod.phase is not PodPhase.FAILED, pod.ended_s or pod.last_end_s or 0.0, pod.name))
    return [
        KeepLogs(pod=pod.name, uid=pod.uid, container=pod.log_of, is_previous=pod.phase is not PodPhase.FAILED)
        for pod in failed[: max(0, room)]
    ]


def _has_log(view: JobView, pod: SeenPod) -> bool:
    if (
        pod.phase is not PodPhase.FAILED
        or pod.exit_code is None
        or pod.is_told_to_end
        or view.is_lost(pod)
        or pod.is_deleting
    ):
        return False
    trouble = trouble_of(pod, view)
    is_own = trouble is not None and trouble.fault is not Fault.CLUSTER
    return is_own and (pod.ended_s is None or view.now_s < pod.ended_s + LOG_PATIENCE_S or _is_over(view))


def _crashes(view: JobView, pod: SeenPod) -> bool:
    """Whether a failed job leaves it in the middle of being started again by its node:
    its log is that of the run before.
    """
    is_left = view.report.phase is JobPhase.FAILED and not pod.phase.is_ended
    has_failed = bool(pod.container_restarts and pod.exit_code)
    return is_left and has_failed and not (pod.is_told_to_end or pod.is_deleting or view.is_lost(pod))


def _is_over(view: JobView) -> bool:
    """Whether nothing is held up by waiting for a log: the pod stays, or the job is over."""
    return view.report.phase is not None and view.report.phase.is_over and view.spec.clean_pods is CleanPods.NEVER


def _delete_pod(view: JobView, pod: SeenPod) -> DeleteObject:
    return DeleteObject(kind=POD, name=pod.name, uid=pod.uid, grace_s=0 if view.is_lost(pod) else None)


def _delete(seen: SeenObject) -> DeleteObject:
    return DeleteObject(kind=seen.kind, name=seen.name, uid=seen.uid)


def _own(view: JobView, kind: str, name: str) -> SeenObject | None:
    own = view.objects.get((kind, name))
    return own if own is not None and own.owner_uid == view.job.uid else None


def _ours(view: JobView, kinds: Iterable[str]) -> list[SeenObject]:
    wanted = set(kinds)
    return [
        each
        for (kind, _), each in view.objects.items()
        if kind in wanted and each.owner_uid == view.job.uid and not each.is_deleting
    ]
