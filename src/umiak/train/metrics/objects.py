"""Metric objects that a model brings along, such as `paddle.metric.Auc`, made global over all trainers. A decider.

    metrics = ObjectMetricSet(["auc"], [paddle.metric.Auc()])
    user_code(metrics.objects, batch)           the model's own code updates them
    metrics.count(samples=512, loss=0.43)
    metrics.readings(all_trainers_sum(metrics.state())).epoch["auc"]

What such an object adds up is in its attributes. `numbers_of` finds those that are numbers, arrays or lists of numbers; what they have grown by since the object
was new is added over trainers and over the parts of an epoch, and `accumulate` of a copy that has grown by the sum gives the value. So settings among
them, which do not grow, stay what they are. An object that keeps something else, such as a list of all predictions, can't be added up: then its value is
the mean of what each trainer's own says, by samples.
"""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.problem import Problem
from umiak.core.value import replace
from umiak.train.metrics.clicks import Mean
from umiak.train.metrics.metric import NAN, USED, Metric
from umiak.train.metrics.metric_set import MetricSet, Readings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import ArrayLike, NDArray

    from umiak.data.array_types import AnyArray
    from umiak.train.metrics.metric import MetricBatch, State

    Numbers = dict[str, NDArray[np.float64]]

LOSS = "loss"
_SETTINGS = (str, bytes, bool, type(None))
"""Kinds of attributes that nothing is added up in."""


def numbers_of(item: object) -> Numbers | None:
    """The attributes of a metric object that are numbers, in order of their names; None if it has others that it may add something up in."""
    found: Numbers = {}
    for name, each in sorted(vars(item).items()):
        if isinstance(each, _SETTINGS) or callable(each):
            continue
        array = _array(each)
        if array is None:
            return None
        found[name] = array
    return found


def remark(name: str, item: object) -> str | None:
    """What is to be known about how a metric is made global; nothing of those that Paddle brings along."""
    if type(item).__module__.partition(".")[0] == "paddle":
        return None
    kind, there = type(item).__name__, numbers_of(item)
    if there is None:
        others = [each for each, held in sorted(vars(item).items()) if not _is_number_or_setting(held)]
        return (
            f"metric {name} ({kind}) keeps {', '.join(others)}, which can't be added up: with several trainers it is the mean of "
            "what each of them finds in its own samples, and `--resume` within an epoch begins it again"
        )
    return f"metric {name} ({kind}) is global: its {', '.join(there) or 'state'} are added up over trainers"


class ObjectMetric(Metric):
    """One metric object. The metric of the current window follows the object itself; others have its numbers alone."""

    def __init__(self, kind: str, new: object, guard: Callable[[], AbstractContextManager[None]]) -> None:
        """``new`` has seen nothing."""
        self._new = new
        self._guard = guard
        self._zero = numbers_of(new)
        self._live: Any = None
        self._live_samples = 0
        self._begun: State = {}
        """What the live object had added up when its window began."""
        super().__init__(kind=kind)

    def follow(self, live: object) -> None:
        """Let this object, which is new, be the one that the model updates."""
        self._live, self._live_samples = live, 0
        self._begun = self._now()

    def go_on_with(self, live: object) -> None:
        """Another object has the same state and goes on."""
        self._live = live

    def take(self, batch: MetricBatch) -> None:
        """The model's own code does it."""
        raise NotImplementedError

    def count(self, samples: int) -> None:
        """The object has seen so many samples more."""
        self._state["samples"][USED] += samples
        self._live_samples += samples

    def state(self) -> State:
        kept = super().state()
        if self._live is not None:
            now = self._now()
            kept.update({name: kept[name] + now[name] - self._begun[name] for name in now})
        return kept

    def reset(self) -> None:
        """A new window: the object goes on, and what it has is no longer recent."""
        super().reset()
        if self._live is not None:
            self._begun = self._now()

    def fresh(self) -> ObjectMetric:
        return ObjectMetric(self._settings["kind"], self._new, self._guard)

    def resume(self, earlier: State, recent: State) -> None:
        """Go on from both of these: the live object is as if it had added them up."""
        self.load(recent)
        if self._zero is not None:
            set_numbers(self._live, {name: self._zero[name] + earlier[name] + recent[name] for name in self._zero})
        self._begun = self._now()

    def _now(self) -> State:
        """What the live object has added up since it was new."""
        if self._zero is None:
            return {"weighted": np.array([self._own_value() * self._live_samples])}
        there = numbers_of(self._live) or {}
        if any(there[name].shape != zero.shape for name, zero in self._zero.items() if name in there):
            there = {}
        nothing = np.array(NAN)
        return {name: there.get(name, nothing) - zero for name, zero in self._zero.items()}

    def _own_value(self) -> float:
        if not self._live_samples:
            return 0.0
        with self._guard():
            return _values(self._live.accumulate())[self.main]

    def _arrays(self) -> State:
        if self._zero is None:
            return {"weighted": np.zeros(1)}
        return {name: np.zeros(zero.shape) for name, zero in self._zero.items()}

    def _values(self) -> dict[str, float]:
        if not self.samples:
            return {self.main: NAN}
        if self._zero is None:
            return {self.main: float(self._state["weighted"][0]) / self.samples}
        if any(not np.isfinite(self._state[name]).all() for name in self._zero):
            return {self.main: NAN}
        made: Any = copy.deepcopy(self._new)
        set_numbers(made, {name: zero + self._state[name] for name, zero in self._zero.items()})
        with self._guard():
            return _values(made.accumulate())

    def _undefined(self) -> str | None:
        return "its numbers have changed their shape, or are not finite"


