"""What a job becomes for AIHC: the body of its request, and the keys of a place. A decider.

AIHC knows one kind of job, PyTorchJob, whose nodes are all alike: each is told its number and where the first one is.
Of a job with servers the first nodes are the servers, which `umiak.submit.payload.cloud_start` finds out by their
numbers.
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
    from umiak.core.job import Job, Resource
    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.cloud.layout import CloudLayout, CloudMount
    from umiak.submit.backends.cloud.settings import CloudSettings

PAGE = "docs/how-to/submit-baidu.md"
LABEL = "umiak-run"
GIB = 1 << 30


@settings
class AihcSettings:
    """A place with AIHC."""

    common: CloudSettings = cloud.common(store="bos://bucket/folder", directory="/mnt/umiak")
    pool: str = setting(
        kinds.TEXT, "Id of the resource pool, such as `cce-1a2b3c`, or `aihc-serverless`.", required=True
    )
    queue: str = setting(kinds.TEXT, "Queue: its name, or its id in a managed pool.", required=True)
    device: str = setting(
        kinds.TEXT, "Resource name of the accelerators, such as `baidu.com/a800_80g_cgpu`.", default=""
    )
    priority: str = setting(kinds.CHOICE, "Priority in the queue.", choices=("high", "normal", "low"), default="normal")
    rdma: bool = setting(kinds.TRUTH, "Use the pool's RDMA network.", default=False)


def problems(job: Job, own: AihcSettings) -> list[Problem]:
    """What keeps a job from AIHC."""
    problems = cloud.wrong_store(own.common, "AIHC", "bos")
    place = own.common.place
    if any(each.resource.devices for each in job.roles) and not own.device:
        hint = f'write `device = "baidu.com/a800_80g_cgpu"`, or what your pool has, in [place.{place}]'
        what = "the job wants devices, and the place does not say what AIHC calls them"
        problems.append(Problem(code="UM-SUBMIT-270", what=what, hint=hint))
    if len({each.resource for each in job.roles}) > 1:
        hint = (
            "give all roles the same `cpus`, `memory` and `devices`, in a file for several places below "
            f"`on: {{{place}: ...}}`; or run it on Kubernetes"
        )
        what = "the roles of the job need different nodes, and all nodes of a job on AIHC are alike"
        problems.append(Problem(code="UM-SUBMIT-264", what=what, hint=hint))
    return problems


def body(job: Job, layout: CloudLayout, own: AihcSettings) -> JsonObject:
    """The request, without the pool and the queue, which stand in its query."""
    return {
        "name": layout.name,
        "command": shlex.join(layout.words),
        "jobType": "PyTorchJob",
        "priority": own.priority,
        "jobSpec": {
            "image": job.image or own.common.image,
            "replicas": job.nodes.most,
            "resources": resources(job.roles[0].resource, own.device),
            "enableRDMA": own.rdma,
        },
        "labels": [{"key": LABEL, "value": layout.name}, {"key": "umiak-roles", "value": roles_word(job)}],
        "datasources": [_source(each, own) for each in layout.mounts],
    }


def resources(needs: Resource, device: str) -> list[JsonObject]:
    """What one node needs, in AIHC's names and units."""
    resources = {
        "cpu": needs.cpus,
        "memory": -(-needs.memory_bytes // GIB),
        "sharedMemory": -(-needs.shared_memory_bytes // GIB),
        device: needs.devices,
    }
    return [{"name": name, "quantity": amount} for name, amount in resources.items() if name and amount]


def roles_word(job: Job) -> str:
    """The roles in the order of the nodes' numbers, for a label: ``server-2.trainer-4``."""
    order = (Role.SERVER, Role.TRAINER, Role.HETER)
    roles = sorted(job.roles, key=lambda each: order.index(each.role))
    return ".".join(f"{each.role.value}-{each.nodes.most}" for each in roles)


def seat(word: str, rank: int) -> tuple[Role, int]:
    """The role of node number ``rank``, and its number in that role; a trainer if the label says nothing."""
    left = rank
    for part in word.split(".") if word else ():
        name, _, count = part.rpartition("-")
        role = next((each for each in Role if each.value == name), None)
        if role is None or not count.isdigit():
            break
        if left < int(count):
            return role, left
        left -= int(count)
    return Role.TRAINER, rank


def _source(mount: CloudMount, own: AihcSettings) -> JsonObject:
    bucket = mount.bucket or own.common.bucket
    return {
        "type": "bos",
        "name": "",
        "sourcePath": f"bos:/{bucket}/{mount.key}",
        "mountPath": mount.path,
        "options": {"readOnly": not mount.is_written},
    }
