"""How many pods a job has, and what it means that the number changes. A decider.

Elastic workers are told a range; within it pods come and go, and nobody else is touched. Everything else that pods were told
(a list of endpoints, a fixed number) is false after a change, so the job is started again with the new one, at no cost.
"""

from __future__ import annotations

from umiak.paddlejob.resource import PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.operator.values import SeenObject
    from umiak.paddlejob.resource import JobSpec


def elastic_count(spec: JobSpec) -> str:
    """How many workers take part, as pods of an elastic job are told: ``1:4`` by ``requests`` and ``limits``, else ``2``."""
    worker = spec.role(PodRole.WORKER)
    if worker is None:
        return "0"
    least = worker.least if worker.least is not None else worker.replicas
    most = worker.most if worker.most is not None else worker.replicas
    least, most = max(1, min(least, worker.replicas or 1)), max(1, most, worker.replicas)
    return str(most) if least == most else f"{least}:{most}"


def is_told_otherwise(told: SeenObject | None, digest: str) -> bool:
    """Whether pods were told something that is not true any more."""
    return told is not None and bool(told.digest) and told.digest != digest
