"""Which stretches of one label are told: those of sorted data, and never those of clicks as they come."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.effort import times
from umiak.train.reading.shuffling.label_runs import LabelRuns, LabelsSeen, LabelWatch, long_run, problem


def seen(labels: NDArray[np.int64], batch: int = 256) -> LabelsSeen:
    runs = LabelRuns()
    for start in range(0, len(labels), batch):
        part = labels[start : start + batch]
        positives = int(part.sum())
        runs.add(negatives=len(part) - positives, positives=positives, file=lambda start=start: f"part-{start // 1000}")
    return runs.seen()


def labels(count: int, share: float, seed: int = 0) -> NDArray[np.int64]:
    return (np.random.default_rng(seed).random(count) < share).astype(np.int64)


CASES = itertools.product([2_000, 20_000, 200_000], [0.0005, 0.001, 0.01, 0.03, 0.25, 0.5, 0.99], [1, 32, 256, 1000])


@pytest.mark.parametrize(
    ("count", "share", "batch"),
    # So many batches of one sample take most of a second: of the rare ones and of the common ones, one each.
    [case for case in CASES if case[::2] != (200_000, 1) or case[1] in (0.001, 0.25)],
)
def test_labels_in_no_order_are_never_told(count: int, share: float, batch: int) -> None:
    for seed in range(times(20) if batch > 1 and count < 200_000 else 1):
        drawn = labels(count, share, seed)
        if drawn.any() and not drawn.all():
            assert long_run([seen(drawn, batch)]) is None


@pytest.mark.parametrize("batch", [32, 256])
def test_clicks_that_come_in_bursts_are_not_told(batch: int) -> None:
    """By the hour: at night a tenth of what is clicked by day; and by campaign: hardly any for long."""
    hours = np.concatenate([labels(5_000, 0.02 if hour % 24 >= 8 else 0.002, hour) for hour in range(48)])
    campaigns = np.concatenate(
        [labels(3_000, share, at) for at, share in enumerate([0.05, 0.001, 0.02, 0.0, 0.03] * 8)]
    )
    for drawn in (hours, campaigns):
        assert long_run([seen(drawn, batch)]) is None


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("count", [5_000, 50_000])
@pytest.mark.parametrize("descending", [False, True])
def test_sorted_labels_are_told(count: int, share: float, descending: bool) -> None:
    drawn = np.sort(labels(count, share))
    found = long_run([seen(drawn[::-1] if descending else drawn)])
    assert found is not None
    assert found.seen.length > 0.85 * max(drawn.sum(), count - drawn.sum())


def test_trainers_that_each_have_one_class_are_told_together() -> None:
    both = [seen(np.zeros(2_000, np.int64)), seen(np.ones(1_000, np.int64))]
    found = long_run(both)
    assert found is not None
    assert (found.rank, found.others, found.total) == (0, 1_000, 3_000)
    assert long_run([None, None]) is None
    assert long_run([]) is None


def test_what_is_told_names_the_stretch_and_the_file() -> None:
    drawn = np.concatenate([labels(3_000, 0.5), np.zeros(6_000, np.int64), labels(3_000, 0.5, 1)])
    found = long_run([None, seen(drawn, batch=500)])
    assert found is not None
    told = problem(found, "train", window=0)
    assert told.code == "UM-DATA-180"
    assert told.what == (
        "dataset train: 6,000 samples in a row have label 0: samples 3,001 to 9,000 of trainer 1, from part-3 on"
    )
    assert told.why is not None
    assert told.why.startswith(f"{drawn.sum():,} of the 12,000 labels of the epoch are 1")
    assert told.hint == "shuffle it: `shuffle: 100000` in the runner"
    assert "a larger window: `shuffle: 500000`" in str(problem(found, "train", window=50_000).hint)


def test_all_labels_of_one_class_are_told_from_a_thousand_on() -> None:
    assert long_run([seen(np.ones(999, np.int64))]) is None
    found = long_run([seen(np.ones(1_000, np.int64))])
    assert found is not None
    assert problem(found, "train", window=0).what == "dataset train: all 1,000 labels of the epoch are 1"


@pytest.mark.parametrize("counts", [[(0, 0), (100, 1), (200, 2), (400, 2)], [None, None, None, None]])
def test_labels_are_counted_by_what_metrics_have_counted(counts: list[tuple[int, int] | None]) -> None:
    left: Iterable[tuple[int, int] | None] = iter(counts)
    watch = LabelWatch(lambda: next(iter(left)))
    for _ in range(4):
        watch.passed(128, lambda: "file")
    found = watch.seen()
    if counts[0] is None:
        assert found is None
        return
    assert found == LabelsSeen(negatives=400, positives=2, label=0, length=200, start=202)
