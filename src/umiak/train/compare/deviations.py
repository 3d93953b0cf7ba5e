"""What plain Paddle is made to do otherwise, to see what explains a difference: other last digits, one epsilon for all rows. A decider.

Paddle's Adam for sparse gradients moves all rows in each step on CPUs, unless `lazy_mode` says otherwise. Rows with a gradient are divided by
``sqrt(v) + epsilon * sqrt(1 - beta2 ** t)``, as in its kernels for dense gradients and for GPUs; rows without one by ``sqrt(v) + epsilon``. Where gradients are about
as small as epsilon, that is another number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import value

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray

SMALLEST = np.float32(1e-45)


def nudged(array: AnyArray, generator: np.random.Generator) -> AnyArray:
    """Each number of float32 as its neighbour, above or below by chance."""
    flat = np.ascontiguousarray(array).reshape(-1)
    chances = np.unpackbits(np.frombuffer(generator.bytes(flat.size // 8 + 1), np.uint8), count=flat.size)
    # A neighbour's bits, read as a whole number, are one more or one less; `nextafter` takes three times as long, and tables are large.
    found = (flat.view(np.int32) + (2 * chances.astype(np.int8) - 1)).view(np.float32)
    is_other = (flat == 0) | ~np.isfinite(flat)
    if is_other.any():
        away = np.where(flat == 0, np.where(chances, SMALLEST, -SMALLEST), flat)
        found[is_other] = away[is_other]
    return found.reshape(array.shape)


@value
class AdamStep:
    """One step of one parameter. Arrays have the parameter's shape."""

    rate: float
    beta1: float
    beta2: float
    epsilon: float
    powers: tuple[float, float]
    """Of both betas, as they are behind the step: those that Paddle has used in it."""
    before: AnyArray
    """The parameter."""
    first: tuple[AnyArray, AnyArray]
    """The mean of gradients, before and behind the step."""
    second: tuple[AnyArray, AnyArray]
    """The mean of their squares."""


def with_one_epsilon(step: AdamStep, behind: AnyArray) -> AnyArray:
    """The parameter behind the step, if rows without a gradient had the same epsilon as others."""
    old, new = step.first
    old_squares, new_squares = step.second
    # Most rows of a table have never had a gradient, and do not move.
    touched = np.unique(np.flatnonzero(new.reshape(-1)) // new.shape[1])
    # A row without a gradient: both means have only decayed.
    is_without = np.isclose(new[touched], np.float32(step.beta1) * old[touched], rtol=1e-6, atol=0) & np.isclose(
        new_squares[touched], np.float32(step.beta2) * old_squares[touched], rtol=1e-6, atol=0
    )
    rows = touched[is_without.all(axis=1)]
    root = float(np.sqrt(1.0 - step.powers[1]))
    rate = step.rate * root / (1.0 - step.powers[0])
    found = np.array(behind)
    found[rows] = step.before[rows] - rate * (new[rows] / (np.sqrt(new_squares[rows]) + step.epsilon * root))
    return found
