"""What keeps a job from running on this machine. A decider.

problems(job, Machine(cpus=8, memory_bytes=16 << 30, devices=0, ...))
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.job import FrameworkName
from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.submit.backends.local.plan import is_uniform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.devices import DeviceKind
    from umiak.core.job import Job, RoleSpec


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


def scripts(job: Job) -> tuple[str, ...]:
    """The files that the job's commands name, from its working directory."""
    commands = [job.command_of(role) for role in job.roles]
    return tuple(dict.fromkeys(words[0] for words in commands if words and words[0].endswith(".py")))


def problems(job: Job, machine: Machine) -> list[Problem]:
    """All of them."""
    found = [
        Problem(code="UM-SUBMIT-020", what=f"no such file here: {name}", hint="paths count from the working directory")
        for name in sorted(machine.missing_files)
    ]
    for role in job.roles:
        found += _resources(role, machine)
    if (job.inputs or job.outputs) and not is_uniform(job):
        found.append(
            Problem(
                code="UM-SUBMIT-022",
                what="inputs and outputs can't be transferred on this machine for roles that differ",
                why="all roles work in one directory, and each would transfer them",
                hint="write `command` and `env` in the job, not in its roles; or read and write the data where it is",
            )
        )
    if job.role(Role.HETER) and not is_uniform(job):
        found.append(
            Problem(
                code="UM-SUBMIT-023",
                what="roles with heter workers must have one command and one env on this machine",
                hint="write `command` and `env` in the job, not in its roles",
            )
        )
    return found


def missing(job: Job, machine: Machine) -> list[Problem]:
    """What is to be installed here first."""
    if machine.has_framework or job.framework is FrameworkName.NONE:
        return []
    hint = "install it into the environment of this umiak, or run `umiak submit` in one that has it"
    return [Problem(code="UM-SUBMIT-021", what=f"framework is not installed: {job.framework.value}", hint=hint)]


def _resources(role: RoleSpec, machine: Machine) -> list[Problem]:
    """Cores and memory are shared, and of some devices some workers can be started: see `fitting`. Of none, nothing can."""
    wanted, name = role.resource, role.role.value
    found = []
    if wanted.devices and not machine.devices:
        found.append(
            Problem(
                code="UM-SUBMIT-024",
                what=f"{name}: devices: {wanted.devices} per node, this machine has none",
                hint="submit it to another place: `--on PLACE`; or let it run without here, in job.yaml: `on: {local: {devices: 0}}`",
            )
        )
    if wanted.devices and wanted.device and machine.devices and machine.device is not wanted.device:
        has = machine.device.value if machine.device else "none"
        what = f"{name}: device: {wanted.device.value}, this machine has {has}"
        hint = (
            "submit it to another place: `--on PLACE`, or override `device` in job.yaml: `on: {local: {device: null}}`"
        )
        found.append(Problem(code="UM-SUBMIT-024", what=what, hint=hint))
    return found
