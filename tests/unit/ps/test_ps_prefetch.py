"""Rows of the next step come with the end of this one: never older, given once, else pulled."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import umiak_native

from tests.support import PATIENCE_S, eventually
from tests.support.ps_cluster import Cluster, count_pulls, with_prefetch
from umiak import ps
from umiak.ps import specs
from umiak.ps.clients.local import LocalClient
from umiak.ps.communicators.next_rows import NextRows
from umiak.ps.environment import PsSeat
from umiak.ps.errors import BadRequest
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import by_name
from umiak.ps.tables import prefetching

ONES = specs.SparseTable(dim=1, init=specs.Constant(value=0.0), rule=specs.Sum())
SUMS = specs.DenseTable(arrays=(specs.Array(name="w", shape=(1,)),), rule=specs.Sum())
KEYS = np.arange(7, dtype=np.uint64)


def opened(job: Session) -> tuple[Any, Callable[..., None]]:
    """A table that adds up what is pushed, and the end of a step that pushes so much to each key."""
    table, top = job.table(ONES, "ones"), job.table(SUMS, "sums")
    values = top.pull()

    def end(number: float) -> None:
        rows = np.full((7, 1), number, np.float32)
        job.communicator.learn_dense(
            top.number, np.ones(1, np.float32), values, pushes=[(table.number, KEYS, rows)], share=1.0
        )

    return table, end


def test_async_reads_no_older_rows_than_those_at_the_end_of_the_step_before() -> None:
    """With all of its own pushes, and with the others' that had arrived by then."""
    with Cluster() as cluster, cluster.job("async", 0) as first, cluster.job("async", 1) as second:
        (table, end), (others, others_end) = opened(first), opened(second)
        pulled, total = count_pulls(first), 0.0
        for step in first.prefetch(range(1, 30), lambda _: {table: KEYS}):
            before = total
            others_end(100.0)  # behind the end of this trainer's step before, where its rows were read
            seen = float(table.pull(KEYS)[0, 0])
            assert seen == (before if step > 1 else 100.0)
            assert float(others.pull(KEYS)[0, 0]) == before + 100.0
            end(float(step))
            total += 100.0 + step
        assert pulled == [table.number]


def test_whatever_else_changes_rows_lets_go_of_those_that_came_ahead(tmp_path: Any) -> None:
    with Cluster(trainers=1) as cluster, cluster.job("async") as job:
        table, end = opened(job)
        job.save(str(tmp_path / "begun"))

        def push() -> None:
            table.push(KEYS, np.full((7, 1), 10, np.float32))

        def put() -> None:
            table.set(KEYS, np.full((7, 1), 30, np.float32))

        def put_by_somebody_and_meet() -> None:
            job.client.set(table.number, KEYS, np.full((7, 1), 50, np.float32))
            job.barrier()

        def load() -> None:
            job.load(str(tmp_path / "begun"))

        expected = 0.0
        changes: list[tuple[Callable[[], None] | None, float | None]] = [
            (None, None),
            (push, None),
            (put, 30.0),
            (put_by_somebody_and_meet, 50.0),
            (load, 0.0),
            (job.end_step, None),
        ]
        for change, becomes in job.prefetch([*changes, *changes], lambda _: {table: KEYS}):
            if change is not None:
                change()
            expected = expected + 10 * (change is push) if becomes is None else becomes
            assert table.pull(KEYS).tolist() == [[expected]] * 7
            end(1.0)
            expected += 1


def test_rows_count_for_one_step_alone() -> None:
    """Whatever becomes of a batch: rows of a step that was taken in another way are not those of the next one."""
    with Cluster(trainers=1) as cluster, cluster.job("sync") as job:
        table, end = opened(job)
        table.pull(KEYS)
        job.communicator.next_rows.expect([(table, KEYS)])
        end(1.0)
        rows = np.full((7, 1), 5, np.float32)
        job.client.push(table.number, KEYS, rows, step=job.step)
        job.client.prepare(job.step)
        job.client.commit(job.step)
        assert table.pull(KEYS).tolist() == [[6.0]] * 7


def test_what_was_not_expected_is_pulled() -> None:
    with Cluster(trainers=1) as cluster, cluster.job("sync") as job:
        table, end = opened(job)
        pulled, expected = count_pulls(job), 0
        # Other keys than were said, fewer, in another order, and the same ones.
        asked = [KEYS, KEYS + np.uint64(1), KEYS[:3], KEYS[::-1].copy(), KEYS.astype(np.int64).view(np.uint64), KEYS]
        for step in job.prefetch(range(len(asked)), lambda _: [(table, KEYS.tolist())]):
            rows = table.pull(asked[step])
            assert rows.shape == (asked[step].size, 1)
            assert (rows[asked[step] < 7] == step).all()
            expected += step in (0, 1, 2, 3)
            assert len(pulled) == expected
            end(1.0)
        assert (table.pull(KEYS) == len(asked)).all()
        assert len(pulled) == expected + 1, "nothing comes behind the last batch"


