"""What is wrong with a job although every field can be read: names, roles, containers, ports. A decider.

The API server refuses some of this by the CRD's rules; clusters that have no such rules, and templates,
which it takes as they are, are checked here. Problems end up in a condition of the job, which is not started.
"""

from __future__ import annotations

from umiak.core.shown import one_line
from umiak.paddlejob.field_reader import FieldNotes, shown
from umiak.paddlejob.names import LONGEST_HOST, is_host_label, is_service_name, pod_name, role_path
from umiak.paddlejob.resource import Intranet, JobApi, PodRole
from umiak.paddlejob.templates.pod_fields import RELEASE, unknown_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.core.json_types import JsonObject
    from umiak.core.problem import Problem
    from umiak.paddlejob.resource import PaddleJob, PaddleJobRole

_NAMED = ("env", "volumeMounts")
"""Lists in a container whose entries have names."""
RESTART_WORDS = ("Always", "OnFailure", "Never")


def check(job: PaddleJob, notes: FieldNotes) -> None:
    """Look at everything, and note what is wrong."""
    _names(job, notes)
    _roles(job, notes)
    for role in job.spec.roles:
        path = role_path(role.role, job.api)
        if role.least is not None and role.most is not None and role.least > role.most:
            notes.problem("UM-PDJ-007", f"{path}.requests", f"is more than limits: {role.least} and {role.most}")
        elif job.spec.is_elastic and role.most is not None and role.replicas > role.most:
            notes.problem("UM-PDJ-007", f"{path}.replicas", f"is more than limits: {role.replicas} and {role.most}")
        _template(role, f"{path}.template", notes)
        _host_network(job, role, f"{path}.template.spec", notes)


def message(problems: Iterable[Problem]) -> str:
    """Problems as the text of a condition."""
    parts = []
    for problem in problems:
        because = f", because {problem.why}" if problem.why else ""
        hint = f" ({problem.hint})" if problem.hint else ""
        parts.append(f"{problem.where}: {problem.what}{because}{hint} [{problem.code}]")
    return "; ".join(parts)


def _names(job: PaddleJob, notes: FieldNotes) -> None:
    longest = ""
    for role in job.spec.roles:
        most = max(role.replicas, role.most or 0, 1)
        longest = max(longest, pod_name(job.name, role.role, most - 1, job.api), key=len)
    name = shown(job.name)
    if not is_host_label(job.name):
        notes.problem(
            "UM-PDJ-004",
            "metadata.name",
            f"can't be a part of host names: {name}",
            why=f"pods are called {one_line(longest, 80)}" if longest else None,
            hint=f"use small letters, digits and hyphens, at most {LONGEST_HOST} characters",
        )
    elif len(longest) > LONGEST_HOST:
        notes.problem(
            "UM-PDJ-004",
            "metadata.name",
            f"is too long: {name}",
            why=f"the host name {longest} has {len(longest)} characters, and {LONGEST_HOST} is the most",
            hint=f"shorten the name by {len(longest) - LONGEST_HOST} or more characters",
        )
    needs_service = job.spec.intranet is Intranet.SERVICE or job.api is JobApi.KUBEFLOW
    if needs_service and is_host_label(job.name) and not is_service_name(job.name):
        notes.problem(
            "UM-PDJ-004",
            "metadata.name",
            f"can't be the name of a Service: {name}",
            why="names of Services begin with a letter",
            hint="put a letter in front" + ("" if job.api is JobApi.KUBEFLOW else ", or write `intranet: PodIP`"),
        )


def _roles(job: PaddleJob, notes: FieldNotes) -> None:
    spec = job.spec
    roles = {role.role for role in spec.roles}
    if not roles:
        hint = "write `worker` with replicas and a template; with parameter servers also `ps`"
        if job.api is JobApi.KUBEFLOW:
            hint = "write `Worker` with a template in paddleReplicaSpecs"
        notes.problem("UM-PDJ-006", "spec", "has no role, so there is nothing to run", hint=hint)
        return
    if PodRole.WORKER not in roles:
        others = " and ".join(sorted(role.value for role in roles))
        what = "an elastic job needs workers" if spec.is_elastic else f"is missing: there is only {others}"
        path = role_path(PodRole.WORKER, job.api)
        hint = f"add `{path.rpartition('.')[2]}` with replicas and a template"
        notes.problem("UM-PDJ-006", path, what, hint=hint)
    elif spec.is_elastic and len(roles) > 1:
        notes.problem(
            "UM-PDJ-006",
            "spec.elastic",
            "elastic jobs have workers only",
            why="the number of parameter servers and of heter workers can't change during a job",
            hint="remove `elastic`: workers of a job with parameter servers are restarted one by one anyway",
        )
    if spec.with_gloo and PodRole.PS not in roles:
        notes.warning("UM-PDJ-011", "spec.withGloo", "has no effect", why="only jobs with `ps` have gloo barriers")
    unread = any((problem.where or "").endswith(".replicas") for problem in notes.problems)
    if not unread and not any(role.replicas for role in spec.roles):
        notes.problem("UM-PDJ-006", "spec", "no role has a pod: all replicas are 0", hint="to pause: runPolicy.suspend")


