"""What follows from shared memory and limits. A decider."""

from __future__ import annotations

from umiak.doctor.judging.words import size, some
from umiak.doctor.verdicts import ok, problem, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.asked import Asked
    from umiak.doctor.facts import LimitFacts, ShmFacts
    from umiak.doctor.verdicts import DoctorFinding

DOCKER_SHM_BYTES = 64 << 20
"""What a container gets that nobody gave more: too little for any data loader with several processes."""
LITTLE_SHM_BYTES = 512 << 20
FEW_FILES, VERY_FEW_FILES = 1024, 256
FEW_PROCESSES, VERY_FEW_PROCESSES = 2048, 256
FEW_TASKS_LEFT = 512
MUCH_LOCKED_BYTES = 1 << 30


def shm(facts: ShmFacts, _asked: Asked) -> list[DoctorFinding]:
    """Whether data loaders and NCCL have room."""
    more = "docker run --shm-size 8g; in a pod mount an emptyDir with `medium: Memory` at /dev/shm"
    if not facts.exists:
        return [problem("UM-DOCTOR-120", "there is no /dev/shm", more)]
    if not facts.writable:
        return [problem("UM-DOCTOR-120", "this user can't write to /dev/shm", "chmod 1777 /dev/shm")]
    reason = f"{size(facts.total_bytes)} at /dev/shm, {size(facts.free_bytes)} of it free"
    if facts.total_bytes <= DOCKER_SHM_BYTES:
        return [problem("UM-DOCTOR-121", f"{reason}: data loaders end with a bus error", more)]
    if facts.free_bytes < LITTLE_SHM_BYTES:
        hint = more if facts.total_bytes < 2 * LITTLE_SHM_BYTES else "remove what dead programs left: `ls -lt /dev/shm`"
        return [warning("UM-DOCTOR-121", reason, hint)]
    return [ok(reason)]


def limits(facts: LimitFacts, asked: Asked) -> list[DoctorFinding]:
    """Whether processes may do what workers do."""
    found = []
    wanted = max(FEW_FILES, 256 + 4 * asked.workers * asked.most_nodes)
    if facts.open_files is not None and facts.open_files < wanted:
        more = facts.most_open_files is None or facts.most_open_files >= wanted
        hint = (
            f"`ulimit -n {wanted}`"
            if more
            else "raise nofile in /etc/security/limits.conf, or docker run --ulimit nofile=65536"
        )
        make = problem if facts.open_files < VERY_FEW_FILES else warning
        found.append(make("UM-DOCTOR-130", f"{facts.open_files} open files are allowed, {wanted} are wanted", hint))
    if facts.rdma and facts.locked_bytes is not None and facts.locked_bytes < MUCH_LOCKED_BYTES:
        reason = (
            f"{size(facts.locked_bytes)} of locked memory are allowed, and RDMA ({some(facts.rdma)}) needs much more"
        )
        hint = "`ulimit -l unlimited`, memlock in /etc/security/limits.conf, or docker run --ulimit memlock=-1"
        found.append(problem("UM-DOCTOR-131", reason, hint))
    if facts.processes is not None and facts.processes < FEW_PROCESSES:
        make = problem if facts.processes < VERY_FEW_PROCESSES else warning
        reason = f"{facts.processes} processes and threads are allowed to this user; a worker has about a hundred"
        found.append(make("UM-DOCTOR-132", reason, "`ulimit -u unlimited`, or nproc in /etc/security/limits.conf"))
    if facts.tasks is not None and facts.tasks - facts.tasks_now < FEW_TASKS_LEFT:
        reason = f"{facts.tasks} tasks are allowed in this control group, {facts.tasks_now} are there"
        found.append(
            warning("UM-DOCTOR-133", reason, "docker run --pids-limit -1; systemd: TasksMax=infinity; or podPidsLimit")
        )
    locked = "unlimited" if facts.locked_bytes is None else size(facts.locked_bytes)
    shown = f"open files {_number(facts.open_files)}, locked memory {locked}, processes {_number(facts.processes)}"
    return found or [ok(shown)]


def _number(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)
