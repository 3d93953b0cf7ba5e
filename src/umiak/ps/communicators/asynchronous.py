"""async: gradients are applied as they arrive, nobody waits for anybody. An adapter.

Guarantees: a trainer's gradients are on the servers when its step ends, each exactly once, also if a server is restarted
meanwhile; a trainer's next pull sees them. Among trainers there is no order: a gradient may have been computed from values
that others have changed since, and two runs differ.

With a ``queue`` a thread beside the loop sends: the loop goes on at once, up to so many steps ahead, and up to
``merge`` waiting steps become one push. What a trainer pulls may then lack its own last steps. This hides the
time on the wire, saves no work, and costs accuracy, so it is off unless it is asked for.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from umiak.ps.communicators.base import Communicator
from umiak.ps.communicators.merging import Merger

if TYPE_CHECKING:
    from typing import Any

    from umiak.ps.clients.protocol import Client, Floats, Gradients, Keys
    from umiak.ps.strategies import Async


class AsyncCommunicator(Communicator):
    """Each step's gradients are sent in the step. The dense parameters are fetched every ``pull_every`` steps."""

    may_be_behind = True

    def __init__(self, client: Client, strategy: Async, **common: Any) -> None:
        super().__init__(client, **common)
        self._pull_every = strategy.pull_every
        self._fresh = True

    def _count_step(self) -> None:
        super()._count_step()
        self._fresh = self.step % self._pull_every == 0

    def pull_dense(self, table: int, out: Floats | None = None) -> Floats:
        return super().pull_dense(table, out) if self._fresh or out is None else out

    def _in_one_exchange(self, share: float | None) -> dict[str, Any] | None:
        return None if (self.step + 1) % self._pull_every else {"scale": self._scale(share)}

    def catch_up(self) -> None:
        self._fresh = True

    def reload(self) -> None:
        self._fresh = True


class QueuedAsyncCommunicator(AsyncCommunicator):
    """A thread sends, the loop goes on."""

    def __init__(self, client: Client, strategy: Async, **common: Any) -> None:
        super().__init__(client, strategy, **common)
        self._merge = strategy.merge
        self._merger = Merger(client, average=not strategy.sum_merged)
        self._current = self._merger.begin()
        self._queue: queue.Queue[Any] = queue.Queue(strategy.queue)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._send, name="umiak-ps-send", daemon=True)
        self._thread.start()

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:
        statistics = table in self._statistics
        self._current.push(table, keys, rows, self._scale(share), statistics=statistics)

    def push_dense(self, table: int, gradients: Gradients, *, share: float | None = None) -> None:
        self._current.push_dense(table, gradients, self._scale(share))

    def _in_one_exchange(self, share: float | None) -> dict[str, Any] | None:  # noqa: ARG002
        return None

    def end_step(self) -> None:
        self._raise_failure()
        self._queue.put(self._current)
        self._current = self._merger.begin()
        super().end_step()

    def flush(self) -> None:
        self._queue.join()
        self._raise_failure()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _send(self) -> None:
        while True:
            steps = [self._queue.get()]
            while len(steps) < self._merge and steps[-1] is not None and not self._queue.empty():
                steps.append(self._queue.get())
            ended = steps[-1] is None
            waiting = [step for step in steps if step is not None]
            if waiting and self._failure is None:
                try:
                    self._merger.send(waiting)
                except BaseException as failure:  # noqa: BLE001 - handed to the loop
                    self._failure = failure
            for _ in steps:
                self._queue.task_done()
            if ended:
                return

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
