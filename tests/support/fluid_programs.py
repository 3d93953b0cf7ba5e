"""Programs of fluid for tests: umiak's `paddle.fluid`, each program in a scope and with names of its own."""

from __future__ import annotations

import warnings
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import umiak.fluid

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    umiak.fluid.install()
    import paddle
    from paddle import fluid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Programs", "computed", "derivative", "fluid", "given", "of_sequences", "paddle", "programs", "variables_of"]


class Programs:
    """A main and a startup program, and an executor."""

    def __init__(self) -> None:
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.executor = fluid.Executor(fluid.CPUPlace())

    def start(self) -> None:
        self.executor.run(self.startup)

    def run(self, feed: dict[str, Any] | None = None, fetch: Any = (), **options: Any) -> Any:
        return self.executor.run(self.main, feed=feed, fetch_list=list(fetch), **options)


@contextmanager
def programs(seed: int = 7) -> Iterator[Programs]:
    """Operations of the block are recorded into new programs."""
    made = Programs()
    made.main.random_seed = made.startup.random_seed = seed
    with ExitStack() as stack:
        stack.enter_context(fluid.scope_guard(fluid.Scope()))
        stack.enter_context(fluid.unique_name.guard())
        stack.enter_context(fluid.program_guard(made.main, made.startup))
        yield made


def variables_of(arrays: dict[str, Any]) -> dict[str, Any]:
    """What feeds these arrays; gradients go through those with fractions."""
    found = {}
    for name, array in arrays.items():
        values = np.asarray(array)
        variable = fluid.data(name, [None, *values.shape[1:]] if values.ndim else [], str(values.dtype))
        variable.stop_gradient = values.dtype.kind != "f"
        found[name] = variable
    return found


def computed(call: Callable[..., Any], arrays: dict[str, Any]) -> Any:
    """What a layer makes of these arrays."""
    with programs() as made:
        result = call(*variables_of(arrays).values())
        made.start()
        results = list(result) if isinstance(result, list | tuple) else [result]
        found = made.run(dict(arrays), results)
        for variable, array in zip(results, found, strict=True):
            assert len(variable.shape) == array.ndim, variable
            assert all(size in (-1, own) for size, own in zip(variable.shape, array.shape, strict=True)), variable
            assert variable.dtype == str(array.dtype), variable
        return found[0] if len(found) == 1 else found


def derivative(call: Callable[..., Any], arrays: dict[str, Any], *, step: float = 1e-5) -> tuple[float, float]:
    """The derivative of the layer's weighted sum in a drawn direction: by its gradients, and by two evaluations. What is called "fixed" is not moved."""
    chance = np.random.default_rng(3)
    arrays = {
        name: np.asarray(array, np.float64) if np.asarray(array).dtype.kind == "f" else np.asarray(array)
        for name, array in arrays.items()
    }
    moved = [name for name, array in arrays.items() if array.dtype.kind == "f" and name != "fixed"]
    with programs() as made:
        variables = variables_of(arrays)
        result = call(*variables.values())
        result = result[0] if isinstance(result, list | tuple) else result
        made.start()
        weights = fluid.layers.cast(
            fluid.layers.assign(chance.normal(size=made.run(arrays, [result])[0].shape).astype("float32")), "float64"
        )
        total = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(result, weights))
        gradients = fluid.gradients([total], [variables[name] for name in moved])
        direction = {name: chance.normal(size=arrays[name].shape) for name in moved}
        found = made.run(arrays, gradients)
        ours = sum(float((gradient * direction[name]).sum()) for name, gradient in zip(moved, found, strict=True))
        sides = []
        for sign in (1, -1):
            feed = {
                name: array + sign * step * direction[name] if name in direction else array
                for name, array in arrays.items()
            }
            sides.append(float(made.run(feed, [total])[0][0]))
    return ours, (sides[0] - sides[1]) / (2 * step)


def given(values: Any) -> Any:
    """An attribute of a parameter that begins with these values."""
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.asarray(values)))


def of_sequences(call: Callable[..., Any], inputs: dict[str, tuple[Any, list[list[int]]]]) -> list[Any]:
    """What a layer makes of inputs with lengths of sequences, level by level: tensors with their sequences, whose declared shapes fit."""
    with programs() as made:
        variables = [
            fluid.data(name, [None, *rows.shape[1:]], str(rows.dtype), lod_level=len(lengths))
            for name, (rows, lengths) in inputs.items()
        ]
        for variable in variables:
            variable.stop_gradient = not variable.dtype.startswith("float")
        result = call(*variables)
        results = list(result) if isinstance(result, list | tuple) else [result]
        made.start()
        feed = {
            name: fluid.create_lod_tensor(rows, lengths, fluid.CPUPlace()) if lengths else rows
            for name, (rows, lengths) in inputs.items()
        }
        found = made.run(feed, results, return_numpy=False)
        for variable, tensor in zip(results, found, strict=True):
            assert variable.lod_level == len(tensor.lod()), variable
            assert all(size in (-1, own) for size, own in zip(variable.shape, tensor.shape(), strict=True)), variable
            assert variable.dtype == str(np.asarray(tensor).dtype), variable
        return list(found)
