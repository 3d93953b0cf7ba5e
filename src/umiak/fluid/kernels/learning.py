"""How parameters change: gradients, clips, regularizers, optimizers and learning rates, each as 1.8 computes it. A program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle import _C_ops

from umiak.fluid.kernels.registry import UNREAD, Frame, Tensor, kernel
from umiak.ps.tables.memory import integers_at

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray
    from umiak.fluid.arguments import Function, Results, Settings


@kernel(frame=True)
def backward(frame: Frame, loss: Tensor, targets: list[Tensor], last: bool) -> list[Tensor]:
    """The gradients of a loss: zeros where it does not depend on a target."""
    output = paddle.grad([loss], list(targets), retain_graph=not last, allow_unused=True)
    return [paddle.zeros_like(target) if each is None else each for target, each in zip(targets, output, strict=True)]


@kernel()
def gradients(targets: list[Tensor], inputs: list[Tensor], target_gradients: Tensor) -> list[Tensor]:
    """`fluid.gradients`: of any variables by any others."""
    given = list(target_gradients) if target_gradients else None
    output = paddle.grad(list(targets), list(inputs), given, retain_graph=True, allow_unused=True)
    return [paddle.zeros_like(each) if one is None else one for each, one in zip(inputs, output, strict=True)]


# ---- clips and regularizers


@kernel()
def clip_by_global_norm(gradients: list[Tensor], clip_norm: float) -> list[Tensor]:
    """All gradients together no longer than this."""
    pairs = [_merged(each) for each in gradients]
    norm = paddle.sqrt(paddle.add_n([paddle.sum(numbers * numbers) for _, numbers in pairs]))
    limit = paddle.full([], clip_norm, norm.dtype)
    factor = limit / paddle.maximum(norm, limit)
    return [_times(*pair, factor) for pair in pairs]


@kernel()
def clip_gradient(gradient: Tensor, min: float, max: float) -> Tensor:
    """Each element between two bounds."""
    merged, numbers = _merged(gradient)
    if numbers is gradient:
        return paddle.clip(gradient, min, max)
    numbers.clip_(min, max)
    return merged


@kernel()
def clip_gradient_norm(gradient: Tensor, clip_norm: float) -> Tensor:
    """A gradient no longer than this."""
    merged, numbers = _merged(gradient)
    norm = paddle.sqrt(paddle.sum(numbers * numbers))
    limit = paddle.full([], clip_norm, norm.dtype)
    return _times(merged, numbers, limit / paddle.maximum(norm, limit))


@kernel()
def decay(gradient: Tensor, parameter: Tensor, coefficient: float, power: int) -> Tensor:
    """A gradient with that of a penalty: the parameter, or its sign, times the coefficient."""
    return _dense(gradient, parameter) + coefficient * (parameter if power == 2 else paddle.sign(parameter))


def _merged(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """A gradient, and its numbers. Of an embedding with ``is_sparse`` they are some rows, each once, and a view of a new gradient."""
    if not gradient.is_selected_rows():
        return gradient, gradient
    merged = _C_ops.merge_selected_rows(gradient)
    return merged, _rows(merged)


def _rows(gradient: Tensor) -> Tensor:
    return gradient._get_tensor_from_selected_rows()  # noqa: SLF001 - the rows have no other name


def _times(gradient: Tensor, numbers: Tensor, factor: Tensor) -> Tensor:
    if numbers is gradient:
        return gradient * factor
    numbers.scale_(factor)
    return gradient


def _dense(gradient: Tensor, parameter: Tensor) -> Tensor:
    """All rows, with zeros in those that were not used: a penalty moves these as well."""
    if not gradient.is_selected_rows():
        return gradient
    places = paddle.to_tensor(gradient.rows(), "int64").unsqueeze(-1)
    return paddle.scatter_nd_add(paddle.zeros(parameter.shape, parameter.dtype), places, _rows(gradient))


# ---- optimizers


def _rate(rate: Tensor, factor: float) -> Tensor:
    return rate if factor == 1.0 else rate * factor


@kernel()
def sgd(parameter: Tensor, gradient: Tensor, rate: Tensor, factor: float) -> Tensor:
    """Against the gradient."""
    _C_ops.sgd_(parameter, _rate(rate, factor), gradient, None, False)
    return parameter


@kernel()
def momentum(parameter: Tensor, gradient: Tensor, velocity: Tensor, rate: Tensor, factor: float, mu: float, nesterov: bool) -> Results:  # fmt: skip
    """With a velocity."""
    _C_ops.momentum_(parameter, gradient, velocity, _rate(rate, factor), None, mu, nesterov, "", 0.0, False, 1.0)
    return parameter, velocity


@kernel()
def lars_momentum(parameter: Tensor, gradient: Tensor, velocity: Tensor, rate: Tensor, factor: float, mu: float, lars_coeff: float, lars_weight_decay: float) -> Results:  # fmt: skip
    """With a rate for each parameter, by its length and that of its gradient."""
    length, steep = paddle.sqrt(paddle.sum(parameter * parameter)), paddle.sqrt(paddle.sum(gradient * gradient))
    own = _rate(rate, factor) * lars_coeff * length / (steep + lars_weight_decay * length)
    velocity.set_value(mu * velocity + own * (gradient + lars_weight_decay * parameter))
    parameter.set_value(parameter - velocity)
    return parameter, velocity


@kernel()
def adam(parameter: Tensor, gradient: Tensor, moment1: Tensor, moment2: Tensor, beta1_power: Tensor, beta2_power: Tensor, rate: Tensor, factor: float, beta1: float, beta2: float, epsilon: float, lazy_mode: bool) -> Results:  # fmt: skip
    """With the means of the gradient and of its square."""
    _C_ops.adam_(
        parameter,
        gradient,
        _rate(rate, factor),
        moment1,
        moment2,
        None,
        beta1_power,
        beta2_power,
        None,
        None,
        beta1,
        beta2,
        epsilon,
        lazy_mode,
        1000,
        False,
        False,
        False,
    )
    return parameter, moment1, moment2, beta1_power, beta2_power


@kernel()
def adamax(parameter: Tensor, gradient: Tensor, moment: Tensor, inf_norm: Tensor, beta1_power: Tensor, rate: Tensor, factor: float, beta1: float, beta2: float, epsilon: float) -> Results:  # fmt: skip
    """Adam with the largest gradient in place of the mean of squares."""
    _C_ops.adamax_(
        parameter, gradient, _rate(rate, factor), moment, inf_norm, beta1_power, None, beta1, beta2, epsilon, False
    )
    beta1_power.set_value(beta1_power * beta1)
    return parameter, moment, inf_norm, beta1_power


@kernel()
def adagrad(
    parameter: Tensor, gradient: Tensor, moment: Tensor, rate: Tensor, factor: float, epsilon: float
) -> Results:
    """Over the square root of the sum of squares."""
    _C_ops.adagrad_(parameter, gradient, moment, _rate(rate, factor), None, epsilon, False)
    return parameter, moment


@kernel()
def decayed_adagrad(parameter: Tensor, gradient: Tensor, moment: Tensor, rate: Tensor, factor: float, decay: float, epsilon: float) -> Results:  # fmt: skip
    """Adagrad whose sum decays."""
    moment.set_value(decay * moment + (1 - decay) * gradient * gradient)
    parameter.set_value(parameter - _rate(rate, factor) * gradient / (paddle.sqrt(moment) + epsilon))
    return parameter, moment


@kernel()
def adadelta(
    parameter: Tensor, gradient: Tensor, squares: Tensor, updates: Tensor, epsilon: float, rho: float
) -> Results:
    """1.8's has no learning rate: the update is taken as it is."""
    squares.set_value(rho * squares + (1 - rho) * gradient * gradient)
    update = -paddle.sqrt((updates + epsilon) / (squares + epsilon)) * gradient
    updates.set_value(rho * updates + (1 - rho) * update * update)
    parameter.set_value(parameter + update)
    return parameter, squares, updates