def test_a_refused_step_takes_the_rows_behind_it_with_it() -> None:
    with Cluster(trainers=1) as cluster, cluster.job("sync") as job:
        table, end = opened(job)
        end(1.0)
        client, top, out = job.client, job.table(SUMS, "sums").number, np.zeros(1, np.float32)
        room = np.full((7, 1), np.nan, np.float32)
        pushes = [(table.number, KEYS, np.ones((7, 1), np.float32))]
        with pytest.raises(umiak_native.Refused, match="floats"):
            client.learn_dense(top, np.ones(1, np.float32), out, step=1, next_rows=[(table.number, KEYS, room[:3])])
        with pytest.raises(umiak_native.Refused, match="dense"):
            client.learn_dense(top, np.ones(1, np.float32), out, step=1, next_rows=[(top, KEYS, room)])
        client.finish_steps()
        with pytest.raises(umiak_native.Refused, match="no part in step 1"):
            client.learn_dense(top, np.ones(1, np.float32), out, pushes=pushes, step=1, next_rows=[(0, KEYS, room)])
        with pytest.raises(umiak_native.Refused, match="no part in step 1"):
            client.commit(1, next_rows=[(table.number, KEYS, room)])
        # What comes next has its own answers.
        assert client.pull(table.number, KEYS).tolist() == [[1.0]] * 7
        client.learn_dense(top, np.ones(1, np.float32), out, pushes=pushes, next_rows=[(table.number, KEYS, room)])
        assert room.tolist() == [[2.0]] * 7
        assert out.tolist() == [2.0]


def test_rows_of_the_next_step_wait_for_the_others_and_say_so() -> None:
    """As a pull does: a trainer that does not come is named, and the rows are those with its part."""
    with Cluster() as cluster, cluster.job("sync", 0) as first, cluster.job("sync", 1) as second:
        (table, end), (_, others_end) = opened(first), opened(second)
        first.communicator.next_rows.expect([(table, KEYS)])
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            ended = pool.submit(end, 1.0)
            eventually(lambda: (first.client.waiting_for() or "").startswith("waiting for trainer 1"))
            assert not ended.done()
            others_end(10.0)
            ended.result(PATIENCE_S)
        pulled = count_pulls(first)
        assert table.pull(KEYS).tolist() == [[11.0]] * 7
        assert not pulled


class Source:
    """Batches, and how many of them have been read."""

    def __init__(self, count: int) -> None:
        self.count, self.read = count, 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.read += 1
            yield number


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_one_batch_is_read_ahead_and_no_more(count: int) -> None:
    source = Source(count)
    expected: list[int] = []
    found: list[int] = []

    def ids_of(batch: int) -> dict[object, object]:
        expected.append(batch)
        return {}

    for batch in prefetching.ahead(source, ids_of, NextRows()):
        assert source.read == min(batch + 2, count)
        assert expected == [*range(1, source.read)]
        found.append(batch)
    assert found == [*range(count)]


def test_where_nothing_can_come_ahead_batches_are_as_they_are() -> None:
    source = Source(3)
    alone = Session(PsSeat(), by_name("sync"), SessionOptions(shards=4))
    assert [source.read for _ in alone.prefetch(source, lambda _: {"nobody": "asks"})] == [1, 2, 3]
    with Cluster(trainers=1) as cluster:
        for strategy in ("geo", "half_async", "sync"):
            source = Source(3)
            with cluster.job(strategy) as job:
                with_prefetch(job, 0 if strategy == "sync" else 1)
                assert [source.read for _ in job.prefetch(source, lambda _: {"nobody": "asks"})] == [1, 2, 3]


def test_what_is_no_table_is_refused_in_words() -> None:
    with Cluster(trainers=1) as cluster, cluster.job("sync") as job, pytest.raises(BadRequest) as caught:
        [*job.prefetch([1, 2], lambda _: {"rows": KEYS})]
    assert [(problem.code, problem.what) for problem in caught.value.problems] == [
        ("UM-PS-010", "prefetch: neither an Embedding nor a sparse table: str")
    ]
    with pytest.raises(BadRequest, match="prefetch: neither 0 nor 1: 2"):
        ps.init(prefetch=2, environ={})


def test_trainers_in_threads_of_their_own_do_not_mix_their_rows() -> None:
    """Both are in one process here: what is held belongs to a session."""
    gate = threading.Barrier(2, timeout=PATIENCE_S)

    def trainer(job: Session) -> list[float]:
        table, end = opened(job)
        seen = []
        for _ in job.prefetch(range(20), lambda _: {table: KEYS}):
            gate.wait()
            seen.append(float(table.pull(KEYS)[0, 0]))
            end(1.0 + job.rank)
        return seen

    with Cluster() as cluster:
        assert cluster.train("sync", trainer) == [[3.0 * step for step in range(20)]] * 2


def test_a_client_without_servers_takes_the_same_words() -> None:
    client = LocalClient(shards=4)
    table, top = client.create_table("ones", specs.to_json(ONES)), client.create_table("sums", specs.to_json(SUMS))
    client.set_dense(top, np.zeros(1, np.float32))
    pushes, out = [(table, KEYS, np.ones((7, 1), np.float32))], np.zeros(1, np.float32)
    for step in (None, 0):
        room = np.full((7, 1), np.nan, np.float32)
        client.learn_dense(top, np.ones(1, np.float32), out, pushes=pushes, step=step, next_rows=[(table, KEYS, room)])
        assert room.tolist() == [[1.0 if step is None else 2.0]] * 7
    client.push(*pushes[0], step=1)
    client.commit(1, next_rows=[(table, KEYS, room)])
    assert room.tolist() == [[3.0]] * 7
