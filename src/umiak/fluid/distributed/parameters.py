"""The dense parameters of a recorded program, which are in a scope, as one table of the servers. A program, for Paddle.

The scope's tensors become views of one flat array, which is what a step fetches into: nothing is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.ps import paddle as ps_paddle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from umiak.fluid.running.scope import VariableScope
    from umiak.ps.gradients import Floats
    from umiak.ps.layers.dense import Factors, Gradient
    from umiak.ps.tables.lookup import EmbeddingTable


class ScopeTensors(ps_paddle.Optimizer):
    """Learns everything that the servers hold of a program."""

    _given: Sequence[Floats] = ()
    _factors: Factors = 1.0

    def learn(self, gradients: Sequence[Floats], *, factors: Factors, share: float | None) -> None:
        """One step with these gradients, in the order of `learned`; ``factors`` multiply learning rates."""
        self._given, self._factors = gradients, factors
        try:
            self.step(share=share)
        finally:
            self._given = ()

    def follow(self, tables: Iterable[EmbeddingTable]) -> None:
        """Let the learning rates of these tables follow those of the program."""
        self._learner.tables = tuple(tables)

    def skip(self) -> None:
        """A step without gradients, where the others' steps wait for it."""
        self._take_changes()
        self._learner.skip()
        self._show()

    def _gradients(self) -> list[Gradient]:
        return [*self._given]

    def _current_factor(self) -> Any:
        return self._factors


def adopt(scope: VariableScope, known: Mapping[str, paddle.Tensor]) -> None:
    """Let a scope have these tensors again, with what somebody has put there in their place: a startup program that ran once more."""
    for name, tensor in known.items():
        found = scope.tensors.get(name)
        if found is not None and found is not tensor:
            with paddle.no_grad():
                tensor.set_value(found.numpy())
            scope.tensors[name] = tensor


def scaled_to(gradient: Floats, most: float) -> Floats:
    """A gradient no longer than this."""
    norm = float(np.sqrt(np.square(gradient, dtype=np.float64).sum()))
    return gradient if norm <= most else gradient * np.float32(most / norm)
