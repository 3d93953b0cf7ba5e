"""Operations on matrices and elements that 1.8 took over from later versions, with its shapes: a full reduction is [1]. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import Tensor, kernel
from umiak.fluid.kernels.tensors import numbers

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results, Shape, Sizes


def _one(found: Tensor) -> Tensor:
    return found.reshape([1]) if found.ndim == 0 else found


@kernel()
def log1p(x: Tensor) -> Tensor:
    """log(1 + x)."""
    return paddle.log1p(x)


@kernel()
def mish(x: Tensor, threshold: float) -> Tensor:
    """x tanh(softplus(x)); beyond the threshold softplus is x itself, and below its negative exp(x)."""
    soft = paddle.where(x > threshold, x, paddle.log1p(paddle.exp(paddle.clip(x, max=threshold))))
    return x * paddle.tanh(paddle.where(x < -threshold, paddle.exp(x), soft))


@kernel()
def logsumexp(x: Tensor, dim: Sizes, keepdim: bool) -> Tensor:
    """The logarithm of the sum of exponentials."""
    return _one(paddle.logsumexp(x, dim if dim is None else numbers(dim), keepdim))


@kernel()
def clamp(input: Tensor, min: Tensor, max: Tensor) -> Tensor:
    """Between two bounds, or with one alone."""
    if min is None and max is None:
        raise ValueError("clamp needs min or max")
    bounds = [each.item() if isinstance(each, paddle.Tensor) else each for each in (min, max)]
    return paddle.clip(input, *bounds)


@kernel()
def addmm(input: Tensor, x: Tensor, y: Tensor, alpha: float, beta: float) -> Tensor:
    """beta input + alpha x y."""
    return beta * input + alpha * paddle.matmul(x, y)


@kernel()
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: float) -> Tensor:
    """input + value a b."""
    return input + tensor1 * tensor2 * value


@kernel()
def bmm(x: Tensor, y: Tensor) -> Tensor:
    """Products of matrices, one for each row of the batch."""
    return paddle.bmm(x, y)


@kernel()
def dot(x: Tensor, y: Tensor) -> Tensor:
    """Sums of products; their dimension stays as one."""
    return paddle.sum(x * y, -1, keepdim=True)


@kernel()
def dist(x: Tensor, y: Tensor, p: float) -> Tensor:
    """The p-norm of a difference."""
    return _one(paddle.dist(x, y, p))


@kernel()
def norm(input: Tensor, p: float | str, axis: Any, keepdim: bool) -> Tensor:
    """The length of everything, of vectors or of matrices."""
    return _one(paddle.linalg.norm(input, p, axis, keepdim))


@kernel()
def cross(input: Tensor, other: Tensor, dim: int | None) -> Tensor:
    """The cross product, along the first dimension of three unless one is named."""
    axis = next(place for place, size in enumerate(input.shape) if size == 3) if dim is None else dim
    return paddle.cross(input, other, axis)


@kernel()
def kron(x: Tensor, y: Tensor) -> Tensor:
    """The product of Kronecker."""
    return paddle.kron(x, y)


@kernel()
def t(input: Tensor) -> Tensor:
    """A matrix turned."""
    return paddle.t(input)


@kernel()
def tril(input: Tensor, diagonal: int) -> Tensor:
    """The lower triangle."""
    return paddle.tril(input, diagonal)


@kernel()
def triu(input: Tensor, diagonal: int) -> Tensor:
    """The upper triangle."""
    return paddle.triu(input, diagonal)


@kernel()
def trace(input: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """The sum of a diagonal."""
    return _one(paddle.trace(input, offset, dim1, dim2))


@kernel()
def diag_embed(input: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """Matrices with these diagonals. Paddle's own has no gradient."""
    width = input.shape[-1]
    rows, columns = (np.eye(width, width + abs(offset), k=max(each, 0)) for each in (-offset, offset))
    base = paddle.to_tensor(rows[:, :, None] * columns[:, None, :]).astype(input.dtype)
    output = paddle.tensordot(input, base, 1)
    return paddle.moveaxis(output, [-2, -1], [dim1, dim2])


@kernel()
def meshgrid(input: list[Tensor]) -> Results:
    """Grids: the values of each input along its own dimension."""
    return list(paddle.meshgrid(*[each.reshape([-1]) for each in input]))


@kernel()
def elementwise_equal(x: Tensor, y: Tensor) -> Tensor:
    """Whether elements are equal."""
    return paddle.equal(x, y)


@kernel()
def allclose(input: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    """Whether all elements are nearly equal."""
    return _one(paddle.allclose(input, other, float(rtol), float(atol), equal_nan))


@kernel()
def fsp_matrix(x: Tensor, y: Tensor) -> Tensor:
    """Means of products of the channels of two images."""
    rows, places = x.shape[0], x.shape[2] * x.shape[3]
    left, right = (each.reshape([rows, each.shape[1], places]) for each in (x, y))
    return paddle.matmul(left, right, transpose_y=True) / places


def _open(tensor: Tensor, stop_gradient: bool) -> Tensor:
    """A tensor that a gradient goes to, unless it stops before it."""
    tensor.stop_gradient = stop_gradient or not tensor.is_floating_point()
    return tensor


@kernel()
def full(shape: Shape, fill_value: Tensor, dtype: str | None, stop_gradient: bool) -> Tensor:
    """One value everywhere."""
    value = fill_value.item() if isinstance(fill_value, paddle.Tensor) else fill_value
    return _open(paddle.full(numbers(shape), value, dtype or "float32"), stop_gradient)


@kernel()
def full_like(input: Tensor, fill_value: float, dtype: str | None, stop_gradient: bool) -> Tensor:
    """One value in this shape."""
    return _open(paddle.full(input.shape, fill_value, dtype or input.dtype), stop_gradient)


@kernel()
def arange(start: Tensor, end: Tensor, step: Tensor, dtype: str | None) -> Tensor:
    """Numbers with a step; float32 unless another type is named."""
    first, last, by = (each.item() if isinstance(each, paddle.Tensor) else each for each in (start, end, step))
    return paddle.arange(first, last, by, dtype or "float32")


@kernel()
def randint(low: int, high: int | None, shape: Shape, dtype: str | None, seed: int, stop_gradient: bool) -> Tensor:  # fmt: skip
    """Whole numbers from low on, below high; with a seed the same ones each time."""
    if seed:
        low, high = (0, low) if high is None else (low, high)
        drawn = np.random.default_rng(seed).integers(low, high, [1] if shape is None else numbers(shape))
        return paddle.to_tensor(drawn.astype(dtype or "int64"))
    return paddle.randint(low, high, [1] if shape is None else numbers(shape), dtype or "int64")


@kernel()
def randn(shape: Shape, dtype: str | None, stop_gradient: bool) -> Tensor:
    """Drawn around zero."""
    return _open(paddle.randn(numbers(shape), dtype or "float32"), stop_gradient)


@kernel()
def randperm(n: int, dtype: str, seed: int, stop_gradient: bool) -> Tensor:
    """The numbers below n in a drawn order; with a seed the same one each time."""
    if seed:
        return paddle.to_tensor(np.random.default_rng(seed).permutation(n).astype(dtype))
    return paddle.randperm(n, dtype)
