"""Metrics, each with numbers worked by hand, and what they say about inputs that can't be judged."""

from __future__ import annotations

import math
import re
from importlib.util import find_spec

import numpy as np
import pytest

from tests.support.paths import ROOT
from umiak.core.problem import UmiakError
from umiak.train.metrics import (
    METRICS,
    PADDLEREC,
    Accuracy,
    Auc,
    Calibration,
    LogLoss,
    Mean,
    PosNegRatio,
    PrecisionRecall,
    RecallK,
    make_metric,
)
from umiak.train.metrics.metric import Metric

NAN, INF = math.nan, math.inf
PAGE = ROOT / "docs" / "reference" / "metrics.md"


def code_of(error: pytest.ExceptionInfo[UmiakError]) -> str:
    return error.value.problems[0].code


# ---- each metric


def test_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    auc = Auc()
    # Of six pairs: 0.9 over all three, 0.4 over 0.1 and 0.2 but under 0.5.
    auc.update([0.9, 0.4, 0.1, 0.2, 0.5], [1, 1, 0, 0, 0])
    assert auc.value() == 5 / 6
    assert auc.bound() == 0.0


def test_a_tie_is_half_a_success() -> None:
    auc = Auc()
    auc.update([0.5, 0.5, 0.1], [1, 0, 0])
    assert auc.value() == 0.75
    assert auc.bound() == 0.25


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_the_ends_of_the_range_have_bins_of_their_own(kind: type) -> None:
    auc = Auc(bins=4)
    auc.update(np.array([0, 0.25, 0.34, 0.999, 1], kind), [0, 1, 0, 0, 1])
    assert auc.state()["histogram"].tolist() == [[1, 1, 1, 0], [1, 0, 0, 1]]


