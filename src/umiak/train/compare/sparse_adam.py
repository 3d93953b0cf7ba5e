"""What Paddle's Adam for sparse gradients does on CPUs, and what it would do with one epsilon for all rows. A decider.

In each step it moves all rows, unless `lazy_mode` says otherwise. Rows with a gradient are divided by ``sqrt(v) + epsilon * sqrt(1 - beta2 ** t)``, as in its kernels for
dense gradients and for GPUs; rows without one by ``sqrt(v) + epsilon``. Where gradients are about as small as epsilon, that is another number. A comparison lets plain
Paddle train with one epsilon to see whether this is the reason for a difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import value

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


@value
class AdamStep:
    """One step of one parameter. Arrays have the parameter's shape."""

    rate: float
    beta1: float
    beta2: float
    epsilon: float
    powers: tuple[float, float]
    """Of both betas, as they are behind the step: those that Paddle has used in it."""
    before: Any
    """The parameter."""
    first: tuple[Any, Any]
    """The mean of gradients, before and behind the step."""
    second: tuple[Any, Any]
    """The mean of their squares."""


def with_one_epsilon(step: AdamStep, behind: NDArray[Any]) -> NDArray[Any]:
    """The parameter behind the step, if rows without a gradient had the same epsilon as others."""
    old, new = step.first
    old_squares, new_squares = step.second
    # A row without a gradient: both means have only decayed.
    is_without = np.isclose(new, np.float32(step.beta1) * old, rtol=1e-6, atol=0) & np.isclose(
        new_squares, np.float32(step.beta2) * old_squares, rtol=1e-6, atol=0
    )
    rows = np.flatnonzero(is_without.all(axis=1) & new.any(axis=1))
    root = float(np.sqrt(1.0 - step.powers[1]))
    rate = step.rate * root / (1.0 - step.powers[0])
    found = np.array(behind)
    found[rows] = step.before[rows] - rate * (new[rows] / (np.sqrt(new_squares[rows]) + step.epsilon * root))
    return found
