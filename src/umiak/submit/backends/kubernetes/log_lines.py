"""Lines of a pod's log, each with its time: whose line it is, and which lines were given already. A decider.

The API gives the lines since a time, in whole seconds. `SeenLines` remembers those of the last seconds, so that a connection that broke
goes on with the first line that was not given, also if lines have the same time, came out of order, or the log was rotated.
"""

from __future__ import annotations

import re
from collections import Counter, deque

from umiak.core.cluster import Role
from umiak.core.value import value
from umiak.kube.times import nanoseconds_of, text_of
from umiak.submit.backend import LogLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.submit.backend import LogsWanted

OVERLAP_S = 2
"""So far back a connection is taken up again: the two streams of a container may be that much out of order."""
_TAG = re.compile(r"\[(server|trainer|heter) (\d{1,7})\] ")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)\Z")


@value
class StampedLine:
    """One line."""

    at: int
    """Nanoseconds since 1970; 0: it has no time, and belongs to the line before it."""
    text: str


@value
class PodSource:
    """Who writes a log."""

    pod: str
    made: str
    """When the pod was created: of several pods of one node the latest counts on."""
    role: Role | None = None
    rank: int | None = None

    @property
    def launcher(self) -> str:
        return (
            f"launcher.{self.role.value}.{self.rank}" if self.role and self.rank is not None else f"launcher.{self.pod}"
        )


def stamped(raw: bytes) -> StampedLine:
    """A line as the API gives it."""
    text = raw.decode("utf-8", "replace").rstrip("\n")
    time, _, rest = text.partition(" ")
    return StampedLine(at=nanoseconds_of(time), text=rest) if _TIME.match(time) else StampedLine(at=0, text=text)


class SeenLines:
    """The lines of one pod that were given in the last seconds."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, str]] = deque()
        self._counts: Counter[tuple[int, str]] = Counter()
        self._again: Counter[tuple[int, str]] = Counter()
        self._latest = 0

    def since(self) -> str:
        """From which time on lines are wanted after an interruption; empty: all of them."""
        self._again = self._counts.copy()
        return text_of(self._latest // 10**9 - OVERLAP_S) if self._latest else ""

    def is_new(self, line: StampedLine) -> bool:
        """Whether a line was not given yet. It counts as given from now on."""
        key = (line.at, line.text)
        if self._again[key]:
            self._again[key] -= 1
            return False
        if line.at > self._latest:
            self._latest = line.at
            self._forget((line.at // 10**9 - OVERLAP_S) * 10**9)
        self._recent.append(key)
        self._counts[key] += 1
        return True

    def _forget(self, before: int) -> None:
        while self._recent and self._recent[0][0] < before:
            key = self._recent.popleft()
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]


class Resumed:
    """Leaves out what a caller has seen, by the positions that its last lines had."""

    def __init__(self, source: PodSource, wanted: LogsWanted) -> None:
        self._source, self._wanted = source, wanted
        self._counts: Counter[tuple[str, int]] = Counter()

    def line(self, line: StampedLine) -> LogLine | None:
        """The line as it is given, or None if it is not wanted, or was given before."""
        found = _TAG.match(line.text)
        role = Role(found[1]) if found else None
        rank = int(found[2]) if found else None
        name = f"{found[1]}.{found[2]}" if found else self._source.launcher
        self._counts[name, line.at] += 1
        if not _is_wanted(role, rank, self._wanted):
            return None
        count = self._counts[name, line.at]
        if self._was_given(name, line.at, count):
            return None
        text = line.text[found.end() :] if found else line.text
        position = f"{self._source.made}|{self._source.pod}|{line.at}#{count}"
        return LogLine(source=name, text=text, position=position, role=role, rank=rank)

    def _was_given(self, name: str, at: int, count: int) -> bool:
        made, _, rest = self._wanted.after.get(name, "").partition("|")
        pod, _, last = rest.partition("|")
        if not last:
            return False
        if (made, pod) != (self._source.made, self._source.pod):
            return (self._source.made, self._source.pod) < (made, pod)
        last_at, _, number = last.partition("#")
        if not (last_at.isdecimal() and number.isdecimal()):
            return False
        return (at, count) <= (int(last_at), int(number))


def _is_wanted(role: Role | None, rank: int | None, wanted: LogsWanted) -> bool:
    asked = wanted.role or (Role.TRAINER if wanted.rank is not None else None)
    return (asked is None or role is asked) and (wanted.rank is None or rank == wanted.rank)
