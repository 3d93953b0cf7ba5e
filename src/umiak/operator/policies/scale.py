"""How many pods a job has, and what it means that the number changes. A decider.

Elastic workers are told a range; within it pods come and go, and nobody else is touched. Everything else that pods were
told (a list of endpoints, a fixed number) is false after a change, so the job is started again with the new one, at no
cost.

A pod carries what it was told as its *shape*, behind the digest of its template: ``3fa9c2-1:4``.
"""

from __future__ import annotations

from umiak.paddlejob.resource import PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.operator.policies.view import JobView
    from umiak.paddlejob.resource import JobSpec


def shape_of(view: JobView) -> str:
    """What pods of this job are told about its size.
    Pods that are made later are told what those that run were told.
    """
    if not view.spec.is_elastic:
        sizes = "x".join([str(max(0, wish.replicas)) for wish in view.spec.roles])
        return f"{view.spec.intranet.value}.{sizes}"
    fitting = [told for told in _told(view) if _covers(told, view.spec)]
    return max(fitting, key=_most) if fitting else elastic_count(view.spec)


def elastic_count(spec: JobSpec) -> str:
    """How many workers may take part: ``1:4`` by ``requests`` and ``limits``, else up to as many as there are."""
    worker = spec.role(PodRole.WORKER)
    if worker is None:
        return "0"
    least = worker.least if worker.least is not None else worker.replicas
    most = worker.most if worker.most is not None else worker.replicas
    least, most = max(1, min(least, worker.replicas or 1)), max(1, most, worker.replicas)
    return str(most) if least == most else f"{least}:{most}"


def is_told_otherwise(view: JobView) -> bool:
    """Whether pods that run were told something that is not true any more."""
    wish = _told(view)
    if view.spec.is_elastic:
        return any(not _covers(each, view.spec) for each in wish)
    return bool(wish - {shape_of(view)})


def _told(view: JobView) -> set[str]:
    """The shapes of this attempt's pods.
    A pod that says nothing was made by somebody else's operator, and is left alone.
    """
    return {shape for pod in view.current.values() if (shape := pod.digest.partition("-")[2])}


def _covers(shape: str, spec: JobSpec) -> bool:
    worker = spec.role(PodRole.WORKER)
    return worker is not None and worker.replicas <= _most(shape)


def _most(shape: str) -> int:
    most = shape.rpartition(":")[2]
    return int(most) if most.isascii() and most.isdigit() and len(most) < 10 else 0
