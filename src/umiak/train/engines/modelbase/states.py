"""What of a program stays from one batch to the next, as tensors that checkpoints keep. An adapter, for programs of `paddle.fluid`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.record.program import FORWARD, Parameter
from umiak.train.checkpoints.weights import StateEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from umiak.data.array_types import AnyArray
    from umiak.fluid.running.scope import VariableScope


class KeptTensors:
    """Tensors that stay the same objects, while operations may put new ones into the scope."""

    def __init__(self, scope: VariableScope, names: Iterable[str]) -> None:
        self._scope = scope
        # What the scope does not have yet, such as the learning rate of a schedule, every batch computes again.
        self.tensors = {name: scope.tensors[name] for name in names if name in scope.tensors}

    def gather(self) -> None:
        """What the scope has into the tensors."""
        for name, kept in self.tensors.items():
            now = self._scope.tensors[name]
            if now is not kept:
                set_tensor(kept, now.numpy())
                self._scope.tensors[name] = kept

    def spread(self) -> None:
        """The tensors into the scope."""
        self._scope.tensors.update(self.tensors)


def kept_names(program: Any) -> list[str]:
    """Variables that stay and that operations of a program use: parameters, what optimizers remember, counters, running statistics."""
    used = {name for block in program.blocks for each in block.ops for name in (*each.input_names, *each.outputs)}
    return [each.name for each in program.list_vars() if each.persistable and each.name in used]


def forward_names(program: Any) -> list[str]:
    """Those of them that a model answers by, and no optimizer alone."""
    ops = [each for block in program.blocks for each in block.ops if each.role == FORWARD]
    used = {name for each in ops for name in (*each.input_names, *each.outputs)}
    return [name for name in kept_names(program) if name in used]


def parameters_of(program: Any) -> dict[str, Parameter]:
    """What is learned, by names."""
    return {each.name: each for each in program.all_parameters()}


def entries(program: Any, names: Iterable[str]) -> dict[str, StateEntry]:
    """What a checkpoint may have of these: also under the name that a table's rows have."""
    found = {}
    variables = {each.name: each for each in program.list_vars()}
    for name in names:
        shape, dtype = tuple(variables[name].shape), variables[name].dtype
        if any(size < 0 for size in shape):
            continue
        for each in (name, f"{name}.weight") if len(shape) == 2 else (name,):
            found[each] = StateEntry(shape=shape, same_as=name, dtype=dtype)
    return found


def set_tensor(tensor: Any, array: AnyArray) -> None:
    """New numbers for a tensor, in its type."""
    with paddle.no_grad():
        tensor.set_value(np.ascontiguousarray(array).astype(str(tensor.dtype).removeprefix("paddle."), copy=False))


def copied(scope: VariableScope, names: Iterable[str]) -> dict[str, AnyArray]:
    """Values as they are now."""
    return {name: np.array(scope.tensors[name].numpy()) for name in names if name in scope.tensors}


def put_back(scope: VariableScope, values: Mapping[str, AnyArray]) -> None:
    """Values that `copied` has given."""
    for name, array in values.items():
        set_tensor(scope.tensors[name], array)
