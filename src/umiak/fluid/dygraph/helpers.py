"""Functions that layers of people's own call: `dygraph_utils`, and decorators that ask for a static graph, which is not needed here. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fluid.record.recording import activated, apply

if TYPE_CHECKING:
    from umiak.fluid.arguments import Act, Function, Input, Output


def append_activation(input: Input, act: Act = None, use_cudnn: bool | None = None) -> Output:
    """`dygraph_utils._append_activation_in_dygraph`."""
    return activated(input, act)


def append_bias(input: Input, bias: Input = None, axis: int = 1) -> Output:
    """`dygraph_utils._append_bias_in_dygraph`: a bias along one dimension, if there is one."""
    return input if bias is None else apply("elementwise_add", {"x": input, "y": bias, "axis": axis})


def declarative(function: Function | None = None, **_settings: object) -> Output:
    """`dygraph.declarative`, `to_static`: 1.8 turns a function into a static graph to be faster. Its results are the same without."""
    return declarative if function is None else function