def _template(role: PaddleJobRole, path: str, notes: FieldNotes) -> None:
    spec = role.template.get("spec")
    if spec is not None and not isinstance(spec, dict):
        notes.problem("UM-PDJ-001", f"{path}.spec", f"must be an object: {shown(spec)}")
        return
    metadata = role.template.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        notes.problem("UM-PDJ-001", f"{path}.metadata", f"must be an object: {shown(metadata)}")
    else:
        _texts(metadata or {}, f"{path}.metadata", notes)
    unknown = unknown_in(role.template, path)
    for each in unknown:
        hint = f"did you mean `{each.meant}`?" if each.meant else None
        notes.warning("UM-PDJ-031", each.path, f"Kubernetes {RELEASE} does not have this field of pods", hint=hint)
    restart = (spec or {}).get("restartPolicy")
    if restart is not None and restart not in RESTART_WORDS:
        hint = f"it is one of {', '.join(RESTART_WORDS)}"
        notes.problem("UM-PDJ-009", f"{path}.spec.restartPolicy", f"unknown word: {shown(restart)}", hint=hint)
    _pod_fields(spec or {}, f"{path}.spec", notes)
    containers = (spec or {}).get("containers")
    if not isinstance(containers, list) or not containers:
        wrong = next((each.path for each in unknown if each.meant == "containers"), "")
        hint = f"did you mean it by `{wrong.rpartition('.')[2]}`?" if wrong else "write at least a name and an image"
        notes.problem("UM-PDJ-005", f"{path}.spec.containers", "has no container", hint=hint)
        return
    _containers(containers, f"{path}.spec.containers", notes)


def _pod_fields(spec: JsonObject, path: str, notes: FieldNotes) -> None:
    """Fields beside the containers that the operator itself reads or adds to."""
    scheduler = spec.get("schedulerName")
    if scheduler is not None and not isinstance(scheduler, str):
        notes.problem("UM-PDJ-001", f"{path}.schedulerName", f"must be a text: {shown(scheduler)}")
    for name in ("nodeSelector", "overhead"):
        value = spec.get(name)
        if value is not None and not isinstance(value, dict):
            notes.problem("UM-PDJ-001", f"{path}.{name}", f"must be an object: {shown(value)}")
    tolerations = spec.get("tolerations")
    if tolerations is not None and not _is_list_of_objects(tolerations):
        notes.problem("UM-PDJ-001", f"{path}.tolerations", f"must be a list of objects: {shown(tolerations)}")
    init = spec.get("initContainers")
    if init is not None and not _is_list_of_objects(init):
        notes.problem("UM-PDJ-001", f"{path}.initContainers", f"must be a list of containers: {shown(init)}")
        return
    for number, container in enumerate(init or ()):
        _lists(container, f"{path}.initContainers[{number}]", notes)


def _host_network(job: PaddleJob, role: PaddleJobRole, path: str, notes: FieldNotes) -> None:
    """Pods of one node have one address then.
    In Service mode each lists its port, and the scheduler keeps them apart.
    """
    pod, wanted = role.template.get("spec"), job.spec
    is_shared = isinstance(pod, dict) and pod.get("hostNetwork") is True
    told_addresses = job.api is JobApi.BATCH and wanted.intranet is Intranet.POD_IP and not wanted.is_elastic
    if is_shared and told_addresses and sum(each.replicas for each in wanted.roles) > 1:
        notes.warning(
            "UM-PDJ-073",
            f"{path}.hostNetwork",
            "pods of this job on one node have one address and one port",
            hint="write `intranet: Host`, which gives each pod ports of its own",
        )


def _is_list_of_objects(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(each, dict) for each in found)


