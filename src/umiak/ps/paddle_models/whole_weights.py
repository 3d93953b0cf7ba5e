"""All rows of a table as one weight: sent when training begins, read and set as the model's parameter. An adapter, for Paddle.

A layer whose rows are in a table keeps its parameter, without numbers: so `model.parameters()` lists it, and freezing it is said there.
`state_dict`, `numpy` and `detach` give the table's rows, `set_value` and `set_state_dict` send them. Whatever computes with it, Paddle refuses.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.ps import paddle_internals
from umiak.ps.communicators.base import wait_for_the_first
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from umiak.core.json_types import JsonObject
    from umiak.ps.gradients import Floats
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import EmbeddingTable

PART_BYTES = 4 << 20
"""How much of a weight is sent or fetched at a time."""
NOT_ALL_ROWS = "UM-PS-181"
OTHER_OPTIMIZER = "UM-PS-186"


class WholeWeight:
    """The rows of one table, all of them."""

    def __init__(self, session: Session, table: EmbeddingTable, rows: int, name: str) -> None:
        self._session = session
        self._table = table
        self._name = name
        """Of the weight, in `state_dict`."""
        self.shape = (rows, table.spec.dim)
        self.on_set: Callable[[], None] = lambda: None
        """Called when a script has set rows."""
        self.on_clear: Callable[[bool], None] = lambda _: None
        """Called before its gradients are cleared: whether zeros then stand in their place."""
        self._weight: paddle.Tensor | None = None
        """The parameter that stands for them."""

    def begin(self, values: Floats) -> None:
        """The first trainer's weight as the first rows, unless the servers have rows: then this trainer has been restarted."""
        session, table = self._session, self._table
        table.open()
        if session.communicator.keeps_tables or session.is_first:
            if session.communicator.keeps_tables or self.row_count() < self.shape[0]:
                self.send(values)
            return
        hint = "every trainer must carry over the same model"
        timeout_s = session.options.timeout_s
        wait_for_the_first(self.row_count, self.shape[0], timeout_s, f"table {table.name} its first rows", hint)

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
        self.take_written()
        whole = np.empty(self.shape, np.float32)
        for keys in self._parts():
            whole[int(keys[0]) : int(keys[-1]) + 1] = self._table.rows(keys, create=False)
        return whole

    def set(self, values: ArrayLike) -> None:
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

    def take_written(self) -> None:
        """Set what a script has written over the parameter past `set_value`: with `copy_`, `paddle.assign` or an initializer, all rows."""
        weight = self._weight
        if weight is None or not paddle_internals.is_initialized(weight):
            return
        values = np.array(paddle.Tensor.numpy(weight))
        paddle_internals.clear_data(weight)
        self.set(values)

    def checked(self, values: ArrayLike) -> Floats:
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
        paddle_internals.clear_data(weight)
        self._weight = weight
        weight.numpy = lambda *_: self.numbers()
        weight.detach = weight.clone = self._tensor
        weight.set_value = self.set
        # `Layer.clear_gradients` and loops over parameters ask the parameter, which has no gradient of its own.
        weight.clear_gradient = weight.clear_grad = self._forget_gradients
        paddle_internals.answer_gradient(weight, self._refuse_gradient)

    def answer(self, state: JsonObject, weight: paddle.Tensor) -> None:
        """A hook for `state_dict`: the rows, where the parameter stands."""
        names = [name for name, each in state.items() if each is weight]
        if names:
            whole = self._tensor()
            state.update(dict.fromkeys(names, whole))

    def _forget_gradients(self, set_to_zero: bool = True) -> None:
        self.on_clear(set_to_zero)
        self._table.forget()

    def _refuse_gradient(self) -> None:
        """An optimizer that has a step with this parameter asks for its gradient: none before a backward pass, as in Paddle."""
        if self._table.has_gradients:
            raise bad(
                OTHER_OPTIMIZER,
                f"{self._name}: an optimizer of the script's own (or a GradScaler) has a step with it, and its rows are in a table",
                "return both optimizers where the model says its own (`create_optimizer`), or give the embedding's weight to the first one alone",
            )

    def _tensor(self) -> paddle.Tensor:
        return paddle.to_tensor(self.numbers(), place=paddle.CPUPlace())

    def _parts(self) -> Iterator[NDArray[np.uint64]]:
        """All ids, some at a time."""
        most = max(1, PART_BYTES // (4 * self.shape[1]))
        for first in range(0, self.shape[0], most):
            yield np.arange(first, min(first + most, self.shape[0]), dtype=np.uint64)
