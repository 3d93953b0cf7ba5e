"""Ends a run because a person said so on the page: a signal to its launcher here, or `umiak cancel` for one that was submitted. An adapter.

    stop(source)                  SIGTERM to the process that writes the run's files: its launcher, else its trainer
    CannotCancel                  in words, why not

It is the one thing that a dashboard does to a run, and only one that was started with ``--allow cancel`` has it.
"""

from __future__ import annotations

import json
import os
import signal

from umiak.core.shown import one_line
from umiak.dashboard.files import Locks
from umiak.dashboard.outside import commands
from umiak.dashboard.search import JOURNAL, METRICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umiak.dashboard.rows import RunSource

CANCEL_WITHIN_S = 180.0


class CannotCancel(Exception):
    """Nothing was stopped; in words, why."""


async def cancel_submitted(command: Callable[[str], Sequence[str]] | None, run_id: str) -> str:
    """The same for a run of `umiak submit`: its place is asked as by `umiak cancel`. CannotCancel if that failed."""
    if command is None:
        raise CannotCancel("this dashboard knows no places")
    try:
        said = json.loads(await commands.output_of(command(run_id), CANCEL_WITHIN_S))
    except TimeoutError:
        raise CannotCancel(
            f"its place has not answered within {CANCEL_WITHIN_S:g} s; it may still be cancelled"
        ) from None
    except (ValueError, OSError, commands.TooMuch):
        raise CannotCancel("`umiak cancel` has failed: run it in a terminal") from None
    problems = said.get("problems") if isinstance(said, dict) else None
    if problems:
        raise CannotCancel(one_line(str(problems[0].get("what", "")), 500))
    return f"it is {one_line(str(said.get('state', 'cancelled')), 40)}"


def stop(source: RunSource) -> str:
    """What was done. CannotCancel if that is nothing."""
    journals = [os.path.join(each, JOURNAL) for each in source.launch_directories]
    metrics = [os.path.join(source.metrics_directory, METRICS)] if source.metrics_directory else []
    locks = Locks()
    held = [each for each in journals if locks.holds(each)] or [each for each in metrics if locks.holds(each)]
    if not held:
        raise CannotCancel("no process of this machine writes its files: it is over, or runs elsewhere")
    stopped = [pid for each in held if (pid := _signalled(each)) is not None]
    if not stopped:
        raise CannotCancel("its process can't be seen from here: it is of another container, or has just ended")
    return f"SIGTERM was sent to {'its process' if len(stopped) == 1 else f'its {len(stopped)} launchers'}: it ends its workers, and then itself"


def _signalled(path: str) -> int | None:
    """The process that holds a lock, which has been told to end; never another one that got its number."""
    pid = Locks().holder(path)
    if pid is None:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        if (
            Locks().holder(path) != pid
        ):  # asked after the descriptor was opened: from now on it means this process alone
            return None
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    except PermissionError:
        raise CannotCancel("its process is another user's") from None
    except ProcessLookupError:
        return None
    finally:
        os.close(pidfd)
    return pid
