"""Parameter servers of runs that somebody looks at: asked by one thread for each run, never waited for by another page. A program.

    watch = ServerWatch(ask, on_waits)
    await watch.look("ctr-3f", pids)        asks, unless somebody does; then what is known
    watch.history("ctr-3f")

``ask(run_id, pids)`` is handed over by the command line: it finds the servers in the environment of the run's own processes, asks each within seconds,
and gives a report; None: the run has no servers.
"""

from __future__ import annotations

import asyncio
import time

from umiak.dashboard.outside.given import nobody
from umiak.dashboard.outside.server_rates import ServerHistory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umiak.dashboard.outside.given import AskServers

WAIT_S = 2.0
AGAIN_S = 1.0
MOST_RUNS = 32


class ServerWatch:
    """Of one event loop."""

    def __init__(self, ask: AskServers = nobody, on_waits: Callable[[str], None] = lambda _: None) -> None:
        self._ask, self._on_waits = ask, on_waits
        self._known: dict[str, ServerHistory] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._asked_at: dict[str, float] = {}

    def history(self, run_id: str) -> ServerHistory:
        """What is known, of the runs that were looked at last."""
        found = self._known.pop(run_id, None) or ServerHistory()
        self._known[run_id] = found
        while len(self._known) > MOST_RUNS:
            gone = next(iter(self._known))
            del self._known[gone]
            self._asked_at.pop(gone, None)
        return found

    def begin(self, run_id: str, pids: Sequence[int]) -> asyncio.Task[None] | None:
        """Ask, without waiting. None: it was asked a moment ago."""
        running = self._asking.get(run_id)
        if running is not None and not running.done():
            return running
        if not pids or time.monotonic() - self._asked_at.get(run_id, -1e9) < AGAIN_S:
            return None
        self._asked_at[run_id] = time.monotonic()
        task = self._asking[run_id] = asyncio.create_task(self._one(run_id, tuple(pids)))
        task.add_done_callback(lambda _: self._asking.pop(run_id, None))
        return task

    async def look(self, run_id: str, pids: Sequence[int]) -> ServerHistory:
        """Wait for the servers' answers for a moment; then what is known."""
        task = self.begin(run_id, pids)
        if task is not None:
            await asyncio.wait({task}, timeout=WAIT_S)
        return self.history(run_id)

    async def _one(self, run_id: str, pids: Sequence[int]) -> None:
        report = await asyncio.to_thread(self._ask, run_id, pids)
        if report is not None and self.history(run_id).add(report, time.time()):
            self._on_waits(run_id)