@kernel()
def rmsprop(parameter: Tensor, gradient: Tensor, mean_square: Tensor, velocity: Tensor, mean_gradient: Tensor, rate: Tensor, factor: float, epsilon: float, rho: float, mu: float, centered: bool) -> Results:  # fmt: skip
    """Over the root of the mean of squares."""
    _C_ops.rmsprop_(
        parameter,
        mean_square,
        gradient,
        velocity,
        _rate(rate, factor),
        mean_gradient,
        None,
        epsilon,
        rho,
        mu,
        centered,
        False,
    )
    return parameter, mean_square, velocity, mean_gradient


@kernel()
def ftrl(parameter: Tensor, gradient: Tensor, squared: Tensor, linear: Tensor, rate: Tensor, factor: float, l1: float, l2: float, power: float) -> Results:  # fmt: skip
    """Follow the regularized leader; of an embedding with ``is_sparse`` the rows that were used."""
    own = _rate(rate, factor)
    l1, l2 = l1 + 1e-10, l2 + 1e-10
    used = _used_rows(gradient, parameter)
    gradient = _dense(gradient, parameter)
    new = squared + gradient * gradient
    if power == -0.5:
        moved = linear + gradient - (paddle.sqrt(new) - paddle.sqrt(squared)) / own * parameter
        below = paddle.sqrt(new) / own + 2 * l2
    else:
        moved = linear + gradient - (new**-power - squared**-power) / own * parameter
        below = new**-power / own + 2 * l2
    if used is not None:
        moved = paddle.where(used, moved, linear)
    linear.set_value(moved)
    shrunk = (l1 * paddle.sign(linear) - linear) / below
    learned = paddle.where(paddle.abs(linear) > l1, shrunk, paddle.zeros_like(shrunk))
    parameter.set_value(learned if used is None else paddle.where(used, learned, parameter))
    squared.set_value(new)
    return parameter, squared, linear