def _texts(metadata: JsonObject, path: str, notes: FieldNotes) -> None:
    for name in ("labels", "annotations"):
        texts = metadata.get(name)
        if texts is not None and not (
            isinstance(texts, dict) and all(isinstance(each, str) for each in texts.values())
        ):
            notes.problem("UM-PDJ-001", f"{path}.{name}", f"must be an object of texts: {shown(texts)}")


def _containers(containers: list[object], path: str, notes: FieldNotes) -> None:
    names: set[str] = set()
    for number, container in enumerate(containers):
        where = f"{path}[{number}]"
        if not isinstance(container, dict):
            notes.problem("UM-PDJ-001", where, f"must be a container: {shown(container)}")
            continue
        for key in ("name", "image"):
            if not isinstance(container.get(key), str) or not container[key]:
                notes.problem("UM-PDJ-005", f"{where}.{key}", "is required")
        name = container.get("name")
        if isinstance(name, str) and name in names:
            notes.problem("UM-PDJ-005", f"{where}.name", f"two containers have this name: {shown(name)}")
        if isinstance(name, str):
            names.add(name)
        _lists(container, where, notes)
    _ports([each for each in containers if isinstance(each, dict)], path, notes)


def _lists(container: JsonObject, path: str, notes: FieldNotes) -> None:
    for key in ("env", "envFrom", "ports", "volumeMounts"):
        items = container.get(key)
        if items is not None and not _is_list_of_objects(items):
            notes.problem("UM-PDJ-001", f"{path}.{key}", f"must be a list of objects: {shown(items)}")
            continue
        for number, each in enumerate(items or ()):
            if key in _NAMED and not isinstance(each.get("name"), str):
                what = f"must be a text: {shown(each['name'])}" if "name" in each else "is required"
                notes.problem("UM-PDJ-001", f"{path}.{key}[{number}].name", what)
    resources = container.get("resources")
    if resources is not None and not isinstance(resources, dict):
        notes.problem("UM-PDJ-001", f"{path}.resources", f"must be an object: {shown(resources)}")
        return
    for key in ("requests", "limits"):
        amounts = (resources or {}).get(key)
        if amounts is not None and not isinstance(amounts, dict):
            notes.problem("UM-PDJ-001", f"{path}.resources.{key}", f"must be an object: {shown(amounts)}")


def _ports(containers: list[JsonObject], path: str, notes: FieldNotes) -> None:
    """Containers of a pod share its network: a port can be opened by one of them only."""
    taken: dict[tuple[object, object], str] = {}
    hosts: dict[tuple[object, object], str] = {}
    for number, container in enumerate(containers):
        names: set[str] = set()
        ports = container.get("ports")
        for position, port in enumerate(ports if isinstance(ports, list) else ()):
            if not isinstance(port, dict):
                continue
            where = f"{path}[{number}].ports[{position}]"
            _port_numbers(port, where, notes)
            protocol = shown(port.get("protocol") or "TCP")
            name = port.get("name")
            if isinstance(name, str) and name in names:
                notes.problem("UM-PDJ-008", where, f"two ports of the container have this name: {shown(name)}")
            if isinstance(name, str):
                names.add(name)
            # Two containers may name a port that one of them opens, so that is no more than a warning.
            if first := _first(taken, port.get("containerPort"), protocol, where):
                what = f"the port {port['containerPort']} is in this pod twice"
                notes.warning("UM-PDJ-008", where, what, why=f"it is also in {first}")
            if first := _first(hosts, port.get("hostPort"), protocol, where):
                what = f"the host port {port['hostPort']} is in this pod twice"
                notes.problem("UM-PDJ-008", where, what, why=f"it is also in {first}")


def _port_numbers(port: JsonObject, where: str, notes: FieldNotes) -> None:
    for key in ("containerPort", "hostPort"):
        number = port.get(key)
        least = 0 if key == "hostPort" else 1  # 0: none
        is_port = isinstance(number, int) and not isinstance(number, bool) and least <= number < 65536
        if not is_port and (number is not None or key == "containerPort"):
            what = "is required" if number is None else f"must be a number from 1 to 65535: {shown(number)}"
            notes.problem("UM-PDJ-001", f"{where}.{key}", what)
    name = port.get("name")
    if name is not None and not isinstance(name, str):
        notes.problem("UM-PDJ-001", f"{where}.name", f"must be a text: {shown(name)}")


def _first(taken: dict[tuple[object, object], str], number: object, protocol: str, where: str) -> str:
    """Where a port stands already; empty if here is the first place."""
    if not isinstance(number, int) or isinstance(number, bool) or not number:
        return ""
    first = taken.setdefault((number, protocol), where)
    return "" if first == where else first
