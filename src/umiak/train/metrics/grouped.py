"""Metrics of groups: GAUC, NDCG, hit rate and mean reciprocal rank of users or queries, AUC of slices. A decider.

    records = records_of(groups=users, scores=predictions, labels=clicks)      20 bytes per sample
    own = owned(records, rank=0, world=8)                                      each group has one owner
    sums_of(Gauc(weight=Weight.SAMPLES), ranked(own))                          what owners add up: whole numbers
    value_of(sums)

A group's samples may be in any order, batch and trainer: they are brought together first, and no mean of means is taken. What has the same score has no order:
a metric is what it would be on average over all orders of ties, so it does not depend on how samples came. Sums are kept in units of 2^-52, as whole numbers:
one trainer and eight say the same to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import value
from umiak.train.config.evaluating.settings import Gain, Weight
from umiak.train.metrics.metric import NAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray

    Records = NDArray[np.void]

RECORD = np.dtype([("group", "<u8"), ("score", "<f8"), ("label", "<f4")])
"""One sample."""
UNIT = 1 << 52
"""One, in the whole numbers that are added up."""
_HALF = 26


@value
class Gauc:
    """The mean of the AUC of groups. A group with one class has none, and is left out."""

    weight: Weight = Weight.SAMPLES

    @property
    def name(self) -> str:
        return f"gauc_{self.weight.value}"


@value
class Ndcg:
    """The mean over groups of the discounted gain of the first ``k``, over the best that there can be. Groups without gain are left out."""

    k: int = 10
    gain: Gain = Gain.BINARY

    @property
    def name(self) -> str:
        return f"ndcg@{self.k}" + ("" if self.gain is Gain.BINARY else "_exponential")


@value
class HitRate:
    """The share of groups with a positive sample among the first ``k``. Groups without a positive sample are left out."""

    k: int = 10

    @property
    def name(self) -> str:
        return f"hit_rate@{self.k}"


@value
class Mrr:
    """The mean over groups of one over the rank of the first positive sample; 0 where that is beyond ``k``. Groups without one are left out."""

    k: int | None = None

    @property
    def name(self) -> str:
        return "mrr" if self.k is None else f"mrr@{self.k}"


GroupMetric = Gauc | Ndcg | HitRate | Mrr


@value
class Sums:
    """What is added up over groups, in units of 2^-52 where it is no count."""

    total: int = 0
    weight: int = 0
    groups: int = 0
    left_out: int = 0
    """Groups without a value."""

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            total=self.total + other.total,
            weight=self.weight + other.weight,
            groups=self.groups + other.groups,
            left_out=self.left_out + other.left_out,
        )

    @property
    def mean(self) -> float:
        """Not a number where no group has a value."""
        return self.total / (self.weight * UNIT) if self.weight else NAN


@value
class Slice:
    """The samples with one value of a column."""

    group: int
    samples: int
    positives: int
    auc: float
    """Not a number where there is one class."""


# ---- messages


def sums_as_list(sums: Sums) -> list[int]:
    """For a message: whole numbers of any length."""
    return [sums.total, sums.weight, sums.groups, sums.left_out]


def total(told: Iterable[list[int]]) -> Sums:
    """What all owners have told."""
    found = Sums()
    for whole, weight, groups, left_out in told:
        found = found + Sums(total=whole, weight=weight, groups=groups, left_out=left_out)
    return found


def slice_as_list(each: Slice) -> list[float | int | None]:
    """For a message."""
    return [each.group, each.samples, each.positives, None if each.auc != each.auc else each.auc]


def slice_of_list(told: list[float | int | None]) -> Slice:
    """Back from it."""
    group, samples, positives, auc = told
    return Slice(
        group=int(group or 0), samples=int(samples or 0), positives=int(positives or 0), auc=NAN if auc is None else auc
    )


# ---- samples


def records_of(groups: AnyArray, scores: AnyArray, labels: AnyArray) -> Records:
    """Samples side by side. A group is told by its 64 bits: those of an id, or of a number."""
    made: Records = np.empty(len(scores), RECORD)
    made["group"] = _bits(groups)
    made["score"] = scores
    made["label"] = labels
    return made


def owned(records: Records, rank: int, world: int) -> Records:
    """Those whose groups belong to one trainer. Ids may be dense or multiples of something: so they are mixed first."""
    if world == 1:
        return records
    mixed = records["group"] * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mine: Records = records[mixed % np.uint64(world) == np.uint64(rank)]
    return mine


def _bits(groups: AnyArray) -> NDArray[np.uint64]:
    if groups.dtype.kind == "f":
        # 0.0 and -0.0 are one value with two patterns of bits.
        return (groups.astype(np.float64) + 0.0).view(np.uint64)
    return groups.astype(np.int64, copy=False).view(np.uint64) if groups.dtype != np.uint64 else groups


@value
class Ranked:
    """Samples sorted by group, in it by falling score; and the runs of equal scores."""

    labels: NDArray[np.float64]
    group_starts: NDArray[np.int64]
    group_keys: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    """Of each group."""
    positives: NDArray[np.int64]
    run_starts: NDArray[np.int64]
    run_sizes: NDArray[np.int64]
    run_positives: NDArray[np.int64]
    run_group: NDArray[np.int64]
    """The number of the group that a run is in."""
    run_before: NDArray[np.int64]
    """Samples of the same group before the run."""
    first_run: NDArray[np.int64]
    """Of each group."""


def ranked(records: Records) -> Ranked:
    """Groups are in order of their keys, so that the result depends on the samples alone."""
    order = np.lexsort((-records["score"], records["group"]))
    keys, scores = records["group"][order], records["score"][order]
    labels = records["label"][order].astype(np.float64)
    count = len(keys)
    fresh = np.ones(count, bool)
    fresh[1:] = keys[1:] != keys[:-1]
    group_starts = np.flatnonzero(fresh)
    new_run = fresh.copy()
    new_run[1:] |= scores[1:] != scores[:-1]
    run_starts = np.flatnonzero(new_run)
    run_sizes = np.diff(run_starts, append=count)
    sizes = np.diff(group_starts, append=count)
    first_run = np.flatnonzero(fresh[run_starts])
    run_group = np.repeat(np.arange(len(group_starts)), np.diff(first_run, append=len(run_starts)))
    ups = (labels > 0).astype(np.int64)
    return Ranked(
        labels=labels,
        group_starts=group_starts,
        group_keys=keys[group_starts],
        sizes=sizes,
        positives=_added(ups, group_starts),
        run_starts=run_starts,
        run_sizes=run_sizes,
        run_positives=_added(ups, run_starts),
        run_group=run_group,
        run_before=run_starts - group_starts[run_group],
        first_run=first_run,
    )


# ---- what metrics say of groups


def sums_of(metric: GroupMetric, of: Ranked) -> Sums:
    """What these groups add to a metric."""
    match metric:
        case Gauc():
            values, has = _aucs(of)
            weights = {
                Weight.SAMPLES: of.sizes,
                Weight.POSITIVES: of.positives,
                Weight.EQUAL: np.ones_like(of.sizes),
            }[metric.weight]
        case Ndcg():
            values, has = _ndcgs(of, metric.k, metric.gain)
            weights = np.ones_like(of.sizes)
        case HitRate():
            values, has = _hits(of, metric.k), of.positives > 0
            weights = np.ones_like(of.sizes)
        case Mrr():
            values, has = _reciprocal_ranks(of, metric.k), of.positives > 0
            weights = np.ones_like(of.sizes)
    values, weights = values[has], weights[has]
    units = np.rint(values * UNIT).astype(np.int64)
    low = int((weights * (units & ((1 << _HALF) - 1))).sum())
    high = int((weights * (units >> _HALF)).sum())
    return Sums(
        total=(high << _HALF) + low,
        weight=int(weights.sum()),
        groups=int(np.count_nonzero(has)),
        left_out=len(has) - int(np.count_nonzero(has)),
    )


def slices_of(of: Ranked) -> list[Slice]:
    """AUC of each group, largest group first."""
    aucs, has = _aucs(of)
    found = [
        Slice(
            group=int(key),
            samples=int(size),
            positives=int(ups),
            auc=float(auc) if good else NAN,
        )
        for key, size, ups, auc, good in zip(of.group_keys, of.sizes, of.positives, aucs, has, strict=True)
    ]
    return largest(found)


def largest(slices: Iterable[Slice]) -> list[Slice]:
    """In an order that depends on nothing else."""
    return sorted(slices, key=lambda each: (-each.samples, each.group))


def _aucs(of: Ranked) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    downs_of_run = of.run_sizes - of.run_positives
    downs = of.sizes - of.positives
    # Of the negative samples, those behind a run are scored below it.
    seen = np.cumsum(downs_of_run)
    seen -= (seen - downs_of_run)[of.first_run][of.run_group] if len(seen) else 0
    behind = downs[of.run_group] - seen
    twice = _added(of.run_positives * (2 * behind + downs_of_run), of.first_run)
    pairs = of.positives.astype(np.float64) * downs
    has = pairs > 0
    return np.divide(twice, 2 * pairs, out=np.zeros(len(pairs)), where=has), has


def _ndcgs(of: Ranked, k: int, gain: Gain) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    gains = (of.labels > 0).astype(np.float64) if gain is Gain.BINARY else np.exp2(np.maximum(of.labels, 0)) - 1
    # up_to[n]: what n places from the first are worth together.
    k = min(k, int(of.sizes.max(initial=1)))
    up_to = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(k) + 2))])
    within = up_to[np.minimum(of.run_before + of.run_sizes, k)] - up_to[np.minimum(of.run_before, k)]
    got = _added(_added(gains, of.run_starts) / of.run_sizes * within, of.first_run)
    group = np.repeat(np.arange(len(of.sizes)), of.sizes)
    best = gains[np.lexsort((-gains, group))]
    places = np.arange(len(best)) - of.group_starts[group]
    worth = np.where(places < k, best / np.log2(np.minimum(places, k) + 2), 0.0)
    most = _added(worth, of.group_starts)
    has = most > 0
    # A perfect order may come out as 1 and a rounding.
    return np.minimum(np.divide(got, most, out=np.zeros(len(most)), where=has), 1.0), has


def _hits(of: Ranked, k: int) -> NDArray[np.float64]:
    room = np.clip(k - of.run_before, 0, of.run_sizes)
    """How many of a run are among the first."""
    missed = _chance_of_none(of.run_sizes, of.run_positives, room)
    return 1 - _multiplied(missed, of.first_run)


def _chance_of_none(sizes: NDArray[np.int64], ups: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    """That none of ``drawn`` out of a run is one of its positive samples."""
    chance = np.where((drawn == sizes) & (ups > 0), 0.0, 1.0)
    left = np.flatnonzero((drawn > 0) & (drawn < sizes) & (ups > 0))
    step = 0
    while left.size:
        chance[left] *= np.maximum(sizes[left] - ups[left] - step, 0) / (sizes[left] - step)
        step += 1
        left = left[(drawn[left] > step) & (chance[left] > 0)]
    return chance


def _reciprocal_ranks(of: Ranked, k: int | None) -> NDArray[np.float64]:
    found = np.zeros(len(of.sizes))
    has_one = np.flatnonzero(of.run_positives > 0)
    # The first run with a positive sample has the first one of its group.
    groups, at = np.unique(of.run_group[has_one], return_index=True)
    runs = has_one[at]
    sizes, ups, before = of.run_sizes[runs], of.run_positives[runs], of.run_before[runs]
    missed = np.ones(len(runs))
    left, step = np.arange(len(runs)), 0
    while left.size:
        rest = sizes[left] - step
        rank = before[left] + step + 1
        seen = 1 / rank if k is None else np.where(rank <= k, 1 / rank, 0.0)
        found[groups[left]] += missed[left] * ups[left] / rest * seen
        missed[left] *= (rest - ups[left]) / rest
        step += 1
        left = left[missed[left] > 0]
    return found


def _added(numbers: AnyArray, starts: NDArray[np.int64]) -> AnyArray:
    """Sums from each start to the next; none of nothing."""
    found: AnyArray = np.add.reduceat(numbers, starts) if len(starts) else numbers[:0]
    return found


def _multiplied(numbers: AnyArray, starts: NDArray[np.int64]) -> AnyArray:
    found: AnyArray = np.multiply.reduceat(numbers, starts) if len(starts) else numbers[:0]
    return found
