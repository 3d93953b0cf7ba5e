"""Metrics of groups, against definitions that are written down word by word: every order of ties is tried."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from umiak.train.metrics import grouped
from umiak.train.metrics.calibrated import CalibrationDeciles, NormalisedEntropy
from umiak.train.metrics.grouped import Gain, Gauc, GroupMetric, HitRate, Mrr, Ndcg, Sums, Weight

Group = list[tuple[float, float]]
"""Scores and labels."""


def orders(group: Group) -> list[Group]:
    """Every order of a group with falling scores."""
    runs = [list(run) for _, run in itertools.groupby(sorted(group, key=lambda each: -each[0]), key=lambda x: x[0])]
    return [[*itertools.chain(*made)] for made in itertools.product(*(itertools.permutations(run) for run in runs))]


def auc(group: Group) -> float | None:
    ups, downs = [s for s, label in group if label > 0], [s for s, label in group if label <= 0]
    pairs = [(up, down) for up in ups for down in downs]
    return sum((up > down) + (up == down) / 2 for up, down in pairs) / len(pairs) if pairs else None


def mean_of_orders(group: Group, value: object) -> float:
    assert callable(value)
    found = [value([label for _, label in order]) for order in orders(group)]
    return sum(found) / len(found)


def ndcg(group: Group, k: int, gain: Gain) -> float | None:
    def worth(label: float) -> float:
        return float(label > 0) if gain is Gain.BINARY else 2.0**label - 1

    def gained(labels: list[float]) -> float:
        return sum(worth(label) / math.log2(place + 2) for place, label in enumerate(labels[:k]))

    best = gained(sorted([label for _, label in group], key=lambda label: -worth(label)))
    return mean_of_orders(group, gained) / best if best else None


def hit(group: Group, k: int) -> float | None:
    if not any(label > 0 for _, label in group):
        return None
    return mean_of_orders(group, lambda labels: float(any(label > 0 for label in labels[:k])))


def first_hit(group: Group, k: int | None) -> float | None:
    if not any(label > 0 for _, label in group):
        return None

    def of(labels: list[float]) -> float:
        rank = next(place for place, label in enumerate(labels, start=1) if label > 0)
        return 1 / rank if k is None or rank <= k else 0.0

    return mean_of_orders(group, of)


def expected(metric: GroupMetric, groups: dict[int, Group]) -> float:
    found = []
    for group in groups.values():
        weight = 1
        match metric:
            case Gauc():
                value = auc(group)
                weight = {
                    Weight.SAMPLES: len(group),
                    Weight.POSITIVES: sum(label > 0 for _, label in group),
                    Weight.EQUAL: 1,
                }[metric.weight]
            case Ndcg():
                value = ndcg(group, metric.k, metric.gain)
            case HitRate():
                value = hit(group, metric.k)
            case Mrr():
                value = first_hit(group, metric.k)
        if value is not None:
            found.append((value, weight))
    whole = sum(weight for _, weight in found)
    return sum(value * weight for value, weight in found) / whole if whole else math.nan


def records(groups: dict[int, Group]) -> np.ndarray:
    rows = [(key, *each) for key, group in groups.items() for each in group]
    keys, scores, labels = (np.array(each) for each in zip(*rows, strict=True)) if rows else (np.zeros(0),) * 3
    return grouped.records_of(keys.astype(np.int64), scores, labels)


METRICS: list[GroupMetric] = [
    *(Gauc(weight=weight) for weight in Weight),
    *(Ndcg(k=k, gain=gain) for k in (1, 2, 3, 10) for gain in Gain),
    *(HitRate(k=k) for k in (1, 2, 3, 10)),
    Mrr(),
    Mrr(k=2),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_each_is_what_its_definition_says_with_ties_and_groups_of_one_class(metric: GroupMetric) -> None:
    chance = random.Random(5)
    for _ in range(40):
        groups: dict[int, Group] = {}
        for key in range(-2, chance.randint(0, 5)):
            size, levels = chance.randint(1, 6), chance.choice([1, 2, 8])
            groups[key] = [(chance.randrange(levels) / 8, float(chance.choice([0, 0, 1, 2]))) for _ in range(size)]
        got = grouped.sums_of(metric, grouped.ranked(records(groups)))
        assert got.mean == pytest.approx(expected(metric, groups), abs=1e-12, nan_ok=True)
        assert got.groups + got.left_out == len(groups)


def test_names_say_how_it_is_weighed() -> None:
    assert [metric.name for metric in METRICS[:3]] == ["gauc_samples", "gauc_positives", "gauc_equal"]
    assert [Ndcg().name, Ndcg(k=3, gain=Gain.EXPONENTIAL).name] == ["ndcg@10", "ndcg@3_exponential"]
    assert [HitRate(k=5).name, Mrr().name, Mrr(k=5).name] == ["hit_rate@5", "mrr", "mrr@5"]


def test_no_group_has_no_value() -> None:
    nothing = grouped.ranked(records({}))
    for metric in METRICS:
        assert math.isnan(grouped.sums_of(metric, nothing).mean)
    only_clicks = grouped.ranked(records({1: [(0.5, 1.0)], 2: [(0.1, 0.0), (0.2, 0.0)]}))
    assert grouped.sums_of(Gauc(), only_clicks) == Sums(left_out=2)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_eight_owners_say_the_same_to_the_last_bit(metric: GroupMetric) -> None:
    chance = np.random.default_rng(11)
    count = 20_000
    whole = grouped.records_of(
        chance.integers(0, 900, count) * 8, chance.random(count).round(2), chance.random(count) < 0.2
    )
    alone = grouped.sums_of(metric, grouped.ranked(whole))
    shuffled = whole[chance.permutation(count)]
    parts = [grouped.owned(shuffled, rank, 8) for rank in range(8)]
    assert sum(len(part) for part in parts) == count
    assert min(len(part) for part in parts) > count // 16
    together = sum((grouped.sums_of(metric, grouped.ranked(part)) for part in parts), Sums())
    assert together == alone
    assert 0 < together.mean < 1


def test_a_sum_is_exact_where_floats_round() -> None:
    # 49 groups with an AUC of 1/3 each: a sum of floats differs with its order.
    groups: dict[int, Group] = {key: [(0.5, 1.0), (0.6, 0.0), (0.7, 0.0), (0.1, 0.0)] for key in range(49)}
    sums = grouped.sums_of(Gauc(weight=Weight.EQUAL), grouped.ranked(records(groups)))
    assert Fraction(sums.total, sums.weight) == round(1 / 3 * grouped.UNIT)


def test_slices_are_in_order_of_their_size() -> None:
    groups: dict[int, Group] = {7: [(0.9, 1.0), (0.1, 0.0), (0.2, 0.0)], -3: [(0.1, 1.0)], 4: [(0.2, 1.0), (0.3, 0.0)]}
    first, second, third = grouped.slices_of(grouped.ranked(records(groups)))
    assert (first.group, first.samples, first.positives, first.auc) == (7, 3, 1, 1.0)
    assert (second.group, second.auc) == (4, 0.0)
    assert (third.group, third.samples) == (2**64 - 3, 1)
    assert math.isnan(third.auc)


def test_numbers_may_be_groups() -> None:
    made = grouped.records_of(np.array([0.0, -0.0, 1.5]), np.zeros(3), np.zeros(3))
    assert made["group"][0] == made["group"][1] != made["group"][2]


# ---- probabilities as such


def test_normalised_entropy_is_one_for_the_mean() -> None:
    metric = NormalisedEntropy()
    metric.update(np.full(8, 0.25), [1, 1, 0, 0, 0, 0, 0, 0])
    assert metric.value() == pytest.approx(1.0)
    metric.reset()
    metric.update([0.9, 0.2], [1, 0])
    assert metric.value() == pytest.approx((-math.log(0.9) - math.log(0.8)) / 2 / math.log(2))
    metric.reset()
    metric.update([0.9, 0.2], [1, 1])
    assert math.isnan(metric.value())
    assert metric.why() == "no negative sample"


def test_deciles_are_tenths_of_the_samples() -> None:
    chance = np.random.default_rng(3)
    scores = chance.beta(1, 9, 40_000)
    labels = chance.random(40_000) < scores**1.2
    metric = CalibrationDeciles()
    for part in range(4):  # in batches
        metric.update(scores[part::4], labels[part::4])
    order = np.argsort(scores)
    values = metric.values()
    error = 0.0
    for number, part in enumerate(np.array_split(order, 10), start=1):
        assert values[f"predicted_{number}"] == pytest.approx(scores[part].mean(), abs=2e-3)
        assert values[f"actual_{number}"] == pytest.approx(labels[part].mean(), abs=6e-3)
        error += abs(scores[part].sum() - labels[part].sum())
    assert values["error"] == pytest.approx(error / len(scores), abs=1e-3)
    assert np.abs(metric.parts()[:, 0] / len(scores) - 0.1).max() <= metric.bound() < 0.001


def test_a_bin_that_has_everything_is_no_tenth_and_says_so() -> None:
    metric = CalibrationDeciles()
    metric.update(np.full(10, 0.3), [1, 0, 0, 1, 0, 0, 1, 0, 0, 0])
    values = metric.values()
    assert values["bound"] == 1.0
    assert values["error"] == pytest.approx(0.0)
    assert math.isnan(values["predicted_1"])
