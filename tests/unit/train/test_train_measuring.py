"""Metrics that a config asks for: what it may say, what a batch must have, and that eight trainers say what one says."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.support import PATIENCE_S
from tests.support.train_helpers import FLAT, SINGLE, config, read
from umiak.core.problem import UmiakError
from umiak.ps.sessions import Session
from umiak.train.config.evaluating.settings import EvaluationSettings, Gain, MetricName, MetricSettings, Weight
from umiak.train.engines.engine import Engine, FirstMetric
from umiak.train.evaluating import measuring
from umiak.train.evaluating.measuring import Measured
from umiak.train.metrics.metric_set import MetricSet, Readings
from umiak.train.reading.batches import Arrays, StackedBatch
from umiak.train.run.peers import Peers
from umiak.train.run.stopwatch import Stopwatch

ASKED = EvaluationSettings(
    slices=("city",),
    metrics=(
        MetricSettings(name=MetricName.GAUC, group="user"),
        MetricSettings(name=MetricName.GAUC, group="user", weight=Weight.POSITIVES),
        MetricSettings(name=MetricName.NDCG, group="user", k=3),
        MetricSettings(name=MetricName.HIT_RATE, group="city", k=10),
        MetricSettings(name=MetricName.MRR, group="user"),
        MetricSettings(name=MetricName.NORMALISED_ENTROPY),
        MetricSettings(name=MetricName.CALIBRATION_DECILES),
    ),
)
NOTHING = Readings(recent={}, epoch={}, reasons={}, problems=())


class Meeting:
    """Trainers as threads: `gather` waits for all of them."""

    def __init__(self, world: int) -> None:
        self.world = world
        self._barrier = threading.Barrier(world, timeout=PATIENCE_S)
        self._told: dict[int, bytes] = {}

    def peers(self, rank: int) -> Peers:
        def gather(_: str, payload: bytes) -> list[bytes]:
            assert len(payload) <= 1 << 20
            self._told[rank] = payload
            self._barrier.wait()
            told = [self._told[each] for each in range(self.world)]
            self._barrier.wait()
            return told

        job: Any = SimpleNamespace(rank=rank, world=self.world, client=SimpleNamespace(gather=gather))
        return Peers(cast("Session", job), Stopwatch())


def engine(*, first_metric: bool = True) -> Engine:
    said = FirstMetric(prediction="probability", label="click") if first_metric else None
    return cast("Engine", SimpleNamespace(first_metric=said))


def batch(users: Any, cities: Any, clicks: Any, **dense: Any) -> Arrays:
    def ids(given: Any) -> Any:
        return np.asarray(given, np.int64), np.arange(len(given) + 1)

    numbers = {name: np.asarray(each, np.float32).reshape(-1, 1) for name, each in dense.items()}
    return Arrays(
        size=len(users), dense=numbers, sparse={"user": ids(users), "city": ids(cities), "click": ids(clicks)}
    )


def measured(world: int, samples: int = 5000) -> tuple[dict[str, float], list[str]]:
    """Some samples, divided among so many trainers."""
    chance = np.random.default_rng(7)
    users, cities = chance.integers(-40, 300, samples), chance.integers(0, 30, samples)
    scores = chance.random(samples).astype(np.float32).round(2)
    clicks = (chance.random(samples) < scores).astype(np.int64)
    meeting = Meeting(world)
    found: dict[int, tuple[Readings, list[str]]] = {}

    def work(rank: int) -> None:
        own = Measured(ASKED, engine(), dataset="test", where=None)
        mine = np.arange(rank, samples, world)
        for part in np.array_split(mine, 3):
            answers = own.answers()
            assert answers is not None
            answers["probability"] = scores[part]
            own.update(batch(users[part], cities[part], clicks[part]), answers)
        found[rank] = own.added(NOTHING, meeting.peers(rank))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(world)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == world
    (numbers, lines), *others = [(dict(readings.epoch), lines) for readings, lines in found.values()]
    assert all(each == (numbers, lines) for each in others)
    return numbers, lines


def test_eight_trainers_say_what_one_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "PIECE", 100)  # several pieces each
    alone, told = measured(1)
    together, told_by_all = measured(8)
    assert told == told_by_all
    assert [*alone] == [*together]
    of_sums = ("normalised_entropy", "calibration_deciles")
    for name, number in alone.items():
        if name.startswith(of_sums):
            assert together[name] == pytest.approx(number, rel=1e-12)  # sums of floats
        else:
            assert together[name] == number, name
    assert 0.5 < alone["gauc_samples"] < 1
    assert alone["gauc_samples"] != alone["gauc_positives"]
    assert alone["auc_by_city.slices"] == 30
    assert sum(name.endswith(".samples") for name in alone) == 20
    assert told[0].startswith("AUC by city: ")
    assert told[0].endswith(", and 24 more")


def test_nothing_is_asked_for_and_nothing_is_done() -> None:
    own = Measured(EvaluationSettings(), engine(first_metric=False), dataset="test", where=None)
    assert own.answers() is None
    own.update(batch([1], [1], [1]), None)
    assert own.added(NOTHING, Meeting(1).peers(0)) == (NOTHING, [])


def one(asked: EvaluationSettings, of: Any, answers: dict[str, Any], *, first_metric: bool = True) -> Readings:
    own = Measured(asked, engine(first_metric=first_metric), dataset="test", where="config.yaml:3:1")
    own.update(of, {name: np.asarray(each) for name, each in answers.items()})
    return own.added(NOTHING, Meeting(1).peers(0))[0]


GAUC = EvaluationSettings(metrics=(MetricSettings(name=MetricName.GAUC, group="user"),))


def test_what_cannot_be_judged_makes_it_no_number() -> None:
    readings = one(GAUC, batch([1, 1, 1], [0] * 3, [1, 0, 0]), {"probability": [0.5, math.nan, 0.1]})
    assert math.isnan(readings.epoch["gauc_samples"])
    assert readings.reasons == {"gauc_samples": "1 samples could not be first_metric"}
    assert [each.code for each in readings.problems] == ["UM-METRIC-004"]


def test_two_logits_are_judged_by_their_difference() -> None:
    clicks = batch([1, 1, 1], [0] * 3, [1, 0, 0])
    # By the second logit alone the click would be last.
    assert one(GAUC, clicks, {"probability": [[-9.0, 1.0], [3.0, 2.0], [4.0, 3.0]]}).epoch["gauc_samples"] == 1.0
    assert one(GAUC, clicks, {"probability": [[0.1, 0.9], [0.7, 0.3], [0.6, 0.4]]}).epoch["gauc_samples"] == 1.0


def test_numbers_are_groups_too_and_fields_without_names_have_numbers() -> None:
    by_price = EvaluationSettings(metrics=(MetricSettings(name=MetricName.GAUC, group="price"),), slices=("price",))
    readings = one(
        by_price, batch([0] * 4, [0] * 4, [1, 0, 1, 0], price=[0.5, 0.5, 2, 2]), {"probability": [3, 1, 1, 3]}
    )
    assert readings.epoch["gauc_samples"] == 0.5
    assert (readings.epoch["auc_by_price.0.5"], readings.epoch["auc_by_price.2"]) == (1.0, 0.0)
    by_field = EvaluationSettings(label="0", metrics=(MetricSettings(name=MetricName.GAUC, group="1"),))
    fields = StackedBatch(size=2, arrays=(np.array([[1], [0]]), np.array([4, 4]), np.zeros((2, 3))))
    assert one(by_field, fields, {"output": [0.2, 0.1]}, first_metric=False).epoch["gauc_samples"] == 1.0


@pytest.mark.parametrize(
    ("asked", "answers", "code", "what"),
    [
        (GAUC, {"logit": [1.0]}, "UM-TRAIN-091", "evaluation: the model has no output probability"),
        (EvaluationSettings(label="klick", metrics=GAUC.metrics), {"probability": [1.0]}, "UM-TRAIN-090",
         "evaluation: dataset test has no slot klick"),
        (EvaluationSettings(slices=("wide",)), {"probability": [1.0]}, "UM-TRAIN-090",
         "evaluation: dataset test: slot wide has 2 numbers in every sample"),
        (EvaluationSettings(slices=("many",)), {"probability": [1.0]}, "UM-TRAIN-090",
         "evaluation: dataset test: slot many has not exactly one id in every sample"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told(asked: EvaluationSettings, answers: dict, code: str, what: str) -> None:
    of = batch([1], [1], [1])
    of.sparse["many"] = (np.array([1, 2]), np.array([0, 2]))  # type: ignore[index]
    of.dense["wide"] = np.zeros((1, 2), np.float32)  # type: ignore[index]
    with pytest.raises(UmiakError) as error:
        one(asked, of, answers)
    (problem,) = error.value.problems
    assert (problem.code, problem.what) == (code, what)


def test_a_model_that_keeps_its_label_to_itself_needs_one_named() -> None:
    with pytest.raises(UmiakError, match="which slot is the label"):
        Measured(GAUC, engine(first_metric=False), dataset="test", where=None)


def test_a_metric_of_the_model_is_not_replaced() -> None:
    asked = EvaluationSettings(metrics=(MetricSettings(name=MetricName.AUC),))
    own = Measured(asked, engine(), dataset="test", where=None)
    own.update(batch([1], [1], [1]), {"probability": np.array([0.5])})
    with pytest.raises(UmiakError) as error:
        own.added(Readings(recent={}, epoch={"auc": 0.7}, reasons={}, problems=()), Meeting(1).peers(0))
    assert error.value.problems[0].code == "UM-METRIC-006"


# ---- the config

SAID = """
evaluation:
  label: click
  slices: ["1", "2"]
  metrics:
  - {name: gauc, group: "3", weight: equal}
  - {name: ndcg, group: "3", gain: exponential}
  - {name: mrr, group: "3"}
  - {name: auc, title: finer}
