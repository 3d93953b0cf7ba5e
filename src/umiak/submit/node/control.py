"""What can be asked of a run on one machine, by any process of its user there:
how it is, its lines, its end; and what old ones left. An adapter.

Everything is read from files and from the kernel, so it works after client or supervisor were killed as well.

Old runs are removed by a rule: a run's directory goes when the run has been over, or has said nothing, for as long as
was asked; files of jobs and launchers go when no run has used them for as long and none goes on. A run that goes on is
never touched, nor what is somebody else's.
"""

from __future__ import annotations

import os
import signal
import time

from umiak.adapters import identity
from umiak.core.problem import UmiakError
from umiak.submit.logs.order import by_time
from umiak.submit.node import logs, state
from umiak.submit.node.files import RunFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.status import JobStatus
    from umiak.submit.backend import LogLine, LogsWanted
    from umiak.submit.node.files import RunFiles

LOOK_S = 0.05
"""Between two looks at what can't be waited for: files that others write, processes of others."""
KILLED_S = 10.0
"""How long processes may take to end after SIGKILL."""


def status(files: RunFiles) -> JobStatus:
    """How it is now. UmiakError if its files can't be read, or if it is on another machine that shares them."""
    try:
        its_plan = files.plan()
        facts = files.facts(time.time())
    except (OSError, ValueError, KeyError) as error:
        why = f"{type(error).__name__}: {error}"
        what = f"the run's files can't be read: {files.path}"
        raise UmiakError.refused("UM-SUBMIT-029", what, why=why) from None
    if facts.is_other_boot and facts.end is None and files.host() != os.uname().nodename:
        raise UmiakError.refused(
            "UM-SUBMIT-030",
            f"the run is on another machine: {files.host()}",
            why="its state can be seen there only",
            hint=f"ssh {files.host()} umiak status ...",
        )
    return state.status_of(its_plan, facts)


def lines(files: RunFiles, wanted: LogsWanted) -> Iterator[LogLine | None]:
    """The lines of all workers and launchers in the order of time,
    each file from its beginning or from where the caller was.

    None: there is nothing new for now. The caller then waits as long as it likes.
    """
    its_plan = files.plan()
    readers: dict[str, logs.LogReader] = {}
    try:
        while True:
            # Asked before the files are read: what was written before the end is then read as well.
            is_over = status(files).state.is_over
            for source in logs.sources(files, its_plan, wanted):
                if source.name not in readers:
                    after = wanted.after.get(source.name, "")
                    readers[source.name] = logs.LogReader(source, after, tail=wanted.tail, since_s=wanted.since_s)
            yield from by_time([reader.lines(is_over=is_over) for reader in readers.values()])
            if is_over or not wanted.follow:
                return
            yield None
    finally:
        for reader in readers.values():
            reader.close()


def cancel(files: RunFiles, grace_s: float, shown: str) -> None:
    """Through the supervisor; without one, its launchers are ended from here. ``shown``: the run, for messages."""
    if status(files).state.is_over:
        return
    files.ask_to_cancel(grace_s)
    if files.supervisor() is None and files.claim():  # from now on nobody else starts it
        files.write_end(state.RunEnd(exit_code=0, ended_s=time.time(), is_cancelled=True, exit_codes={}))
        return
    deadline = time.monotonic() + grace_s + KILLED_S
    is_killed = False
    own = files.supervisor()
    if own is not None:
        identity.send(own, signal.SIGTERM)
    while not status(files).state.is_over:
        launchers = files.launchers()
        if launchers and (own is None or not identity.is_alive(own)):
            # Its launchers got SIGTERM when it was killed. The half of a launcher that is left ends all workers.
            is_late = time.monotonic() >= deadline - KILLED_S
            for each in launchers.processes.values():
                identity.send(each, signal.SIGKILL if is_late else signal.SIGTERM)
            is_killed = is_killed or is_late
        if time.monotonic() >= deadline + KILLED_S:
            raise UmiakError.refused(
                "UM-SUBMIT-028",
                f"the run does not end: {shown}",
                why="its processes are still there after SIGKILL" if is_killed else "its supervisor does not answer",
                hint=f"`ps -ef` shows them; the run's directory is {files.path}",
            )
        time.sleep(LOOK_S)


def clean(directory: str, *, older_than_s: float) -> list[str]:
    """What was removed, by its path below the directory."""
    import shutil  # 10 ms that a look at a run does not need

    oldest = time.time() - older_than_s
    removed = []
    is_anything_on = False
    for run in _below(os.path.join(directory, "runs")):
        for part in _below(run):
            is_over = _is_over(part)
            is_anything_on = is_anything_on or not is_over
            if is_over and os.stat(part).st_mtime <= oldest:
                shutil.rmtree(part, ignore_errors=True)
                removed.append(os.path.relpath(part, directory))
        try:
            os.rmdir(run)
        except OSError:
            continue  # a part of it is still needed
    for kind in () if is_anything_on else ("files", "launchers"):
        for path in _below(os.path.join(directory, kind)):
            if os.stat(path).st_mtime > oldest:
                continue
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
            removed.append(os.path.relpath(path, directory))
    return removed


def _is_over(part: str) -> bool:
    files = RunFiles(part)
    try:
        return not files.exists or status(files).state.is_over
    except UmiakError:
        return False  # of another host with the same home: that one cleans it


def _below(directory: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = os.path.join(directory, name)
        try:
            is_own = os.lstat(path).st_uid == os.geteuid()
        except FileNotFoundError:
            continue  # another host with the same home was faster
        if is_own:
            yield path
