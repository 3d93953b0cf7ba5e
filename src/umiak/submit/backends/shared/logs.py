"""The log files of a run on a shared file system: one directory for each node, and what job.sh printed. An adapter.

A worker's rank among all is in the file that its launcher writes beside its log, unless it follows from the job.
Lines are read by the reader of local runs: each once, also across rotation and after an interruption.
"""

from __future__ import annotations

import os
import time

from umiak.core.cluster import Role
from umiak.core.names import is_digits
from umiak.submit.backends.shared import layout
from umiak.submit.logs.order import by_time
from umiak.submit.node.logs import ROLES, LogReader, LogSource, order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umiak.submit.backend import LogLine, LogsWanted
    from umiak.submit.backends.shared.layout import RunInfo, SharedRun

JOB = "job"
LOOK_S = 0.1
"""Between two looks at files that grow elsewhere."""


def follow(run: SharedRun, info: RunInfo, wanted: LogsWanted, is_over: Callable[[], bool]) -> Iterator[LogLine]:
    """The lines of all nodes in the order of time. ``is_over`` is asked at every look, before the files are read."""
    readers: dict[str, LogReader] = {}
    try:
        while True:
            over = is_over()
            for source in sources(run, info, wanted, is_over=over or not wanted.follow):
                # By its path: a worker of an elastic job may get another rank, and keeps its file.
                if source.path not in readers:
                    after = wanted.after.get(source.name, "")
                    readers[source.path] = LogReader(source, after, tail=wanted.tail, since_s=wanted.since_s)
            yield from by_time([reader.lines(is_over=over) for reader in readers.values()])
            if over or not wanted.follow:
                return
            time.sleep(LOOK_S)
    finally:
        for reader in readers.values():
            reader.close()


def sources(run: SharedRun, info: RunInfo, wanted: LogsWanted, *, is_over: bool) -> list[LogSource]:
    """The files that there are now, of those that are wanted."""
    sources_there = []
    for node in sorted(map(int, filter(is_digits, _names(run.logs)))):
        directory = os.path.join(run.logs, str(node))
        for name in sorted(_names(directory)):
            path = os.path.join(directory, name)
            stem, _, number = name.partition(".")
            role = ROLES.get(stem)
            if role is not None and is_digits(number):
                rank = _rank(info, node, role, int(number), directory)
                if rank is not None:
                    sources_there.append(LogSource(name=f"{role.value}.{rank}", path=path, role=role, rank=rank))
                elif is_over:  # else it will be known in a moment
                    sources_there.append(LogSource(name=f"{role.value}.{node}-{number}", path=path, role=role))
            elif name == layout.LAUNCHER_LOG:
                sources_there.append(LogSource(name=f"launcher.{node}", path=path))
    if layout.JOB_LOG in _names(run.logs):
        sources_there.append(LogSource(name=JOB, path=os.path.join(run.logs, layout.JOB_LOG)))
    return sorted([each for each in sources_there if wanted.asks_for(each.role, each.rank)], key=order)


def _rank(info: RunInfo, node: int, role: Role, number: int, directory: str) -> int | None:
    first = 0
    for group in info.roles:
        if first <= node < first + group.nodes and group.role == role.value and group.workers:
            return (node - first) * group.workers + number
        first += group.nodes
    try:
        with open(os.path.join(directory, f"envlog.{role.value}.{number}"), encoding="utf-8") as file:
            lines = [line for line in file if line.startswith("UMIAK_RANK=") and line.endswith("\n")]
    except OSError:
        return None
    return int(lines[0].partition("=")[2]) if lines else None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
