"""The processes of a run's workers on this machine, and where one of them is in its program. An adapter.

    found = workers_of("/home/ada/ctr/log", Locks())      {"trainer.0": ProcessSight(pid=4711, ...)}
    stack_of(found["trainer.0"])                          what py-spy says, if it is installed

Workers are found below the process that keeps the journal locked, by the variables of their own environments, which only their owner can read. A
worker is looked at and never stopped: py-spy reads its memory while it goes on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from umiak.adapters import process
from umiak.contracts import native
from umiak.core.shown import without_sequences
from umiak.core.value import value
from umiak.dashboard.search import JOURNAL
from umiak.dashboard.workers.ranks import ProcessSight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.dashboard.files import Locks

PROGRAM = "py-spy"
STACK_WITHIN_S = 15.0
LARGEST_STACK = 1 << 20
STATES = {"R": "computing", "S": "sleeping", "D": "waiting for a disk or a device", "T": "stopped", "Z": "ended"}
NO_PROGRAM = "py-spy is not installed: `pip install py-spy`. With `umiak launch --hang_timeout` workers write their stacks themselves when one of them hangs"


@value
class WorkerStack:
    """Where a worker is in its program; or why that can't be seen."""

    text: str = ""
    why: str = ""


def workers_of(directory: str, locks: Locks) -> dict[str, ProcessSight]:
    """By their keys, such as ``trainer.0``; none if the launcher is not of this machine, or has ended."""
    launcher = locks.holder(os.path.join(directory, JOURNAL))
    found: dict[str, ProcessSight] = {}
    for pid, _ in process.descendants(launcher) if launcher else ():
        key = _key_of(pid)
        if key and key not in found:  # what a worker has started has its variables, and comes behind it
            seen = _seen(pid)
            if seen is not None:
                found[key] = seen
    return found


def stack_of(worker: ProcessSight) -> WorkerStack:
    """The stacks of all its threads."""
    beside = os.path.dirname(sys.executable)
    program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=beside)
    if program is None:
        return WorkerStack(why=NO_PROGRAM)
    try:
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--pid", str(worker.pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=STACK_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return WorkerStack(why=f"py-spy has said nothing for {STACK_WITHIN_S:.0f} s")
    except OSError as error:
        return WorkerStack(why=f"py-spy can't be run: {error.strerror}")
    text = without_sequences(done.stdout[:LARGEST_STACK].decode(errors="replace"))
    # Its first line has the command with all arguments, and somebody's password may be among them.
    text = re.sub(r"\AProcess (\d+):.*\n", r"Process \1\n", text)
    if done.returncode or not text.strip():
        said = without_sequences(done.stderr.decode(errors="replace")).strip().splitlines()
        return WorkerStack(
            text=text, why=f"py-spy could not look at it: {said[-1] if said else 'it said nothing'}"[:1000]
        )
    return WorkerStack(text=text)


def _key_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [entry.partition("=") for entry in os.fsdecode(file.read()).split("\0")]
    except OSError:
        return ""  # it has ended, or is somebody else's
    environ = {name: text for name, _, text in pairs}
    role, number = environ.get(native.ROLE, ""), environ.get(native.LOCAL_RANK, "")
    return f"{role}.{number}" if role and number else ""


def _seen(pid: int) -> ProcessSight | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    words = text[text.rindex(b")") + 2 :].split()  # the name of the program may hold anything
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    return ProcessSight(
        pid=pid,
        does=STATES.get(words[0].decode(), words[0].decode()),
        cpu_s=(int(words[11]) + int(words[12])) / ticks,
        memory_bytes=int(words[21]) * page,
        threads=int(words[17]),
    )
