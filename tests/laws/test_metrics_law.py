"""Metrics: however samples are divided among batches and trainers, the sum is what one pass would have seen; and the numbers are those of
the slowest way to work them out."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umiak.train.metrics import METRICS, Auc, Calibration, LogLoss, PosNegRatio, PrecisionRecall, RecallK, make_metric
from umiak.train.metrics.metric import Metric

CLASSES = 4
SETTINGS: dict[str, dict[str, Any]] = {
    "auc": {"bins": 16},
    "precision_recall": {"classes": CLASSES},
    "recall_k": {"k": 2},
}
OF_CLASSES = ("precision_recall", "recall_k")

# Few different numbers, so that ties and full bins are common, beside any.
probabilities = st.one_of(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.floats(0, 1, width=32))
rough = st.one_of(probabilities, probabilities, st.sampled_from([math.nan, math.inf, -math.inf, 1.5, -2.0]))
labels = st.one_of(st.integers(0, 1), st.integers(0, 1), st.sampled_from([-1, CLASSES, CLASSES + 5]))


def samples(scores: st.SearchStrategy[float], labels: st.SearchStrategy[int], *, least: int = 0) -> st.SearchStrategy:
    """Scores of classes, the label, and a group."""
    one = st.tuples(st.lists(scores, min_size=CLASSES, max_size=CLASSES), labels, st.integers(0, 3))
    return st.lists(one, min_size=least, max_size=30)


def fed(name: str, metric: Metric, rows: list) -> None:
    scores = np.array([row[0] for row in rows], np.float32).reshape(-1, CLASSES)
    truth = np.array([row[1] for row in rows], np.int64)
    if name == "mean":
        metric.update(scores[:, 1])
    elif name in OF_CLASSES:
        metric.update(scores, truth)
    elif name == "pos_neg_ratio":
        metric.update(scores[:, 1], truth, groups=np.array([row[2] for row in rows], np.int64))
    else:
        metric.update(scores[:, 1], truth)


def same(one: dict, other: dict, *, exact: bool = False) -> bool:
    return set(one) == set(other) and all(
        (array == other[name]).all()
        if exact or array.dtype == np.int64
        else np.allclose(array, other[name], rtol=1e-12, atol=1e-12)
        for name, array in one.items()
    )


def division(rows: list, cuts: list[int]) -> list[list]:
    ends = sorted(cut % (len(rows) + 1) for cut in cuts)
    return [rows[start:end] for start, end in zip([0, *ends], [*ends, len(rows)], strict=True)]


@pytest.mark.parametrize("name", METRICS)
@given(data=st.data())
def test_any_division_among_trainers_and_batches_in_any_order_is_one_pass(name: str, data: st.DataObject) -> None:
    rows = data.draw(samples(rough, labels))
    if name == "pos_neg_ratio":
        # Pairs are those of a group within a batch: a division may separate groups, not cut them.
        rows.sort(key=lambda row: row[2])
        groups = [[row for row in rows if row[2] == group] for group in range(4)]
        parts = data.draw(st.permutations(groups))
    else:
        order = data.draw(st.permutations(rows))
        parts = division(order, data.draw(st.lists(st.integers(0, 30), max_size=5)))
    settings = SETTINGS.get(name, {})
    whole = make_metric(name, **settings)
    fed(name, whole, rows)
    trainers = [make_metric(name, **settings) for _ in range(3)]
    for part in parts:
        fed(name, data.draw(st.sampled_from(trainers)), part)
    total = make_metric(name, **settings)
    for trainer in data.draw(st.permutations(trainers)):
        total.merge(trainer.state())
    assert same(total.state(), whole.state())
    assert total.problems() == whole.problems()
    assert np.allclose(list(total.values().values()), list(whole.values().values()), rtol=1e-9, equal_nan=True)


@pytest.mark.parametrize("name", METRICS)
@given(rows=samples(rough, labels), more=samples(rough, labels))
def test_a_state_that_was_saved_goes_on_as_if_nothing_had_been(name: str, rows: list, more: list) -> None:
    settings = SETTINGS.get(name, {})
    one, other = make_metric(name, **settings), make_metric(name, **settings)
    fed(name, one, rows)
    other.load(one.state())
    assert same(one.state(), other.state(), exact=True)
    for metric in (one, other):
        fed(name, metric, more)
    assert same(one.state(), other.state(), exact=True)
    one.reset()
    assert same(one.state(), make_metric(name, **settings).state(), exact=True)


@pytest.mark.parametrize("name", METRICS)
@given(rows=samples(rough, labels))
def test_a_number_is_missing_exactly_if_there_is_a_reason(name: str, rows: list) -> None:
    metric = make_metric(name, **SETTINGS.get(name, {}))
    fed(name, metric, rows)
    assert math.isnan(metric.value()) == (metric.why() is not None)
    assert metric.samples + metric.left_out == len(rows)
    assert bool(metric.problems()) == (metric.left_out > 0)
    assert all(np.isfinite(array).all() for array in metric.state().values())


# ---- against brute force


binary = st.lists(st.tuples(probabilities, st.integers(0, 1)), min_size=1, max_size=40)


def columns(rows: list) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in rows], np.float32), np.array([row[1] for row in rows])


def pair_by_pair(rows: list) -> tuple[int, int, int]:
    """How many pairs of a positive and a negative sample are right, wrong, tied."""
    ups, downs = ([np.float32(score) for score, label in rows if label == wanted] for wanted in (1, 0))
    pairs = list(product(ups, downs))
    right, tied = sum(up > down for up, down in pairs), sum(up == down for up, down in pairs)
    return int(right), len(pairs) - int(right) - int(tied), int(tied)


@given(binary, st.integers(2, 5000))
def test_auc_is_as_near_to_the_exact_one_as_it_says(rows: list, bins: int) -> None:
    right, wrong, tied = pair_by_pair(rows)
    auc = Auc(bins=bins)
    auc.update(*columns(rows))
    if not right + wrong + tied:
        assert math.isnan(auc.value())
        return
    exact = Fraction(2 * right + tied, 2 * (right + wrong + tied))
    assert abs(auc.value() - float(exact)) <= auc.bound() + 1e-12
    assert 0 <= auc.value() <= 1


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 1)), min_size=1, max_size=40))
def test_auc_is_exact_where_ties_are_all_that_a_bin_holds(rows: list) -> None:
    right, wrong, tied = pair_by_pair(rows)
    auc = Auc(bins=16)
    auc.update(np.array([min(1.0, (place + 0.25) / 15) for place, _ in rows]), [label for _, label in rows])
    if right + wrong + tied:
        assert auc.value() == pytest.approx((right + tied / 2) / (right + wrong + tied), abs=1e-14)


@given(binary)
def test_log_loss_and_calibration_sample_by_sample(rows: list) -> None:
    loss, calibration = LogLoss(clip=1e-3), Calibration()
    for metric in (loss, calibration):
        metric.update(*columns(rows))
    clipped = [(min(max(float(np.float32(score)), 1e-3), 1 - 1e-3), label) for score, label in rows]
    each = [-math.log(score if label else 1 - score) for score, label in clipped]
    assert loss.value() == pytest.approx(math.fsum(each) / len(each), rel=1e-9)
    numbers = calibration.values()
    assert numbers["predicted"] == pytest.approx(math.fsum(float(np.float32(score)) for score, _ in rows) / len(rows))
    assert numbers["actual"] == sum(label for _, label in rows) / len(rows)


@given(st.lists(st.tuples(st.floats(-3, 3, width=16), st.integers(0, 1), st.integers(0, 3)), max_size=40))
def test_pairs_group_by_group(rows: list) -> None:
    pairs = PosNegRatio()
    pairs.update([row[0] for row in rows], [row[1] for row in rows], groups=[row[2] for row in rows])
    expected = np.sum([pair_by_pair([row[:2] for row in rows if row[2] == group]) for group in range(4)], axis=0)
    assert pairs.state()["pairs"].tolist() == expected.tolist()


@given(samples(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.integers(0, CLASSES - 1), least=1), st.integers(1, CLASSES))
def test_decisions_sample_by_sample(rows: list, k: int) -> None:
    scores, truth = [row[0] for row in rows], [row[1] for row in rows]
    first = [sorted(range(CLASSES), key=lambda place: -row[place]) for row in scores]
    recall, both = RecallK(k=k), PrecisionRecall(classes=CLASSES)
    for metric in (recall, both):
        metric.update(scores, truth)
    assert recall.value() == sum(label in order[:k] for order, label in zip(first, truth, strict=True)) / len(rows)
    decided = [(order[0], label) for order, label in zip(first, truth, strict=True)]
    for number, counts in enumerate(both.table().tolist()):
        kinds = [(chosen == number, label == number) for chosen, label in decided]
        wanted = [(True, True), (True, False), (False, False), (False, True)]
        assert counts == [kinds.count(kind) for kind in wanted]
    assert both.values()["micro_f1"] == pytest.approx(sum(chosen == label for chosen, label in decided) / len(rows))
