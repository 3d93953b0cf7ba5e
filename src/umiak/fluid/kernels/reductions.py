"""Reductions and products: a full reduction has the shape [1], as in 1.8. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle

from umiak.fluid.kernels.registry import Tensor, kernel
from umiak.fluid.kernels.tensors import flatten

if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.fluid.arguments import Function, Sizes


@kernel()
def mean(x: Tensor) -> Tensor:
    """The mean of everything, as [1]."""
    return paddle.mean(x).reshape([1])


def _reducing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduced(input: Tensor, dim: Sizes, keep_dim: bool) -> Tensor:
        axes = list(dim) if isinstance(dim, list | tuple) else dim
        if axes == []:
            axes = None
        output = function(input, axis=axes, keepdim=keep_dim)
        return output.reshape([1]) if output.ndim == 0 else output

    return reduced


class _Extreme(paddle.autograd.PyLayer):  # type: ignore[misc]
    """A maximum or minimum, whose gradient goes to all elements that are it. Paddle 3.3's own takes minutes for some thousand rows."""

    @staticmethod
    def forward(context: Any, x: Tensor, function: Function, axis: Any) -> Tensor:
        extreme = function(x, axis=axis, keepdim=True)
        context.save_for_backward(x, extreme)
        return extreme

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        x, extreme = context.saved_tensor()
        return gradient * (x == extreme).astype(gradient.dtype)


def _extreme(function: Function) -> Callable[..., Tensor]:
    def reduced(x: Tensor, axis: Any, keepdim: bool) -> Tensor:
        if x.stop_gradient or not x.is_floating_point():
            return function(x, axis=axis, keepdim=keepdim)
        output = _Extreme.apply(x, function, axis)
        return output if keepdim else output.reshape([]) if axis is None else paddle.squeeze(output, axis)

    return reduced


for _name in ("sum", "mean", "prod", "all", "any"):
    kernel(f"reduce_{_name}")(_reducing(getattr(paddle, _name)))
for _name in ("max", "min"):
    kernel(f"reduce_{_name}")(_reducing(_extreme(getattr(paddle, _name))))


@kernel()
def matmul(x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool, alpha: float) -> Tensor:
    """A product of matrices, times alpha; of two vectors [1]."""
    output = paddle.matmul(x, y, transpose_x, transpose_y)
    if alpha != 1.0:
        output = output * alpha
    return output.reshape([1]) if output.ndim == 0 else output


def mul_shapes(x: Tensor, y: Tensor, x_num_col_dims: int, y_num_col_dims: int) -> list[tuple[tuple[int, ...], str]]:
    """Shape and type of the product, without making matrices of that size."""
    inner = [_product(x.shape[x_num_col_dims:]), _product(y.shape[:y_num_col_dims])]
    if -1 not in inner and inner[0] != inner[1]:
        raise ValueError(f"{inner[0]} columns of {list(x.shape)} do not fit {inner[1]} rows of {list(y.shape)}")
    return [((*x.shape[:x_num_col_dims], *y.shape[y_num_col_dims:]), x.dtype)]


def _product(sizes: tuple[int, ...]) -> int:
    result = 1
    for size in sizes:
        if size < 0:
            return -1
        result *= size
    return result


@kernel(shapes=mul_shapes)
def mul(x: Tensor, y: Tensor, x_num_col_dims: int, y_num_col_dims: int) -> Tensor:
    """A product of matrices; the first dimensions of `x` are its rows, the others its columns."""
    if x.ndim == 2 and y.ndim == 2 and x_num_col_dims == 1 and y_num_col_dims == 1:
        return paddle.matmul(x, y)
    rows, columns = x.shape[:x_num_col_dims], y.shape[y_num_col_dims:]
    inner = _product(tuple(y.shape[:y_num_col_dims]))
    output = paddle.matmul(paddle.reshape(x, [-1, inner]), paddle.reshape(y, [inner, -1]))
    return paddle.reshape(output, rows + columns)


def _index(found: Tensor) -> Tensor:
    return found.reshape([1]) if found.ndim == 0 else found


@kernel()
def argmax(x: Tensor, axis: int) -> Tensor:
    """1.8's axis is 0."""
    return _index(paddle.argmax(x, axis))


@kernel()
def argmin(x: Tensor, axis: int) -> Tensor:
    """1.8's axis is 0."""
    return _index(paddle.argmin(x, axis))


@kernel()
def argsort(input: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Sorted values, and where they were."""
    places = paddle.argsort(input, axis, descending, stable=True)
    return paddle.take_along_axis(input, places, axis), places


@kernel()
def topk(input: Tensor, k: Sizes) -> tuple[Tensor, Tensor]:
    """The largest values of the last dimension, and where they are."""
    values, places = paddle.topk(input, int(k))
    return values, places


@kernel()
def l2_normalize(x: Tensor, axis: int | None, epsilon: float) -> Tensor:
    """x over its length; epsilon is added to the sum of squares."""
    if x.ndim == 1:
        axis = 0
    axis = -1 if axis is None else axis
    return x / paddle.sqrt(paddle.sum(x * x, axis, keepdim=True) + epsilon)


@kernel()
def cos_sim(X: Tensor, Y: Tensor) -> Tensor:  # noqa: N803 - its arguments in 1.8
    """The cosine between rows, as [N, 1]; `Y` may be one row."""
    x, y = flatten(X, 1), flatten(Y, 1)
    lengths = paddle.sqrt(paddle.sum(x * x, 1, keepdim=True)) * paddle.sqrt(paddle.sum(y * y, 1, keepdim=True))
    return paddle.sum(x * y, 1, keepdim=True) / lengths