class ObjectMetricSet(MetricSet):
    """The loss, and metric objects that a model's own code updates."""

    def __init__(
        self,
        names: Sequence[str],
        objects: Sequence[object],
        *,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``objects`` may be more than ``names``: those behind are not told. ``guard`` is around all calls of their code."""
        self.objects: list[object] = list(objects)
        made = {
            name: ObjectMetric(type(each).__name__, copy.deepcopy(each), guard)
            for name, each in zip(names, self.objects, strict=False)
        }
        super().__init__({LOSS: Mean(), **made})
        self._new = [copy.deepcopy(each) for each in self.objects]
        self._told: dict[str, float] = {}
        self._follow()

    def count(self, *, samples: int, loss: float | None = None, told: Mapping[str, float] | None = None) -> None:
        """The model's code has looked at a batch; ``told``: what else it wants to be shown."""
        if loss is not None:
            self.update(losses=loss, samples=samples, only=(LOSS,))
        for metric in self._followed():
            metric.count(samples)
        self._told = dict(told or {})

    def replace_objects(self, objects: Sequence[object]) -> None:
        """The model's code has given back other objects than it was given: these go on."""
        if len(objects) != len(self.objects) or any(a is not b for a, b in zip(objects, self.objects, strict=True)):
            self.objects = list(objects)
            for metric, each in zip(self._followed(), self.objects, strict=False):
                metric.go_on_with(each)

    def classes(self) -> tuple[int, int] | None:
        """As `paddle.metric.Auc` counts them; the live objects have counted since the beginning of the epoch."""
        for each in self.objects:
            negative, positive = getattr(each, "_stat_neg", None), getattr(each, "_stat_pos", None)
            if isinstance(negative, np.ndarray) and isinstance(positive, np.ndarray):
                return int(negative.sum()), int(positive.sum())
        return None

    def reset(self) -> None:
        """A new epoch, and with it new objects."""
        self.objects = [copy.deepcopy(each) for each in self._new]
        super().reset()
        self._follow()

    def load(self, state: ArrayLike, layout: str | None = None) -> None:
        super().load(state, layout)
        for name, metric in self._recent.items():
            if isinstance(metric, ObjectMetric):
                metric.resume(self._earlier[name].state(), Metric.state(metric))

    def readings(self, state: ArrayLike | None = None) -> Readings:
        found = super().readings(state)
        # `infer_forward` gives no loss.
        no_loss = math.isnan(found.epoch[LOSS]) and LOSS in found.reasons
        leave = {LOSS} if no_loss else set()
        told = {name: each for name, each in self._told.items() if name not in found.epoch or name in leave}
        return replace(
            found,
            recent={**{name: each for name, each in found.recent.items() if name not in leave}, **told},
            epoch={**{name: each for name, each in found.epoch.items() if name not in leave}, **told},
            reasons={name: each for name, each in found.reasons.items() if name not in leave},
        )

    def _follow(self) -> None:
        for metric, each in zip(self._followed(), self.objects, strict=False):
            metric.follow(each)

    def _followed(self) -> list[ObjectMetric]:
        return [each for each in self._recent.values() if isinstance(each, ObjectMetric)]


def set_numbers(item: object, numbers: Mapping[str, AnyArray]) -> None:
    """Give attributes their numbers, each in the form that it has."""
    for name, array in numbers.items():
        setattr(item, name, _like(getattr(item, name), array))


def misfits(names: Sequence[object], objects: Sequence[object], where: str) -> tuple[Problem, ...]:
    """Problems with what ``create_metrics`` has returned."""
    problems = []
    if len(names) > len(objects):
        what = f"create_metrics names {len(names)} metrics, and returns {len(objects)}"
        problems.append(Problem(code="UM-TRAIN-067", what=what, where=where))
    for name, each in zip(names, objects, strict=False):
        missing = [method for method in ("update", "accumulate") if not callable(getattr(each, method, None))]
        if missing:
            what = f"create_metrics: metric {name} is a {type(each).__name__}, which has no {' and no '.join(missing)}"
            hint = "derive it from paddle.metric.Metric"
            problems.append(Problem(code="UM-TRAIN-067", what=what, hint=hint, where=where))
    return tuple(problems)


def _is_number_or_setting(item: object) -> bool:
    return isinstance(item, _SETTINGS) or callable(item) or _array(item) is not None


def _array(item: object) -> NDArray[np.float64] | None:
    """Numbers as an array; None if it is something else, or a list that may grow."""
    if hasattr(item, "numpy") and hasattr(item, "dtype"):
        item = item.numpy()
    if isinstance(item, (list, tuple)) and not (
        item and all(isinstance(each, (int, float, np.number)) for each in item)
    ):
        return None if isinstance(item, list) or item else np.zeros(0)
    if not isinstance(item, (int, float, np.number, np.ndarray, list, tuple)):
        return None
    array = np.asarray(item)
    return array.astype(np.float64) if array.dtype.kind in "iuf" and (array.size or array.ndim == 0) else None


def _like(item: Any, array: AnyArray) -> Any:
    """Numbers in the form of what was there."""
    if isinstance(item, (list, tuple)):
        return type(item)(type(before)(each) for before, each in zip(item, array.tolist(), strict=True))
    if isinstance(item, np.ndarray):
        return array.astype(item.dtype)
    if hasattr(item, "set_value") and hasattr(item, "numpy"):
        made = item.clone()
        made.set_value(array.astype(item.numpy().dtype))
        return made
    return type(item)(array.item())


def _values(answer: Any) -> dict[str, float]:
    """What `accumulate` has returned: one number, or several."""
    if hasattr(answer, "numpy"):
        answer = answer.numpy()
    flat = np.asarray(answer, np.float64).reshape(-1)
    if not flat.size:
        return {"value": NAN}
    return {"value": float(flat[0]), **{str(number): float(flat[number]) for number in range(1, flat.size)}}
