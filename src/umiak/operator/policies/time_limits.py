"""How long a job may take, and how long it stays when it is over. A decider."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.paddlejob.resource import PaddleJob


def deadline_in_s(job: PaddleJob, now_s: float) -> float | None:
    """Seconds until ``activeDeadlineSeconds`` have passed since its start, 0 when they have; None: no limit, or not started."""
    limit, start = job.spec.run_policy.active_deadline_s, job.report.start_s
    return None if limit is None or start is None else max(0.0, start + limit - now_s)


def expiry_in_s(job: PaddleJob, now_s: float) -> float | None:
    """Seconds until the finished job is deleted, 0 when it is time; None: it stays."""
    ttl, end = job.spec.run_policy.ttl_s, job.report.completion_s
    return None if ttl is None or end is None else max(0.0, end + ttl - now_s)
