"""The dense parameters of a static program, which are in a scope, as one table of the servers. An adapter, for Paddle.

The scope's tensors become views of one flat array, which is what a step fetches into: nothing is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from paddle.base import core

from umiak.ps import paddle_internals
from umiak.ps.layers import common

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.ps.gradients import Floats
    from umiak.ps.layers.dense import Gradient
    from umiak.ps.paddle_types import Scope, Tensor
    from umiak.ps.tables.lookup import EmbeddingTable


class ScopeParameter:
    """A parameter in a scope."""

    def __init__(self, scope: Scope, name: str, shape: Sequence[int]) -> None:
        self.scope = scope
        self.name = name
        self.shape = tuple(int(size) for size in shape)

    @property
    def tensor(self) -> Tensor:
        return self.scope.find_var(self.name).get_tensor()


def is_filled(scope: Scope, name: str) -> bool:
    """Whether the startup program has run: whether a scope has this variable with numbers in it."""
    found = scope.find_var(name)
    try:
        return found is not None and paddle_internals.is_initialized(found.get_tensor())
    except ValueError:  # it is no tensor: Paddle declares embeddings of older programs otherwise
        return False


def read(scope: Scope, names: Iterable[str]) -> dict[str, AnyArray]:
    """Those of these variables that a scope has numbers of."""
    return {name: np.array(scope.find_var(name).get_tensor()) for name in names if is_filled(scope, name)}


def write(scope: Scope, arrays: Mapping[str, AnyArray]) -> None:
    """The opposite."""
    for name, array in arrays.items():
        scope.var(name).get_tensor().set(np.ascontiguousarray(array), core.CPUPlace())


class ScopeOptimizer(common.Optimizer):
    """Learns everything that the servers hold of a static program."""

    _given: Sequence[Floats] = ()
    fused: Mapping[str, Sequence[ScopeParameter]] = {}
    """Variables in which Paddle keeps the weights of a recurrent layer once more, one behind the other: ``gru_0.w_0``.

    In plain Paddle they share its memory, so that it moves with them, and is saved and loaded as they are.
    A file in which it is old would, when plain Paddle loads it, overwrite what was learned.
    """

    def learn(self, gradients: Sequence[Floats], *, share: float | None, squares_beside: float = 0.0) -> None:
        """One step with these gradients, in the order of `names`.
        ``squares_beside``: of others, which count in the norm of all.
        """
        self._given = gradients
        self._learner.squares_beside = squares_beside
        try:
            self.step(share=share)
        finally:
            self._given = ()
            self._learner.squares_beside = 0.0

    def follow(self, tables: Iterable[EmbeddingTable]) -> None:
        """Let the learning rates of these tables follow the schedule."""
        self._learner.tables = tuple(tables)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters in the order of the table."""
        return tuple(each.name for each in self._parameters)

    def skip(self) -> None:
        """A step without gradients, where the others' steps wait for it."""
        self._take_changes()
        self._learner.skip()
        self._show()

    def _gradients(self) -> list[Gradient]:
        return [*self._given]

    @staticmethod
    def floats(tensor: ScopeParameter) -> Floats:
        return np.array(tensor.tensor, dtype=np.float32).reshape(-1)

    def _current_factor(self) -> float:
        if self._schedule is None:
            return self._factor
        factor: float = self._schedule() / self._schedule.base_lr if self._schedule.base_lr else 1.0
        return factor

    def _share_memory(self) -> None:
        values = self._learner.values
        if not values.size:
            return
        flat = core.DenseTensor()
        flat.set(values, core.CPUPlace(), True)
        self._flat = flat
        for each, place in common.places(self._parameters):
            paddle_internals.share(each.tensor, paddle_internals.part_of(flat, place.start, place.stop), each.shape)
        self._show()

    def _show(self) -> None:
        """The scope has the memory that is fetched into; only what consists of several parameters is a copy."""
        for name, parts in self.fused.items():
            scope = parts[0].scope
            if is_filled(scope, name):
                write(scope, {name: np.concatenate([np.array(part.tensor).reshape(-1) for part in parts])})

    def _take_changes(self) -> None:
        values = self._learner.values
        first, moved = values.ctypes.data, False
        for each, place in common.places(self._parameters):
            if paddle_internals.pointer(each.tensor) != first + values.itemsize * place.start:
                # It was given other memory, for example by another run of the startup program.
                values[place] = self.floats(each)
                moved = True
        if moved:
            self._share_memory()
