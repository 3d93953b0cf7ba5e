"""What a job waits for, in one reason and one sentence: the question that an empty status leaves open. A decider.

Also which pods are told that the addresses of their peers are there now. A kubelet that finds no ConfigMap tries again
after 10 seconds, but at once when its pod changes. So pods that wait get an annotation when the ConfigMap is there:
once, and again while they still wait, since a kubelet may hear of its pod before it hears of the ConfigMap. A pod that
waits for something else, such as a Secret, says the same; so it is told a few times only.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.operator.values import PodPhase, WakePod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.operator.policies.view import JobView
    from umiak.operator.values import Refusal, SeenObject, SeenPod


LONGEST_MESSAGE = 600
_WORST_FIRST = (
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImagePullBackOff",
    "ErrImagePull",
    "CrashLoopBackOff",
    "RunContainerError",
    "CreateContainerError",
    "Unschedulable",
    "SchedulingGated",
)
# Until the ConfigMap is there this is how a pod waits for its peers, and nothing is wrong.
_NO_NEWS = ("CreateContainerConfigError", "ContainerCreating", "PodInitializing")


@value
class Wait:
    """What it waits for."""

    reason: str
    message: str


def name_conflict(view: JobView) -> Wait | None:
    """Objects under our names that are not ours: of somebody else,
    or of an earlier job of this name that is not gone yet.
    """
    others = [("Pod", pod.name, pod.is_deleting) for pod in view.foreign]
    others += [
        (kind, name, each.is_deleting)
        for (kind, name), each in view.objects.items()
        if each.owner_uid != view.job.uid and not is_own_group(each)
    ]
    if not others:
        return None
    kind, name, _is_deleting = min(others)
    more, verb = (f" and {len(others) - 1} more", "are") if len(others) > 1 else ("", "is")
    if all(leaving for _, _, leaving in others):
        return Wait(reason="NameInUse", message=f"{kind} {name}{more} of an earlier job {verb} still being deleted")
    return Wait(
        reason="NameConflict",
        message=f"{kind} {name}{more} {verb} there already and not of this job; delete it, or give the job another name",
    )


def refused(refusals: Iterable[Refusal]) -> Wait | None:
    """Creations that the API server has refused."""
    listed = sorted(refusals, key=lambda each: (each.kind, each.name))
    if not listed:
        return None
    first = listed[0]
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    reason = first.reason or f"Status{first.status}"
    if "exceeded quota" in first.message:
        reason = "QuotaExceeded"
    return Wait(reason=reason, message=_short(f"{first.kind} {first.name}{more} was refused: {first.message}"))


def pods_wait(view: JobView) -> Wait | None:
    """What pods that don't run yet say."""
    waiting = [pod for pod in view.current.values() if pod.phase is PodPhase.PENDING]
    # Containers that crash again and again wait in pods that are called Running.
    waiting += [pod for pod in view.current.values() if pod.phase is PodPhase.RUNNING and pod.reason in _WORST_FIRST]
    telling = [pod for pod in waiting if pod.reason and pod.reason not in _NO_NEWS]
    if not telling:
        return None
    worst = worst_of(telling)
    alike = len([pod for pod in telling if pod.reason == worst.reason])
    reason = f": {worst.message}" if worst.message else ""
    return Wait(
        reason=worst.reason,
        message=_short(f"{alike} of {len(view.slots)} pods: {worst.reason}, first {worst.name}{reason}"),
    )


def worst_of(pods: Iterable[SeenPod]) -> SeenPod:
    """The pod that the others may well wait for."""
    return min(pods, key=lambda pod: (_rank(pod), pod.name))


def said_by(pod: SeenPod) -> str:
    """What a pod, its node or the scheduler says, behind a colon."""
    return _short("".join([f": {text}" for text in (pod.reason, pod.message) if text]))


def is_own_group(each: SeenObject) -> bool:
    """A PodGroup that a person has made for the job, under its name: it is used, and never changed or deleted."""
    return each.kind.endswith("/PodGroup") and not each.owner_uid


def _rank(pod: SeenPod) -> int:
    if pod.reason in _WORST_FIRST:
        return _WORST_FIRST.index(pod.reason)
    return len(_WORST_FIRST) + (pod.reason in ("", *_NO_NEWS))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}..."


# ---- waking pods that wait

WAITS = "CreateContainerConfigError"
MOST_TIMES = 4
AGAIN_S = 1.0


def waking(pods: Iterable[SeenPod], digest: str, now_s: float) -> tuple[list[WakePod], float | None]:
    """What to do, and when to look again. ``digest``: of the ConfigMap."""
    found: list[WakePod] = []
    is_waiting = False
    for pod in pods:
        if pod.phase is not PodPhase.PENDING or pod.reason != WAITS or pod.is_deleting:
            continue
        times, at_s = _told(pod.woken, digest)
        is_waiting |= times < MOST_TIMES
        if times < MOST_TIMES and not 0 <= now_s - at_s < AGAIN_S:
            found.append(WakePod(name=pod.name, uid=pod.uid, note=f"{digest}.{times + 1}.{now_s:.1f}"))
    return found, AGAIN_S if is_waiting else None


def _told(note: str, digest: str) -> tuple[int, float]:
    """How often, and when the last time."""
    own, _, rest = note.partition(".")
    times, _, at_s = rest.partition(".")
    try:
        return (int(times), float(at_s)) if own == digest else (0, 0.0)
    except ValueError:
        return 0, 0.0
