"""The workers of a run on this machine, found by what is in their environment; and its launchers.
An adapter, Linux only.

    find("ctr-3f2a9c")     RunWorker(role="trainer", rank=0, pid=4711, environ={...}, directory="/home/me/ctr")

Only processes of this user can be looked at, and only those are found.
What was started by `umiak exec` is none of them.
"""

from __future__ import annotations

import os

from umiak.adapters import identity
from umiak.contracts.native import EXEC, GENERATION, JOB_ID, RANK, ROLE
from umiak.contracts.start import TOKEN
from umiak.core.names import is_digits
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_FOR_WORKERS = (TOKEN, identity.SUPERVISOR)


@value
class RunWorker:
    """A worker, or, where none runs, a launcher."""

    pid: int
    role: str = ""
    """Empty: a launcher."""
    rank: int = -1
    environ: dict[str, str]
    directory: str
    """Where the job works: its launcher's directory. A worker may have gone elsewhere."""


def find(run_id: str, below: str = "") -> list[RunWorker]:
    """The workers that run now, by role and rank.
    ``below``: only those whose job works there, where a machine is several nodes of a run.
    """
    seen: dict[tuple[str, int], tuple[tuple[int, int], int, dict[str, str]]] = {}
    for pid in _own_processes():
        environ = _environment(pid)
        role, rank = environ.get(ROLE, ""), environ.get(RANK, "")
        if environ.get(JOB_ID) != run_id or EXEC in environ or not role or not is_digits(rank):
            continue
        generation = environ.get(GENERATION, "")
        # A worker's own processes have its variables too, and began after it.
        order = -int(generation) if is_digits(generation) else 0, _started(pid)
        key = role, int(rank)
        if key not in seen or order < seen[key][0]:
            seen[key] = order, pid, environ
    workers = [
        RunWorker(pid=pid, role=role, rank=rank, environ=environ, directory=_directory(_parent(pid)) or _directory(pid))
        for (role, rank), (_, pid, environ) in sorted(seen.items())
    ]
    return [each for each in workers if _is_below(each.directory, below)]


def _is_below(directory: str, below: str) -> bool:
    return not below or f"{directory}/".startswith(f"{below.rstrip('/')}/")


def launcher(run_id: str, below: str = "") -> RunWorker | None:
    """A launcher of the run, with what its workers would inherit: for commands while no worker runs.
    ``below``: as with `find`.
    """
    words = [b"--job_id", os.fsencode(run_id)]
    for pid in sorted(_own_processes(), key=_started):
        given = _read(f"/proc/{pid}/cmdline").split(b"\0")
        if any(given[index : index + 2] == words for index in range(len(given))):
            environ = _environment(pid)
            if environ and EXEC not in environ and _is_below(_directory(pid), below):
                kept = {name: text for name, text in environ.items() if name not in _NOT_FOR_WORKERS}
                return RunWorker(pid=pid, environ=kept, directory=_directory(pid))
    return None


def _own_processes() -> Iterator[int]:
    own = os.geteuid()
    for name in os.listdir("/proc"):
        if is_digits(name):
            try:
                if os.stat(f"/proc/{name}").st_uid == own:
                    yield int(name)
            except OSError:
                continue  # it ended while we looked


def _environment(pid: int) -> dict[str, str]:
    parts = [each.partition(b"=") for each in _read(f"/proc/{pid}/environ").split(b"\0")]
    return {os.fsdecode(name): os.fsdecode(text) for name, equals, text in parts if equals and name}


def _started(pid: int) -> int:
    """In ticks since the machine booted; a process that is gone comes last."""
    fields = _stat(pid)
    return int(fields[19]) if len(fields) > 19 else 1 << 62


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def _stat(pid: int) -> list[bytes]:
    text = _read(f"/proc/{pid}/stat")
    # The command's name stands in brackets and may hold anything, so count from its last bracket.
    return text[text.rindex(b")") + 2 :].split() if b")" in text else []


def _directory(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
