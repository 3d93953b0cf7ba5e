"""One pod of a run: its container, its mounts, what it asks for and where it may go. A decider.

/umiak/launcher    the launcher's file      /umiak/plan   what this role does
/umiak/files       the job's files          /umiak/work   where it works, a directory of the pod's own
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.submit.backends.kubernetes.names import CONTAINER, MANAGED_BY, OURS, ROLE, RUN
from umiak.submit.backends.kubernetes.settings import KUEUE, SHARED_MEMORY, VOLCANO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job, RoleSpec
    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.kubernetes.names import RunNames
    from umiak.submit.backends.kubernetes.settings import KubeSettings, KubeToleration, KubeVolume

ROOT = "/umiak"
LAUNCHER_NAME = "umiak-launcher.pyz"
PLAN_NAME = "node.json"
START = "umiak.submit.payload.node_start"
GANG = "scheduling.k8s.io/group-name"
"""The annotation by which Volcano knows a pod's PodGroup."""
_UNITS = ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


@value
class PodExtras:
    """What depends on the kind of the workload."""

    env: tuple[tuple[str, str], ...] = ()
    subdomain: str = ""
    """The headless Service that gives pods their names; empty: the workload's own controller makes one."""
    time_limit_s: int | None = None
    has_files: bool = False
    """Whether the job's files are in a ConfigMap."""


def template(job: Job, role: RoleSpec, names: RunNames, settings: KubeSettings, extras: PodExtras) -> JsonObject:
    """A pod template."""
    metadata: JsonObject = {
        "labels": {**dict(settings.labels), MANAGED_BY: OURS, RUN: names.name, ROLE: role.role.value}
    }
    annotations = dict(settings.annotations)
    if settings.scheduler == VOLCANO:
        annotations[GANG] = names.name
    if annotations:
        metadata["annotations"] = annotations
    shared_memory = role.resource.shared_memory_bytes or settings.shared_memory_bytes
    spec: JsonObject = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": settings.grace_s,
        # A pod's token of the cluster is of no use to a job, unless somebody gave it an account for that.
        **({} if settings.service_account else {"automountServiceAccountToken": False}),
        **_whereabouts(settings),
        **({"subdomain": extras.subdomain} if extras.subdomain else {}),
        **({"activeDeadlineSeconds": extras.time_limit_s} if extras.time_limit_s else {}),
        "containers": [_container(job, role, names, settings, extras, shared_memory)],
        "volumes": [
            {"name": "umiak-launcher", "configMap": {"name": names.launcher}},
            {
                "name": "umiak-plan",
                "configMap": {"name": names.plan, "items": [{"key": f"{role.role.value}.json", "path": PLAN_NAME}]},
            },
            *([{"name": "umiak-files", "configMap": {"name": names.files}}] if extras.has_files else []),
            {"name": "umiak-work", "emptyDir": {}},
            *(
                [{"name": "umiak-shm", "emptyDir": {"medium": "Memory", "sizeLimit": quantity(shared_memory)}}]
                if shared_memory
                else []
            ),
            *map(_volume, settings.volumes),
        ],
    }
    return {"metadata": metadata, "spec": spec}


def quantity(count: int) -> str:
    """Bytes as Kubernetes writes them."""
    return next((f"{count // unit}{name}" for unit, name in _UNITS if count % unit == 0), str(count))


def _container(
    job: Job, role: RoleSpec, names: RunNames, settings: KubeSettings, extras: PodExtras, shared_memory: int
) -> JsonObject:
    container: JsonObject = {
        "name": CONTAINER,
        "image": job.image or settings.image,
        "command": [settings.python, f"{ROOT}/launcher/{LAUNCHER_NAME}", "-m", START, f"{ROOT}/plan/{PLAN_NAME}"],
        "env": [
            {"name": "PYTHONUNBUFFERED", "value": "1"},
            *({"name": name, "value": text} for name, text in extras.env),
        ],
        "envFrom": [{"secretRef": {"name": names.secret}}],
        "volumeMounts": [
            {"name": "umiak-launcher", "mountPath": f"{ROOT}/launcher", "readOnly": True},
            {"name": "umiak-plan", "mountPath": f"{ROOT}/plan", "readOnly": True},
            *([{"name": "umiak-files", "mountPath": f"{ROOT}/files", "readOnly": True}] if extras.has_files else []),
            {"name": "umiak-work", "mountPath": f"{ROOT}/work"},
            *([{"name": "umiak-shm", "mountPath": SHARED_MEMORY}] if shared_memory else []),
            *map(_mount, settings.volumes),
        ],
    }
    if settings.pull_policy:
        container["imagePullPolicy"] = settings.pull_policy
    if resources := _resources(role, settings):
        container["resources"] = resources
    return container


def _resources(role: RoleSpec, settings: KubeSettings) -> JsonObject:
    """Memory and accelerators are asked for and limited alike; more CPU may be used where there is some."""
    wanted = role.resource
    requests, limits = {}, {}
    if wanted.cpus:
        requests["cpu"] = f"{round(wanted.cpus * 1000)}m" if wanted.cpus % 1 else str(int(wanted.cpus))
    if wanted.memory_bytes:
        requests["memory"] = limits["memory"] = quantity(wanted.memory_bytes)
    if wanted.devices:
        name = settings.resource_of(wanted.device)
        requests[name] = limits[name] = str(wanted.devices)
    resources = {"requests": requests, "limits": limits}
    return {name: each for name, each in resources.items() if each}


def _whereabouts(settings: KubeSettings) -> JsonObject:
    spec: JsonObject = {}
    if settings.scheduler and settings.scheduler != KUEUE:
        spec["schedulerName"] = settings.scheduler
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        spec["tolerations"] = [_toleration(each) for each in settings.tolerations]
    return spec


def _toleration(each: KubeToleration) -> dict[str, str]:
    toleration = {"operator": "Equal" if each.value else "Exists"}
    parts = {"key": each.key, "value": each.value, "effect": each.effect}
    return {**toleration, **{name: text for name, text in parts.items() if text}}


def _volume(volume: KubeVolume) -> JsonObject:
    source: JsonObject
    if volume.pvc:
        source = {
            "persistentVolumeClaim": {"claimName": volume.pvc, **({"readOnly": True} if volume.read_only else {})}
        }
    elif volume.host_path:
        source = {"hostPath": {"path": volume.host_path}}
    elif volume.nfs:
        server, _, path = volume.nfs.partition(":/")
        source = {"nfs": {"server": server, "path": f"/{path}"}}
    else:
        source = {"configMap": {"name": volume.config_map}}
    return {"name": volume.name, **source}


def _mount(volume: KubeVolume) -> JsonObject:
    return {
        "name": volume.name,
        "mountPath": volume.mount,
        **({"subPath": volume.sub_path} if volume.sub_path else {}),
        **({"readOnly": True} if volume.read_only else {}),
    }
