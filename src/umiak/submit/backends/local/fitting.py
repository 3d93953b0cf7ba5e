"""What of a job fits on this machine: fewer devices, and cores and memory as they are. A decider.

    fitted = fit(job, machine)
    fitted.job, fitted.remarks

A job file is written for a cluster. Here its workers share the cores and the memory that there are, and of accelerators each worker needs
its own: as many workers are started as there are devices for. All of it is told.
"""

from __future__ import annotations

from umiak.core.job import Replicas
from umiak.core.problem import Problem
from umiak.core.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job, RoleSpec
    from umiak.submit.backends.local.checks import Machine

GIB = 1 << 30
CODE = "UM-SUBMIT-373"


@value
class FittedJob:
    """A job as this machine can start it."""

    job: Job
    remarks: tuple[Problem, ...] = ()
    """What is less here than the job asks for."""


def fit(job: Job, machine: Machine) -> FittedJob:
    """The same job, with fewer workers where their devices are missing."""
    roles, remarks = [], []
    for role in job.roles:
        fewer = _on_devices(role, machine.devices)
        roles.append(fewer)
        remarks += [*_shared(role, machine), *_told(role, fewer, machine.devices)]
    return FittedJob(job=replace(job, roles=tuple(roles)) if remarks else job, remarks=tuple(remarks))


def _on_devices(role: RoleSpec, there: int) -> RoleSpec:
    """With no device at all nothing fits: that is an error of `checks`."""
    wanted = role.resource.devices
    if not wanted or not there or role.nodes.least * wanted <= there:
        return role
    if wanted <= there:
        count = there // wanted
        return replace(role, nodes=Replicas(least=count, most=count))
    workers = None if role.workers is None else max(1, role.workers * there // wanted)
    return replace(
        role,
        nodes=Replicas(),
        workers=workers,
        resource=replace(role.resource, devices=there),
    )


def _told(role: RoleSpec, fewer: RoleSpec, there: int) -> list[Problem]:
    if fewer == role:
        return []
    before, after = _workers(role), _workers(fewer)
    what = f"{role.role.value}: {after} workers are started here instead of {before}: this machine has {there} devices"
    return [_remark(what)]


def _workers(role: RoleSpec) -> int:
    return role.nodes.least * (role.workers or role.resource.devices or 1)


def _shared(role: RoleSpec, machine: Machine) -> list[Problem]:
    wanted, name = role.resource, role.role.value
    found = []
    if wanted.cpus > machine.cpus:
        what = f"{name}: cpus: {wanted.cpus:g} per node, this machine has {machine.cpus}: all workers share these"
        found.append(_remark(what))
    if wanted.memory_bytes > machine.memory_bytes:
        sizes = [f"{each / GIB:.1f} GiB" for each in (wanted.memory_bytes, machine.memory_bytes)]
        found.append(_remark(f"{name}: memory: {sizes[0]} per node, this machine has {sizes[1]}: all workers share it"))
    return found


def _remark(what: str) -> Problem:
    return Problem(code=CODE, what=what, hint="say what this machine shall get in job.yaml: `on: {local: {nodes: 1}}`")
