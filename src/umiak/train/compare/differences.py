"""Compares what two sides have recorded: which parameter differs first at which step, and by how much. A decider.

    compared(states("DIR/umiak"), states("DIR/plain"), Limits(tolerance=1e-5))

A number differs if both sides are further apart than the tolerance, times the largest number of the parameter where that is above one. Where a learning rate is
small that is not enough: both sides could stand still, or one of them. So it differs as well if they are further apart than a hundredth of the way that the
parameter has gone since the start, and than rounding explains.
"""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from umiak.train.compare.values import Comparison, ParameterDifference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from umiak.data.array_types import AnyArray
    from umiak.train.compare.values import RecordedState

TOLERANCE = 1e-5
MOST_OF_THE_WAY = 0.01
"""So much of what a parameter has moved may be another number."""
NOTHING = 1e-4
"""So much of the tolerance is never a difference: a gradient of some 1e-12 is rounding itself."""
TIMES_OTHER = 10
"""A difference is explained by another one that is at least a tenth of it."""
STEPS_EARLIER = 2
"""It may be there so many steps before the other one."""
LARGE = 1 << 16
ROUNDING = 1e-6
"""What of a parameter's largest number rounding may come to in some steps: eight times the last digit of float32."""


class _Parameter:
    """What is known of one so far."""

    def __init__(self, start: AnyArray) -> None:
        self._start = np.array(start)
        self._first: int | None = None
        self._largest = self._relative = self._moved = 0.0
        self._note = ""

    def look(self, step: int, ours: AnyArray | None, plain: AnyArray | None, tolerance: float) -> None:
        if ours is None or plain is None or ours.shape != plain.shape:
            self._differs(step, math.inf)
            missing = "umiak has none" if ours is None else "plain Paddle has none"
            shapes = ours is not None and plain is not None
            self._note = f"shapes {ours.shape} and {plain.shape}" if shapes else missing  # type: ignore[union-attr]
            return
        if ours is plain or not ours.size:
            return
        apart = distance(ours, plain)
        top = _largest(plain)
        if self._start.shape == plain.shape:
            self._moved = max(self._moved, distance(plain, self._start))
        self._relative = max(self._relative, apart / top if top else (0.0 if apart == 0 else math.inf))
        self._largest = max(self._largest, apart)
        if apart > allowed(tolerance, top, self._moved):
            self._differs(step, apart)

    def _differs(self, step: int, apart: float) -> None:
        self._first = step if self._first is None else self._first
        self._largest = max(self._largest, apart)

    def result(self, name: str) -> ParameterDifference:
        return ParameterDifference(
            name=name,
            shape=tuple(self._start.shape),
            first_step=self._first,
            largest=self._largest,
            relative=self._relative,
            moved=self._moved,
            note=self._note,
        )


def compared(
    ours: Iterable[RecordedState],
    plain: Iterable[RecordedState],
    tolerance: float = TOLERANCE,
    *,
    unread: Mapping[str, int] | None = None,
) -> Comparison:
    """Step by step, as far as both sides have come. ``unread``: rows of parameters that do not count."""
    parameters: dict[str, _Parameter] = {}
    steps, first_loss, largest_loss = 0, None, 0.0
    last: tuple[float | None, float | None] = (None, None)
    for one, other in zip_longest(ours, plain):
        if one is None or other is None:
            break
        steps = one.step
        for name in dict.fromkeys((*other.values, *one.values)):
            mine, theirs = one.values.get(name), other.values.get(name)
            if unread and name in unread:
                mine, theirs = (
                    None if each is None else np.delete(each, unread[name], axis=0) for each in (mine, theirs)
                )
            if name not in parameters:
                parameters[name] = _Parameter(theirs if theirs is not None else _given(mine))
            parameters[name].look(one.step, mine, theirs, tolerance)
        if one.loss is not None and other.loss is not None:
            last = (one.loss, other.loss)
            apart = distance(np.array([one.loss]), np.array([other.loss]))
            largest_loss = max(largest_loss, apart)
            if first_loss is None and apart > tolerance * max(1.0, abs(other.loss)):
                first_loss = one.step
    return Comparison(
        steps=steps,
        parameters=tuple([each.result(name) for name, each in parameters.items()]),
        first_loss_step=first_loss,
        largest_loss=largest_loss,
        last_losses=last,
    )


def unexplained(found: Comparison, *others: Comparison) -> tuple[str, ...]:
    """What of a difference none of ``others`` explains: those of two plain sides, with the same digits, or one of them with other last digits."""
    by_name = [{each.name: each for each in other.parameters} for other in others]
    left = [
        each.name
        for each in found.differing
        if not any(each.name in other and _is_explained(each, other[each.name]) for other in by_name)
    ]
    if found.first_loss_step is not None and found.largest_loss > TIMES_OTHER * max(
        [each.largest_loss for each in others], default=0.0
    ):
        left.append("the loss")
    return tuple(left)


def _is_explained(found: ParameterDifference, other: ParameterDifference) -> bool:
    return found.largest <= TIMES_OTHER * other.largest and not _is_early(found.first_step, other.first_step)


def _is_early(step: int | None, other: int | None) -> bool:
    """Whether a difference is there steps before the one that should explain it."""
    return step is not None and other is not None and step < other - STEPS_EARLIER


def allowed(tolerance: float, top: float, moved: float) -> float:
    """How far apart both sides of a parameter may be whose largest number is ``top``, and which has moved so far."""
    return min(tolerance * max(1.0, top), max(MOST_OF_THE_WAY * moved, ROUNDING * top, NOTHING * tolerance))


def distance(one: AnyArray, other: AnyArray) -> float:
    """The largest absolute difference; two NaN at the same place are equal, one alone is infinitely far."""
    if one.dtype.kind not in "fc" and other.dtype.kind not in "fc":
        # Whole numbers and truth values: counters may be large, and are compared exactly.
        if np.array_equal(one, other):
            return 0.0
        return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0.0)) or math.inf
    if one.shape == other.shape and one.size >= LARGE:
        # Most numbers of a large table are equal: the others are looked at.
        places = np.flatnonzero(one.reshape(-1) != other.reshape(-1))
        one, other = one.reshape(-1)[places], other.reshape(-1)[places]
    with np.errstate(invalid="ignore"):
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
    if np.isnan(apart).any():
        same = (np.isnan(one) & np.isnan(other)) | (one == other)
        apart = np.where(same, 0.0, np.where(np.isnan(apart), math.inf, apart))
    return float(apart.max(initial=0.0))


def _largest(array: AnyArray) -> float:
    ends = [float(array.max(initial=0)), -float(array.min(initial=0))]
    if all(map(math.isfinite, ends)):
        return max(ends)
    return float(np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0))


def _given(array: AnyArray | None) -> AnyArray:
    assert array is not None
    return array
