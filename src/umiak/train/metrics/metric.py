"""What all metrics have in common: a state that is added up, and how they look at one batch. A decider.

A metric's state is a few named arrays, int64 where it counts and float64 where it sums. Adding the states of two sets of samples,
element by element, gives the state of both together. So code that can add arrays can make a metric global: over batches, over
trainers, over the parts of an epoch before and after a resume.

    auc.update(predictions, labels)      one batch
    auc.merge(other.state())             another trainer's samples, too
    auc.value()                          not a number where it has no meaning; why() says the reason

A metric does not talk to anybody: that is the trainer's part.

    batch = MetricBatch(predictions, labels)
    batch.binary(probabilities=True)   -> scores, labels, how many samples were used and how many left out

Several metrics look at the same batch; what they need of it is worked out once. A prediction that is not a finite number, a
"probability" outside of 0 to 1 and a label that is none are left out, and counted: one NaN must not turn an epoch's sum into NaN
without a word.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from umiak.core.problem import Problem, UmiakError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Self

    from umiak.data.array_types import AnyArray

    State = dict[str, AnyArray]

USED, NOT_FINITE, OUTSIDE, BAD_LABEL = range(4)
"""What may become of a sample: the places of the array of counts."""

ROUNDING = 1e-6
"""A probability may be this far outside of 0 to 1: a softmax in float32 rounds."""

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
        return UmiakError.of("UM-METRIC-005", f"this is not a state of {self!r}: {what}")


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
        raise UmiakError.of("UM-METRIC-002", f"{metric}: {name} must be {what}: {given!r}")


# ---- one batch


class Judged(NamedTuple):
    """The samples that can be judged."""

    scores: AnyArray
    """One number per sample, or one per class."""
    labels: AnyArray
    """Whether a sample is positive, or its class."""
    counts: NDArray[np.int64]
    """Samples by what became of them: `USED`, `NOT_FINITE`, `OUTSIDE`, `BAD_LABEL`. Each sample counts once."""
    kept: NDArray[np.bool_] | None
    """Which samples of the batch these are; none if all are."""


class MetricBatch:
    """Predictions and labels of some samples, and, where a metric asks for them, groups and losses.

    Predictions are one number per sample, or one per class; of two classes the second one is the positive one, as Paddle's
    metrics have it. Groups say which samples belong together (a query, a user). Losses are one number per sample, or one
    number that is their mean.
    """

    def __init__(
        self,
        predictions: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        losses: ArrayLike | None = None,
        samples: int | None = None,
    ) -> None:
        self._predictions = None if predictions is None else _floats(predictions)
        self._labels = None if labels is None else _column("labels", labels)
        self.groups = None if groups is None else _column("groups", groups)
        self.losses = None if losses is None else _losses(losses)
        self.samples = self._count(samples)
        self._binary: dict[bool, Judged] = {}
        self._classes: Judged | None = None

    def binary(self, *, probabilities: bool) -> Judged:
        """Scores of the positive class and labels that are 0 or 1; as probabilities, scores are within 0 to 1."""
        known = self._binary.get(probabilities)
        if known is None:
            known = self._binary[probabilities] = _binary(*self._positive(), probabilities=probabilities)
        return known

    def classes(self) -> Judged:
        """Scores of all classes and labels that are a class's number."""
        if self._classes is None:
            predictions, labels = self._both()
            if predictions.ndim != 2:
                raise misfit(f"expected one score per class, got one per sample: {predictions.shape}")
            self._classes = _of_classes(predictions, labels)
        return self._classes

    @property
    def columns(self) -> int:
        """How many scores each sample has."""
        predictions, _ = self._both()
        return predictions.shape[1] if predictions.ndim == 2 else 1

    def _positive(self) -> tuple[AnyArray, AnyArray]:
        predictions, labels = self._both()
        if predictions.ndim == 1:
            return predictions, labels
        if predictions.shape[1] > 2:
            raise misfit(f"expected one or two scores per sample, got {predictions.shape[1]}")
        return predictions[:, -1], labels

    def _both(self) -> tuple[AnyArray, AnyArray]:
        if self._predictions is None or self._labels is None:
            raise misfit("predictions and labels are required")
        return self._predictions, self._labels

    def _count(self, said: int | None) -> int:
        """How many samples these are, on which everything that was given must agree."""
        given = {"predictions": self._predictions, "labels": self._labels, "groups": self.groups, "losses": self.losses}
        found = {name: len(array) for name, array in given.items() if array is not None and array.ndim}
        if said is not None:
            found["samples"] = said
        if len(set(found.values())) > 1:
            raise misfit("these differ in length: " + ", ".join(f"{name} {size}" for name, size in found.items()))
        return next(iter(found.values()), 1)


def misfit(what: str) -> UmiakError:
    """A metric was given something that it can't look at."""
    return UmiakError.of("UM-METRIC-003", what)


def _floats(given: ArrayLike) -> AnyArray:
    """At least single precision: products with the number of bins need it."""
    array = np.asarray(given)
    if array.dtype != np.float32 and array.dtype != np.float64:
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise misfit(f"predictions are one number per sample or one per class, these have the shape {array.shape}")
    return array


def _column(name: str, given: ArrayLike) -> AnyArray:
    array = np.asarray(given)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise misfit(f"{name} are one per sample, these have the shape {array.shape}")
    return array


def _losses(given: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(given, np.float64)
    return array if array.ndim == 0 else _column("losses", array)


def _binary(scores: AnyArray, labels: AnyArray, *, probabilities: bool) -> Judged:
    positive: NDArray[np.bool_] = labels == 1
    fits = positive | (labels == 0)
    # NaN is neither above nor below anything, so one comparison finds it too.
    good = (scores >= 0) & (scores <= 1) if probabilities else np.isfinite(scores)
    if fits.all() and good.all():
        return Judged(scores, positive, _counts(len(scores)), None)
    finite = np.isfinite(scores)
    inside = finite
    if probabilities:
        inside = finite & (scores >= -ROUNDING) & (scores <= 1 + ROUNDING)
    kept = inside & fits
    scores = scores[kept]
    if probabilities:
        scores = np.clip(scores, 0, 1)
    return Judged(scores, positive[kept], _split(finite, inside, kept), kept)


def _of_classes(scores: AnyArray, labels: AnyArray) -> Judged:
    fits = (labels >= 0) & (labels < scores.shape[1])
    if not np.issubdtype(labels.dtype, np.integer):
        fits &= labels == np.floor(labels)
    finite: NDArray[np.bool_] = np.all(np.isfinite(scores), axis=1)
    kept = finite & fits
    if kept.all():
        return Judged(scores, labels.astype(np.int64), _counts(len(scores)), None)
    return Judged(scores[kept], labels[kept].astype(np.int64), _split(finite, finite, kept), kept)


def _split(finite: NDArray[np.bool_], inside: NDArray[np.bool_], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Each set is part of the one before it."""
    sizes = [len(finite), *(int(np.count_nonzero(each)) for each in (finite, inside, kept))]
    return _counts(sizes[3], sizes[0] - sizes[1], sizes[1] - sizes[2], sizes[2] - sizes[3])


def _counts(used: int, not_finite: int = 0, outside: int = 0, bad_label: int = 0) -> NDArray[np.int64]:
    return np.array([used, not_finite, outside, bad_label], np.int64)
