"""Metric objects that models bring along, made global: exact for numbers, told for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from umiak.train.metrics.objects import ObjectMetricSet, misfits, numbers_of, remark


class Buckets:
    """As paddle.metric.Auc keeps its state."""

    def __init__(self, buckets: int = 8) -> None:
        self._buckets = buckets
        self._name = "buckets"
        self._seen = np.zeros(buckets)

    def update(self, values: Any) -> None:
        for each in values:
            self._seen[int(each * self._buckets)] += 1.0

    def accumulate(self) -> float:
        return float((self._seen * np.arange(self._buckets)).sum() / self._seen.sum())


class Share:
    """As paddle.metric.Accuracy keeps its state: lists of numbers."""

    def __init__(self) -> None:
        self.topk = (1, 2)
        self.total = [0.0, 0.0]
        self.count = [0, 0]

    def update(self, hits: Any) -> None:
        for at in range(2):
            self.total[at] += float(hits[at])
            self.count[at] += 10

    def accumulate(self) -> list[float]:
        return [total / count for total, count in zip(self.total, self.count, strict=True)]


class Hoarder:
    """Keeps every prediction."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def update(self, values: Any) -> None:
        self.seen += list(values)

    def accumulate(self) -> float:
        return float(np.mean(self.seen))


def the_set() -> ObjectMetricSet:
    return ObjectMetricSet(["buckets", "share", "hoarder"], [Buckets(), Share(), Hoarder()])


def look(metrics: ObjectMetricSet, values: Any, hits: tuple[int, int], loss: float = 0.5) -> None:
    buckets, share, hoarder = metrics.objects
    buckets.update(values)
    share.update(hits)
    hoarder.update(values)
    metrics.count(samples=len(values), loss=loss)


@pytest.mark.parametrize("windows", [False, True])
def test_two_trainers_are_as_one(windows: bool) -> None:
    random = np.random.default_rng(7)
    batches = [(random.random(10), (random.integers(0, 9), random.integers(0, 9))) for _ in range(6)]
    alone, trainers = the_set(), [the_set(), the_set()]
    for number, (values, hits) in enumerate(batches):
        look(alone, values, hits)
        look(trainers[number % 2], values, hits)
        if windows and number == 3:
            for each in (alone, *trainers):
                each.start_window()
    together = trainers[0].readings(trainers[0].state() + trainers[1].state())
    own = alone.readings()
    assert together.epoch["buckets"] == own.epoch["buckets"]
    assert together.epoch["share"] == own.epoch["share"]
    assert together.epoch["share.1"] == own.epoch["share.1"]
    assert together.recent["buckets"] == own.recent["buckets"]
    assert together.epoch["hoarder"] == pytest.approx(own.epoch["hoarder"])
    assert together.recent["hoarder"] == pytest.approx(own.recent["hoarder"])
    if windows:
        recent = Buckets()
        for values, _ in batches[4:]:
            recent.update(values)
        assert own.recent["buckets"] == recent.accumulate()


def test_a_resumed_epoch_goes_on() -> None:
    random = np.random.default_rng(8)
    batches = [(random.random(10), (3, 4)) for _ in range(5)]
    whole, first = the_set(), the_set()
    for number, (values, hits) in enumerate(batches):
        look(whole, values, hits)
        if number < 3:
            look(first, values, hits)
        if number == 1:
            whole.start_window()
            first.start_window()
    second = the_set()
    second.load(first.state(), first.layout.text)
    assert np.array_equal(second.state(), first.state())
    for values, hits in batches[3:]:
        look(second, values, hits)
    for name in ("buckets", "share", "share.1", "loss"):
        assert second.readings().epoch[name] == whole.readings().epoch[name]
        assert second.readings().recent[name] == whole.readings().recent[name]
    assert second.objects[0].accumulate() == whole.objects[0].accumulate(), "the model's own object has it, too"


def test_what_is_told_besides() -> None:
    metrics = ObjectMetricSet([], [])
    metrics.count(samples=4, loss=0.25, told={"ctr_loss": 0.125, "loss": 9.0})
    assert dict(metrics.readings().epoch) == {"loss": 0.25, "ctr_loss": 0.125}
    evaluated = ObjectMetricSet(["buckets"], [Buckets()])
    evaluated.objects[0].update([0.9])
    evaluated.count(samples=1)
    assert dict(evaluated.readings().epoch) == {"buckets": 7.0}, "without a loss nothing is said of it"


def test_objects_that_are_given_back_go_on() -> None:
    metrics = ObjectMetricSet(["share"], [Share()])
    metrics.objects[0].update((5, 5))
    metrics.count(samples=10)
    other = Share()
    other.total, other.count = [5.0, 5.0], [10, 10]
    other.update((10, 10))
    metrics.replace_objects([other])
    metrics.count(samples=10)
    assert metrics.readings().epoch["share"] == 0.75


def test_a_new_epoch_begins_with_new_objects() -> None:
    metrics = the_set()
    look(metrics, [0.5], (1, 1))
    metrics.reset()
    assert not metrics.state().any()
    look(metrics, [0.9], (1, 1))
    assert metrics.readings().epoch["hoarder"] == pytest.approx(0.9)


def test_what_is_said_about_them() -> None:
    assert numbers_of(Hoarder()) is None
    assert "keeps seen, which can't be added up" in (remark("mine", Hoarder()) or "")
    assert "is global: its _buckets, _seen are added up" in (remark("mine", Buckets()) or "")
    (few,) = misfits(["auc", "acc"], [Buckets()], "model.py")
    assert few.code == "UM-TRAIN-067"
    (no_metric,) = misfits(["auc"], [object()], "model.py")
    assert "has no update and no accumulate" in no_metric.what


def test_a_state_that_changes_its_shape_is_no_number() -> None:
    class Growing(Buckets):
        def update(self, values: Any) -> None:
            self._seen = np.concatenate([self._seen, np.asarray(values)])

    metrics = ObjectMetricSet(["growing"], [Growing()])
    metrics.objects[0].update([0.5])
    metrics.count(samples=1)
    told = metrics.readings()
    assert np.isnan(told.epoch["growing"])
    assert "shape" in told.reasons["growing"]