def _used_rows(gradient: Tensor, parameter: Tensor) -> Tensor | None:
    """True in the rows that a gradient has; None if it has all."""
    if not gradient.is_selected_rows():
        return None
    used = paddle.zeros(parameter.shape, "bool")
    used[paddle.to_tensor(gradient.rows(), "int64")] = True
    return used


@kernel()
def lamb(parameter: Tensor, gradient: Tensor, moment1: Tensor, moment2: Tensor, beta1_power: Tensor, beta2_power: Tensor, rate: Tensor, factor: float, beta1: float, beta2: float, epsilon: float, weight_decay: float) -> Results:  # fmt: skip
    """Adam with a rate for each parameter, by its length."""
    _C_ops.lamb_(
        parameter, gradient, _rate(rate, factor), moment1, moment2, beta1_power, beta2_power, None, None,
        weight_decay, beta1, beta2, epsilon, False, False,
    )  # fmt: skip
    return parameter, moment1, moment2, beta1_power, beta2_power


@kernel()
def average(parameter: Tensor, total: Tensor, count: Tensor) -> Results:
    """The sum of all values that a parameter had, and how many."""
    total.set_value(total + parameter)
    count.set_value(count + 1)
    return total, count


# ---- learning rates


@kernel()
def count_steps(counter: Tensor, step: int) -> Tensor:
    """A counter of runs, one further."""
    counter.set_value(counter + step)
    return counter


@kernel()
def learning_rate(counter: Tensor, kind: str, settings: Settings) -> Tensor:
    """The rate of this run: `umiak.fluid.learning.rates` says which settings a kind has."""
    return paddle.full([1], RATES[kind](float(counter.item()), *settings), "float32")


