"""Which launchers a job becomes on one machine, and what each is given;
what keeps a job from running there, and what of it fits. A decider.

    plan_of(job, "ctr-3f2a9c", directory="/home/me/ctr", python="/usr/bin/python3")   -> RunPlan

One machine is one node: all workers of a job are started by one launcher, servers as well. Only
where roles differ in their commands or variables each worker has a launcher of its own, and these meet as nodes do.

A job file is written for a cluster. Here its workers share the cores and the memory that there are,
and of accelerators each worker needs its own: as many workers are started as there are devices for. All of it is told.
"""

from __future__ import annotations

import os

from umiak.core.cluster import Role
from umiak.core.job import FrameworkName, Replicas
from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.submit.node.plan import LONGEST_GRACE_S, PlannedLauncher, RunPlan
from umiak.submit.payload import node_plan
from umiak.submit.payload.node_plan import PlaceTraits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umiak.core.devices import DeviceKind
    from umiak.core.job import Job, RoleSpec
    from umiak.submit.payload.node_plan import NodePlan

_COUNTS = {Role.SERVER: "--server_num", Role.TRAINER: "--trainer_num", Role.HETER: "--heter_worker_num"}


def plan_of(
    job: Job, run_id: str, *, directory: str, logs: str, python: str, start: Callable[[str], tuple[str, ...]]
) -> RunPlan:
    """The launchers of a job. ``logs``: the directory below which each has its own;
    ``start``: how Python starts a module of ours.
    """
    directory = _working_directory(job, directory)
    launchers = []
    for launcher, node in nodes_of(job, run_id, directory=directory, logs=logs):
        argv = (python, *start("umiak"), "launch", *node.launch)
        if has_data(job):
            argv = (python, *start("umiak.submit.payload.node_start"), f"{os.path.dirname(logs)}/{launcher.name}.json")
        launchers.append(replace(launcher, argv=argv, env=node.env))
    return RunPlan(run_id=run_id, directory=directory, launchers=tuple(launchers), time_limit_s=job.time_limit_s)


def has_data(job: Job) -> bool:
    """Whether something happens before or behind the launchers: then the plan of each is a file beside the run's."""
    return bool(job.inputs or job.outputs)


def nodes_of(job: Job, run_id: str, *, directory: str, logs: str) -> list[tuple[PlannedLauncher, NodePlan]]:
    """The launchers without their commands, each with what it does. ``directory``: where the job works."""
    traits = PlaceTraits(directory=directory, tee="none", grace_s=LONGEST_GRACE_S)
    nodes = []
    for launcher, role, processes in _launchers(job):
        own = replace(traits, log_directory=f"{logs}/{launcher.name}", processes=processes)
        nodes.append((launcher, node_plan.of(job, role, run_id, own)))
    return nodes


def _working_directory(job: Job, directory: str) -> str:
    return os.path.normpath(os.path.join(directory, job.files.root if job.files else "."))


def _launchers(job: Job) -> list[tuple[PlannedLauncher, RoleSpec, tuple[str, ...]]]:
    """Each with its role, and the flags that say how many processes it starts:
    one for all of the job, or else one for each worker of a role, whose placement says its role.
    """
    if is_uniform(job):
        return [(PlannedLauncher(name="launcher", argv=()), job.main_role, _processes(job))]
    return [
        (PlannedLauncher(name=f"{role.role.value}-{rank}", argv=(), role=role.role, first_rank=rank), role, ())
        for role in job.roles
        for rank in range(workers_of(role))
    ]


def is_uniform(job: Job) -> bool:
    """Whether one launcher can start all of it: every role runs the same with the same variables."""
    first = job.roles[0]
    return all(
        job.command_of(each) == job.command_of(first) and job.environment_of(each) == job.environment_of(first)
        for each in job.roles
    )


def workers_of(role: RoleSpec) -> int:
    """The processes of a role. Of an elastic one so many as its job needs at least:
    one machine neither grows nor shrinks.
    """
    return role.nodes.least * (role.workers or role.resource.devices or 1)


