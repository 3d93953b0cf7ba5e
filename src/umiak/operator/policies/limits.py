"""When a job is done, how long it and the start of its pods may take, and how long it stays when it is over. A decider.

Its workers decide when it is done: parameter servers serve as long as they are asked, and end with the job.
``successPolicy: AllRoles`` waits for every pod, as the old operator did. kubeflow.org's jobs are also done when their
first master is.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.operator.policies.waiting import said_by, worst_of
from umiak.operator.values import PodPhase
from umiak.paddlejob.resource import JobApi, PodRole, SuccessPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.operator.policies.view import JobView
    from umiak.operator.values import SeenPod
    from umiak.paddlejob.resource import PaddleJob


IMAGES, PENDING = "imagePullTimeoutSeconds", "pendingTimeoutSeconds"


@value
class StartWait:
    """What the limits say now."""

    reason: str = ""
    """One word; empty: no limit is passed."""
    message: str = ""
    left_s: float | None = None
    """Until a pod that waits passes its limit."""


def start_of(view: JobView) -> StartWait:
    """Of the pods that have not started. A pod without an image is told as that, though it is pending as well."""
    policy = view.spec.run_policy
    pods = [pod for pod in view.current.values() if not pod.is_deleting and not view.is_lost(pod)]
    without = [pod for pod in pods if pod.lacks_image]
    pending = [] if _has_enough(view) else [pod for pod in pods if pod.phase is PodPhase.PENDING]
    left: list[float] = []
    for reason, name, limit, waiting in (
        ("ImagePullTimeout", IMAGES, policy.image_pull_s, without),
        ("PendingTimeout", PENDING, policy.pending_s, pending),
    ):
        if limit is None:
            continue
        times = [(_since_s(pod, reason) + limit - view.now_s, pod) for pod in waiting]
        late = [pod for left_s, pod in times if left_s <= 0]
        if late:
            pod = worst_of(late)
            what = f"could not get its image {pod.lacks_image}" if pod.lacks_image else "has not started"
            more = f" (and {len(late) - 1} more)" if len(late) > 1 else ""
            text = f"{pod.name}{more} {what} within {limit} s ({name}){said_by(pod)}"
            return StartWait(reason=reason, message=text)
        left += [left_s for left_s, _ in times]
    return StartWait(left_s=min(left, default=None))


def _since_s(pod: SeenPod, reason: str) -> float:
    """From when on the limit counts: its creation, or when a node took it or the training last ended there."""
    if reason == "PendingTimeout":
        return pod.created_s
    return max(pod.started_s or pod.created_s, pod.last_end_s or 0.0)


def _has_enough(view: JobView) -> bool:
    """Whether it is an elastic job that goes on with the workers that it has."""
    wish = view.spec.role(PodRole.WORKER)
    if not view.spec.is_elastic or wish is None:
        return False
    running = [pod for pod in view.current.values() if pod.phase is PodPhase.RUNNING]
    return len(running) >= max(1, wish.least or 0)


def deadline_in_s(job: PaddleJob, now_s: float) -> float | None:
    """Seconds until ``activeDeadlineSeconds`` have passed since its start, 0 when they have;
    None: no limit, or not started.
    """
    limit, start = job.spec.run_policy.active_deadline_s, job.report.start_s
    return None if limit is None or start is None else max(0.0, start + limit - now_s)


def expiry_in_s(job: PaddleJob, now_s: float) -> float | None:
    """Seconds until the finished job is deleted, 0 when it is time; None: it stays."""
    ttl, end = job.spec.run_policy.ttl_s, job.report.completion_s
    return None if ttl is None or end is None else max(0.0, end + ttl - now_s)


def is_done(view: JobView) -> bool:
    """Whether everything that has to end well has ended well."""
    workers = view.slots_of(PodRole.WORKER)
    decisive = workers if workers and view.spec.run_policy.success is SuccessPolicy.WORKERS else view.slots
    if decisive and all(slot.name in view.done for slot in decisive):
        return True
    masters = view.slots_of(PodRole.PS)
    return view.job.api is JobApi.KUBEFLOW and bool(masters) and masters[0].name in view.done
