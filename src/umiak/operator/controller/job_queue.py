"""Which job is looked at next: each once, however often something about it has changed. An adapter; asyncio.

    queue.add(key), queue.add_after(key, 5.0)
    key = await queue.get(); ...; queue.done(key)      of a job that was looked at before
    key = await queue.get_new(); ...; queue.done(key)  of a job that was not

A key that is added while it is worked on is handed out again after ``done``, and never to two workers at once. Keys are
handed out in the order in which they came. New jobs stand in a line of their own, so that few of them are begun at a
time and jobs are finished one by one: what is left to do for a job that has begun never waits behind the beginnings of
others, and a new job does not wait for all that goes on. After a failure a key comes back later, each time twice as
late, with jitter.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict

from umiak.adapters.stores import http_retry
from umiak.operator.cancellation import within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.2, 60.0


class JobQueue:
    """Keys to look at."""

    def __init__(self, *, chance: Callable[[], float] = http_retry.chance) -> None:
        self._waiting: OrderedDict[Hashable, float] = OrderedDict()
        """Keys that were handed out before, and since when they wait."""
        self._fresh: OrderedDict[Hashable, float] = OrderedDict()
        """Keys that were not."""
        self._known: set[Hashable] = set()
        self._working: set[Hashable] = set()
        self._again: set[Hashable] = set()
        """Added while they were worked on."""
        self._later: list[tuple[float, int, Hashable]] = []
        self._due: dict[Hashable, float] = {}
        """The earliest time of each delayed key; other entries of ``_later`` are void."""
        self._count = 0
        self._failures: dict[Hashable, int] = {}
        self._changed = asyncio.Event()
        """There is a key to look at, or an earlier time to wake up at."""
        self._new = asyncio.Event()
        """There is a key that was never handed out."""
        self._chance = chance

    def __len__(self) -> int:
        return len(self._waiting) + len(self._fresh)

    @property
    def working(self) -> int:
        return len(self._working)

    @property
    def delayed(self) -> int:
        return len(self._due)

    def add(self, key: Hashable) -> None:
        if key in self._working:
            self._again.add(key)
            return
        is_new = key not in self._known
        line = self._fresh if is_new else self._waiting
        if key not in line:
            line[key] = _now()
            (self._new if is_new else self._changed).set()

    def add_after(self, key: Hashable, seconds: float) -> None:
        """Add it at a later time; of two times the earlier one counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = _now() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        self._count += 1
        heapq.heappush(self._later, (due, self._count, key))
        self._changed.set()

    def add_failed(self, key: Hashable, *, at_least_s: float = 0.0) -> float:
        """Add it again after a failure. The result is in how many seconds."""
        times = self._failures.get(key, 0)
        self._failures[key] = times + 1
        wait_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(times, 20)) * (0.75 + 0.5 * self._chance())
        wait_s = max(wait_s, at_least_s)
        self.add_after(key, wait_s)
        return wait_s

    def succeeded(self, key: Hashable) -> None:
        self._failures.pop(key, None)

    def forget(self, key: Hashable) -> None:
        """The job is gone."""
        self._failures.pop(key, None)
        self._due.pop(key, None)
        self._waiting.pop(key, None)
        self._fresh.pop(key, None)
        self._known.discard(key)
        self._again.discard(key)

    async def get(self) -> Hashable:
        """The next key of those that were handed out before. It is this worker's until ``done``."""
        while True:
            self._move_due()
            if self._waiting:
                return self._taken(self._waiting)
            self._changed.clear()
            wait_s = self._later[0][0] - _now() if self._later else None
            try:
                await within(self._changed.wait(), None if wait_s is None else max(wait_s, 0.0))
            except asyncio.TimeoutError:
                pass

    async def get_new(self) -> Hashable:
        """The next key that was never handed out. It is this worker's until ``done``."""
        while not self._fresh:
            self._new.clear()
            await self._new.wait()
        return self._taken(self._fresh)

    def _taken(self, line: OrderedDict[Hashable, float]) -> Hashable:
        key, _ = line.popitem(last=False)
        self._known.add(key)
        self._working.add(key)
        return key

    def done(self, key: Hashable) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def oldest_s(self) -> float:
        """For how long the first key has waited."""
        firsts = [next(iter(line.values())) for line in (self._waiting, self._fresh) if line]
        return _now() - min(firsts) if firsts else 0.0

    def _move_due(self) -> None:
        now = _now()
        while self._later and self._later[0][0] <= now:
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)


def _now() -> float:
    return asyncio.get_running_loop().time()
