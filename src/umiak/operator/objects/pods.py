"""The bodies of a job's pods: the role's template, with what the operator adds. A decider.

A template is prepared once per role, and each of its pods shares everything with it that is the same for all:
a job of a thousand pods is a thousand small dictionaries. Bodies are for reading: nobody changes what they share.

Added are names, labels and annotations, the owner, host name, variables (after the user's own, so that they win),
where they are not said the restart policy, and what the network mode and the gang driver need. No container is added.
"""

from __future__ import annotations

from umiak.contracts import paddlejob as contract
from umiak.core.value import value
from umiak.operator.objects.names import (
    ATTEMPT,
    DEFAULT_CONTAINER,
    DIGEST,
    INDEX,
    JOB_NAME,
    KUBEFLOW_INDEX,
    KUBEFLOW_JOB,
    KUBEFLOW_OPERATOR,
    KUBEFLOW_OURS,
    KUBEFLOW_ROLE,
    KUBEFLOW_TYPE,
    MAIN_CONTAINER,
    digest,
    owners,
)
from umiak.operator.objects.places import elastic_environment, elastic_master
from umiak.operator.policies.ports import SERVICE_PORT
from umiak.operator.policies.scale import shape_of
from umiak.operator.policies.view import PodSlot
from umiak.paddlejob import kubeflow
from umiak.paddlejob.names import RES_NAME, RES_TYPE, RESOURCE, pod_name, role_word
from umiak.paddlejob.resource import Intranet, JobApi, PodRole
from umiak.paddlejob.templates.main_container import main_index, main_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.json_types import JsonObject
    from umiak.operator.policies.gangs import GangDriver
    from umiak.operator.policies.view import JobView
    from umiak.operator.values import PodPlacement
    from umiak.paddlejob.resource import PaddleJob, PaddleJobRole

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO_TASK, VOLCANO_JOB = "volcano.sh/task-spec", "volcano.sh/job-name"
VOLCANO_VERSION, VOLCANO_QUEUE = "volcano.sh/job-version", "volcano.sh/queue-name"
"""What the old operator told Volcano: plug-ins of the scheduler and its tools sort pods by them."""
PLUGINS_GROUP = "scheduling.x-k8s.io/pod-group"


@value
class RolePods:
    """What all pods of a role have in common."""

    labels: dict[str, str]
    annotations: dict[str, str]
    metadata: JsonObject
    spec: JsonObject
    containers: tuple[JsonObject, ...]
    main: int
    """The number of the one that trains."""
    told: tuple[int, ...]
    """The numbers of those that get variables."""
    users: tuple[tuple[JsonObject, ...], ...]
    """The users' own variables of these, without those that we set."""
    variables: tuple[JsonObject, ...]
    """Behind the user's own and each pod's."""


def template_digest(wish: PaddleJobRole) -> str:
    """Of the template of a role."""
    return digest(wish.template)


