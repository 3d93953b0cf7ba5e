"""Where each pod of a job can be reached, and what all of them are told. A decider.

    PodIP, Host   addresses: known when every pod has one
    Service       names: known before there is a pod

``told`` is what stands in the ConfigMap. Elastic jobs and kubeflow.org's have none: their pods meet at a master.
"""

from __future__ import annotations

from umiak.contracts import paddlejob as contract
from umiak.operator.policies.ports import host_ports, job_port
from umiak.operator.policies.scale import shape_of
from umiak.paddlejob.names import pod_name
from umiak.paddlejob.resource import Intranet, JobApi, PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.operator.policies.view import JobView, PodSlot
    from umiak.operator.values import SeenPod


def has_config_map(view: JobView) -> bool:
    """Whether pods read a ConfigMap."""
    return not view.spec.is_elastic and view.job.api is JobApi.BATCH


def needs_addresses(view: JobView) -> bool:
    """Whether pods are told addresses, so that they must be there first."""
    return view.spec.intranet is not Intranet.SERVICE and has_config_map(view)


def told(view: JobView) -> dict[str, str] | None:
    """The contents of the ConfigMap; None: not known yet, or there is none."""
    if not has_config_map(view):
        return None
    hosts = _addresses(view) if needs_addresses(view) else {slot.name: slot.name for slot in view.slots}
    if hosts is None:
        return None
    port, ports = job_port(view.job), host_ports(view)
    roles = {wish.role for wish in view.spec.roles}
    places = {role: [(hosts[slot.name], ports.get(slot.name, port)) for slot in view.slots_of(role)] for role in roles}
    attempts = {
        contract.attempt_key(view.job.uid, number): str(number) for number in {slot.attempt for slot in view.slots}
    }
    data = contract.of_job(
        places.get(PodRole.PS),
        places.get(PodRole.WORKER),
        places.get(PodRole.HETER),
        port=port,
        with_gloo=view.spec.with_gloo,
    )
    return {**data, **attempts}


def elastic_environment(view: JobView) -> dict[str, str]:
    """What all pods of an elastic job are told."""
    job, worker = view.job, view.spec.role(PodRole.WORKER)
    now = worker.replicas if worker else 0
    return contract.of_elastic(job.namespace, job.name, shape_of(view), now=now, etcd=view.facts.etcd)


def elastic_master(view: JobView, slot: PodSlot, ports: Mapping[str, int]) -> dict[str, str]:
    """Where a pod of an elastic job meets the others; with etcd all are told the same.
    The first worker has a Service for that.
    """
    if not view.spec.is_elastic or view.facts.etcd:
        return {}
    first = pod_name(view.job.name, PodRole.WORKER, 0, view.job.api)
    port = ports.get(first, job_port(view.job))
    is_first = slot.name == first
    return {contract.MASTER: contract.elastic_master(first, port, is_first=is_first, is_six=view.facts.is_six)}


def _addresses(view: JobView) -> dict[str, str] | None:
    """The address of each pod, all of one family; None: not every pod has one."""
    found: dict[str, tuple[str, ...]] = {}
    for slot in view.slots:
        pod = view.current.get(slot.name)
        if pod is not None and (addresses := _addresses_of(pod, view.spec.intranet)):
            found[slot.name] = addresses
        elif pod is None and slot.name in view.done:
            found[slot.name] = (contract.NOWHERE,)
        else:
            return None
    return _one_family(found)


def _addresses_of(pod: SeenPod, intranet: Intranet) -> tuple[str, ...]:
    if pod.addresses or intranet is not Intranet.HOST:
        return pod.addresses
    return (pod.host_address,) if pod.host_address else ()


def _one_family(found: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Each pod's first address; where these are of both families, the first of one that all pods have."""
    first = {name: addresses[0] for name, addresses in found.items()}
    if len({":" in address for address in first.values() if address != contract.NOWHERE}) < 2:
        return first
    for is_six in (False, True):
        chosen = {
            name: next((each for each in addresses if (":" in each) is is_six or each == contract.NOWHERE), "")
            for name, addresses in found.items()
        }
        if all(chosen.values()):
            return chosen
    return first
