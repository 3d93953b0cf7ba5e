"""Lines of several logs in the order of time. A decider.

    by_time([lines of trainer.0, lines of trainer.1])
    arriving = ArrivingLogs(["node0", "node1"])       the same for logs that come from several machines, piece by piece

Every log keeps its own order. A line without a time belongs to the one before it in its log;
logs that have no times at all come first, one after another.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from umiak.submit.backend import LogLine


CLOCKS_S = 5.0
"""Clocks that differ by less are taken for equal: how long a question was on its way can't be told from it."""


def clock_ahead_s(now_s: float, client_s: float | None) -> float:
    """How far this machine's clock is ahead of that of a client whose question with its time has just arrived.
    Times of lines are told in the client's: machines whose clocks are wrong are in order all the same.
    """
    ahead_s = 0.0 if client_s is None else now_s - client_s
    return ahead_s if abs(ahead_s) >= CLOCKS_S else 0.0


def by_time(logs: Sequence[Iterable[LogLine]]) -> Iterator[LogLine]:
    """Merged while they are read: no more than one line of each is held."""
    if len(logs) < 2:
        for lines in logs:
            yield from lines
        return
    import heapq

    for _, line in heapq.merge(*map(_timed, logs), key=_at):
        yield line


class ArrivingLogs:
    """What several machines have written so far in the order of time;
    what they write from then on in the order of arrival.

    A machine's lines come in its own order. It holds the others up until it is up to date.
    """

    def __init__(self, machines: Sequence[str]) -> None:
        self._waiting: dict[str, list[tuple[float, LogLine]]] = {each: [] for each in machines}
        self._behind = {*machines}
        self._at = dict.fromkeys(machines, 0.0)

    def add(self, machine: str, line: LogLine) -> None:
        if line.time_s is not None and line.time_s > self._at[machine]:
            self._at[machine] = line.time_s
        self._waiting[machine].append((self._at[machine], line))

    def is_up_to_date(self, machine: str) -> None:
        """All that it had is here, or nobody knows when it will be."""
        self._behind.discard(machine)

    def count(self, machine: str) -> int:
        """Lines that wait for those of others."""
        return len(self._waiting[machine])

    def ready(self, *, at_once: bool = False) -> Iterator[LogLine]:
        """What no earlier line can come before any more; ``at_once``: everything that is here."""
        import heapq

        if at_once:
            most = float("inf")
        else:
            most = min((self._at[each] if self._waiting[each] else -1.0 for each in self._behind), default=float("inf"))
        rows = []
        for machine, waiting in self._waiting.items():
            count = next((number for number, row in enumerate(waiting) if row[0] > most), len(waiting))
            rows.append(waiting[:count])
            self._waiting[machine] = waiting[count:]
        for _, line in heapq.merge(*rows, key=_at):
            yield line


def _timed(lines: Iterable[LogLine]) -> Iterator[tuple[float, LogLine]]:
    at = 0.0
    for line in lines:
        if line.time_s is not None and line.time_s > at:
            at = line.time_s
        yield at, line


def _at(row: tuple[float, LogLine]) -> float:
    return row[0]
