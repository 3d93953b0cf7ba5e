"""Tensors and parameters of operations that run at once, inside `fluid.dygraph.guard`. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import KERNELS
from umiak.fluid.record import naming
from umiak.fluid.record.attributes import ConstantInitializer, ParamAttr, XavierInitializer
from umiak.fluid.record.current import in_dygraph_mode, seed_to_set
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Attr, DType, Output, Shape, Value


def seed() -> None:
    """Let what is drawn follow the `random_seed` of the current programs."""
    given = seed_to_set()
    if given is not None:
        paddle.seed(given)


def to_variable(value: Value, name: str | None = None, zero_copy: bool | None = None, dtype: DType = None) -> Output:
    """`fluid.dygraph.to_variable`: a tensor from an array; no gradient goes to it. The array is always copied."""
    if isinstance(value, paddle.Tensor):
        return value
    if not in_dygraph_mode():
        raise bad("UM-FLUID-001", "to_variable outside of dygraph.guard", "write `with fluid.dygraph.guard():` around it", where=user_line())  # fmt: skip
    tensor = paddle.to_tensor(np.asarray(value), dtype=dtype)
    if name:
        tensor.name = name
    return tensor


def create_parameter(
    layer: str,
    attribute: Attr,
    shape: Shape,
    dtype: str = "float32",
    *,
    is_bias: bool = False,
    default: Any = None,
) -> Output:
    """A parameter with its first value; None if the attribute is False."""
    given = ParamAttr.of(attribute)
    if given is None:
        return None
    sizes = [int(size) for size in shape]
    name = given.name or naming.generate(f"{layer}.{'b' if is_bias else 'w'}")
    initializer = given.initializer or default or (ConstantInitializer(0.0) if is_bias else XavierInitializer())
    seed()
    type_, arguments = initializer.operation(tuple(sizes))
    with paddle.no_grad():
        first = KERNELS[type_].function(**{"shape": sizes, "dtype": dtype, **arguments})
    settings = paddle.ParamAttr(
        learning_rate=given.learning_rate,
        trainable=given.trainable,
        initializer=paddle.nn.initializer.Constant(0.0),
    )
    parameter = paddle.create_parameter(sizes, dtype, attr=settings)
    parameter.name = name  # Paddle allows each name once in a process, 1.8 in each guard
    parameter.set_value(first)
    parameter.regularizer = given.regularizer
    parameter.gradient_clip_attr = given.gradient_clip
    return parameter