def test_fewer_bins_are_wrong_by_no_more_than_they_say() -> None:
    coarse, fine = Auc(bins=2), Auc(bins=100)
    for auc in (coarse, fine):
        auc.update([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    assert (coarse.value(), coarse.bound()) == (0.5, 0.5)
    assert (fine.value(), fine.bound()) == (0.75, 0.0)


def test_auc_needs_both_classes() -> None:
    auc = Auc()
    assert (math.isnan(auc.value()), auc.why()) == (True, "no samples")
    auc.update([0.3], [0])
    assert (math.isnan(auc.value()), auc.why()) == (True, "no positive sample")
    auc.reset()
    auc.update([0.3], [1])
    assert (math.isnan(auc.value()), auc.why()) == (True, "no negative sample")
    assert math.isnan(auc.bound())
    auc.update([0.2], [0])
    assert (auc.value(), auc.why(), auc.problems()) == (1.0, None, ())


def test_counts_whose_products_are_beyond_64_bits() -> None:
    auc = Auc(bins=2)
    many = 2**40
    auc.load({"samples": [3 * many, 0, 0, 0], "histogram": [[many, 0], [many, many]]})
    assert auc.value() == 0.75


def test_log_loss() -> None:
    loss = LogLoss()
    loss.update([0.5, 0.25], [1, 0])
    assert loss.value() == pytest.approx((math.log(2) + math.log(4 / 3)) / 2, rel=1e-15)


def test_log_loss_of_a_certain_mistake_is_finite() -> None:
    loss = LogLoss(clip=0.01)
    loss.update([0.0, 1.0, 1.0], [1, 0, 1])
    assert loss.value() == pytest.approx((2 * math.log(100) - math.log(0.99)) / 3, rel=1e-12)


def test_log_loss_is_summed_in_double_precision() -> None:
    loss = LogLoss()
    loss.update(np.full(3, 1e-4, np.float32), np.zeros(3, np.float32))
    assert loss.value() == pytest.approx(-math.log1p(-float(np.float32(1e-4))), rel=1e-13)


def test_accuracy_of_probabilities_and_of_classes() -> None:
    accuracy = Accuracy()
    accuracy.update([0.5, 0.49, 0.9, 0.1], [1, 1, 0, 0])
    assert accuracy.value() == 0.5
    accuracy.update([[0.2, 0.8], [0.6, 0.4]], [1, 0])
    assert accuracy.value() == 4 / 6
    # Scores of more classes may be anything, and the first of the highest is chosen.
    accuracy.update([[-1.0, 5.0, 5.0], [3.0, 2.0, 9.0]], [1, 0])
    assert accuracy.value() == 5 / 8


def test_the_threshold_of_accuracy() -> None:
    accuracy = Accuracy(threshold=0.8)
    accuracy.update([0.8, 0.79], [1, 1])
    assert accuracy.value() == 0.5


def test_precision_and_recall_of_the_positive_class() -> None:
    both = PrecisionRecall()
    both.update([0.9, 0.8, 0.7, 0.2, 0.1], [1, 0, 1, 1, 0])
    numbers = both.values()
    assert numbers["precision"] == pytest.approx(2 / 3)
    assert numbers["recall"] == pytest.approx(2 / 3)
    assert both.value() == numbers["f1"] == pytest.approx(2 / 3)
    assert both.table().tolist() == [[1, 1, 2, 1], [2, 1, 1, 1]]
    assert numbers["macro_precision"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert numbers["micro_f1"] == pytest.approx(3 / 5)


def test_precision_and_recall_of_several_classes() -> None:
    both = PrecisionRecall(classes=4)
    both.update(np.eye(4)[[0, 0, 1, 2]], [0, 1, 1, 0])
    numbers = both.values()
    # Class 3 was never chosen and never occurs: 1, as Paddle has it. Class 2 was chosen wrongly and never occurs.
    precision, recall = (1 / 2 + 1 + 0 + 1) / 4, (1 / 2 + 1 / 2 + 1 + 1) / 4
    assert numbers["macro_precision"] == precision
    assert numbers["macro_recall"] == recall
    assert both.value() == numbers["macro_f1"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert (numbers["micro_precision"], numbers["micro_recall"], numbers["micro_f1"]) == (0.5, 0.5, 0.5)
    assert both.table().tolist() == [[1, 1, 1, 1], [1, 0, 2, 1], [0, 1, 3, 0], [0, 0, 4, 0]]
    assert "precision" not in numbers


def test_precision_without_a_positive_decision_has_no_meaning() -> None:
    both = PrecisionRecall()
    both.update([0.1, 0.2], [0, 0])
    assert math.isnan(both.value())
    assert both.why() == "no sample is positive, and none was taken for it"
    both.update([0.3], [1])
    numbers = both.values()
    assert (math.isnan(numbers["precision"]), numbers["recall"]) == (True, 0.0)
    both.update([0.9], [0])
    assert both.value() == 0.0
    assert all(math.isnan(number) for number in PrecisionRecall(classes=3).values().values())


def test_recall_at_k() -> None:
    recall = RecallK(k=2)
    scores = [[0.1, 0.5, 0.4], [0.1, 0.5, 0.4], [0.1, 0.5, 0.4]]
    recall.update(scores, [0, 1, 2])
    assert recall.value() == 2 / 3


def test_of_equal_scores_the_first_class_goes_first() -> None:
    recall = RecallK(k=2)
    recall.update([[1.0, 1.0, 1.0]] * 3, [0, 1, 2])
    assert recall.value() == 2 / 3


def test_pairs_of_a_batch() -> None:
    pairs = PosNegRatio()
    # 3 over 2, 1 and under 4; 2 ties with 2, over 1, under 4.
    pairs.update([3.0, 2.0, 2.0, 1.0, 4.0], [1, 1, 0, 0, 0])
    assert pairs.values() == {"ratio": (3 + 1) / (3 + 1), "right": 3, "wrong": 2, "tied": 1}


def test_pairs_of_groups() -> None:
    pairs = PosNegRatio()
    pairs.update([0.1, 0.9, 0.2, 0.8, 0.5], [1, 0, 0, 1, 1], groups=["a", "b", "a", "b", "c"])
    assert pairs.values() == {"ratio": 1 / 3, "right": 0, "wrong": 2, "tied": 0}


def test_pairs_that_are_given() -> None:
    pairs = PosNegRatio()
    pairs.update_pairs([1.0, 2.0, 3.0], [0.0, 2.0, 1.0])
    assert pairs.values() == {"ratio": 3 / 2, "right": 2, "wrong": 0, "tied": 1}
    pairs.update_pairs([NAN, 1.0], [0.0, 0.0])
    assert math.isnan(pairs.value())
    assert pairs.why() == "2 of 10 predictions are not finite numbers"
    with pytest.raises(UmiakError, match="differ in length") as error:
        pairs.update_pairs([1.0], [1.0, 2.0])
    assert code_of(error) == "UM-METRIC-003"


def test_no_pair_has_no_ratio() -> None:
    pairs = PosNegRatio()
    pairs.update([0.1, 0.9], [1, 0], groups=[1, 2])
    assert math.isnan(pairs.value())
    assert pairs.why() == "no group has both a positive and a negative sample"


def test_calibration() -> None:
    calibration = Calibration()
    calibration.update([0.5, 0.25, 0.25, 0.5], [1, 0, 0, 0])
    assert calibration.values() == {"predicted": 0.375, "actual": 0.25, "ratio": 1.5}
    calibration.reset()
    calibration.update([0.5], [0])
    assert calibration.why() == "no positive sample"
    assert calibration.values()["predicted"] == 0.5


def test_a_mean_weighs_samples() -> None:
    mean = Mean()
    mean.update(1.0, samples=3)
    mean.update([5.0])
    assert mean.value() == 2.0
    mean.update([[2.0], [2.0]])
    assert (mean.value(), mean.samples) == (2.0, 6)


def test_a_loss_that_is_none() -> None:
    mean = Mean()
    mean.update(1.0, samples=3)
    mean.update(NAN, samples=5)
    mean.update([1.0, INF])
    assert math.isnan(mean.value())
    assert mean.why() == "6 of 10 losses are not finite numbers"
    assert mean.state()["total"] == [4.0]


# ---- inputs that can't be judged


@pytest.mark.parametrize("kind", [Auc, LogLoss, Accuracy, PrecisionRecall, Calibration, PosNegRatio])
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_what_is_not_finite_is_told_and_poisons_nothing(kind: type[Metric], bad: float) -> None:
    metric, clean = kind(), kind()
    metric.update([0.9, bad, 0.2, bad], [1, 1, 0, 0])  # type: ignore[attr-defined]
    clean.update([0.9, 0.2], [1, 0])  # type: ignore[attr-defined]
    assert all(math.isnan(number) for number in metric.values().values())
    (problem,) = metric.problems()
    assert (problem.code, problem.what) == ("UM-METRIC-004", "2 of 4 predictions are not finite numbers")
    assert metric.why() == problem.what
    assert (metric.samples, metric.left_out) == (2, 2)
    for name, array in clean.state().items():
        if name != "samples":
            assert (metric.state()[name] == array).all()


def test_scores_of_classes_that_are_not_finite() -> None:
    recall, accuracy = RecallK(k=1), Accuracy()
    for metric in (recall, accuracy):
        metric.update([[0.0, 1.0, NAN], [0.0, 1.0, 0.5], [INF, 0.0, 0.0]], [1, 1, 0])
        assert metric.state()["samples"].tolist() == [1, 2, 0, 0]
        assert math.isnan(metric.value())


def test_logits_are_not_taken_for_probabilities() -> None:
    auc = Auc()
    auc.update([2.5, -0.1, 0.5], [1, 0, 1])
    (problem,) = auc.problems()
    assert problem.what == "2 of 3 predictions are no probabilities, but outside of 0 to 1"
    assert "sigmoid" in (problem.hint or "")
    pairs = PosNegRatio()
    pairs.update([2.5, -0.1, 0.5], [1, 0, 1])
    assert pairs.value() == 3.0


def test_a_softmax_that_rounds_is_forgiven() -> None:
    auc = Auc()
    auc.update(np.array([1.0000001, -1e-7, 0.5], np.float32), [1, 0, 0])
    assert auc.value() == 1.0
    loss = LogLoss()
    loss.update(np.array([1.0000001], np.float32), [1])
    assert loss.value() == pytest.approx(1e-7, rel=1e-6)


def test_what_rounds_is_counted_in_the_outermost_bins_however_many_there_are() -> None:
    auc = Auc(bins=2**22)
    auc.update([1 + 9e-7, -9e-7], [1, 0])
    histogram = auc.state()["histogram"]
    assert (histogram.shape, histogram[1, -1], histogram[0, 0]) == ((2, 2**22), 1, 1)


def test_labels_that_are_none() -> None:
    auc = Auc()
    auc.update([0.1, 0.2, 0.3, 0.4, NAN], [1, -1, 0.5, 2, 7])
    assert auc.state()["samples"].tolist() == [1, 1, 0, 3]
    assert [problem.what for problem in auc.problems()] == [
        "1 of 5 predictions are not finite numbers",
        "3 of 5 labels are not what the metric asks for",
    ]
    recall = RecallK(k=1)
    recall.update(np.eye(3)[[0, 1, 2, 0]], [0.0, 1.5, 3, -1])
    assert recall.state()["samples"].tolist() == [1, 0, 0, 3]


def test_groups_follow_the_samples_that_are_kept() -> None:
    pairs = PosNegRatio()
    pairs.update([0.9, NAN, 0.1, 0.5], [1, 1, 0, 0], groups=[1, 2, 2, 1])
    assert pairs.state()["pairs"].tolist() == [1, 0, 0]


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 2)])
@pytest.mark.parametrize("label_shape", [(4,), (4, 1)])
@pytest.mark.parametrize("label_kind", [np.int64, np.float32, np.bool_])
def test_shapes_and_kinds_that_frameworks_give(shape: tuple, label_shape: tuple, label_kind: type) -> None:
    scores = np.array([0.1, 0.6, 0.7, 0.2], np.float32)
    given = np.stack([1 - scores, scores], axis=1) if shape[1:] == (2,) else scores.reshape(shape)
    auc = Auc()
    auc.update(given, np.array([0, 1, 0, 1], label_kind).reshape(label_shape))
    assert auc.value() == 0.5


@pytest.mark.parametrize(
    ("metric", "predictions", "labels", "words"),
    [
        (Auc(), [0.1, 0.2], [1], "predictions 2, labels 1"),
        (Auc(), [[0.1, 0.2, 0.7]], [1], "expected one or two scores per sample, got 3"),
        (Auc(), 0.5, [1], r"these have the shape \(\)"),
        (Auc(), np.zeros((2, 0)), [1, 0], r"these have the shape \(2, 0\)"),
        (Auc(), [0.1, 0.2], [[1, 0], [0, 1]], r"labels are one per sample, these have the shape \(2, 2\)"),
        (RecallK(), np.zeros((2, 19)), [1, 0], "the first 20 of 19 scores"),
        (RecallK(k=1), [0.1], [1], "expected one score per class"),
        (PrecisionRecall(classes=3), [0.1], [1], "was given 1 scores"),
        (PrecisionRecall(), [[0.1, 0.2, 0.7]], [1], "was given 3 scores"),
    ],
)
def test_what_does_not_fit_is_refused(metric: Metric, predictions: object, labels: object, words: str) -> None:
    with pytest.raises(UmiakError, match=words) as error:
        metric.update(predictions, labels)  # type: ignore[attr-defined]
    assert code_of(error) == "UM-METRIC-003"
    assert not metric.state()["samples"].any()


# ---- names and settings


def test_metrics_by_name() -> None:
    assert [repr(make_metric(name)) for name in METRICS] == [
        "Auc(bins=4096)",
        "LogLoss(clip=1e-07)",
        "Accuracy(threshold=0.5)",
        "PrecisionRecall(classes=2, threshold=0.5)",
        "RecallK(k=20)",
        "PosNegRatio()",
        "Calibration()",
        "CalibrationDeciles(bins=65536)",
        "NormalisedEntropy(clip=1e-07)",
        "Mean()",
    ]
    assert repr(make_metric("recall_k", k=5)) == "RecallK(k=5)"
    assert {type(make_metric(name)) for name in PADDLEREC} == {Auc, PrecisionRecall, RecallK, PosNegRatio}


@pytest.mark.parametrize(
    ("name", "settings", "code", "what", "hint"),
    [
        ("acu", {}, "UM-METRIC-001", "no such metric: acu", "did you mean auc?"),
        ("Logloss", {}, "UM-METRIC-001", "no such metric: Logloss", "did you mean log_loss?"),
        ("xyzzy", {}, "UM-METRIC-001", "no such metric: xyzzy", "there are auc, log_loss"),
        ("auc", {"bin": 5}, "UM-METRIC-002", "auc has no setting bin", "did you mean bins?"),
        ("mean", {"settings": 5}, "UM-METRIC-002", "mean has no setting settings", "it has none"),
        ("auc", {"bins": 1}, "UM-METRIC-002", "auc: bins must be within 2 to 2^24: 1", None),
        ("auc", {"bins": 4.5}, "UM-METRIC-002", "auc: bins must be within 2 to 2^24: 4.5", None),
        ("recall_k", {"k": 0}, "UM-METRIC-002", "recall_k: k must be 1 or more: 0", None),
        ("log_loss", {"clip": 0}, "UM-METRIC-002", "log_loss: clip must be above 0 and below 0.5: 0", None),
        ("accuracy", {"threshold": 2}, "UM-METRIC-002", "accuracy: threshold must be within 0 to 1: 2", None),
        ("precision_recall", {"classes": 1}, "UM-METRIC-002", "classes must be 2 or more: 1", None),
    ],
)
def test_wrong_names_and_settings(name: str, settings: dict, code: str, what: str, hint: str | None) -> None:
    with pytest.raises(UmiakError) as error:
        make_metric(name, **settings)
    (problem,) = error.value.problems
    assert problem.code == code
    assert problem.what.endswith(what)
    assert (hint or "") in (problem.hint or "")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"samples": np.zeros(4)}, "it has samples instead of histogram, samples"),
        ({"samples": np.zeros(4), "histogram": np.zeros((2, 5))}, r"histogram has the shape \(2, 5\)"),
        ({"samples": np.zeros(4), "histogram": np.full((2, 4), 0.5)}, "histogram are not integers"),
        ({"samples": np.full(4, NAN), "histogram": np.zeros((2, 4))}, "samples are not integers"),
        ({"samples": np.full(4, 1e30), "histogram": np.zeros((2, 4))}, "samples are not integers"),
    ],
)
def test_a_state_of_something_else_is_refused(state: dict, words: str) -> None:
    auc = Auc(bins=4)
    auc.update([0.5], [1])
    before = auc.state()
    for take in (auc.load, auc.merge):
        with pytest.raises(UmiakError, match=words) as error:
            take(state)
        assert code_of(error) == "UM-METRIC-005"
    assert all((auc.state()[name] == array).all() for name, array in before.items())


