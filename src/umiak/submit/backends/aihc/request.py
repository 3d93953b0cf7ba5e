"""What a job becomes for AIHC: the body of its request, and the keys of a place. A decider.

AIHC knows one kind of job, PyTorchJob, whose nodes are all alike: each is told its number and where the first one is. Of a job with
servers the first nodes are the servers, which `umiak.submit.payload.cloud_start` finds out by their numbers.
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

    from umiak.core.job import Job, Resource
    from umiak.schema.sections import Said
    from umiak.submit.backends.cloud.layout import CloudLayout, CloudMount
    from umiak.submit.backends.cloud.settings import CloudSettings

PAGE = "docs/how-to/submit-baidu.md"
LABEL = "umiak-run"
GIB = 1 << 30

TABLE = settings.table(
    Key(
        name="pool",
        meaning="Id of the resource pool, such as `cce-1a2b3c`, or `aihc-serverless`.",
        kind=kinds.TEXT,
        required=True,
    ),
    Key(name="queue", meaning="Queue: its name, or its id in a managed pool.", kind=kinds.TEXT, required=True),
    Key(
        name="device",
        meaning="Resource name of the accelerators, such as `baidu.com/a800_80g_cgpu`.",
        kind=kinds.TEXT,
    ),
    Key(
        name="priority",
        meaning="Priority in the queue.",
        kind=kinds.CHOICE,
        choices=("high", "normal", "low"),
        default="normal",
    ),
    Key(name="rdma", meaning="Use the pool's RDMA network.", kind=kinds.TRUTH, default=False),
    store="bos://bucket/folder",
    directory="/mnt/umiak",
)


@value
class AihcSettings:
    """What is AIHC's own."""

    common: CloudSettings
    pool: str
    queue: str
    device: str
    priority: str
    rdma: bool


def settings_of(said: Said, place: str) -> AihcSettings:
    """The settings of a place."""

    def text(name: str) -> str:
        return said.text(name) or ""

    return AihcSettings(
        common=settings.common(said, place),
        pool=text("pool"),
        queue=text("queue"),
        device=text("device"),
        priority=text("priority"),
        rdma=said.truth("rdma"),
    )


def problems(job: Job, own: AihcSettings) -> list[Problem]:
    """What keeps a job from AIHC."""
    found = []
    place = own.common.place
    if own.common.scheme != "bos":
        hint = f'write `store = "bos://bucket/folder"` in [place.{place}]'
        found.append(Problem(code="UM-SUBMIT-271", what=f"AIHC reads from BOS only: {own.common.store}", hint=hint))
    if any(each.resource.devices for each in job.roles) and not own.device:
        hint = f'write `device = "baidu.com/a800_80g_cgpu"`, or what your pool has, in [place.{place}]'
        what = "the job wants devices, and the place does not say what AIHC calls them"
        found.append(Problem(code="UM-SUBMIT-270", what=what, hint=hint))
    if len({each.resource for each in job.roles}) > 1:
        hint = (
            "give all roles the same `cpus`, `memory` and `devices`, in a file for several places below "
            f"`on: {{{place}: ...}}`; or run it on Kubernetes"
        )
        what = "the roles of the job need different nodes, and all nodes of a job on AIHC are alike"
        found.append(Problem(code="UM-SUBMIT-264", what=what, hint=hint))
    return found


def body(job: Job, layout: CloudLayout, own: AihcSettings) -> dict[str, Any]:
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


def resources(needs: Resource, device: str) -> list[dict[str, Any]]:
    """What one node needs, in AIHC's names and units."""
    found = {
        "cpu": needs.cpus,
        "memory": -(-needs.memory_bytes // GIB),
        "sharedMemory": -(-needs.shared_memory_bytes // GIB),
        device: needs.devices,
    }
    return [{"name": name, "quantity": amount} for name, amount in found.items() if name and amount]


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


def _source(mount: CloudMount, own: AihcSettings) -> dict[str, Any]:
    bucket = mount.bucket or own.common.bucket
    return {
        "type": "bos",
        "name": "",
        "sourcePath": f"bos:/{bucket}/{mount.key}",
        "mountPath": mount.path,
        "options": {"readOnly": not mount.is_written},
    }
