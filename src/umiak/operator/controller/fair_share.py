"""Requests of many jobs over one API: in parallel, and a large job never holds up a small one. An adapter; asyncio.

    outcome = await share.run([call, call, ...], is_current)

Each job in turn may start ``SLICE`` requests, and then goes to the end of the line; so a small job is served in one
turn, jobs are finished one by one, and one with a thousand pods gives way after a few milliseconds. What is last to do
for a job (``is_last``) goes before what begins others. A job begins with a few requests at a time and doubles them as
they succeed; after the first failure nothing more of it is started, since the next would fail as well.
"""

from __future__ import annotations

import asyncio
from collections import deque

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

IN_FLIGHT = 32
"""Requests at a time, of all jobs together."""
SLICE = 16
FIRST_WINDOW = 8


@value
class BatchOutcome:
    """What became of a job's requests."""

    started: int
    skipped: int = 0
    """Not started, because one has failed or the job has changed meanwhile."""
    errors: tuple[Exception, ...] = ()


class _Batch:
    def __init__(self, calls: Sequence[Callable[[], Awaitable[object]]], is_current: Callable[[], bool]) -> None:
        self.calls = deque(calls)
        self.is_current = is_current
        self.window = FIRST_WINDOW
        self.running = 0
        self.started = 0
        self.skipped = 0
        self.errors: list[Exception] = []
        self.turn = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def may_start(self) -> bool:
        return bool(self.calls) and self.running < self.window


class FairShare:
    """The one way to the API for what jobs want done."""

    def __init__(self, in_flight: int = IN_FLIGHT) -> None:
        self._in_flight = in_flight
        self._running = 0
        self._ring: deque[_Batch] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        return sum(len(batch.calls) for batch in self._ring)

    async def run(
        self,
        calls: Sequence[Callable[[], Awaitable[object]]],
        is_current: Callable[[], bool] = lambda: True,
        *,
        is_last: bool = False,
    ) -> BatchOutcome:
        """Make these calls. Those that were not started when ``is_current`` says no are skipped."""
        if not calls:
            return BatchOutcome(started=0)
        batch = _Batch(calls, is_current)
        if is_last:
            self._ring.appendleft(batch)
        else:
            self._ring.append(batch)
        self._start()
        try:
            await batch.over
        except asyncio.CancelledError:
            batch.calls.clear()
            raise
        return BatchOutcome(started=batch.started, skipped=batch.skipped, errors=tuple(batch.errors))

    def close(self) -> None:
        """Start nothing more, and take back what is under way."""
        for batch in self._ring:
            batch.calls.clear()
        self._ring.clear()
        for task in list(self._tasks):
            task.cancel()

    def _start(self) -> None:
        passed = 0
        while self._running < self._in_flight and self._ring and passed < len(self._ring):
            batch = self._ring[0]
            if batch.calls and not batch.is_current():
                self._drop(batch)
            if not batch.calls:
                self._ring.popleft()
                self._settle(batch)
                continue
            if not batch.may_start or batch.turn >= SLICE:
                passed = 0 if batch.may_start else passed + 1
                batch.turn = 0
                self._ring.rotate(-1)
                continue
            passed = 0
            batch.turn += 1
            self._begin(batch)

    def _begin(self, batch: _Batch) -> None:
        call = batch.calls.popleft()
        batch.running += 1
        batch.started += 1
        self._running += 1
        task = asyncio.ensure_future(self._perform(batch, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, batch: _Batch, call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
            batch.window = min(batch.window * 2, self._in_flight)
        except Exception as error:  # noqa: BLE001 - handed to the job's own worker
            batch.errors.append(error)
            self._drop(batch)
        finally:
            batch.running -= 1
            self._running -= 1
            self._settle(batch)
            self._start()

    @staticmethod
    def _drop(batch: _Batch) -> None:
        batch.skipped += len(batch.calls)
        batch.calls.clear()

    @staticmethod
    def _settle(batch: _Batch) -> None:
        if not batch.calls and not batch.running and not batch.over.done():
            batch.over.set_result(None)
