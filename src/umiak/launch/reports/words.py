"""What happened to a job, in plain words, for master and node alike. A decider."""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.core.shown import signal_name
from umiak.launch.protocol import FailureKind, Finish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.protocol import Failure


CODES = {
    FailureKind.EXITED: "UM-JOB-001",
    FailureKind.KILLED: "UM-JOB-002",
    FailureKind.NOT_STARTED: "UM-JOB-003",
    FailureKind.HUNG: "UM-JOB-004",
    FailureKind.NODE_LOST: "UM-JOB-005",
    FailureKind.NODE_LEFT: "UM-JOB-006",
}


def verdict(failure: Failure) -> Finish:
    """The end of a job that this failure brought down."""
    return Finish(
        exit_status=failure.exit_status,
        code=CODES[failure.kind],
        words=describe(failure),
        hint=_hint(failure),
        failure=failure,
    )


def _hint(failure: Failure) -> str:
    match failure.kind, failure.exit_status:
        case FailureKind.HUNG, _:
            return "the stacks of all workers are in stacks.* beside their logs"
        case FailureKind.NOT_STARTED, 126:
            return "a program must be executable, `chmod +x` makes it so; a Python script needs the ending .py"
        case FailureKind.NOT_STARTED, 127:
            return "is it on PATH, or in the working directory, there? if so, does the interpreter in its first line exist?"
        case _:
            return ""


def describe(failure: Failure) -> str:
    """One failure in one line, as it is printed at the end on every node."""
    if failure.kind in (FailureKind.NODE_LOST, FailureKind.NODE_LEFT):
        return failure.what
    worker = f"{who(failure)} on node {failure.host}"
    if failure.kind is FailureKind.NOT_STARTED:
        return f"{worker} could not be started: {failure.what}"
    if failure.kind is FailureKind.HUNG:
        return f"{worker} hung: {failure.what}"
    if failure.signal is not None:
        cause = ": the system ran out of memory (OOM kill)" if failure.out_of_memory else ""
        return f"{worker} was killed by {signal_name(failure.signal)}{cause}"
    recorded = f": {failure.what}" if failure.what else ""
    return f"{worker} failed with exit code {failure.exit_code}{recorded}"


def who(failure: Failure) -> str:
    """``trainer 1``, or the node where no worker is to blame."""
    if failure.role is None:
        return f"node {failure.host}"
    return f"{failure.role.value} {failure.rank}"


def restarting(pause_s: float, restart: int, most: int) -> str:
    """``restarting in 2.1 s (restart 3 of 10)``, or without a pause ``restart 1 of 10``."""
    counted = f"restart {restart} of {most}"
    return f"restarting in {pause_s:.1f} s ({counted})" if pause_s else counted


def superseded(host: str) -> Finish:
    """The end of a side that did not know that the job goes on elsewhere."""
    what = f"the job goes on at {host}, and this side was cut off from it or started it once more"
    return Finish(exit_status=3, code="UM-MEET-001", words=what, at_once=True)


def unresponsive(silent_s: float, heartbeat_timeout_s: float) -> Problem:
    """What the watchdog says after it ended a launcher that was frozen, or hung."""
    return Problem(
        code="UM-JOB-016",
        what=f"the launcher did not respond for {silent_s:.1f} s, so its watchdog ended it and all its workers",
        why="it was stopped, hung, or did not get a processor, and so could not have stopped its workers in time",
        hint=f"a debugger, or a file system that does not answer? `--heartbeat_timeout {6 * heartbeat_timeout_s:g}` "
        "on every node is more patient",
    )


def launcher_killed(number: int) -> Problem:
    """What the watchdog says when its working half is gone, which could say nothing itself."""
    return Problem(
        code="UM-JOB-017",
        what=f"the launcher was killed by {signal_name(number)}, so its watchdog ended all its workers",
        hint="if nobody did that on purpose, the machine may have run out of memory: `dmesg | grep -i oom`",
    )


def exhausted(why: str) -> Problem:
    """The end of a launcher that was not given what every program needs."""
    return Problem(
        code="UM-LAUNCH-318",
        what="the launcher can't go on: this machine, or this user's limits, have no more to give",
        why=why,
        hint="`ulimit -n 65536` raises the number of open files; `df -i` and `free` show what else may be used up",
    )


def cut_off(lost: str, generation: int) -> Finish:
    """The end of this side of a cut, which must not go on."""
    what = (
        f"cut off from {lost}: this side has no majority of generation {generation}, "
        "so it stops and leaves the job to the other side"
    )
    return Finish(exit_status=3, code="UM-MEET-001", words=what, at_once=True)
