"""sync: every step is applied once, with the gradients of all trainers; the next pull waits for it. An adapter.

Guarantees: the servers keep the contributions of a step apart by trainer, sum them in rank order when the last trainer has
committed the step, and apply one optimizer step with the sum. So the tables after step t are a function of the data alone:
two runs are equal bit for bit, and equal to one process that computes the same micro-batches and adds them in the same order.
A step is committed on all servers or on none, whoever dies when. A trainer that dies is waited for, then the step fails
naming it, or goes on without it (``on_loss``).

Gradients count by 1 / trainers: a step is one over the mean of all trainers' batches. Say ``share`` where the batches of a
step are of different sizes: this trainer's samples divided by everybody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.strategies.base import Strategy

if TYPE_CHECKING:
    from typing import Any

    from umiak.ps.client import Absent, Floats, Gradients, Keys


class Sync(Strategy):
    """Pulls wait for the step before, pushes belong to a step, and a step is prepared on all servers, then committed."""

    averages = True
    counts_steps = True
    averages_rows = True

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.step = self.client.resume()

    def pull(self, table: int, keys: Keys, *, create: bool = True, absent: Absent = "initial") -> Floats:
        return self.client.pull(table, keys, create=create, absent=absent, step=self.step)

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:
        self.client.push(table, keys, rows, step=self.step, scale=self._scale(share))

    def pull_dense(self, table: int, out: Floats | None = None) -> Floats:
        return self.client.pull_dense(table, out, step=self.step)

    def push_dense(self, table: int, gradients: Gradients, *, share: float | None = None) -> None:
        self.client.push_dense(table, gradients, step=self.step, scale=self._scale(share))

    def end_step(self) -> None:
        self.client.prepare(self.step)
        self.client.commit(self.step)
        super().end_step()

    def learn_dense(self, table: int, gradients: Gradients, out: Floats, *, share: float | None = None) -> None:
        self.client.learn_dense(table, gradients, out, step=self.step, scale=self._scale(share))
        super().end_step()

    def set_learning_rate(self, table: int, learning_rate: float) -> None:
        # As a part of the step: a server that holds no dense parameters may still be busy with the step before.
        if self.rank == 0:
            self.client.set_learning_rate(table, learning_rate, step=self.step)

    @property
    def server_step(self) -> int:
        return self.step

    def reload(self) -> None:
        self.step = self.client.resume()
