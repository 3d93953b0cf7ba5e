"""What a job becomes for PAI DLC: the body of its request, and the keys of a place. A decider.

DLC has no kind of job for Paddle, and takes any command: a PyTorchJob says to each node its number and where the first
one is, a TFJob says to servers and workers the addresses of all of them, in TF_CONFIG. Both are read by
`umiak.platforms`.
"""

from __future__ import annotations

import shlex

from umiak.core.cluster import Role
from umiak.core.problem import Problem
from umiak.schema import kinds
from umiak.schema.settings import setting, settings
from umiak.submit.backends.cloud import settings as cloud

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job, RoleSpec
    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.cloud.layout import CloudLayout, CloudMount
    from umiak.submit.backends.cloud.settings import CloudSettings

PAGE = "docs/how-to/submit-pai.md"
TAG = "umiak-run"
GIB = 1 << 30
NODES = {Role.SERVER: "PS", Role.TRAINER: "Worker"}
"""What a TFJob calls a role."""


@settings
class PaiSettings:
    """A place with PAI."""

    common: CloudSettings = cloud.common(store="oss://bucket/folder", directory="/mnt/umiak")
    workspace: str = setting(kinds.TEXT, "Workspace id.", required=True)
    quota: str = setting(kinds.TEXT, "Id of a resource quota.", default="", default_text="pay as you go")
    spec: str = setting(
        kinds.TEXT,
        "Instance type of the nodes, such as `ecs.g6.xlarge`.",
        default="",
        default_text="none: what the job says, out of `quota`",
    )
    server_spec: str = setting(
        kinds.TEXT, "Instance type of the nodes with servers.", default="", default_text="`spec`"
    )
    priority: int | None = setting(kinds.WHOLE, "Priority, from 1 to 9.", least=1, default=None)
    vpc: str = setting(kinds.TEXT, "VPC id.", default="")
    switch: str = setting(kinds.TEXT, "vSwitch id, with `vpc`.", default="")
    security_group: str = setting(kinds.TEXT, "Security group id, with `vpc`.", default="")

    def spec_of(self, role: Role) -> str:
        """The instance type of the nodes of a role; empty: none."""
        specs = {Role.TRAINER: self.spec, Role.SERVER: self.server_spec or self.spec}
        return specs.get(role, "")


def problems(job: Job, own: PaiSettings) -> list[Problem]:
    """What keeps a job from DLC."""
    problems = cloud.wrong_store(own.common, "PAI", "oss")
    place = own.common.place
    if job.role(Role.HETER):
        hint = "run it on Kubernetes, or without heter workers"
        problems.append(Problem(code="UM-SUBMIT-264", what="a TFJob of PAI has no nodes for heter workers", hint=hint))
    if not own.quota and any(not own.spec_of(each.role) for each in job.roles):
        hint = f"write `spec =` in [place.{place}], or `quota =` for resources of your own"
        problems.append(Problem(code="UM-SUBMIT-270", what="PAI without a quota needs an instance type", hint=hint))
    return problems


def remarks(job: Job, own: PaiSettings) -> list[Problem]:
    """Roles that say what their nodes need, on nodes of an instance type."""
    return [
        Problem(
            code="UM-SUBMIT-371",
            what=f"{each.role.value}: cpus, memory and shared_memory have no effect on nodes of the type {own.spec_of(each.role)}",
            hint=f"leave them out, or leave the instance type out of [place.{own.common.place}] and name a `quota`",
        )
        for each in job.roles
        if own.spec_of(each.role)
        and (each.resource.cpus or each.resource.memory_bytes or each.resource.shared_memory_bytes)
    ]


def body(job: Job, layout: CloudLayout, own: PaiSettings) -> JsonObject:
    """The request."""
    has_roles = job.mode.has_servers
    command = shlex.join(layout.words)
    body: JsonObject = {
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
        body["ResourceId"] = own.quota
    if own.priority:
        body["Priority"] = own.priority
    if job.time_limit_s:
        body["JobMaxRunningTimeMinutes"] = -(-job.time_limit_s // 60)
    if has_roles:
        body["SuccessPolicy"] = "AllWorkers"  # servers wait for their workers
    if own.vpc:
        ids = {"VpcId": own.vpc, "SwitchId": own.switch, "SecurityGroupId": own.security_group}
        body["UserVpc"] = {name: text for name, text in ids.items() if text}
    return body


def _torch_specs(job: Job, own: PaiSettings) -> list[JsonObject]:
    """One node is the master; it is node 0 of all."""
    role = job.roles[0]
    master = {"Type": "Master", "PodCount": 1, **_node(job, role, own)}
    rest = role.nodes.most - 1
    return [master, *([{"Type": "Worker", "PodCount": rest, **_node(job, role, own)}] if rest else [])]


def _tf_specs(job: Job, own: PaiSettings) -> list[JsonObject]:
    return [
        {"Type": NODES.get(each.role, each.role.value), "PodCount": each.nodes.most, **_node(job, each, own)}
        for each in job.roles
    ]


def _node(job: Job, role: RoleSpec, own: PaiSettings) -> JsonObject:
    node: JsonObject = {"Image": job.image or own.common.image, "RestartPolicy": "Never"}
    if own.spec_of(role.role):
        return {**node, "EcsSpec": own.spec_of(role.role)}
    needs = role.resource
    resource = {
        "CPU": f"{needs.cpus:g}" if needs.cpus else "",
        "Memory": f"{-(-needs.memory_bytes // GIB)}Gi" if needs.memory_bytes else "",
        "SharedMemory": f"{-(-needs.shared_memory_bytes // GIB)}Gi" if needs.shared_memory_bytes else "",
        "GPU": str(needs.devices) if needs.devices else "",
    }
    return {**node, "ResourceConfig": {name: text for name, text in resource.items() if text}}


def _source(mount: CloudMount, own: PaiSettings) -> JsonObject:
    bucket = mount.bucket or own.common.bucket
    access = "RW" if mount.is_written else "RO"
    return {"Uri": f"oss://{bucket}/{mount.key}", "MountPath": mount.path, "MountAccess": access}
