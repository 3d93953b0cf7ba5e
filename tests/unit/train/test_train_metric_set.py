"""Boards: several metrics at once, what is recent and what is the epoch's, and sums over trainers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from umiak.core.problem import UmiakError
from umiak.train.metrics import Auc, Calibration, LogLoss, Mean
from umiak.train.metrics.metric_set import MetricSet

NAN = math.nan


def code_of(error: pytest.ExceptionInfo[UmiakError]) -> str:
    return error.value.problems[0].code


def metrics() -> MetricSet:
    return MetricSet({"auc": Auc(bins=8), "calibration": Calibration(), "loss": Mean()})


def test_a_board_tells_what_is_recent_and_the_epoch() -> None:
    one = metrics()
    one.update([0.9, 0.1], [1, 0], losses=2.0)
    one.start_window()
    one.update([0.1, 0.9], [1, 0], losses=4.0)
    told = one.readings()
    assert told.recent == {
        "auc": 0.0,
        "calibration": 1.0,
        "calibration.predicted": 0.5,
        "calibration.actual": 0.5,
        "loss": 4.0,
    }
    assert (told.epoch["auc"], told.epoch["loss"]) == (0.5, 3.0)
    assert (told.reasons, told.problems) == ({}, ())
    one.start_window()
    told = one.readings()
    assert math.isnan(told.recent["auc"])
    assert told.epoch["auc"] == 0.5
    one.reset()
    assert one.readings().reasons == {"auc": "no samples", "calibration": "no samples", "loss": "no samples"}


def test_one_sum_makes_a_board_global() -> None:
    trainers = [metrics(), metrics()]
    trainers[0].update([0.9, 0.6], [1, 0], losses=1.0)
    trainers[1].update([0.2, 0.1, 0.7], [0, 0, 1], losses=2.0)
    for each in trainers:
        each.start_window()
    trainers[1].update([0.3], [1], losses=3.0)
    before = [each.state() for each in trainers]
    told = [each.readings(before[0] + before[1]) for each in trainers]
    assert repr(told[0]) == repr(told[1])
    alone = Auc(bins=8)
    alone.update([0.9, 0.6, 0.2, 0.1, 0.7, 0.3], [1, 0, 0, 0, 1, 1])
    assert told[0].epoch["auc"] == alone.value()
    assert told[0].epoch["loss"] == (2 * 1.0 + 3 * 2.0 + 3.0) / 6
    assert told[0].recent["loss"] == 3.0
    # Reading a sum leaves a trainer's own state as it was: it would count twice in the next exchange.
    assert all((each.state() == state).all() for each, state in zip(trainers, before, strict=True))


def test_a_board_goes_on_where_its_state_was_saved() -> None:
    one, other = metrics(), metrics()
    one.update([0.9, 0.1], [1, 0], losses=0.1)
    one.start_window()
    one.update([0.3, NAN], [1, 0], losses=0.2)
    other.load(one.state(), one.layout.text)
    for each in (one, other):
        each.update([0.7, 0.2], [0, 1], losses=0.3)
        each.start_window()
    assert (one.state() == other.state()).all()
    assert repr(one.readings()) == repr(other.readings())


def test_a_board_refuses_the_state_of_another() -> None:
    other = MetricSet({"auc": Auc(bins=8), "calibration": Calibration(), "loss": LogLoss()})
    assert other.layout.size == metrics().layout.size
    with pytest.raises(UmiakError, match=r"loss=LogLoss.* instead of .*loss=Mean") as error:
        metrics().load(other.state(), other.layout.text)
    assert code_of(error) == "UM-METRIC-005"
    with pytest.raises(UmiakError, match="it has the shape"):
        metrics().readings(np.zeros(3))


def test_a_problem_is_told_once_with_all_who_have_it() -> None:
    one = metrics()
    one.update([NAN, 0.1], [1, 0], losses=NAN)
    told = one.readings()
    assert [(problem.where, problem.what) for problem in told.problems] == [
        ("auc, calibration", "1 of 2 predictions are not finite numbers"),
        ("loss", "2 of 2 losses are not finite numbers"),
    ]
    assert all(math.isnan(number) for number in told.epoch.values())
    assert np.isfinite(one.state()).all()
    one.start_window()
    one.update([0.9, 0.1], [1, 0], losses=1.0)
    assert one.readings().recent["auc"] == 1.0


def test_tasks_of_one_model() -> None:
    one = MetricSet({"click": Auc(), "buy": Auc(), "loss": Mean()})
    one.update([0.9, 0.1], [1, 0], only=["click"])
    one.update([0.9, 0.1], [0, 1], only=["buy"])
    one.update(losses=0.5, samples=2, only=["loss"])
    assert one.readings().epoch == {"click": 1.0, "buy": 0.0, "loss": 0.5}
    with pytest.raises(UmiakError, match="no such metric in this set: clik") as error:
        one.update([0.9], [1], only=["clik"])
    assert code_of(error) == "UM-METRIC-001"


def test_a_metric_that_lacks_its_input_says_so() -> None:
    with pytest.raises(UmiakError, match="losses are required"):
        MetricSet({"loss": Mean()}).update([0.9], [1])
    with pytest.raises(UmiakError, match="predictions and labels are required"):
        MetricSet({"auc": Auc()}).update(losses=1.0)


def test_an_empty_board() -> None:
    one = MetricSet({})
    one.update([0.9], [1])
    one.start_window()
    assert one.state().size == 0
    assert one.readings().epoch == {}
