"""Typed tables for programs with numpy: handles instead of numbers and JSON, in every strategy, alone and with servers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.paths import ROOT
from tests.support.ps_cluster import Cluster
from umiak import ps
from umiak.core.cluster import StrategyName
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import by_name

STRATEGIES = [name.value for name in StrategyName]
ROWS = ps.SparseTable(dim=2, init=ps.Constant(1.0), rule=ps.Sgd(0.5))
ARRAYS = ps.DenseTable(arrays=(ps.Array("w", (2, 3)), ps.Array("b", (1,))), rule=ps.Sgd(0.5))
IDS = [[0, 1], [1, 7]]


def alone(strategy: str = "async") -> Session:
    return Session(PsSeat(), by_name(strategy), SessionOptions(shards=4))


def train(session: Session) -> tuple[list[float], dict[str, np.ndarray]]:
    rows = session.table(ROWS, name="rows")
    dense = session.table(ARRAYS, name="arrays", values=np.arange(7))
    for _ in range(4):
        assert rows.pull(IDS).shape == (2, 2, 2)
        rows.push(IDS, np.ones((2, 2, 2)), share=1.0)
        dense.push({"b": [2.0], "w": np.ones((2, 3))}, share=1.0)
        session.end_step()
    session.barrier()
    session.flush()
    session.barrier()
    return rows.pull([0, 1, 2, 7])[:, 0].tolist(), dense.by_name(dense.pull())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_handles_train_with_every_strategy(strategy: str) -> None:
    with Cluster() as cluster:
        first, second = cluster.train(strategy, train, k_steps=4, is_sgd_optimizer=1)
    by_itself = train(alone(strategy))
    # Four steps of 0.5 * 1 each; an id that stands twice learns twice. In geo half of what each has learned is sent, then half of the rest.
    count = {"geo": 1.75}.get(strategy, 2.0)
    for (rows, arrays), trainers in ((first, count), (second, count)):
        if strategy != "geo":
            assert rows == [1 - 2 * trainers, 1 - 4 * trainers, 1, 1 - 2 * trainers]
            assert np.array_equal(arrays["w"], np.arange(6, dtype=np.float32).reshape(2, 3) - 2 * trainers)
            assert arrays["b"].tolist() == [6 - 4 * trainers]
        else:
            assert rows[2] == 1
            assert rows[0] < 0
    merges = strategy == "half_async"  # by default, their means
    assert by_itself[0] == ([0.5, 0.0, 1.0, 0.5] if merges else [-1, -3, 1, -1])


def test_a_table_of_a_sync_step_is_that_of_the_client() -> None:
    """The handle adds nothing: the same bits as with a client, its JSON and its steps."""

    def typed(session: Session) -> np.ndarray:
        table = session.table(ps.SparseTable(dim=2, seed=3, rule=ps.Adam(0.1)))
        for step in range(3):
            keys = np.random.default_rng([session.rank, step]).integers(0, 20, 30)
            table.pull(keys)
            table.push(keys, np.full((30, 2), 0.5, np.float32))
            session.end_step()
        return table.pull(np.arange(20))

    def raw(session: Session) -> np.ndarray:
        client = session.client
        spec = '{"kind": "sparse", "dim": 2, "seed": 3, "init": {"kind": "uniform", "low": -0.01, "high": 0.01}, "optimizer":'
        adam = '{"rule": "adam", "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}}'
        table = client.create_table("table", spec + adam)
        client.resume()
        for step in range(3):
            keys = np.random.default_rng([session.rank, step]).integers(0, 20, 30)
            client.pull(table, keys, step=step)
            client.push(table, keys, np.full((30, 2), 0.25, np.float32), step=step)
            client.prepare(step)
            client.commit(step)
        return client.pull(table, np.arange(20), step=3)

    with Cluster() as cluster:
        with_handles = cluster.train("sync", typed)
    with Cluster() as cluster:
        with_client = cluster.train("sync", raw)
    assert all(np.array_equal(each, with_client[0]) for each in (*with_handles, *with_client))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_that_one_sets_everybody_reads(strategy: str) -> None:
    def trainer(session: Session) -> tuple[list[float], list[float]]:
        table = session.table(ROWS)
        table.pull([0, 1])
        if strategy != "geo":  # what a trainer has not yet sent would come on top
            table.push([0, 1], np.ones((2, 2)))
            session.end_step()
        session.barrier()
        if session.is_first:
            table.set([1, 2], [[5, 5], [6, 6]])
        session.barrier()
        missing = table.pull([8, 2], create=False, absent="zeros")
        return table.pull([1, 2])[:, 0].tolist(), missing[:, 0].tolist()

    with Cluster() as cluster:
        for read, missing in cluster.train(strategy, trainer):
            assert read == [5, 6]
            assert missing == [0, 6]


def test_a_learning_rate_shrinking_and_values_that_are_set() -> None:
    session = alone()
    accessor = ps.Accessor(embed_optimizer=ps.Sgd(1.0), delete_threshold=1000.0)
    counted = session.table(ps.SparseTable(dim=1, accessor=accessor), name="counted")
    counted.push([4], [[0, 1, 0, 1, 1]])
    assert counted.shrink() == 1
    rows, dense = session.table(ROWS), session.table(ARRAYS, name="dense")
    assert (rows.name, rows.spec, dense.spec) == ("table", ROWS, ARRAYS)
    assert not dense.pull().any(), "zeros, where nothing else is said"
    for table in (rows, dense):
        table.set_learning_rate(4.0)
    rows.push([3], [[1.0, 1.0]])
    dense.set({"w": np.full((2, 3), 2), "b": [3]})
    dense.push(np.ones(7))
    session.end_step()
    assert rows.pull([3]).tolist() == [[-3, -3]]
    out = np.zeros(7, np.float32)
    assert dense.pull(out) is out
    assert out.tolist() == [-2] * 6 + [-1]


def test_what_is_no_table_is_said() -> None:
    session = alone()
    with pytest.raises(ps.BadRequest, match=r"expected a table, got '\{\}'(.|\n)*ps.SparseTable\(dim=8"):
        session.table("{}")  # type: ignore[call-overload]
    with pytest.raises(ps.BadRequest, match=r"rule: not what is expected here: 'adam'(.|\n)*ps.Adam"):
        session.table(ps.SparseTable(dim=2, rule="adam"))  # type: ignore[arg-type]
    for arrays in (ps.Array("w", (3,)), ({"w": (3,)},)):
        with pytest.raises(
            ps.BadRequest, match=r"arrays: not what is expected here(.|\n)*ps.Array\(\"w\", \(400, 1\)\)"
        ):
            session.table(ps.DenseTable(arrays=arrays))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="optimizer: write rule="):
        ps.SparseTable(dim=2, optimizer=ps.Adam())  # type: ignore[call-arg]
    session.table(ROWS)
    with pytest.raises(ps.BadRequest, match="table table is described differently"):
        session.table(ps.SparseTable(dim=3))
    with pytest.raises(ps.BadRequest, match="ids must be integers"):
        session.table(ROWS).pull([0.5])
    with pytest.raises(ps.BadRequest, match="UM-PS-010"):
        session.table(ROWS).pull([5], create=False, absent="nothing")  # type: ignore[arg-type]


def test_nobody_has_to_write_a_table_as_json() -> None:
    pages = [*ROOT.glob("docs/tutorials/*.md"), *ROOT.glob("docs/how-to/*.md"), *ROOT.glob("examples/**/*.py")]
    written = [page.name for page in pages if re.search(r'"kind": *"(sparse|dense)"', page.read_text(encoding="utf-8"))]
    assert written == []


@pytest.mark.parametrize(
    ("keys", "gradients", "told"),
    [
        ([1, 2], [[1.0, 2.0]], "gradients of shape (1, 2), expected (2, 2)"),
        ([1, 2], np.ones((2, 3)), "gradients of shape (2, 3), expected (2, 2)"),
        ([1], np.ones((2, 1)), "gradients of shape (2, 1), expected (1, 2)"),
        ([], np.ones((1, 2)), "gradients of shape (1, 2), expected (0, 2)"),
    ],
)
def test_rows_that_do_not_fit_are_refused_at_once(keys: list[int], gradients: object, told: str) -> None:
    rows = alone("sync").table(ROWS, name="rows")
    with pytest.raises(ps.BadRequest, match=re.escape(f"table rows: {told}")):
        rows.push(keys, gradients)
    with pytest.raises(ps.BadRequest, match=re.escape(told.replace("gradients", "rows"))):
        rows.set(keys, gradients)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"w": np.ones((2, 3))}, "arrays w, expected w, b"),
        ({"w": np.ones((2, 3)), "b": [1.0], "c": [1.0]}, "arrays w, b, c, expected w, b"),
        ({"w": np.ones((2, 2)), "b": [1.0]}, "w: 4 numbers, expected 6"),
        (np.ones(6), "all arrays: 6 numbers, expected 7"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_at_once(values: object, told: str) -> None:
    session = alone("sync")
    dense = session.table(ARRAYS, name="arrays")
    for act in (dense.push, dense.set, lambda given: session.table(ARRAYS, name="more", values=given)):
        with pytest.raises(ps.BadRequest, match=re.escape(told)):
            act(values)


def test_an_empty_batch_is_one() -> None:
    session = alone("sync")
    rows = session.table(ROWS, name="rows")
    rows.push([], np.empty((0, 2)))
    rows.set([], np.empty((0, 2)))
    assert rows.pull([]).shape == (0, 2)
    session.end_step()
    assert session.step == 1
