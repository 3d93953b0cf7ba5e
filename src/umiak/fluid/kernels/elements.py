"""Operations on single elements, with 1.8's broadcasting: `axis` says where the smaller one begins. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
from paddle.nn import functional

from umiak.fluid.kernels.registry import KERNELS, Kernel, Tensor, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

ONE_TENSOR = {
    **{
        name: getattr(paddle, name)
        for name in [
            "abs",
            "acos",
            "asin",
            "atan",
            "ceil",
            "cos",
            "erf",
            "exp",
            "floor",
            "log",
            "reciprocal",
            "round",
            "rsqrt",
            "sign",
            "sin",
            "sqrt",
            "square",
        ]
    },
    "tanh": paddle.tanh,
    "sigmoid": functional.sigmoid,
    "logsigmoid": functional.log_sigmoid,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "tanh_shrink": functional.tanhshrink,
    "relu": functional.relu,
    "logical_not": paddle.logical_not,
}
KERNELS.update(
    {name: Kernel(function, frame=False, sequences=False, shapes=None) for name, function in ONE_TENSOR.items()}
)


@kernel()
def relu6(x: Tensor, threshold: float) -> Tensor:
    """Between zero and the threshold."""
    return paddle.clip(x, 0.0, threshold)


@kernel()
def elu(x: Tensor, alpha: float) -> Tensor:
    """`elu`."""
    return functional.elu(x, alpha)


@kernel()
def selu(x: Tensor, scale: float | None, alpha: float | None) -> Tensor:
    """`selu`."""
    settings = {key: each for key, each in (("scale", scale), ("alpha", alpha)) if each is not None}
    return functional.selu(x, **settings)


@kernel()
def gelu(x: Tensor, approximate: bool) -> Tensor:
    """`gelu`."""
    return functional.gelu(x, approximate)


@kernel()
def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """1.8's slope is 0.02."""
    return functional.leaky_relu(x, alpha)


@kernel()
def swish(x: Tensor, beta: float) -> Tensor:
    """x * sigmoid(beta x)."""
    return x * functional.sigmoid(x * beta)


@kernel()
def hard_sigmoid(x: Tensor, slope: float, offset: float) -> Tensor:
    """1.8's slope is 0.2."""
    return paddle.clip(x * slope + offset, 0.0, 1.0)


@kernel()
def hard_swish(x: Tensor, threshold: float, scale: float, offset: float) -> Tensor:
    """x times a clipped line."""
    return x * paddle.clip(x + offset, 0.0, threshold) / scale


@kernel()
def brelu(x: Tensor, t_min: float, t_max: float) -> Tensor:
    """Between two bounds."""
    return paddle.clip(x, t_min, t_max)


@kernel()
def soft_relu(x: Tensor, threshold: float) -> Tensor:
    """log(1 + exp(x)), x clipped."""
    return paddle.log1p(paddle.exp(paddle.clip(x, -threshold, threshold)))


@kernel()
def thresholded_relu(x: Tensor, threshold: float) -> Tensor:
    """What is above the threshold."""
    return functional.thresholded_relu(x, threshold)


@kernel()
def hard_shrink(x: Tensor, threshold: float) -> Tensor:
    """What is further from zero than the threshold."""
    return functional.hardshrink(x, threshold)


@kernel()
def softshrink(x: Tensor, alpha: float) -> Tensor:
    """Nearer to zero by alpha."""
    return functional.softshrink(x, alpha)


@kernel()
def stanh(x: Tensor, scale_a: float, scale_b: float) -> Tensor:
    """b tanh(a x)."""
    return paddle.tanh(x * scale_a) * scale_b


@kernel()
def pow_(x: Tensor, factor: Tensor) -> Tensor:
    """To a power."""
    return paddle.pow(x, factor)


@kernel()
def clip(x: Tensor, min: float, max: float) -> Tensor:
    """Between two bounds."""
    return paddle.clip(x, min, max)


@kernel()
def clip_by_norm(x: Tensor, max_norm: float) -> Tensor:
    """No longer than this."""
    norm = paddle.sqrt(paddle.sum(x * x))
    return x * (max_norm / paddle.maximum(norm, paddle.full([], max_norm, norm.dtype)))


@kernel()
def scale(x: Tensor, scale: Tensor, bias: float, bias_after_scale: bool) -> Tensor:
    """scale x + bias, or scale (x + bias)."""
    return paddle.scale(x, scale, bias, bias_after_scale)