def _processes(job: Job) -> tuple[str, ...]:
    if job.mode.has_servers:
        counts = [word for role in job.roles for word in (_COUNTS[role.role], str(workers_of(role)))]
        return ("--run_mode", job.mode.value, *counts)
    role = job.main_role
    if role.workers or role.resource.devices or role.nodes.least > 1:
        return ("--nproc_per_node", str(workers_of(role)))
    return ()  # one for each device that there is


@value
class Machine:
    """What a job finds here."""

    cpus: int
    memory_bytes: int
    devices: int = 0
    device: DeviceKind | None = None
    has_framework: bool = True
    """Whether what the job wants to import is installed."""
    missing_files: frozenset[str] = frozenset()
    """Scripts of the job's commands, and its directory, that are not there."""


def problems(job: Job, machine: Machine) -> list[Problem]:
    """All of them."""
    problems = [
        Problem(code="UM-SUBMIT-020", what=f"no such file here: {name}", hint="paths count from the working directory")
        for name in sorted(machine.missing_files)
    ]
    for role in job.roles:
        problems += _resources(role, machine)
    if (job.inputs or job.outputs) and not is_uniform(job):
        problems.append(
            Problem(
                code="UM-SUBMIT-022",
                what="inputs and outputs can't be transferred on this machine for roles that differ",
                why="all roles work in one directory, and each would transfer them",
                hint="write `command` and `env` in the job, not in its roles; or read and write the data where it is",
            )
        )
    if job.role(Role.HETER) and not is_uniform(job):
        problems.append(
            Problem(
                code="UM-SUBMIT-023",
                what="roles with heter workers must have one command and one env on this machine",
                hint="write `command` and `env` in the job, not in its roles",
            )
        )
    return problems


def missing(job: Job, machine: Machine) -> list[Problem]:
    """What is to be installed here first."""
    if machine.has_framework or job.framework is FrameworkName.NONE:
        return []
    hint = "install it into the environment of this umiak, or run `umiak submit` in one that has it"
    return [Problem(code="UM-SUBMIT-021", what=f"framework is not installed: {job.framework.value}", hint=hint)]


def _resources(role: RoleSpec, machine: Machine) -> Iterator[Problem]:
    """Cores and memory are shared, and of some devices some workers can be started: see `fit`. Of none, nothing can."""
    wanted, name = role.resource, role.role.value
    if wanted.devices and not machine.devices:
        yield Problem(
            code="UM-SUBMIT-024",
            what=f"{name}: devices: {wanted.devices} per node, this machine has none",
            hint="submit it to another place: `--on PLACE`; or let it run without here, in job.yaml: `on: {local: {devices: 0}}`",
        )
    if wanted.devices and wanted.device and machine.devices and machine.device is not wanted.device:
        has = machine.device.value if machine.device else "none"
        what = f"{name}: device: {wanted.device.value}, this machine has {has}"
        hint = (
            "submit it to another place: `--on PLACE`, or override `device` in job.yaml: `on: {local: {device: null}}`"
        )
        yield Problem(code="UM-SUBMIT-024", what=what, hint=hint)


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
    """With no device at all nothing fits: that is an error of `problems`."""
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
    before, after = workers_of(role), workers_of(fewer)
    what = f"{role.role.value}: {after} workers are started here instead of {before}: this machine has {there} devices"
    return [_remark(what)]


def _shared(role: RoleSpec, machine: Machine) -> Iterator[Problem]:
    wanted, name = role.resource, role.role.value
    if wanted.cpus > machine.cpus:
        what = f"{name}: cpus: {wanted.cpus:g} per node, this machine has {machine.cpus}: all workers share these"
        yield _remark(what)
    if wanted.memory_bytes > machine.memory_bytes:
        sizes = [f"{each / GIB:.1f} GiB" for each in (wanted.memory_bytes, machine.memory_bytes)]
        yield _remark(f"{name}: memory: {sizes[0]} per node, this machine has {sizes[1]}: all workers share it")


def _remark(what: str) -> Problem:
    return Problem(code=CODE, what=what, hint="say what this machine shall get in job.yaml: `on: {local: {nodes: 1}}`")
