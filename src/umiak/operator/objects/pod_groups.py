"""The PodGroup of a job, for each gang driver, and how much all its pods ask for. A decider."""

from __future__ import annotations

from fractions import Fraction

from umiak.operator.objects import quantities
from umiak.operator.objects.names import DIGEST, JOB_NAME, digest, owners

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.operator.policies.gangs import GangDriver
    from umiak.paddlejob.resource import JobSpec, PaddleJob


def pod_group(job: PaddleJob, driver: GangDriver) -> JsonObject:
    """The body; its digest tells whether one that exists is still right."""
    gang = job.spec.gang
    pods = sum([max(0, wish.replicas) for wish in job.spec.roles])
    asked = gang.min_available if gang and gang.min_available is not None else pods
    least = max(1, min(asked, pods))
    spec: JsonObject
    if driver.name == "native":
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    else:
        spec = {"minMember": least}
        if resources := least_resources(job.spec):
            spec["minResources"] = resources
    if driver.name == "volcano":
        if gang and gang.queue:
            spec["queue"] = gang.queue
        if gang and gang.priority_class:
            spec["priorityClassName"] = gang.priority_class
    return {
        "apiVersion": driver.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": {JOB_NAME: job.name},
            "annotations": {DIGEST: digest(spec)},
            "ownerReferences": owners(job),
        },
        "spec": spec,
    }


def least_resources(spec: JobSpec) -> dict[str, str]:
    """What the job needs to start: as ``minResources`` says, else the sum over all pods."""
    if spec.gang and spec.gang.min_resources:
        return dict(spec.gang.min_resources)
    total: dict[str, Fraction] = {}
    for wish in spec.roles:
        of_one = pod_resources(wish.template.get("spec") or {})
        total = quantities.added(total, {name: number * max(0, wish.replicas) for name, number in of_one.items()})
    return {name: quantities.written(number) for name, number in sorted(total.items()) if number}


def pod_resources(spec: JsonObject) -> dict[str, Fraction]:
    """What the scheduler counts for a pod: its containers together, or the largest init container if that is more.

    Init containers with ``restartPolicy: Always`` run beside what comes after them.
    """
    beside: dict[str, Fraction] = {}
    largest: dict[str, Fraction] = {}
    for each in spec.get("initContainers") or ():
        asked = _asked(each)
        if each.get("restartPolicy") == "Always":
            beside = quantities.added(beside, asked)
            largest = quantities.larger(largest, beside)
        else:
            largest = quantities.larger(largest, quantities.added(beside, asked))
    together = beside
    for each in spec.get("containers") or ():
        together = quantities.added(together, _asked(each))
    most = quantities.larger(together, largest)
    overhead = {name: quantities.read(text) for name, text in (spec.get("overhead") or {}).items()}
    return quantities.added(most, overhead)


def _asked(container: JsonObject) -> dict[str, Fraction]:
    """Requests; a limit without a request is one."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantities.read(text) for name, text in asked.items()}