"""


@pytest.mark.parametrize("text", [SINGLE, FLAT], ids=["older", "newer"])
def test_both_layouts_say_it(text: str) -> None:
    asked = config(text + SAID).evaluation
    assert [each.shown for each in asked.metrics] == ["gauc_equal", "ndcg@10_exponential", "mrr", "finer"]
    assert (asked.label, asked.slices, asked.metrics[1].gain, asked.metrics[2].k) == (
        "click",
        ("1", "2"),
        Gain.EXPONENTIAL,
        None,
    )
    assert asked.columns == ("click", "1", "2", "3")


@pytest.mark.parametrize(
    ("said", "code", "what"),
    [
        ("{metrics: [{name: gauc}]}", "UM-CONFIG-011", "metric 1: gauc needs a group, and none is said"),
        ("{metrics: [{group: u}]}", "UM-CONFIG-011", "metric 1: name is missing"),
        ("{metrics: [gauc]}", "UM-CONFIG-013", 'evaluation: entry 1 of metrics must be a mapping with a name, not the text "gauc"'),
        ("{metrics: [{name: gauk, group: u}]}", "UM-CONFIG-014", "metric 1: name: unknown value: gauk"),
        ("{metrics: [{name: auc}, {name: auc}]}", "UM-CONFIG-016", "evaluation: there are two metrics auc"),
        ("{metrics: [{name: auc, title: a.b}]}", "UM-CONFIG-014", "metric 1: title: expected a name without . and @, got a.b"),
        ("{metrics: [{name: ndcg, group: u, k: 0}]}", "UM-CONFIG-014", "metric 1: k: less than 1: 0"),
    ],
)  # fmt: skip
def test_mistakes_are_told(said: str, code: str, what: str) -> None:
    (problem,) = read(f"{FLAT}\nevaluation: {said}\n").problems
    assert (problem.code, problem.what) == (code, what)


def test_what_has_no_effect_is_told() -> None:
    found = read(f"{FLAT}\nevaluation: {{label: click, metrics: [{{name: auc, group: u}}]}}\n")
    assert [each.what for each in found.warnings if each.code == "UM-CONFIG-018"] == ["metric 1: no effect: group"]
    found = read(f"{FLAT}\nevaluation: {{label: click}}\n")
    assert "evaluation: no effect: it names no metrics and no slices" in [each.what for each in found.warnings]


def test_a_slot_that_an_evaluated_dataset_has_not_is_told_before_anything_is_trained() -> None:
    text = SINGLE.replace("  phases: [phase1]", "  phases: [phase1]\n  evaluate_phase: test") + SAID
    text = text.replace("phase:\n", "phase:\n- {name: test, model: m.py, dataset_name: dataloader_train}\n")
    assert read(text).problems == ()
    (problem,) = read(text.replace('group: "3", weight', "group: user, weight")).problems
    assert (problem.code, problem.what) == ("UM-CONFIG-015", "evaluation: dataset dataloader_train has no slot user")


def test_additive_metrics_of_it_are_those_of_the_models() -> None:
    own = Measured(ASKED, engine(), dataset="test", where=None)
    assert isinstance(own._metrics, MetricSet)
    assert [*own._metrics.readings().epoch][:2] == ["normalised_entropy", "calibration_deciles"]
