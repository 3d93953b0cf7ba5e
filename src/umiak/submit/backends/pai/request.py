"""What a job becomes for PAI DLC: the body of its request, and the keys of a place. A decider.

DLC has no kind of job for Paddle, and takes any command: a PyTorchJob says to each node its number and where the first one is, a TFJob
says to servers and workers the addresses of all of them, in TF_CONFIG. Both are read by `umiak.platforms`.
"""

from __future__ import annotations

import shlex

from umiak.core.cluster import Role
from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.schema import kinds
from umiak.schema.keys import Key
from umiak.submit.backends.cloud import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.job import Job, RoleSpec
    from umiak.schema.sections import Said
    from umiak.submit.backends.cloud.layout import CloudLayout, CloudMount
    from umiak.submit.backends.cloud.settings import CloudSettings

PAGE = "docs/how-to/submit-pai.md"
TAG = "umiak-run"
GIB = 1 << 30
NODES = {Role.SERVER: "PS", Role.TRAINER: "Worker"}
"""What a TFJob calls a role."""

TABLE = settings.table(
    Key(name="workspace", meaning="Workspace id.", kind=kinds.TEXT, required=True),
    Key(name="quota", meaning="Id of a resource quota.", kind=kinds.TEXT, default_said="pay as you go"),
    Key(
        name="spec",
        meaning="Instance type of the nodes, such as `ecs.g6.xlarge`.",
        kind=kinds.TEXT,
        default_said="none: what the job says, out of `quota`",
    ),
    Key(name="server_spec", meaning="Instance type of the nodes with servers.", kind=kinds.TEXT, default_said="`spec`"),
    Key(name="priority", meaning="Priority, from 1 to 9.", kind=kinds.WHOLE, least=1),
    Key(name="vpc", meaning="VPC id.", kind=kinds.TEXT),
    Key(name="switch", meaning="vSwitch id, with `vpc`.", kind=kinds.TEXT),
    Key(name="security_group", meaning="Security group id, with `vpc`.", kind=kinds.TEXT),
    store="oss://bucket/folder",
    directory="/mnt/umiak",
)


@value
class PaiSettings:
    """What is PAI's own."""

    common: CloudSettings
    workspace: str
    quota: str
    specs: tuple[tuple[Role, str], ...]
    priority: int
    vpc: tuple[str, str, str]

    def spec(self, role: Role) -> str:
        return dict(self.specs).get(role, "")


def settings_of(said: Said, place: str) -> PaiSettings:
    """The settings of a place."""

    def text(name: str) -> str:
        return said.text(name) or ""

    return PaiSettings(
        common=settings.common(said, place),
        workspace=text("workspace"),
        quota=text("quota"),
        specs=((Role.TRAINER, text("spec")), (Role.SERVER, text("server_spec") or text("spec"))),
        priority=int(said.get("priority") or 0),
        vpc=(text("vpc"), text("switch"), text("security_group")),
    )


def problems(job: Job, own: PaiSettings) -> list[Problem]:
    """What keeps a job from DLC."""
    found = []
    place = own.common.place
    if own.common.scheme != "oss":
        hint = f'write `store = "oss://bucket/folder"` in [place.{place}]'
        found.append(Problem(code="UM-SUBMIT-271", what=f"PAI reads from OSS only: {own.common.store}", hint=hint))
    if job.role(Role.HETER):
        hint = "run it on Kubernetes, or without heter workers"
        found.append(Problem(code="UM-SUBMIT-264", what="a TFJob of PAI has no nodes for heter workers", hint=hint))
    if not own.quota and any(not own.spec(each.role) for each in job.roles):
        hint = f"write `spec =` in [place.{place}], or `quota =` for resources of your own"
        found.append(Problem(code="UM-SUBMIT-270", what="PAI without a quota needs an instance type", hint=hint))
    return found


def remarks(job: Job, own: PaiSettings) -> list[Problem]:
    """Roles that say what their nodes need, on nodes of an instance type."""
    return [
        Problem(
            code="UM-SUBMIT-371",
            what=f"{each.role.value}: cpus, memory and shared_memory have no effect on nodes of the type {own.spec(each.role)}",
            hint=f"leave them out, or leave the instance type out of [place.{own.common.place}] and name a `quota`",
        )
        for each in job.roles
        if own.spec(each.role)
        and (each.resource.cpus or each.resource.memory_bytes or each.resource.shared_memory_bytes)
    ]


def body(job: Job, layout: CloudLayout, own: PaiSettings) -> dict[str, Any]:
    """The request."""
    has_roles = job.mode.has_servers
    command = shlex.join(layout.words)
    made: dict[str, Any] = {
        "DisplayName": layout.name,
        "Description": f"umiak run {layout.run_id}",
        "WorkspaceId": own.workspace,
        "JobType": "TFJob" if has_roles else "PyTorchJob",
        "UserCommand": command,
        "JobSpecs": _tf_specs(job, own) if has_roles else _torch_specs(job, own),
        "DataSources": [_source(each, own) for each in layout.mounts],
        "Settings": {"Tags": {TAG: layout.name}},
    }
    if own.quota:
        made["ResourceId"] = own.quota
    if own.priority:
        made["Priority"] = own.priority
    if job.time_limit_s:
        made["JobMaxRunningTimeMinutes"] = -(-job.time_limit_s // 60)
    if has_roles:
        made["SuccessPolicy"] = "AllWorkers"  # servers wait for their workers
    if own.vpc[0]:
        names = ("VpcId", "SwitchId", "SecurityGroupId")
        made["UserVpc"] = {name: text for name, text in zip(names, own.vpc, strict=True) if text}
    return made


def _torch_specs(job: Job, own: PaiSettings) -> list[dict[str, Any]]:
    """One node is the master; it is node 0 of all."""
    role = job.roles[0]
    master = {"Type": "Master", "PodCount": 1, **_node(job, role, own)}
    rest = role.nodes.most - 1
    return [master, *([{"Type": "Worker", "PodCount": rest, **_node(job, role, own)}] if rest else [])]


def _tf_specs(job: Job, own: PaiSettings) -> list[dict[str, Any]]:
    return [
        {"Type": NODES.get(each.role, each.role.value), "PodCount": each.nodes.most, **_node(job, each, own)}
        for each in job.roles
    ]


def _node(job: Job, role: RoleSpec, own: PaiSettings) -> dict[str, Any]:
    made: dict[str, Any] = {"Image": job.image or own.common.image, "RestartPolicy": "Never"}
    if own.spec(role.role):
        return {**made, "EcsSpec": own.spec(role.role)}
    needs = role.resource
    resource = {
        "CPU": f"{needs.cpus:g}" if needs.cpus else "",
        "Memory": f"{-(-needs.memory_bytes // GIB)}Gi" if needs.memory_bytes else "",
        "SharedMemory": f"{-(-needs.shared_memory_bytes // GIB)}Gi" if needs.shared_memory_bytes else "",
        "GPU": str(needs.devices) if needs.devices else "",
    }
    return {**made, "ResourceConfig": {name: text for name, text in resource.items() if text}}


def _source(mount: CloudMount, own: PaiSettings) -> dict[str, Any]:
    bucket = mount.bucket or own.common.bucket
    access = "RW" if mount.is_written else "RO"
    return {"Uri": f"oss://{bucket}/{mount.key}", "MountPath": mount.path, "MountAccess": access}
