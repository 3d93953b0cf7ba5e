"""What keeps a job from running on the hosts of a place. A decider.

problems(job, host, HostFacts(free_bytes=0, ...), Needs(bytes=1 << 20))
"""

from __future__ import annotations

from umiak.core.job import FrameworkName
from umiak.core.problem import Problem, free_space
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job
    from umiak.core.json_types import JsonMapping
    from umiak.submit.backends.ssh.settings import SshHost, SshSettings

LEAST_FREE_BYTES = 8 << 20
"""For the launcher, plans and the first lines of logs."""
MOST_SKEW_S = 30.0
MIB = 1 << 20


@value
class HostFacts:
    """What a host said about itself."""

    now_s: float
    asked_s: float
    """Our clock, in the middle between question and answer."""
    unsure_s: float = 0.0
    """Half of the time in between."""
    python: str = ""
    executable: str = ""
    directory: str = ""
    unwritable: str = ""
    free_bytes: int = 0
    free_files: int | None = None
    import_error: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    needs_files: bool = False
    """Whether the job's files must be sent to it."""
    port: int = 0
    """Of the first host: one that is free."""
    devices: int = 0
    """Accelerators that a launcher finds there, if that was asked."""


def facts_of(answer: JsonMapping, asked_s: float, unsure_s: float) -> HostFacts:
    """From an agent's answer."""
    return HostFacts(**answer, asked_s=asked_s, unsure_s=unsure_s)


def disk_full(host: SshHost, path: str, why: str) -> Problem:
    """A disk of a host."""
    return Problem(
        code="UM-SUBMIT-107",
        what=f"{host.label}: disk full: {path}",
        why=why,
        hint=free_space(
            "name a directory on another disk: `directory`; `umiak hosts clean` removes old files of umiak",
            f"ssh {host.host} df -h",
        ),
    )


def of_host(host: SshHost, facts: HostFacts, framework: FrameworkName, needed_bytes: int) -> list[Problem]:
    """Everything that is wrong with one host."""
    problems = []
    if facts.free_bytes < needed_bytes or facts.free_files == 0:
        why = f"{facts.free_bytes / MIB:.0f} MiB left, {needed_bytes / MIB:.0f} MiB needed"
        problems.append(disk_full(host, facts.directory, why if facts.free_files != 0 else "no inodes are left"))
    elif facts.unwritable:
        problems.append(
            Problem(
                code="UM-SUBMIT-109",
                what=f"{host.label}: can't be written: {facts.directory}",
                why=facts.unwritable,
                hint='name a directory that you may write to in the place: `directory = "..."`',
            )
        )
    if facts.import_error:
        problems.append(
            Problem(
                code="UM-SUBMIT-108",
                what=f"{host.label}: can't be imported: {framework.value}",
                why=f"{facts.executable}: {facts.import_error}",
                hint='install it there, or name a Python that has it in the place: `python = "..."`',
            )
        )
    skew_s = abs(facts.now_s - facts.asked_s) - facts.unsure_s
    if skew_s > MOST_SKEW_S:
        problems.append(
            Problem(
                code="UM-SUBMIT-110",
                what=f"{host.label}: the clock is off by {skew_s:.0f} s",
                why="times of logs and certificates would be wrong",
                hint=f"set it: `ssh {host.host} timedatectl set-ntp true`",
            )
        )
    return problems


def of_job(job: Job, settings: SshSettings) -> list[Problem]:
    """What the number of hosts does not allow."""
    count = len(settings.hosts)
    if job.mode.has_servers or job.nodes.least <= count:
        return []
    return [
        Problem(
            code="UM-SUBMIT-112",
            what=f"too few hosts: {count} for {job.nodes} nodes",
            hint="ask for fewer nodes, or add hosts to the place",
        )
    ]