def _exponential(step: float, rate: float, steps: float, by: float, staircase: bool) -> Any:
    return rate * by ** (step // steps if staircase else step / steps)


def _natural(step: float, rate: float, steps: float, by: float, staircase: bool) -> Any:
    return rate * math.exp(-by * (step // steps if staircase else step / steps))


def _inverse_time(step: float, rate: float, steps: float, by: float, staircase: bool) -> Any:
    return rate / (1 + by * (step // steps if staircase else step / steps))


def _polynomial(step: float, rate: float, steps: float, end: float, power: float, cycle: bool) -> Any:
    if cycle:
        steps *= max(math.ceil(step / steps), 1)
    else:
        step = min(step, steps)
    return (rate - end) * (1 - step / steps) ** power + end


def _piecewise(step: float, boundaries: list[float], values: list[float]) -> Any:
    for boundary, value in zip(boundaries, values, strict=False):
        if step < boundary:
            return value
    return values[-1]


def _noam(step: float, d_model: float, warmup_steps: float, rate: float) -> Any:
    step = max(step, 1.0)  # it counts from one; trial runs have zeros
    return rate * d_model**-0.5 * min(step**-0.5, warmup_steps**-1.5 * step)


def _cosine(step: float, rate: float, step_each_epoch: float, epochs: float) -> Any:
    return rate * 0.5 * (math.cos(step // step_each_epoch * math.pi / epochs) + 1)


RATES: dict[str, Function] = {
    "exponential": _exponential,
    "natural_exp": _natural,
    "inverse_time": _inverse_time,
    "polynomial": _polynomial,
    "piecewise": _piecewise,
    "noam": _noam,
    "cosine": _cosine,
}


@kernel()
def warmup(counter: Tensor, rate: Any, warmup_steps: float, start: float, end: float) -> Tensor:
    """From one rate to another in so many steps, then the one that is given."""
    step = float(counter.item())
    if step < warmup_steps:
        return paddle.full([1], start + (end - start) * step / warmup_steps, "float32")
    return rate.reshape([1]) if isinstance(rate, paddle.Tensor) else paddle.full([1], rate, "float32")


# ---- measured while training


def _auc_shapes(**_arguments: Any) -> Results:
    return [((1,), "float64", 0)]


@kernel(frame=True, shapes=_auc_shapes)
def auc(frame: Frame, input: Tensor, label: Tensor, positive: Tensor, negative: Tensor, curve: str, num_thresholds: int) -> Tensor:  # fmt: skip
    """The area under the curve of all that the two histograms hold; they are changed in place."""
    if paddle.in_dynamic_mode() and input.place.is_cpu_place():
        held = []
        for kept, more in zip((positive, negative), _counted(input, label, num_thresholds), strict=True):
            values, is_own = _numbers(kept)
            values += more
            held.append(values)
            if not is_own:
                kept.set_value(values.reshape(kept.shape))
        return UNREAD if frame.is_unread() else _area_of_arrays(held[0], held[1], curve)
    places = paddle.clip((input[:, -1] * num_thresholds).astype("int64"), 0, num_thresholds)
    ones = paddle.bincount(places, label.reshape([-1]).astype("float32"), minlength=num_thresholds + 1).astype("int64")
    everything = paddle.bincount(places, minlength=num_thresholds + 1).astype("int64")
    positive.set_value(positive + ones.reshape(positive.shape))
    negative.set_value(negative + (everything - ones).reshape(negative.shape))
    return area(positive, negative, curve)


@kernel(frame=True, shapes=_auc_shapes)
def auc_of_last(frame: Frame, input: Tensor, label: Tensor, positive: Tensor, negative: Tensor, curve: str, num_thresholds: int, slide_steps: int) -> Tensor:  # fmt: skip
    """That of the last batches. The two hold a histogram for each of them, their sum, and how many batches there were, as in 1.8."""
    size = num_thresholds + 1
    held = []
    for kept, more in zip((positive, negative), _counted(input, label, num_thresholds), strict=True):
        values, is_own = _numbers(kept)
        total = values[slide_steps * size : (slide_steps + 1) * size]
        total += more
        if slide_steps:
            begin = int(values[-1]) % slide_steps * size
            total -= values[begin : begin + size]
            values[begin : begin + size] = more
        values[-1] += 1
        held.append(total)
        if not is_own:
            kept.set_value(values.reshape(kept.shape))
    return UNREAD if frame.is_unread() else _area_of_arrays(held[0], held[1], curve)


def _numbers(integers: Tensor) -> tuple[AnyArray, bool]:
    """A tensor's numbers, flat, to be changed, and whether they are its own memory: on the CPU."""
    if integers.place.is_cpu_place() and integers.is_contiguous():
        return integers_at(integers.data_ptr(), integers.shape, integers).reshape(-1), True
    return integers.numpy().reshape(-1), False


def _counted(input: Tensor, label: Tensor, num_thresholds: int) -> tuple[Any, Any]:
    """Two histograms of a batch, with numpy: on CPUs these would be many small operations."""
    scaled = input.numpy()[:, -1] * np.float32(num_thresholds)
    places = np.clip(scaled.astype(np.int64), 0, num_thresholds)
    everything = np.bincount(places, minlength=num_thresholds + 1)
    ones = np.bincount(places, label.numpy().reshape(-1).astype(np.float32), num_thresholds + 1).astype(np.int64)
    return ones, everything - ones


def _area_of_arrays(positive: Any, negative: Any, curve: str) -> Tensor:
    """As `area`: trapezoids, from the highest prediction down."""
    hits, misses = (each[::-1].astype(np.float64) for each in (positive, negative))
    up = np.cumsum(hits)
    if curve == "PR":
        whole = float(up[-1])
        along = np.cumsum(misses)
        precision = np.concatenate([[1.0], np.where(up + along > 0, up / np.maximum(up + along, 1), 1.0)])
        under = float(np.dot(hits, precision[1:] + precision[:-1])) / 2
    else:
        whole = float(up[-1]) * float(misses.sum())
        under = float(np.dot(up, misses)) - float(np.dot(hits, misses)) / 2
    return paddle.full([1], under / whole if whole > 0 else 0.0, "float64")


def area(positive: Tensor, negative: Tensor, curve: str) -> Tensor:
    """Trapezoids, from the highest prediction down."""
    hits = paddle.cumsum(paddle.flip(positive.reshape([-1]), [0])).astype("float64")
    misses = paddle.cumsum(paddle.flip(negative.reshape([-1]), [0])).astype("float64")
    zero = paddle.zeros([1], "float64")
    hits, misses = paddle.concat([zero, hits]), paddle.concat([zero, misses])
    if curve == "PR":
        precision = paddle.where(hits + misses > 0, hits / paddle.clip(hits + misses, 1), paddle.ones_like(hits))
        recall = hits / paddle.clip(hits[-1], 1)
        return paddle.sum((recall[1:] - recall[:-1]) * (precision[1:] + precision[:-1]) / 2).reshape([1])
    whole = hits[-1] * misses[-1]
    under = paddle.sum((misses[1:] - misses[:-1]) * (hits[1:] + hits[:-1]) / 2)
    return paddle.where(whole > 0, under / paddle.clip(whole, 1), paddle.zeros_like(whole)).reshape([1])
