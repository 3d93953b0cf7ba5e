"""Which pods and Services of a finished job are deleted. A decider.

                 completed                        failed
    (empty)      all                              those that have not ended
    Always       all                              all
    OnCompletion all                              those that have not ended
    OnFailure    those that have not ended        all
    Running      those that have not ended        those that have not ended
    Never        none                             none

A pod that has not ended holds memory and accelerators; one that has ended holds its log, and nothing else. So what
still runs in pods that stay (servers, sidecars of trainings that have ended) is stopped: the pods remain, with their
logs.
"""

from __future__ import annotations

from umiak.paddlejob.resource import CleanPods, JobPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.operator.values import SeenPod


def cleans_all(policy: CleanPods | None, phase: JobPhase) -> bool:
    """Whether nothing is left of a job that ended in this phase."""
    if phase is JobPhase.COMPLETED:
        return policy in (None, CleanPods.ALWAYS, CleanPods.ON_COMPLETION)
    return policy in (CleanPods.ALWAYS, CleanPods.ON_FAILURE)


def to_delete(policy: CleanPods | None, phase: JobPhase, pods: Iterable[SeenPod]) -> list[SeenPod]:
    """Pods of a finished job that go."""
    if policy is CleanPods.NEVER:
        return []
    everything = cleans_all(policy, phase)
    return [pod for pod in pods if not pod.is_deleting and (everything or not pod.phase.is_ended)]


def to_stop(policy: CleanPods | None, phase: JobPhase, pods: Iterable[SeenPod]) -> list[SeenPod]:
    """Pods of a finished job that stay, and must not go on."""
    listed = list(pods)
    gone = {pod.name for pod in to_delete(policy, phase, listed)}
    return [
        pod
        for pod in listed
        if (pod.lingers or not pod.phase.is_ended) and not (pod.is_deleting or pod.is_told_to_end or pod.name in gone)
    ]