def test_a_state_is_a_copy() -> None:
    auc = Auc(bins=4)
    auc.state()["samples"][0] = 7
    given = auc.state()
    auc.load(given)
    given["samples"][0] = 7
    assert auc.samples == 0


def test_the_page_names_every_metric_setting_and_number() -> None:
    page = PAGE.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(METRICS)
    for name, metric in ((name, make_metric(name)) for name in METRICS):
        for word in [*metric._settings, *metric.values()]:
            plain = word.removeprefix("macro_").removeprefix("micro_")
            assert f"`{word}`" in sections[name] or f"_{plain}`" in sections[name], f"{name}: {word}"
    assert all(name in page for name in PADDLEREC)


# ---- beside Paddle


@pytest.mark.paddle
@pytest.mark.skipif(find_spec("paddle") is None, reason="PaddlePaddle is not installed")
@pytest.mark.filterwarnings("ignore")
def test_paddles_own_metrics_say_the_same() -> None:
    import paddle

    chance = np.random.default_rng(5)
    truth = (chance.random(5000) < 0.3).astype(np.int64)
    scores = (1 / (1 + np.exp(-chance.normal(size=5000) - truth))).astype(np.float32)
    two = np.stack([1 - scores, scores], axis=1)
    auc, both = Auc(), PrecisionRecall()
    theirs = paddle.metric.Auc(num_thresholds=4095), paddle.metric.Precision(), paddle.metric.Recall()
    for start in range(0, 5000, 512):
        part = slice(start, start + 512)
        auc.update(two[part], truth[part])
        both.update(two[part], truth[part])
        theirs[0].update(two[part], truth[part, None])
        theirs[1].update(scores[part], truth[part])
        theirs[2].update(scores[part], truth[part])
    assert auc.state()["histogram"].tolist() == [list(theirs[0]._stat_neg), list(theirs[0]._stat_pos)]
    assert auc.value() == pytest.approx(theirs[0].accumulate(), rel=1e-14)
    assert both.values()["precision"] == theirs[1].accumulate()
    assert both.values()["recall"] == theirs[2].accumulate()