@kernel()
def cast(x: Tensor, dtype: str) -> Tensor:
    """Another type."""
    return paddle.cast(x, dtype)


@kernel()
def cumsum(x: Tensor, axis: int | None, exclusive: bool | None, reverse: bool | None) -> Tensor:
    """Sums of all before, from the left or from the right."""
    axis = -1 if axis is None else axis
    if reverse:
        x = paddle.flip(x, [axis])
    output = paddle.cumsum(x, axis)
    if exclusive:
        output = output - x
    return paddle.flip(output, [axis]) if reverse else output


def fitted(x: Tensor, y: Tensor, axis: int) -> Tensor:
    """`y` with dimensions of one behind it, so that its first one stands at ``axis`` of `x`."""
    if axis < 0 or y.ndim == 0 or y.ndim >= x.ndim:
        return y
    shape = list(y.shape)
    while len(shape) > 1 and shape[-1] == 1 and axis + len(shape) > x.ndim:
        shape.pop()
    behind = x.ndim - axis - len(shape)
    return paddle.reshape(y, shape + [1] * behind) if behind > 0 or len(shape) != y.ndim else y


def _two(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def elementwise(x: Tensor, y: Tensor, axis: int) -> Tensor:
        return function(x, fitted(x, y, axis))

    return elementwise


TWO_TENSORS = {
    "add": paddle.add,
    "sub": paddle.subtract,
    "mul": paddle.multiply,
    "div": paddle.divide,
    "max": paddle.maximum,
    "min": paddle.minimum,
    "pow": paddle.pow,
    "mod": paddle.mod,
    "floordiv": paddle.floor_divide,
}
for _name, _function in TWO_TENSORS.items():
    kernel(f"elementwise_{_name}")(_two(_function))

COMPARISONS = {
    name: getattr(paddle, name)
    for name in ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")
}


def _compare(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def compared(x: Tensor, y: Tensor, force_cpu: bool | None = None) -> Tensor:
        return function(x, y)

    return compared


for _name, _function in COMPARISONS.items():
    kernel(_name)(_compare(_function))
for _name in ("logical_and", "logical_or", "logical_xor"):
    KERNELS[_name] = Kernel(getattr(paddle, _name), frame=False, sequences=False, shapes=None)


@kernel()
def binary(x: Tensor, y: Tensor, kind: str) -> Tensor:
    """An operator of Python between variables and numbers."""
    if kind in ("add", "mul") and isinstance(x, int | float):
        x, y = y, x
    if kind in ("add", "sub", "mul") and isinstance(y, int | float) and not isinstance(y, bool):
        number = float(y) if isinstance(y, float) else y
        return x + number if kind == "add" else x - number if kind == "sub" else x * number
    other = x if isinstance(y, int | float) else y
    x, y = _tensor(x, other), _tensor(y, other)
    if kind in COMPARISONS:
        return COMPARISONS[kind](x, y)
    if x.ndim < y.ndim and kind in ("add", "mul"):
        x, y = y, x
    return TWO_TENSORS[kind](x, y)


def _tensor(number: Tensor, like: Tensor) -> Tensor:
    if not isinstance(number, int | float):
        return number
    dtype = "float32" if isinstance(number, float) and "int" in str(like.dtype) else like.dtype
    return paddle.full([1] if like.ndim else [], number, dtype)


@kernel()
def sum_(x: list[Tensor] | Tensor) -> Tensor:
    """The sum of several tensors."""
    return paddle.add_n(list(x)) if isinstance(x, list | tuple) else x


@kernel()
def sums(input: list[Tensor] | Tensor) -> Tensor:
    """The same, with a variable that it is written to."""
    return sum_(input)


@kernel()
def isfinite(x: Tensor) -> Tensor:
    """Whether all are finite: one answer."""
    return paddle.isfinite(x).all().reshape([1])


@kernel()
def has_inf(x: Tensor) -> Tensor:
    """Whether one is infinite."""
    return paddle.isinf(x).any().reshape([1])


@kernel()
def has_nan(x: Tensor) -> Tensor:
    """Whether one is NaN."""
    return paddle.isnan(x).any().reshape([1])


@kernel()
def is_empty(x: Tensor) -> Tensor:
    """Whether it has no element."""
    return paddle.full([1], x.size == 0, "bool")
