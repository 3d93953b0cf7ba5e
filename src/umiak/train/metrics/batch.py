"""One batch as metrics look at it: what a model predicted, what was true, and which samples can be judged at all. A decider.

    batch = MetricBatch(predictions, labels)
    batch.binary(probabilities=True)   -> scores, labels, how many samples were used and how many left out

Several metrics look at the same batch; what they need of it is worked out once. A prediction that is not a finite number, a
"probability" outside of 0 to 1 and a label that is none are left out, and counted: one NaN must not turn an epoch's sum into NaN
without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from umiak.core.problem import Problem, UmiakError

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

USED, NOT_FINITE, OUTSIDE, BAD_LABEL = range(4)
"""What may become of a sample: the places of the array of counts."""

ROUNDING = 1e-6
"""A probability may be this far outside of 0 to 1: a softmax in float32 rounds."""


class Judged(NamedTuple):
    """The samples that can be judged."""

    scores: NDArray[Any]
    """One number per sample, or one per class."""
    labels: NDArray[Any]
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

    def _positive(self) -> tuple[NDArray[Any], NDArray[Any]]:
        predictions, labels = self._both()
        if predictions.ndim == 1:
            return predictions, labels
        if predictions.shape[1] > 2:
            raise misfit(f"expected one or two scores per sample, got {predictions.shape[1]}")
        return predictions[:, -1], labels

    def _both(self) -> tuple[NDArray[Any], NDArray[Any]]:
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
    return UmiakError(Problem(code="UM-METRIC-003", what=what))


def _floats(given: ArrayLike) -> NDArray[Any]:
    """At least single precision: products with the number of bins need it."""
    array = np.asarray(given)
    if array.dtype != np.float32 and array.dtype != np.float64:
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise misfit(f"predictions are one number per sample or one per class, these have the shape {array.shape}")
    return array


def _column(name: str, given: ArrayLike) -> NDArray[Any]:
    array = np.asarray(given)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise misfit(f"{name} are one per sample, these have the shape {array.shape}")
    return array


def _losses(given: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(given, np.float64)
    return array if array.ndim == 0 else _column("losses", array)


def _binary(scores: NDArray[Any], labels: NDArray[Any], *, probabilities: bool) -> Judged:
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


def _of_classes(scores: NDArray[Any], labels: NDArray[Any]) -> Judged:
    fits = (labels >= 0) & (labels < scores.shape[1])
    if not np.issubdtype(labels.dtype, np.integer):
        fits &= labels == np.floor(labels)
    finite = np.isfinite(scores).all(axis=1)
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
