"""async: gradients are applied as they arrive, nobody waits for anybody; and half_async, which is done like it. An adapter.

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

import numpy as np

from umiak.ps.communicators.base import Communicator
from umiak.ps.gradients import joined, scaled, summed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from umiak.ps.clients import Client
    from umiak.ps.communicators.base import LearnArguments, TrainerPlace
    from umiak.ps.gradients import Floats, Gradients, Keys
    from umiak.ps.strategies import Async, HalfAsync


class LateCommunicator(Communicator):
    """The dense parameters are fetched every ``pull_every`` steps."""

    may_be_behind = True
    _pull_every = 1
    _fresh = True

    def _count_step(self) -> None:
        super()._count_step()
        self._fresh = self.step % self._pull_every == 0

    def pull_dense(self, table: int, out: Floats | None = None) -> Floats:
        return super().pull_dense(table, out) if self._fresh or out is None else out

    def catch_up(self) -> None:
        self._fresh = True

    def reload(self) -> None:
        self._fresh = True


class AsyncCommunicator(LateCommunicator):
    """Each step's gradients are sent in the step."""

    ends_in_one_exchange = True

    def __init__(self, client: Client, strategy: Async, **place: Unpack[TrainerPlace]) -> None:
        super().__init__(client, **place)
        self._pull_every = strategy.pull_every

    def _in_one_exchange(self, share: float | None) -> LearnArguments | None:
        return None if (self.step + 1) % self._pull_every else {"scale": self._scale(share)}


class MergingCommunicator(LateCommunicator):
    """Gradients are kept until several steps are sent as one."""

    def __init__(self, client: Client, strategy: Async | HalfAsync, **place: Unpack[TrainerPlace]) -> None:
        super().__init__(client, **place)
        self._merge = strategy.merge
        self._merger = Merger(client, average=not strategy.sum_merged)
        self._current = StepGradients()

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:
        self._current.push(table, keys, rows, self._scale(share), statistics=table in self._statistics)

    def push_dense(self, table: int, gradients: Gradients, *, share: float | None = None) -> None:
        self._current.push_dense(table, gradients, self._scale(share))


class QueuedAsyncCommunicator(MergingCommunicator):
    """A thread sends, the loop goes on."""

    def __init__(self, client: Client, strategy: Async, **place: Unpack[TrainerPlace]) -> None:
        super().__init__(client, strategy, **place)
        self._pull_every = strategy.pull_every
        self._queue: queue.Queue[StepGradients | None] = queue.Queue(strategy.queue)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._send, name="umiak-ps-send", daemon=True)
        self._thread.start()

    def end_step(self) -> None:
        self._raise_failure()
        self._queue.put(self._current)
        self._current = StepGradients()
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


class HalfAsyncCommunicator(MergingCommunicator):
    """half_async: as async, with the gradients of several steps merged into one push.

    A trainer collects ``merge`` steps (4), averages their gradients (sums them with ``sum_merged``), pushes
    them in one go and then fetches the dense parameters. Within these steps the dense parameters stay as they are; rows are read
    as they are on the servers, so others' updates are seen, the trainer's own not before the push.

    Guarantees those of async, counted in groups of steps. No trainer waits for another. A trainer that dies takes up to
    ``merge`` - 1 steps with it.
    """

    def __init__(self, client: Client, strategy: HalfAsync, **place: Unpack[TrainerPlace]) -> None:
        super().__init__(client, strategy, **place)
        self._waiting: list[StepGradients] = []

    def end_step(self) -> None:
        super().end_step()
        self._waiting.append(self._current)
        self._current = StepGradients()
        self._fresh = len(self._waiting) >= self._merge
        if self._fresh:
            self._merger.send(self._waiting)
            self._waiting = []

    def flush(self) -> None:
        waiting = [step for step in (*self._waiting, self._current) if step.sparse or step.dense]
        if waiting:
            self._merger.send(waiting)
        self._waiting = []
        self._current = StepGradients()
        self._fresh = True


class StepGradients:
    """What one step wants to push."""

    def __init__(self) -> None:
        self.sparse: dict[int, list[tuple[Keys, Floats]]] = {}
        self.dense: dict[int, list[Floats]] = {}
        """Piece by piece: each is a gradient, or says that there is none."""

    def push(self, table: int, keys: Keys, rows: Floats, scale: float, *, statistics: bool) -> None:
        """The arrays are copied: the caller may use its own again as soon as this returns."""
        flat = rows.reshape(keys.size, -1)
        own = scaled(flat, scale, statistics=statistics)
        self.sparse.setdefault(table, []).append((keys.flatten(), own.copy() if own is flat else own))

    def push_dense(self, table: int, gradients: Gradients, scale: float) -> None:
        pieces = gradients if isinstance(gradients, list) else [gradients]
        own = [joined(piece, scale) for piece in pieces]
        if table in self.dense:
            own = [summed(each) for each in zip(self.dense[table], own, strict=True)]
        self.dense[table] = own


class Merger:
    """Makes the gradients of several steps one, and sends it.

    Rows of the same key are summed by the client, in the order of the steps. Averages are over steps, not over keys: a key that
    only one of four steps carried counts a quarter, as it does in one batch four times as large.
    """

    def __init__(self, client: Client, *, average: bool) -> None:
        self._client = client
        self._average = average

    def send(self, steps: list[StepGradients]) -> None:
        factor = 1.0 / len(steps) if self._average else 1.0
        for table in dict.fromkeys(table for step in steps for table in step.sparse):
            parts = [part for step in steps for part in step.sparse.get(table, ())]
            keys = np.concatenate([keys for keys, _ in parts])
            rows = np.concatenate([rows for _, rows in parts])
            self._client.push(table, keys, rows, scale=factor)
        for table in dict.fromkeys(table for step in steps for table in step.dense):
            gradients = [step.dense[table] for step in steps if table in step.dense]
            total = [summed(each) for each in zip(*gradients, strict=True)]
            self._client.push_dense(table, total, scale=factor)
