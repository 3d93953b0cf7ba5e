"""sync: every step is applied once, with the gradients of all trainers; the next pull waits for it; and what is done like it. An adapter.

Guarantees: the servers keep the contributions of a step apart by trainer, sum them in rank order when the last trainer has
committed the step, and apply one optimizer step with the sum. So the tables after step t are a function of the data alone:
two runs are equal bit for bit, and equal to one process that computes the same micro-batches and adds them in the same order.
A step is committed on all servers or on none, whichever process dies when. A trainer that dies is waited for, then the step fails
naming it, or goes on without it (``on_loss``).

Gradients count by 1 / trainers that take part in the step: a step is one over the mean of their batches. One that has no more
steps says so (`finish_steps`), or is done. Say ``share`` where the batches of a step are of different sizes: this trainer's
samples divided by everybody's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from umiak.ps.communicators.base import Communicator
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from umiak.ps.clients import Client
    from umiak.ps.communicators.base import LearnArguments, TrainerPlace
    from umiak.ps.gradients import Absent, Floats, Gradients, Keys


class SyncCommunicator(Communicator):
    """Pulls wait for the step before, pushes belong to a step, and a step is prepared on all servers, then committed."""

    averages = True
    counts_steps = True
    averages_rows = True
    ends_in_one_exchange = True

    def __init__(self, client: Client, **place: Unpack[TrainerPlace]) -> None:
        super().__init__(client, **place)
        self._is_finished = False
        if self.client.step is None:
            self.client.resume()

    @property
    def step(self) -> int:
        """The client counts: a script may take steps with it itself."""
        return self.client.step or 0

    def _next_step(self) -> int:
        if self._is_finished:
            raise bad(
                "UM-PS-131",
                f"a step after finish_steps: {self.step}",
                "call session.finish_steps() behind the last step of the whole training",
            )
        return self.step

    def _pull(self, table: int, keys: Keys, *, create: bool, absent: Absent) -> Floats:
        return self.client.pull(table, keys, create=create, absent=absent, step=self.step)

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:
        step, scale = self._next_step(), self._scale(share)
        self.client.push(table, keys, rows, step=step, scale=scale, mean=share is None)

    def pull_dense(self, table: int, out: Floats | None = None) -> Floats:
        return self.client.pull_dense(table, out, step=self.step)

    def push_dense(self, table: int, gradients: Gradients, *, share: float | None = None) -> None:
        step, scale = self._next_step(), self._scale(share)
        self.client.push_dense(table, gradients, step=step, scale=scale, mean=share is None)

    def end_step(self) -> None:
        step = self._next_step()
        self.client.prepare(step)
        if asked := self.next_rows.ask(step=step + 1):
            self.client.commit(step, next_rows=asked)
        else:
            self.client.commit(step)
        self.next_rows.arrive()

    def _in_one_exchange(self, share: float | None) -> LearnArguments | None:
        return {"step": self._next_step(), "scale": self._scale(share), "mean": share is None}

    def set_learning_rate(self, table: int, learning_rate: float) -> None:
        # As a part of the step: a server that holds no dense parameters may still be busy with the step before.
        if self.rank == 0:
            self.client.set_learning_rate(table, learning_rate, step=self.step)

    def set_dense(self, table: int, values: Floats, *, at_once: bool = False) -> None:
        # As a part of the step: another trainer may not yet have fetched what the step before has made.
        if self.rank == 0:
            self.client.set_dense(table, values, step=None if at_once else self._next_step())

    def finish_steps(self) -> None:
        if not self._is_finished:
            self.client.finish_steps()
            self._is_finished = True

    @property
    def server_step(self) -> int:
        if not self._is_finished:
            return self.step
        return max(int(server["step"]) for server in json.loads(self.client.status()))

    def reload(self) -> None:
        self.client.resume()
        self._is_finished = False


class HybridCommunicator(SyncCommunicator):
    """hybrid: rows as in async, dense parameters as in sync. Only dense pushes belong to a step.

    Rows are many and each is touched by few: their order matters little, so their gradients are applied as they arrive. The dense
    parameters are touched by everybody in every step, where stale gradients hurt: they are summed over all trainers and applied
    once per step, and everybody computes the next step with the same ones.

    Guarantees of sync for the dense parameters, of async for the rows. Since everybody waits for the dense parameters, no trainer
    is ahead of another by more than a step. Dense gradients count by 1 / trainers.
    """

    averages_rows = False
    rows_go_with_dense = False

    def _pull(self, table: int, keys: Keys, *, create: bool, absent: Absent) -> Floats:
        return self.client.pull(table, keys, create=create, absent=absent)

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:
        self.next_rows.forget(table)
        self.client.push(table, keys, rows)


class CollectiveCommunicator(SyncCommunicator):
    """collective: as sync, without servers. Every trainer has all tables, does for its own copy what in sync the servers do, and gradients are exchanged.

    Guarantees those of sync: in each step everybody applies the same sum, gradients of rows added up in rank order, so all copies of the tables
    stay equal bit for bit. It needs a `umiak.ps.clients.collective.CollectiveClient`; `umiak train` makes one where ``fleet_mode`` is collective.
    """

    keeps_tables = True
    ends_in_one_exchange = False

    def set_first_values(self, table: int, values: Floats) -> None:
        self.client.set_dense(table, values, if_unset=True)

    def set_dense(self, table: int, values: Floats, *, at_once: bool = False) -> None:
        if at_once:
            self.client.set_dense(table, values)
        else:
            super().set_dense(table, values)

    def set_learning_rate(self, table: int, learning_rate: float) -> None:
        self.client.set_learning_rate(table, learning_rate)
