"""Lines of a pod's log, each with its time: whose line it is, and which lines were given already. A decider.

The API gives the lines since a time, in whole seconds. `SeenLines` remembers those of the last seconds, so that a
connection that broke goes on with the first line that was not given, also if lines have the same time, came out of
order, or the log was rotated.
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
LATE_S = 10
"""A first line that is so much later than the start of its container may not be the first."""
LAUNCHERS_OWN = "LAUNCH "
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
    began_at: int = 0
    """When its container began, in nanoseconds since 1970; 0: nobody knows."""

    def dropped_before(self, first: StampedLine) -> str:
        """What to say if the first line that the cluster has is not the first one
        that was written; empty: it may well be.

        Kubelets rotate logs and show only the newest file.
        A launcher's first line comes soon and begins with its name.
        """
        late_s = (first.at - self.began_at) // 10**9
        if not self.began_at or not first.at or late_s < LATE_S or first.text.startswith(LAUNCHERS_OWN):
            return ""
        return (
            f"{self.pod}: the first line that the cluster still has was written {late_s} s after the container began: "
            "lines before it may have been dropped when its log was rotated"
        )

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
        self._ranks: set[int] = set()
        """Of workers that have the asked role."""

    @property
    def may_have_asked(self) -> bool:
        """Whether a worker that was asked for, and of which nothing was seen, may be one of this pod:
        its rank is among those that are.
        """
        return not self._ranks or min(self._ranks) <= (self._wanted.rank or 0) <= max(self._ranks)

    def line(self, line: StampedLine) -> LogLine | None:
        """The line as it is given, or None if it is not wanted, or was given before."""
        match = _TAG.match(line.text)
        role = Role(match[1]) if match else None
        rank = int(match[2]) if match else None
        name = f"{match[1]}.{match[2]}" if match else self._source.launcher
        self._counts[name, line.at] += 1
        if rank is not None and role is (self._wanted.role or Role.TRAINER):
            self._ranks.add(rank)
        if not self._wanted.asks_for(role, rank):
            return None
        count = self._counts[name, line.at]
        if self._was_given(name, line.at, count):
            return None
        text = line.text[match.end() :] if match else line.text
        position = f"{self._source.made}|{self._source.pod}|{line.at}#{count}"
        time_s = line.at / 10**9 if line.at else None
        return LogLine(source=name, text=text, position=position, role=role, rank=rank, time_s=time_s)

    def start(self) -> str:
        """From which time on the pod's lines are wanted; empty: all of them."""
        starts = [int(self._wanted.since_s)] if self._wanted.since_s is not None else []
        if self._wanted.only_new:
            seen = [self._seen_at(name) for name in self._wanted.after]
            if latest := max(seen, default=0):
                starts.append(latest // 10**9 - OVERLAP_S)
        return text_of(max(starts)) if starts else ""

    def _seen_at(self, name: str) -> int:
        made, _, rest = self._wanted.after.get(name, "").partition("|")
        pod, _, last = rest.partition("|")
        at = last.partition("#")[0]
        return int(at) if (made, pod) == (self._source.made, self._source.pod) and at.isdecimal() else 0

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
