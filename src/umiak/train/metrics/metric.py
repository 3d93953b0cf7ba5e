"""What all metrics have in common: a state that is added up. A decider.

A metric's state is a few named arrays, int64 where it counts and float64 where it sums. Adding the states of two sets of samples,
element by element, gives the state of both together. So code that can add arrays can make a metric global: over batches, over
trainers, over the parts of an epoch before and after a resume.

    auc.update(predictions, labels)      one batch
    auc.merge(other.state())             another trainer's samples, too
    auc.value()                          not a number where it has no meaning; why() says the reason

A metric does not talk to anybody: that is the trainer's part.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import Problem, UmiakError
from umiak.train.metrics.batch import BAD_LABEL, NOT_FINITE, OUTSIDE, USED, MetricBatch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Self

    State = dict[str, NDArray[Any]]

NAN = float("nan")

_FAULTS = {
    NOT_FINITE: ("{} are not finite numbers", "if training diverges: a smaller learning rate, or clipped gradients"),
    OUTSIDE: ("{} are no probabilities, but outside of 0 to 1", "give sigmoid or softmax of the logits"),
    BAD_LABEL: ("labels are not what the metric asks for", "0 or 1, or the number of a class, counted from 0"),
}


class Metric:
    """A state, and the numbers that it stands for. Subclasses say what they add up and what comes of it."""

    main = "value"
    """Which of `values` is the metric's value."""
    looks_at = "predictions"

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._state = self._zeros()

    def take(self, batch: MetricBatch) -> None:
        """Count a batch in."""
        raise NotImplementedError

    def state(self) -> State:
        """A copy of the state: ``samples`` (used, and left out for each reason) and the metric's own arrays."""
        return {name: array.copy() for name, array in self._state.items()}

    def merge(self, state: Mapping[str, ArrayLike]) -> None:
        """Count in the samples of another state of the same metric."""
        for name, array in self._checked(state).items():
            self._state[name] += array

    def load(self, state: Mapping[str, ArrayLike]) -> None:
        """Be what this state is, exactly."""
        self._state = self._checked(state)

    def reset(self) -> None:
        """Forget everything."""
        self._state = self._zeros()

    def fresh(self) -> Self:
        """Another one with the same settings that has seen nothing."""
        other = copy.copy(self)
        other.reset()
        return other

    def value(self) -> float:
        """The metric's main number; not a number where it is undefined, or where samples had to be left out."""
        return self.values()[self.main]

    def values(self) -> dict[str, float]:
        """All numbers that the metric gives."""
        found = self._values()
        return dict.fromkeys(found, NAN) if self.left_out else found

    def why(self) -> str | None:
        """Why the value is not a number, if it is none."""
        if self.left_out:
            return "; ".join(problem.what for problem in self.problems())
        if not self.samples:
            return "no samples"
        return self._undefined()

    def classes(self) -> tuple[int, int] | None:
        """How many negative and positive samples were counted; None: it does not tell them apart."""
        return None

    def problems(self) -> tuple[Problem, ...]:
        """What was left out, and how often."""
        counts = self._state["samples"]
        seen = int(counts.sum())
        return tuple(
            Problem(code="UM-METRIC-004", what=f"{counts[fault]} of {seen} {what.format(self.looks_at)}", hint=hint)
            for fault, (what, hint) in _FAULTS.items()
            if counts[fault]
        )

    @property
    def samples(self) -> int:
        """How many samples the value is about."""
        return int(self._state["samples"][USED])

    @property
    def left_out(self) -> int:
        """How many samples could not be judged."""
        return int(self._state["samples"][USED + 1 :].sum())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={item!r}' for name, item in self._settings.items())})"

    def _arrays(self) -> State:
        """The metric's own part of an empty state."""
        raise NotImplementedError

    def _values(self) -> dict[str, float]:
        """The numbers, from a state without faults; not a number where there are no samples, say."""
        raise NotImplementedError

    def _undefined(self) -> str | None:
        """Why the value has no meaning although there are samples."""
        return None

    def _zeros(self) -> State:
        return {"samples": np.zeros(4, np.int64), **self._arrays()}

    def _checked(self, state: Mapping[str, ArrayLike]) -> State:
        """The arrays as this metric has them, or a problem: they may come from a file or from another program."""
        wanted = self._zeros()
        if set(state) != set(wanted):
            raise self._stranger(f"it has {', '.join(sorted(state))} instead of {', '.join(sorted(wanted))}")
        found: State = {}
        for name, zeros in wanted.items():
            array = np.asarray(state[name])
            if array.shape != zeros.shape:
                raise self._stranger(f"{name} has the shape {array.shape} instead of {zeros.shape}")
            whole = zeros.dtype == np.int64
            if whole and not (np.isfinite(array) & (array == np.rint(array)) & (np.abs(array) < 2.0**63)).all():
                raise self._stranger(f"{name} are not integers")
            found[name] = array.astype(zeros.dtype)
        return found

    def _stranger(self, what: str) -> UmiakError:
        return UmiakError(Problem(code="UM-METRIC-005", what=f"this is not a state of {self!r}: {what}"))


class Scored(Metric):
    """A metric of predictions and labels alone."""

    def update(self, predictions: ArrayLike, labels: ArrayLike) -> None:
        """Count a batch in."""
        self.take(MetricBatch(predictions, labels))


def ratio(part: float, whole: float) -> float:
    """A quotient, or not a number: no samples is no error."""
    return float(part) / float(whole) if whole else NAN


def setting(metric: str, name: str, given: object, *, allowed: bool, what: str) -> None:
    """Refuse a setting that has no meaning."""
    if not allowed:
        raise UmiakError(Problem(code="UM-METRIC-002", what=f"{metric}: {name} must be {what}: {given!r}"))
