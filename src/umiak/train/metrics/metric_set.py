"""Several metrics over one stream of batches, made global by one exchange. A decider.

    metrics = MetricSet({"auc": Auc(), "loss": Mean()})
    metrics.update(predictions, labels, losses=loss)        each batch
    told = metrics.readings(all_trainers_sum(metrics.state()))     one vector out, one vector in
    told.recent["auc"], told.epoch["auc"]
    metrics.start_window()                                  what is recent begins again

`state` is one vector of float64: what was seen before the current window, then what was seen in it. Vectors of all trainers are added;
the sum is read and not kept, so that nothing counts twice in the next exchange. The same vector, a trainer's own, is what a
checkpoint needs. Counts are exact up to 2^53.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace, value
from umiak.train.metrics.metric import MetricBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from umiak.train.metrics.metric import Metric

    Vector = NDArray[np.float64]


@value
class StateSlice:
    """One array of one metric, and where it stands in a vector."""

    metric: str
    array: str
    shape: tuple[int, ...]
    start: int
    end: int


@value
class Layout:
    """What stands where in one half of a metric set's vector."""

    metrics: tuple[tuple[str, str], ...]
    """The name of each metric, and what it is with its settings."""
    fields: tuple[StateSlice, ...]

    @property
    def size(self) -> int:
        return self.fields[-1].end if self.fields else 0

    @property
    def text(self) -> str:
        """Equal for two metric sets exactly if their vectors may be added: to be kept beside a vector."""
        return "; ".join(f"{name}={made}" for name, made in self.metrics)


@value
class Readings:
    """The numbers of a metric set, ``auc`` or, where a metric gives several, ``calibration.predicted``, and what is wrong."""

    recent: Mapping[str, float]
    """In the current window."""
    epoch: Mapping[str, float]
    """Since the last reset."""
    reasons: Mapping[str, str]
    """Why a metric's number of the epoch is none."""
    problems: tuple[Problem, ...]
    """Samples of the epoch that were left out; ``where`` names the metrics."""


class MetricSet:
    """Named metrics, all fed with the same batches."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self._recent = {name: metric.fresh() for name, metric in metrics.items()}
        self._earlier = {name: metric.fresh() for name, metric in metrics.items()}
        self.layout = _layout(metrics)

    def update(
        self,
        predictions: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        losses: ArrayLike | None = None,
        samples: int | None = None,
        only: Iterable[str] | None = None,
    ) -> None:
        """Count a batch in; ``only`` names metrics, where a model has several tasks."""
        batch = MetricBatch(predictions, labels, groups=groups, losses=losses, samples=samples)
        for name in self._recent if only is None else only:
            if name not in self._recent:
                hint = f"there are {', '.join(self._recent)}"
                raise UmiakError.of("UM-METRIC-001", f"no such metric in this set: {name}", hint=hint)
            self._recent[name].take(batch)

    def classes(self) -> tuple[int, int] | None:
        """Negative and positive samples since the last reset, of the first metric that tells them apart; None: there is none."""
        for name, metric in self._recent.items():
            recent, earlier = metric.classes(), self._earlier[name].classes()
            if recent is not None and earlier is not None:
                return recent[0] + earlier[0], recent[1] + earlier[1]
        return None

    def start_window(self) -> None:
        """What was seen until now is no longer recent."""
        for name, metric in self._recent.items():
            self._earlier[name].merge(metric.state())
            metric.reset()

    def reset(self) -> None:
        """A new epoch."""
        for metrics in (self._earlier, self._recent):
            for metric in metrics.values():
                metric.reset()

    def state(self) -> Vector:
        """What was seen before the current window, and in it, as one vector to be added to those of other trainers."""
        return np.concatenate([self._vector(self._earlier), self._vector(self._recent)])

    def load(self, state: ArrayLike, layout: str | None = None) -> None:
        """Be what a vector says, exactly. With the ``text`` of the layout that it was made with, that is compared."""
        earlier, recent = self._halves(state, layout)
        for metrics, half in ((self._earlier, earlier), (self._recent, recent)):
            self._fill(metrics, half)

    def readings(self, state: ArrayLike | None = None) -> Readings:
        """The numbers of a vector, such as the sum over all trainers; without one, of this one alone."""
        earlier, recent = self._halves(self.state() if state is None else state, None)
        now = self._fill(_fresh(self._recent), recent)
        epoch = self._fill(_fresh(self._recent), earlier)
        for name, metric in epoch.items():
            metric.merge(now[name].state())
        reasons = {name: metric.why() for name, metric in epoch.items()}
        return Readings(
            recent=_numbers(now),
            epoch=_numbers(epoch),
            reasons={name: why for name, why in reasons.items() if why is not None},
            problems=_problems(epoch),
        )

    def _vector(self, metrics: Mapping[str, Metric]) -> Vector:
        vector = np.empty(self.layout.size)
        states = {name: metric.state() for name, metric in metrics.items()}
        for field in self.layout.fields:
            vector[field.start : field.end] = states[field.metric][field.array].reshape(-1)
        return vector

    def _fill(self, metrics: dict[str, Metric], vector: Vector) -> dict[str, Metric]:
        states: dict[str, dict[str, NDArray[np.float64]]] = {name: {} for name in metrics}
        for field in self.layout.fields:
            states[field.metric][field.array] = vector[field.start : field.end].reshape(field.shape)
        for name, metric in metrics.items():
            metric.load(states[name])
        return metrics

    def _halves(self, state: ArrayLike, layout: str | None) -> tuple[Vector, Vector]:
        vector = np.asarray(state, np.float64)
        size = self.layout.size
        if layout is not None and layout != self.layout.text:
            raise _stranger(f"it is of {layout} instead of {self.layout.text}")
        if vector.shape != (2 * size,):
            raise _stranger(f"it has the shape {vector.shape} instead of ({2 * size},)")
        return vector[:size], vector[size:]


def _layout(metrics: Mapping[str, Metric]) -> Layout:
    fields: list[StateSlice] = []
    end = 0
    for name, metric in metrics.items():
        for array, zeros in metric.fresh().state().items():
            start, end = end, end + zeros.size
            fields.append(StateSlice(metric=name, array=array, shape=zeros.shape, start=start, end=end))
    return Layout(metrics=tuple((name, repr(metric)) for name, metric in metrics.items()), fields=tuple(fields))


def _fresh(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    return {name: metric.fresh() for name, metric in metrics.items()}


def _numbers(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """The main number under the metric's name, the others behind a dot."""
    found: dict[str, float] = {}
    for name, metric in metrics.items():
        numbers = metric.values()
        found[name] = numbers.pop(metric.main)
        found |= {f"{name}.{part}": number for part, number in numbers.items()}
    return found


def _problems(metrics: Mapping[str, Metric]) -> tuple[Problem, ...]:
    """Each problem once, with all metrics that have it: they look at the same predictions."""
    by_problem: dict[Problem, list[str]] = {}
    for name, metric in metrics.items():
        for problem in metric.problems():
            by_problem.setdefault(problem, []).append(name)
    return tuple(replace(problem, where=", ".join(names)) for problem, names in by_problem.items())


def _stranger(what: str) -> UmiakError:
    return UmiakError.of("UM-METRIC-005", f"this is not a state of this metric set: {what}")
