"""The rate that falls when a metric grows no better: the same as Paddle's over any history, and what a config says about it."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.train_helpers import LIBRARY, SINGLE
from umiak.core.problem import UmiakError
from umiak.train.config import layouts
from umiak.train.config.values import Schedule
from umiak.train.evaluating import plateau

SCHEDULES = st.builds(
    Schedule,
    kind=st.just("plateau"),
    gamma=st.sampled_from([0.1, 0.5, 0.9]),
    end=st.sampled_from([0.0, 0.001, 0.3]),
    patience=st.integers(0, 3),
    threshold=st.sampled_from([0.0, 1e-4, 0.2]),
    threshold_mode=st.sampled_from(["rel", "abs"]),
    cooldown=st.integers(0, 3),
)
NUMBERS = st.one_of(st.sampled_from([0.7, 0.70001, 0.71, 0.8]), st.floats(-2, 2))


@pytest.mark.paddle
@given(schedule=SCHEDULES, numbers=st.lists(NUMBERS, max_size=30), is_less_better=st.booleans())
def test_it_is_paddles_over_any_history(schedule: Schedule, numbers: list[float], is_less_better: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from paddle.optimizer.lr import ReduceOnPlateau
    own = ReduceOnPlateau(
        1.0,
        mode="min" if is_less_better else "max",
        factor=schedule.gamma,
        patience=schedule.patience,
        threshold=schedule.threshold,
        threshold_mode=schedule.threshold_mode,
        cooldown=schedule.cooldown,
        min_lr=schedule.end,
    )
    for done, number in enumerate(numbers, start=1):
        own.step(number)
        assert plateau.reduced(schedule, numbers[:done], is_less_better=is_less_better) == own()


def test_by_hand() -> None:
    def factor(history: list[float | None], **more: object) -> float:
        schedule = Schedule(kind="plateau", **{"gamma": 0.5, **more})  # type: ignore[arg-type]
        return plateau.rate_factor(schedule, [{"auc": each, "loss": 1.0} for each in history])

    assert factor([]) == 1.0
    assert factor([0.7, 0.71, 0.72]) == 1.0
    assert factor([0.7, 0.7]) == 0.5
    assert factor([0.7, 0.7], patience=1) == 1.0
    assert factor([0.7, 0.7, 0.7], patience=1) == 0.5
    assert factor([0.7, 0.7, 0.7]) == 0.25
    assert factor([0.7, 0.7, 0.7], end=0.4) == 0.4
    assert factor([0.7, 0.7, 0.7], cooldown=1) == 0.5, "one evaluation is passed over"
    assert factor([0.7, None, math.nan]) == 0.25, "no number is no progress"
    assert factor([None, 0.7, 0.8]) == 1.0
    assert factor([0.7, 0.70001]) == 0.5, "less than a ten thousandth is nothing"
    assert factor([0.7, 0.70001], threshold=0.0) == 1.0
    assert factor([0.7, 0.6, 0.5], mode="min") == 1.0
    assert factor([0.7, 0.8], metric="loss") == 0.5
    assert plateau.rate_factor(Schedule(kind="step"), [{"auc": 0.7}, {"auc": 0.7}]) == 1.0
    with pytest.raises(UmiakError, match="no metric gauc"):
        factor([0.7], metric="gauc")


def said(schedule: str) -> layouts.Reading:
    text = SINGLE + f"hyper_parameters:\n  optimizer: {{class: adam, schedule: {schedule}}}\n"
    return layouts.read(text, source="c.yaml", directory=".", library=LIBRARY)


def test_what_a_config_says() -> None:
    reading = said("{class: ReduceOnPlateau, metric: gauc, mode: max, gamma: 0.5, patience: 2, cooldown: 1, end: 0.01}")
    assert reading.config is not None, reading.problems
    assert reading.config.learning.schedule == Schedule(
        kind="plateau", metric="gauc", mode="max", gamma=0.5, patience=2, cooldown=1, end=0.01
    )
    assert [each.what for each in said("{class: plateau, every: 3}").warnings] == ["schedule: no effect: every"]
    assert [each.what for each in said("{class: step, patience: 3}").warnings] == ["schedule: no effect: patience"]
    for words, what in (("gamma: 1", "gamma"), ("patience: -1", "patience"), ("mode: best", "unknown value: best")):
        (problem,) = said(f"{{class: plateau, {words}}}").problems
        assert what in problem.what
