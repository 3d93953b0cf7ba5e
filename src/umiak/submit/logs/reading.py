"""The lines of a run that somebody wants: the last ones, those since some time, new ones; the same for every place.
A program.

    for line in lines(run.backend, run.handle, LogsWanted(tail=20, follow=True)): ...

Backends begin to read as late as their places allow.
What they give is counted and compared here, so that a backend that can do neither gives the same lines, only later.
"""

from __future__ import annotations

from collections import deque

from umiak.core.value import replace
from umiak.submit.backend import OURSELVES, LogLine, SinceByPlace
from umiak.submit.logs.order import by_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from umiak.core.job import Handle
    from umiak.submit.backend import Backend, LogsWanted

NO_TIMES = "its lines have no times: all of them are printed, whenever they were written"


def lines(backend: Backend, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
    """The lines in their order. Notes about the log are among them: `LogLine.is_note`."""
    since = _Since(None if isinstance(backend, SinceByPlace) else wanted.since_s)
    if wanted.tail is None:
        yield from since.of(backend.logs(handle, wanted))
        return
    # The last lines of each source can only be known when all have been read: so those that are there now come first.
    ends = _Ends(wanted.tail)
    for line in since.of(backend.logs(handle, replace(wanted, follow=False))):
        ends.add(line)
    yield from ends.notes
    yield from by_time([*ends.lines.values()])
    if wanted.follow:
        after = {**wanted.after, **since.positions}
        yield from since.of(backend.logs(handle, replace(wanted, tail=None, after=after, only_new=True)))


class _Since:
    """Leaves out what was written before some time. A source without times is named once, and its lines are given."""

    def __init__(self, since_s: float | None) -> None:
        self._since_s = since_s
        self._times: dict[str, float] = {}
        self._named: set[str] = set()
        self.positions: dict[str, str] = {}
        """The last position of each source, of lines that were left out as well."""

    def of(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        for line in lines:
            if line.position:
                self.positions[line.source] = line.position
            if self._since_s is None or line.is_note:
                yield line
                continue
            time_s = line.time_s if line.time_s is not None else self._times.get(line.source)
            if time_s is None:
                if line.source not in self._named:
                    self._named.add(line.source)
                    yield LogLine(source=OURSELVES, text=f"{line.source}: {NO_TIMES}", role=line.role, rank=line.rank)
                yield line
                continue
            self._times[line.source] = time_s
            if time_s >= self._since_s:
                yield line


class _Ends:
    """The last lines of each source."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.lines: dict[str, deque[LogLine]] = {}
        self.notes: list[LogLine] = []

    def add(self, line: LogLine) -> None:
        if line.is_note:
            self.notes.append(line)
        else:
            self.lines.setdefault(line.source, deque(maxlen=self._count)).append(line)
