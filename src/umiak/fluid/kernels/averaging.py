"""What averages of parameters, scaled losses and wrapped optimizers compute beside a step. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle

from umiak.fluid.kernels.registry import Tensor, kernel

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results

MOST = 16384
"""Values in one sum; 1.8 moves it to another one then, since more would lose digits."""


@kernel()
def average_accumulates(parameter: Tensor, sums: list[Tensor], counts: list[Tensor], rate: float, shortest: int, longest: int) -> Results:  # fmt: skip
    """Three sums of a parameter's values, and how many are in them; the old ones are forgotten when the window is long enough."""
    now, old, runs = (int(each.item()) for each in counts)
    now, runs = now + 1, runs + 1
    before, zeros = sums[0], paddle.zeros_like(sums[0])
    first, second, third = before + parameter, sums[1], sums[2]
    if runs % MOST == 0:
        first, second = zeros, second + first
    if now >= shortest and now >= min(longest, runs * rate):
        first, second, third = zeros, zeros, first + second
        old, now = now, 0
    return first, second, third, *(paddle.full([1], each, "int64") for each in (now, old, runs))


@kernel()
def ema_decay(decay: float, steps: Tensor) -> Tensor:
    """The decay of this run: less at the beginning, if it follows a counter of steps."""
    if steps is None:
        return paddle.full([1], decay, "float32")
    count = float(steps.item())
    return paddle.full([1], min(decay, (count + 1.0) / (count + 10.0)), "float32")


@kernel()
def ema(mean: Tensor, parameter: Tensor, rate: Tensor) -> Tensor:
    """A mean that follows a parameter."""
    return mean * rate + parameter * (1 - rate)


@kernel()
def lookahead(fast: Tensor, slow: Tensor, step: Tensor, alpha: float, k: int) -> Results:
    """Every k runs both at a point between them."""
    if int(step.item()) % k:
        return fast, slow
    between = fast * alpha + slow * (1 - alpha)
    fast.set_value(between)
    return fast, between


@kernel()
def dpsgd(parameter: Tensor, gradient: Tensor, rate: Tensor, factor: float, clip: float, batch_size: float, sigma: float) -> Tensor:  # fmt: skip
    """Against a gradient no longer than `clip`, with noise."""
    length = float(paddle.sqrt(paddle.sum(gradient * gradient)).item())
    noise = float(paddle.randn([1]).item()) * sigma
    step = gradient / max(length / clip, 1.0) + noise / batch_size
    parameter.set_value(parameter - rate * factor * step)
    return parameter


@kernel()
def divided(gradient: Tensor, scaling: Tensor) -> Tensor:
    """A gradient of a scaled loss as it is without the factor."""
    return gradient / scaling


@kernel()
def update_loss_scaling(gradients: list[Tensor], scaling: Tensor, counts: list[Tensor], grows_after: int, shrinks_after: int, grows_by: float, shrinks_by: float) -> Results:  # fmt: skip
    """Zeros in place of gradients if one is not finite; a larger factor behind many good runs, a smaller one behind a few bad ones."""
    good, bad = (int(each.item()) for each in counts)
    factor = float(scaling.item())
    if all(bool(paddle.isfinite(each).all().item()) for each in gradients):
        good, bad = good + 1, 0
        if good > grows_after:
            good = 0
            factor = factor * grows_by if factor * grows_by < 3.4e38 else factor
    else:
        gradients = [paddle.zeros_like(each) for each in gradients]
        good, bad = 0, bad + 1
        if bad > shrinks_after:
            bad, factor = 0, max(factor * shrinks_by, 1.0)
    return [*gradients, paddle.full([1], factor, "float32"), *(paddle.full([1], each, "int32") for each in (good, bad))]
