"""Tensors as 1.8 has them, while its programs run at once: an element is [1], `backward` takes a strategy. A program.

Paddle's own tensors are used. What they do differently today is put in place of Paddle's methods for as long as a guard is open, and
taken away with the last one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import paddle

from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import Function, Inputs, Outputs


class BackwardStrategy:
    """`fluid.dygraph.BackwardStrategy`: in which order gradients are added; today's Paddle has one order."""

    def __init__(self) -> None:
        self.sort_sum_gradient = False


_open: list[dict[str, Any]] = []


@contextmanager
def as_in_18() -> Iterator[None]:
    """Tensors behave as in 1.8; a block inside of another one changes nothing more."""
    if not _open:
        methods = {"backward": _backward(paddle.Tensor.backward), "__getitem__": _item(paddle.Tensor.__getitem__)}
        before = {name: getattr(paddle.Tensor, name) for name in methods}
        for name, method in methods.items():
            setattr(paddle.Tensor, name, method)
    else:
        before = {}
    _open.append(before)
    try:
        yield
    finally:
        for name, method in _open.pop().items():
            setattr(paddle.Tensor, name, method)


def _backward(own: Function) -> Function:
    def backward(self: Any, backward_strategy: Any = None, retain_graph: bool = False, **settings: Any) -> None:
        """Gradients of this value go to all parameters that led to it; its own one can be asked for afterwards."""
        given = settings.pop("grad_tensor", None if isinstance(backward_strategy, BackwardStrategy) else backward_strategy)  # fmt: skip
        if self.stop_gradient:
            what = "backward() of a value that no parameter led to"
            raise bad("UM-FLUID-002", what, "compute it from parameters, outside of no_grad", where=user_line())
        if not self.is_leaf:
            self.retain_grads()
        own(self, given, retain_graph, **settings)

    return backward


def _item(own: Function) -> Function:
    def item(self: Any, index: Any) -> Any:
        found = own(self, index)
        return found.reshape([1]) if found.ndim == 0 and self.ndim else found

    return item


def grad(
    outputs: Inputs,
    inputs: Inputs,
    grad_outputs: Inputs = None,
    no_grad_set: Inputs = None,
    create_graph: bool = False,
    backward_strategy: BackwardStrategy | None = None,
) -> Outputs:
    """The gradients of values by others; the graph stays if it is to be derived again."""
    given = None if grad_outputs is None else _listed(grad_outputs)
    left_out = None if no_grad_set is None else _listed(no_grad_set)
    return list(
        paddle.grad(
            _listed(outputs),
            _listed(inputs),
            given,
            retain_graph=create_graph,
            create_graph=create_graph,
            no_grad_vars=left_out,
        )
    )


def _listed(tensors: Inputs) -> Outputs:
    return list(tensors) if isinstance(tensors, list | tuple | set) else [tensors]
