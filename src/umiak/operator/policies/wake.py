"""Which pods are told that the addresses of their peers are there now. A decider.

A kubelet that finds no ConfigMap tries again after 10 seconds, but at once when its pod changes. So pods that wait get an annotation when the
ConfigMap is there: once, and again while they still wait, since a kubelet may hear of its pod before it hears of the ConfigMap. A pod
that waits for something else, such as a Secret, says the same; so it is told a few times only.
"""

from __future__ import annotations

from umiak.operator.values import PodPhase, WakePod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.operator.values import SeenPod

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
