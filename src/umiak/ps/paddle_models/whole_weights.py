"""All rows of a table as one weight: sent when training begins, read and set as the model's parameter. An adapter, for Paddle.

A layer whose rows are in a table keeps its parameter, without numbers: so `model.parameters()` lists it, and freezing it is said there.
`state_dict`, `numpy` and `detach` give the table's rows, `set_value` and `set_state_dict` send them. Whatever computes with it, Paddle refuses.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from numpy.typing import NDArray

    from umiak.ps.clients.protocol import Floats
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import EmbeddingTable

PART_BYTES = 4 << 20
"""How much of a weight is sent or fetched at a time."""
FIRST_LOOK_S = 0.02
NOT_ALL_ROWS = "UM-PS-181"


class WholeWeight:
    """The rows of one table, all of them."""

    def __init__(self, session: Session, table: EmbeddingTable, rows: int, name: str) -> None:
        self._session = session
        self._table = table
        self._name = name
        """Of the weight, in `state_dict`."""
        self.shape = (rows, table.spec.dim)
        self.on_set: Callable[[], None] = _nothing
        """Called when a script has set rows."""

    def begin(self, values: Floats) -> None:
        """The first trainer's weight as the first rows, unless the servers have rows: then this trainer has been restarted."""
        session, table = self._session, self._table
        table.open()
        if session.communicator.keeps_tables or session.is_first:
            if session.communicator.keeps_tables or self.row_count() < self.shape[0]:
                self.send(values)
            return
        deadline = time.monotonic() + session.options.timeout_s
        pause_s, rows = FIRST_LOOK_S, 0
        while (now := self.row_count()) < self.shape[0]:
            if now > rows:  # it takes its time, but it goes on
                deadline = time.monotonic() + session.options.timeout_s
            if time.monotonic() > deadline:
                raise bad(
                    "UM-PS-009",
                    f"trainer 0 has not given table {table.name} its first rows within {session.options.timeout_s:g} s",
                    "every trainer must carry over the same model; if trainer 0 starts slowly: ps.init(timeout_s=...)",
                )
            rows = now
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)

    def send(self, values: Floats) -> None:
        """The first trainer's rows are everybody's. Where each trainer has its own tables, everybody calls it."""
        session = self._session
        keeps = session.communicator.keeps_tables
        if not keeps and not session.is_first:
            return
        for keys in self._parts():
            rows = np.ascontiguousarray(values[int(keys[0]) : int(keys[-1]) + 1])
            if keeps and session.world > 1:
                first, *_ = session.gather(rows.tobytes() if session.is_first else b"", "rows")
                rows = np.frombuffer(first, np.float32).reshape(rows.shape)
            session.client.set(self._table.number, keys, rows)

    def numbers(self) -> Floats:
        """All rows as they are now."""
        whole = np.empty(self.shape, np.float32)
        for keys in self._parts():
            whole[int(keys[0]) : int(keys[-1]) + 1] = self._table.rows(keys, create=False)
        return whole

    def set(self, values: Any) -> None:
        """What a script sets in the middle of training. The first trainer's are everybody's; in geo, each trainer's its own copy's."""
        array = self.checked(values.numpy() if isinstance(values, paddle.Tensor) else values)
        communicator = self._session.communicator
        if communicator.keeps_tables:
            self.send(array)
        elif self._session.is_first or communicator.sets_own_rows:
            for keys in self._parts():
                rows = np.ascontiguousarray(array[int(keys[0]) : int(keys[-1]) + 1])
                communicator.set(self._table.number, keys, rows)
        self.on_set()

    def checked(self, values: Any) -> Floats:
        array: Floats = np.ascontiguousarray(values, np.float32)
        if array.shape != self.shape:
            raise bad("UM-PS-171", f"{self._name}: not of the shape {list(self.shape)}: {list(array.shape)}")
        return array

    def row_count(self) -> int:
        """Rows that are there."""
        servers = json.loads(self._session.client.status())
        name = self._table.name
        return sum(int(server["tables"][name]["rows"]) for server in servers if name in server["tables"])

    def check_loaded(self) -> None:
        """`BadRequest` if a checkpoint has brought only some of the rows: the others would be zeros."""
        rows = self.row_count()
        if rows < self.shape[0]:
            raise bad(
                NOT_ALL_ROWS,
                f"table {self._table.name} has {rows} of the {self.shape[0]} rows of {self._name} after loading",
                "load a checkpoint that was saved with all rows: earlier versions left rows out that no batch had used",
            )

    def stand_in(self, weight: paddle.Tensor) -> None:
        """Let the parameter answer with the table's rows. Its own numbers go."""
        weight.clear_gradient()
        # The model's own optimizer still has the tensor: its memory goes all the same.
        weight._clear_data()  # noqa: SLF001
        weight.numpy = self._numpy
        weight.detach = weight.clone = self._tensor
        weight.set_value = self.set

    def answer(self, state: dict[str, Any], weight: paddle.Tensor) -> None:
        """A hook for `state_dict`: the rows, where the parameter stands."""
        names = [name for name, each in state.items() if each is weight]
        if names:
            whole = self._tensor()
            state.update(dict.fromkeys(names, whole))

    def _numpy(self, *_: object) -> NDArray[Any]:
        return self.numbers()

    def _tensor(self) -> paddle.Tensor:
        return paddle.to_tensor(self.numbers(), place=paddle.CPUPlace())

    def _parts(self) -> Iterator[NDArray[np.uint64]]:
        """All ids, some at a time."""
        most = max(1, PART_BYTES // (4 * self.shape[1]))
        for first in range(0, self.shape[0], most):
            yield np.arange(first, min(first + most, self.shape[0]), dtype=np.uint64)


def _nothing() -> None:
    """Nobody asked."""