def prepared(view: JobView, wish: PaddleJobRole, driver: GangDriver | None) -> RolePods:
    """The common part of a role's pods."""
    job, spec = view.job, dict(wish.template.get("spec") or {})
    metadata = wish.template.get("metadata") or {}
    is_kubeflow = job.api is JobApi.KUBEFLOW
    word = role_word(wish.role, job.api)
    labels = {**(metadata.get("labels") or {}), JOB_NAME: job.name}
    annotations = {**(metadata.get("annotations") or {}), DIGEST: f"{template_digest(wish)}-{shape_of(view)}"}
    if is_kubeflow:
        labels |= {KUBEFLOW_JOB: job.name, KUBEFLOW_TYPE: word, KUBEFLOW_OPERATOR: KUBEFLOW_OURS}
        labels |= {KUBEFLOW_ROLE: word} if wish.role is PodRole.PS else {}
    else:
        labels[RES_TYPE] = word
        annotations[RESOURCE] = word
    spec["restartPolicy"] = _restart_policy(view, wish, spec.get("restartPolicy") or "")
    if view.spec.intranet is Intranet.HOST and not is_kubeflow:
        spec["hostNetwork"] = True
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    if driver is not None:
        _join_gang(driver, job, word, spec, labels, annotations)
    if placement := dict(view.placements).get(wish.role.value):
        _place(placement, spec, labels, annotations)
    containers = [dict(each) for each in spec.get("containers") or ()]
    main = main_index(containers)
    if containers and containers[main].get("restartPolicy"):
        _set_own_restarts(view, containers[main])
    annotations[MAIN_CONTAINER] = main_name(containers)
    annotations.setdefault(DEFAULT_CONTAINER, main_name(containers))
    if not is_kubeflow and not view.spec.is_elastic and containers:
        source = {"configMapRef": {"name": job.name}}
        containers[main]["envFrom"] = [*(containers[main].get("envFrom") or ()), source]
    if view.spec.intranet is Intranet.SERVICE and not is_kubeflow and containers:
        containers[main]["ports"] = _with_port(containers[main].get("ports") or [], SERVICE_PORT)
    if is_kubeflow and containers:
        containers[main]["ports"] = kubeflow.ports_of(wish)
    variables = elastic_environment(view) if view.spec.is_elastic and not is_kubeflow else {}
    numbers = range(len(containers)) if is_kubeflow else [main] if containers else []
    ours = {*variables, *_names(view, wish.role)}
    users = [
        tuple([one for one in containers[number].get("env") or () if one.get("name") not in ours]) for number in numbers
    ]
    return RolePods(
        labels=labels,
        annotations=annotations,
        metadata={
            "namespace": job.namespace,
            "ownerReferences": owners(job),
            **({"finalizers": metadata["finalizers"]} if metadata.get("finalizers") else {}),
        },
        spec=spec,
        containers=tuple(containers),
        main=main,
        told=tuple(numbers),
        users=tuple(users),
        variables=tuple(_listed(variables)),
    )


def body(role: RolePods, slot: PodSlot, view: JobView, ports: Mapping[str, int]) -> JsonObject:
    """One pod."""
    job = view.job
    is_kubeflow = job.api is JobApi.KUBEFLOW
    own = {KUBEFLOW_INDEX: str(slot.index)} if is_kubeflow else {RES_NAME: slot.name}
    variables = _kubeflow_variables(view, slot) if is_kubeflow else _variables(view, slot, ports)
    containers = [*role.containers]
    for number, own_env in zip(role.told, role.users, strict=True):
        containers[number] = {**role.containers[number], "env": [*own_env, *variables, *role.variables]}
    port = ports.get(slot.name)
    if port is not None and containers:
        main = containers[role.main]
        containers[role.main] = {**main, "ports": _with_port(main.get("ports") or [], port, is_host=True)}
    annotations = {**role.annotations, INDEX: str(slot.index), ATTEMPT: str(slot.attempt)}
    spec = {
        **role.spec,
        "hostname": slot.name,
        "subdomain": slot.name,
        "containers": containers,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**role.metadata, "name": slot.name, "labels": {**role.labels, **own}, "annotations": annotations},
        "spec": spec,
    }


def _names(view: JobView, role: PodRole) -> set[str]:
    """Names of the variables that pods of a role get, all alike but for Kubeflow's first pod."""
    slot = PodSlot(name="", role=role, index=0, attempt=0)
    ports = {"": 0} if view.spec.intranet is Intranet.HOST else {}
    variables = _kubeflow_variables(view, slot) if view.job.api is JobApi.KUBEFLOW else _variables(view, slot, ports)
    return {each["name"] for each in variables}


