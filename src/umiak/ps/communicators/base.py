"""What every communicator does, seen from a training loop. An adapter; the class itself is what `Async` does.

rows = communicator.pull(table, keys)           forward
communicator.push(table, keys, gradients)       after backward: at most once per step and table
communicator.push_dense(table, gradients)
communicator.end_step()                         the step counts
communicator.pull_dense(table, out)             parameters for the next one
communicator.learn_dense(table, gradients, out, pushes=...)     all but the first in one
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import umiak_native

from umiak.ps import specs
from umiak.ps.communicators.next_rows import NextRows
from umiak.ps.errors import bad
from umiak.ps.options import FLOAT32

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from typing_extensions import NotRequired

    from umiak.ps.clients import Client
    from umiak.ps.communicators.next_rows import Asked
    from umiak.ps.gradients import Absent, Floats, Gradients, Keys, Push
    from umiak.ps.specs import DenseTable, SparseTable, Spec

    class TrainerPlace(TypedDict):
        """Which of the trainers this is, and how long it waits for others."""

        rank: int
        world: int
        timeout_s: float
        wire: NotRequired[str]

    class LearnArguments(TypedDict, total=False):
        """What a client is told where a step ends in one exchange."""

        step: int
        scale: float
        mean: bool
        next_rows: list[Asked]


FIRST_LOOK_S = 0.02


class Communicator:
    """Gradients are applied when they arrive, values are those of the moment."""

    averages = False
    """Whether gradients count by 1 / trainers, so that a step is one over the batches of all trainers together."""

    averages_rows = False
    """Whether gradients of rows do."""

    rows_go_with_dense = True
    """Whether the gradients of rows can go in the same exchange as the dense ones: both are applied alike."""

    counts_steps = False
    """Whether servers count steps, and save at one of them."""

    may_be_behind = False
    """Whether the dense parameters of a model may lack what others have sent since its last step."""

    keeps_tables = False
    """Whether every trainer has all tables itself, and loads a checkpoint itself."""

    sets_own_rows = False
    """Whether every trainer sets rows for itself, in a copy of its own."""

    rounds_dense = True
    """Whether what is sent of dense parameters may be rounded on the way."""

    ends_in_one_exchange = False
    """Whether a step's end is one exchange with the servers, or its commit is, so that rows can come with it."""

    def __init__(self, client: Client, *, rank: int, world: int, timeout_s: float, wire: str = FLOAT32) -> None:
        self.client = client
        self.next_rows = NextRows()
        self.can_read_ahead = self.ends_in_one_exchange and getattr(client, "reads_ahead", True)
        """Whether what `next_rows` expects is read with the end of a step. Else nobody should expect anything."""
        self.rank = rank
        self.world = world
        self._timeout_s = timeout_s
        self._wire = wire
        self._step_count = 0
        self.names: set[str] = set()
        """Of the tables that this trainer has opened."""
        self._statistics: set[int] = set()
        """The tables whose pushed rows begin with what is counted."""

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self._step_count

    # ---- tables

    def as_kept(self, spec: Spec) -> Spec:
        """A table as it is described where it is kept."""
        return spec

    def open(self, name: str, spec: SparseTable) -> int:
        """Create a sparse table on the servers, or find it there."""
        self.names.add(name)
        table = self._create(name, spec)
        if spec.accessor is not None:
            self._statistics.add(table)
        return table

    def open_dense(self, name: str, spec: DenseTable, values: Floats) -> int:
        """Create a dense table, or find it there. The first trainer's values are the first values; others wait for them."""
        self.names.add(name)
        table = self._create(name, spec)
        self.set_first_values(table, values)
        return table

    def _create(self, name: str, spec: SparseTable | DenseTable) -> int:
        is_exact = not self.rounds_dense if isinstance(spec, specs.DenseTable) else spec.accessor is not None
        return self.client.create_table(name, specs.to_json(spec), FLOAT32 if is_exact else self._wire)

    def open_kept(self, name: str, spec: DenseTable) -> int:
        """The same for values that nobody learns: what is set in it is kept."""
        self.names.add(name)
        return self.client.create_table(name, specs.to_json(spec))

    def set_first_values(self, table: int, values: Floats) -> None:
        if self.rank == 0:
            self.client.set_dense(table, values, if_unset=True)
            return
        hint = "every trainer must make the same optimizer"
        wait_for_the_first(
            lambda: self._is_set(table), 1, self._timeout_s, "the dense parameters their first values", hint
        )

    def _is_set(self, table: int) -> bool:
        try:
            self.client.pull_dense(table)
        except umiak_native.Refused as refused:
            if refused.code != "not-set":
                raise
            return False
        return True

    # ---- one step

    def pull(self, table: int, keys: Keys, *, create: bool = True, absent: Absent = "initial") -> Floats:
        """Rows of keys, of the keys' shape and one dimension more. ``absent``: what missing ones read as if not created."""
        here = self.next_rows.take(table, keys, step=self.step) if create else None
        return self._pull(table, keys, create=create, absent=absent) if here is None else here

    def _pull(self, table: int, keys: Keys, *, create: bool, absent: Absent) -> Floats:
        """The rows as the servers have them."""
        return self.client.pull(table, keys, create=create, absent=absent)

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:
        """This trainer's gradients of the step. ``share`` is what they count by where strategies average."""
        self.next_rows.forget(table)  # they take effect at once
        self.client.push(table, keys, rows, scale=self._scale(share))

    def pull_dense(self, table: int, out: Floats | None = None) -> Floats:
        return self.client.pull_dense(table, out)

    def push_dense(self, table: int, gradients: Gradients, *, share: float | None = None) -> None:
        self.client.push_dense(table, gradients, scale=self._scale(share))

    def end_step(self) -> None:
        self._count_step()
        self.next_rows.forget()

    def learn_dense(
        self,
        table: int,
        gradients: Gradients,
        out: Floats,
        *,
        pushes: list[Push] | None = None,
        share: float | None = None,
    ) -> None:
        """Push the gradients of rows, then the dense ones, end the step and fetch the parameters."""
        arguments = self._in_one_exchange(share)
        together = pushes or [] if arguments is not None and self.rows_go_with_dense else []
        for each in [] if together else pushes or []:
            self.push(*each, share=share)
        if arguments is None:
            self.push_dense(table, gradients, share=share)
            self.end_step()
            self.pull_dense(table, out)
            return
        if asked := self.next_rows.ask(step=self.step + 1):
            arguments["next_rows"] = asked
        self.client.learn_dense(table, gradients, out, pushes=together, **arguments)
        self.next_rows.arrive()
        self._count_step()

    def _in_one_exchange(self, share: float | None) -> LearnArguments | None:
        """None: a step ends part by part."""
        return None

    def _count_step(self) -> None:
        self._step_count += 1

    def _scale(self, share: float | None) -> float:
        if share is not None:
            return share
        return 1.0 / self.world if self.averages else 1.0

    # ---- beside the steps

    def set_learning_rate(self, table: int, learning_rate: float) -> None:
        """For everybody: the first trainer says it. Every trainer calls this at the same step."""
        if self.rank == 0:
            self.client.set_learning_rate(table, learning_rate)

    def set(self, table: int, keys: Keys, rows: Floats) -> None:
        """Overwrite rows, for everybody and now."""
        self.next_rows.forget(table)
        self.flush()
        self.client.set(table, keys, rows)

    @property
    def heeds_set_dense(self) -> bool:
        """Whether dense parameters that this trainer's script sets count, so that they have to be noticed."""
        return self.rank == 0

    def set_dense(self, table: int, values: Floats, *, at_once: bool = False) -> None:
        """Dense parameters that the script has set: the first trainer's count. ``at_once``: before the next step.

        With ``at_once`` every trainer calls it at the same step, between two barriers; without, those that have noticed.
        """
        if self.rank == 0:
            self.flush()
            self.client.set_dense(table, values)

    def restart_dense(self) -> None:
        """What the servers have of the dense parameters counts, and nothing else."""

    def finish_steps(self) -> None:
        """This trainer takes no more steps. Where nobody waits for steps, there is nothing to say."""

    def flush(self) -> None:
        """Return when everything that this trainer has pushed is on the servers."""

    def catch_up(self) -> None:
        """Take over what others have sent; the next pulls give it."""

    @property
    def server_step(self) -> int:
        """Which step the servers are at, where they count; 0 where they do not."""
        return 0

    def reload(self) -> None:
        """The servers have loaded a checkpoint: forget what was known of them."""

    def close(self) -> None:
        """End what runs beside; after `flush`."""


def wait_for_the_first(count: Callable[[], int], goal: int, timeout_s: float, what: str, hint: str) -> None:
    """Until so much is there of what trainer 0 gives everybody. It may take its time as long as it goes on."""
    deadline, pause_s, before = time.monotonic() + timeout_s, FIRST_LOOK_S, 0
    while (now := count()) < goal:
        if now > before:
            deadline = time.monotonic() + timeout_s
        if time.monotonic() > deadline:
            slowly = f"{hint}; if trainer 0 starts slowly: ps.init(timeout_s=...)"
            raise bad("UM-PS-009", f"trainer 0 has not given {what} within {timeout_s:g} s", slowly)
        before = now
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)
