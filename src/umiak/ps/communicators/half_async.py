"""half_async: as async, with the gradients of several steps merged into one push. An adapter.

A trainer collects ``merge`` steps (4), averages their gradients (sums them with ``sum_merged``), pushes
them in one go and then fetches the dense parameters. Within these steps the dense parameters stay as they are; rows are read
as they are on the servers, so others' updates are seen, the trainer's own not before the push.

Guarantees those of async, counted in groups of steps. No trainer waits for another. A trainer that dies takes up to
``merge`` - 1 steps with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.communicators.base import Communicator
from umiak.ps.communicators.merging import Merger, StepGradients

if TYPE_CHECKING:
    from typing import Any

    from umiak.ps.clients.protocol import Client, Floats, Gradients, Keys
    from umiak.ps.strategies import HalfAsync


class HalfAsyncCommunicator(Communicator):
    """Collects, then sends."""

    may_be_behind = True

    def __init__(self, client: Client, strategy: HalfAsync, **common: Any) -> None:
        super().__init__(client, **common)
        self._merge = strategy.merge
        self._merger = Merger(client, average=not strategy.sum_merged)
        self._steps: list[StepGradients] = [self._merger.begin()]
        self._fresh = True

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:
        self._steps[-1].push(table, keys, rows, self._scale(share), statistics=table in self._statistics)

    def push_dense(self, table: int, gradients: Gradients, *, share: float | None = None) -> None:
        self._steps[-1].push_dense(table, gradients, self._scale(share))

    def end_step(self) -> None:
        super().end_step()
        self._fresh = len(self._steps) >= self._merge
        if self._fresh:
            self._merger.send(self._steps)
            self._steps = []
        self._steps.append(self._merger.begin())

    def pull_dense(self, table: int, out: Floats | None = None) -> Floats:
        return super().pull_dense(table, out) if self._fresh or out is None else out

    def flush(self) -> None:
        waiting = [step for step in self._steps if step.sparse or step.dense]
        if waiting:
            self._merger.send(waiting)
        self._steps = [self._merger.begin()]
        self._fresh = True

    def catch_up(self) -> None:
        self._fresh = True

    def reload(self) -> None:
        self._fresh = True