def _variables(view: JobView, slot: PodSlot, ports: Mapping[str, int]) -> list[JsonObject]:
    address: JsonObject = {"name": contract.POD_IP, "value": slot.name}
    if view.spec.intranet is not Intranet.SERVICE:
        address = _own_address(contract.POD_IP)
    variables = [address, *_listed(contract.of_pod(slot.role.value, slot.index))]
    if slot.name in ports:
        variables.append({"name": contract.PORT, "value": str(ports[slot.name])})
    if master := elastic_master(view, slot, ports):
        own = f"$({contract.OWN_ADDRESS})" in master[contract.MASTER]
        variables += [*([_own_address(contract.OWN_ADDRESS)] if own else ()), *_listed(master)]
    if not view.spec.is_elastic:
        key = {"name": view.job.name, "key": contract.attempt_key(view.job.uid, slot.attempt)}
        variables.append({"name": contract.ATTEMPT, "valueFrom": {"configMapKeyRef": key}})
    return variables


def _kubeflow_variables(view: JobView, slot: PodSlot) -> list[JsonObject]:
    leader = kubeflow.leader_of(view.spec)
    is_first = slot.role is leader and slot.index == 0
    variables = contract.of_kubeflow(
        view.job.name,
        len(view.slots),
        pod_name(view.job.name, leader, 0, view.job.api),
        port=kubeflow.rendezvous_port(view.spec),
        is_first=is_first,
        is_server=slot.role is PodRole.PS if view.spec.role(PodRole.PS) else None,
        is_six=view.facts.is_six,
    )
    own = [_own_address(contract.OWN_ADDRESS)] if is_first else []
    return [*own, *_listed(variables)]


def _own_address(name: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}


def _listed(variables: Mapping[str, str]) -> list[JsonObject]:
    return [{"name": name, "value": text} for name, text in variables.items()]


def _restart_policy(view: JobView, wish: PaddleJobRole, asked: str) -> str:
    """As asked. Where the template is silent, containers are restarted in their pods if nobody else has to know.

    Always becomes OnFailure: a training that has ended well is done, and must not begin again before
    its pod can be deleted. Where there are rules about failures, the operator has to see each of them.
    """
    if view.spec.run_policy.rules:
        return "Never"
    if view.spec.is_elastic or asked == "Always":
        return "OnFailure"
    if asked:
        return asked
    return "OnFailure" if view.spec.intranet is Intranet.SERVICE and wish.role is PodRole.WORKER else "Never"


def _set_own_restarts(view: JobView, container: JsonObject) -> None:
    """What the main container itself says about restarts counts before its pod's: the same holds for it."""
    if view.spec.run_policy.rules:
        container["restartPolicy"] = "Never"
        container.pop("restartPolicyRules", None)
    elif container["restartPolicy"] == "Always":
        container["restartPolicy"] = "OnFailure"


def _with_port(ports: list[JsonObject], port: int, *, is_host: bool = False) -> list[JsonObject]:
    if not is_host and any(each.get("containerPort") == port for each in ports):
        return ports
    return [*ports, {"containerPort": port, "protocol": "TCP", **({"hostPort": port} if is_host else {})}]


def _place(placement: PodPlacement, spec: JsonObject, labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Where a queue of Kueue has found room: pods go there and nowhere else. Labels that are ours stay."""
    if placement.node_selector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **dict(placement.node_selector)}
    if placement.tolerations:
        own = list(spec.get("tolerations") or ())
        spec["tolerations"] = [*own, *[each for each in placement.tolerations if each not in own]]
    for found, added in ((labels, placement.labels), (annotations, placement.annotations)):
        for name, text in added:
            found.setdefault(name, text)


def _join_gang(
    driver: GangDriver,
    job: PaddleJob,
    role: str,
    spec: JsonObject,
    labels: dict[str, str],
    annotations: dict[str, str],
) -> None:
    if driver.scheduler:
        spec.setdefault("schedulerName", driver.scheduler)
    if driver.name == "volcano":
        annotations[VOLCANO_GROUP] = annotations[VOLCANO_JOB] = job.name
        annotations[VOLCANO_TASK] = role
        annotations[VOLCANO_VERSION] = str(job.generation)
        annotations[VOLCANO_QUEUE] = job.spec.gang.queue if job.spec.gang else ""
    elif driver.name == "scheduler-plugins":
        labels[PLUGINS_GROUP] = job.name
    else:
        spec["schedulingGroup"] = {"podGroupName": job.name}
