"""The rate that falls when a metric grows no better: ``schedule: {class: plateau}``. A decider.

    reductions(Schedule(kind="plateau", mode="max", patience=1), [0.70, 0.71, 0.71, 0.71]) == 1

It is a function of what evaluations have told so far, which a checkpoint has: a run that is resumed needs no other memory of it. What counts as better, and what a cooldown
passes over, is as in `paddle.optimizer.lr.ReduceOnPlateau`.
"""

from __future__ import annotations

import math

from umiak.core.problem import UmiakError
from umiak.schema import metric_names
from umiak.schema.findings import choices
from umiak.train.config.values import Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLATEAU = "plateau"
SMALLEST_CHANGE = 1e-8
"""A rate that would fall by less stays as it is; it is compared with an initial rate of 1."""


def rate_factor(schedule: Schedule, history: Sequence[Mapping[str, float | None]]) -> float:
    """What the learning rate is multiplied by, after evaluations that have told this, the oldest first. UmiakError if none of them tells the metric."""
    told = [each for each in history if each]
    if schedule.kind != PLATEAU or not told:
        return 1.0
    name = schedule.metric or ("auc" if "auc" in told[-1] else "loss")
    if name not in told[-1]:
        what = f"schedule: the evaluation has no metric {name}"
        raise UmiakError.of("UM-TRAIN-020", what, hint=choices(name, told[-1]))
    is_less_better = schedule.mode == "min" if schedule.mode else metric_names.is_less_better(name)
    return reduced(schedule, [each.get(name) for each in told], is_less_better=is_less_better)


def reduced(schedule: Schedule, numbers: Sequence[float | None], *, is_less_better: bool) -> float:
    """The same about one metric. None and NaN are no better than anything."""
    rate, best, without, cooling = 1.0, math.nan, 0, 0
    for each in numbers:
        if cooling:
            cooling -= 1
            continue
        number = math.nan if each is None else each
        if math.isnan(best) or _is_better(schedule, number, best, is_less_better=is_less_better):
            best, without = number, 0
            continue
        without += 1
        if without <= schedule.patience:
            continue
        cooling, without = schedule.cooldown, 0
        lower = max(rate * schedule.gamma, schedule.end)
        if rate - lower > SMALLEST_CHANGE:
            rate = lower
    return rate


def _is_better(schedule: Schedule, number: float, best: float, *, is_less_better: bool) -> bool:
    least = best * schedule.threshold if schedule.threshold_mode == "rel" else schedule.threshold
    return number < best - least if is_less_better else number > best + least
