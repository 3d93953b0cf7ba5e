"""A thousand steps with rows that come with the end of the step before: the same bits as without."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.support.ps_cluster import Cluster, count_pulls, with_prefetch
from umiak.core.value import replace
from umiak.ps import specs
from umiak.ps.sessions import Session

STEPS = 1000
VOCABULARY = np.arange(60, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
LAZY = specs.SparseTable(dim=3, seed=5, rule=specs.Adam(learning_rate=0.05))
EVERY = specs.SparseTable(dim=2, seed=6, rule=specs.Adam(learning_rate=0.05), decay=specs.Decay(l2=0.1), every_row=True)
TOP = specs.DenseTable(arrays=(specs.Array(name="w", shape=(5,)),), rule=specs.Adam(learning_rate=0.05))


@functools.cache
def looks_of(rank: int) -> list[list[np.ndarray]]:
    """The keys of three looks in each step: hot ones, several times, and now and then none at all."""
    dice = np.random.default_rng(rank)
    keys, sizes = VOCABULARY[dice.zipf(1.4, (STEPS, 3, 4, 3)) % 60], dice.integers(0, 5, (STEPS, 3))
    return [[keys[step, look, : sizes[step, look]] for look in range(3)] for step in range(STEPS)]


def learner(steps: int, prefetch: int) -> Callable[[Session], tuple[np.ndarray, ...]]:
    """A trainer of two tables, which learn by what was read of them; the first is asked twice in a step."""

    def trainer(job: Session) -> tuple[np.ndarray, ...]:
        with_prefetch(job, prefetch)
        lazy, every, top = job.table(LAZY, "lazy"), job.table(EVERY, "every"), job.table(TOP, "top")
        communicator, values, pulled = job.communicator, top.pull(), count_pulls(job)

        mine = looks_of(job.rank)

        def looks(step: int) -> Iterator[tuple[object, np.ndarray]]:
            yield from zip((lazy, every, lazy), mine[step], strict=True)

        for step in job.prefetch(range(steps), looks):
            keys = mine[step]
            rows = [table.pull(each) for table, each in zip((lazy, every, lazy), keys, strict=True)]
            rows[0] += np.float32(0.5)  # what a model changes in place nobody else sees
            again = lazy.pull(keys[0]) if step % 50 == 7 else rows[0] - np.float32(0.5)
            of_lazy = np.concatenate([again.reshape(-1, 3), rows[2].reshape(-1, 3)]) + np.float32(0.01)
            pushes = [
                (lazy.number, np.concatenate([keys[0].reshape(-1), keys[2].reshape(-1)]), of_lazy),
                (every.number, keys[1].reshape(-1), rows[1].reshape(-1, 2) * values[:2]),
            ]
            if step % 3:
                communicator.learn_dense(top.number, values + of_lazy.sum(), values, pushes=pushes)
            else:
                for push in pushes:
                    communicator.push(*push)
                communicator.push_dense(top.number, values + of_lazy.sum())
                communicator.end_step()
                top.pull(values)
        if prefetch:
            empty = sum(not each.size for step in range(steps) for each in mine[step])
            # Those of the first step, of no keys, and those that are looked up a second time.
            assert len(pulled) <= 3 + empty + -(-(steps - 7) // 50)
        job.barrier()
        return *(table.pull(VOCABULARY, create=False) for table in (lazy, every)), top.pull()

    return trainer


@pytest.mark.parametrize("trainers", [1, 2, 4])
def test_sync_learns_the_same_bits_with_rows_that_come_ahead(trainers: int) -> None:
    ends = []
    for prefetch in (1, 0):
        with Cluster(servers=2 if trainers < 4 else 3, trainers=trainers) as cluster:
            ends.append(cluster.train("sync", learner(STEPS, prefetch)))
    for with_it, without in zip(*ends, strict=True):
        for one, other in zip(with_it, without, strict=True):
            assert np.array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("strategy", ["hybrid", "sync"])
def test_one_trainer_learns_the_same_bits_though_rows_are_narrow_on_the_way(strategy: str) -> None:
    ends = []
    for prefetch in (1, 0):
        with Cluster(trainers=1) as cluster, cluster.job(strategy) as job:
            job.options = replace(job.options, wire="bfloat16")
            ends.append(learner(60, prefetch)(job))
    for one, other in zip(*ends, strict=True):
        assert np.array_equal(one.view(np.uint32), other.view(np.uint32))
