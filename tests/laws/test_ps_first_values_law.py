"""A law of first values: the same seed gives the same ones alone, with one server and with eight, after tables have grown, after a checkpoint and for trainers that come later.

Rows of sparse tables are a function of seed and key. Parameters of plain Paddle models are those of the first trainer's model; generated models are those of
`test_ps_parameters_law`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import support
from tests.laws.test_ps_parameters_law import STEPS, Case, made, optimizer_of, trained
from tests.support.effort import effort
from tests.support.ps_cluster import Cluster
from umiak.ps import specs as specs_of_tables
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.specs import Adam, Array, Constant, DenseTable, Normal, SparseTable, Uniform
from umiak.ps.strategies import Sync

needs_paddle = pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed")

SHARDS = 16
SERVERS = (0, 1, 8)
NOTHING_REFUSED: dict[str, Any] = {"beside": (), "second": (True,) * STEPS, "output": (True,) * STEPS}
"""Cases in whose steps nothing is that tables can't do."""
CASES = 6


class Place:
    """Tables in this process, or on so many servers."""

    def __init__(self, servers: int, trainers: int = 1) -> None:
        self._cluster = Cluster(servers=servers, trainers=trainers, shards=SHARDS) if servers else None

    def __enter__(self) -> Place:
        if self._cluster:
            self._cluster.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._cluster:
            self._cluster.__exit__()

    def job(self, rank: int = 0, strategy: str = "sync") -> Session:
        if self._cluster:
            return self._cluster.job(strategy, rank)
        return Session(PsSeat(), Sync(), SessionOptions(shards=SHARDS))


# ---- rows of tables

inits = st.one_of(
    st.builds(Uniform, st.floats(-1, -0.125, width=32), st.floats(0.125, 1, width=32)),
    st.builds(Normal, st.just(0.0), st.floats(0.125, 1, width=32)),
    st.builds(Constant, st.floats(-1, 1, width=32)),
)
specs = st.builds(SparseTable, dim=st.integers(1, 9), seed=st.integers(0, 2**63), init=inits)
keys = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40, unique=True).map(
    lambda each: np.array(each, np.uint64)
)


def pulled(job: Session, spec: SparseTable, wanted: np.ndarray, before: int = 0) -> np.ndarray:
    """First rows of keys, of a table that has got so many others first."""
    table = job.table(spec, "rows")
    for start in range(0, before, 5_000):
        table.pull(np.arange(start, min(before, start + 5_000), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return table.pull(wanted)


@given(spec=specs, wanted=keys, grown=st.sampled_from([0, 1, 300, 20_000]), order=st.randoms(use_true_random=False))
@effort(0.2)
def test_rows_begin_alike_with_any_number_of_servers_and_rows(
    spec: SparseTable, wanted: np.ndarray, grown: int, order: Any
) -> None:
    with Place(0) as place, place.job() as job:
        expected = pulled(job, spec, wanted)
    places = [*range(len(wanted))]
    order.shuffle(places)
    for servers in SERVERS:
        with Place(servers) as place, place.job() as job:
            rows = pulled(job, spec, wanted[places], grown)
        np.testing.assert_array_equal(rows, expected[places], err_msg=f"{servers} servers, {grown} rows before")


@given(
    spec=specs, wanted=keys, known=st.integers(0, 3_000), first=st.sampled_from(SERVERS), then=st.sampled_from(SERVERS)
)
@effort(0.2)
def test_rows_that_come_after_a_checkpoint_begin_as_they_would_have(
    spec: SparseTable, wanted: np.ndarray, known: int, first: int, then: int
) -> None:
    with TemporaryDirectory() as directory:
        saved = str(Path(directory, "saved"))
        with Place(first) as place, place.job() as job:
            pulled(job, spec, wanted[:1], known)
            job.save(saved)
            expected = pulled(job, spec, wanted)
        with Place(then) as place, place.job() as job:
            job.table(spec, "rows")
            job.load(saved)
            np.testing.assert_array_equal(pulled(job, spec, wanted), expected)


@given(spec=specs, wanted=keys, servers=st.sampled_from((1, 8)))
@effort(0.1)
def test_a_trainer_that_comes_later_finds_the_same_rows(spec: SparseTable, wanted: np.ndarray, servers: int) -> None:
    half = len(wanted) // 2
    with Place(0) as place, place.job() as job:
        expected = pulled(job, spec, wanted)
    with Place(servers, trainers=2) as place, place.job(0, "async") as early:
        np.testing.assert_array_equal(pulled(early, spec, wanted[:half], 1_000), expected[:half])
        with place.job(1, "async") as late:
            np.testing.assert_array_equal(pulled(late, spec, wanted), expected)
        np.testing.assert_array_equal(pulled(early, spec, wanted), expected)


# ---- parameters of models


def state_of(model: Any) -> dict[str, np.ndarray]:
    return {name: each.numpy().copy() for name, each in model.state_dict().items()}


def carried(paddle: Any, case: Case, model: Any, job: Session) -> Any:
    from umiak.ps import paddle_models as models

    elsewhere = ("second", "first") if case.is_tied else ("second",)
    choice = models.TableChoice(elsewhere=elsewhere if case.is_output_tied else ())
    plan = models.plan_of(model, optimizer_of(paddle, case, model), is_shared=True, choice=choice)
    return models.carry_over(model, plan, session=job)


def same(ours: dict[str, np.ndarray], expected: dict[str, np.ndarray], what: str) -> None:
    assert ours.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(ours[name], values, err_msg=f"{what}, {name}")


@needs_paddle
@pytest.mark.paddle
@pytest.mark.filterwarnings("ignore")
def test_models_begin_as_in_plain_paddle() -> None:
    import paddle

    paddle.set_device("cpu")
    chance = support.chance()
    for _ in range(CASES):
        case = Case.drawn(chance)
        plain = state_of(made(paddle, case))
        for servers in SERVERS:
            with Place(servers) as place, place.job() as job:
                model = made(paddle, case)
                optimizer = carried(paddle, case, model, job)
                same(state_of(model), plain, f"{servers} servers: {case}")
                del optimizer


@needs_paddle
@pytest.mark.paddle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("first", "then"), [(0, 8), (1, 8), (8, 1), (8, 0)])
def test_models_go_on_with_other_servers_as_if_nothing_had_happened(tmp_path: Path, first: int, then: int) -> None:
    """What has not learned yet, such as rows that no batch has had, is what it was in the beginning; and so goes on from there."""
    import paddle

    paddle.set_device("cpu")
    chance = support.chance()
    for number in range(CASES):
        # A loop that goes on has not called clear_grad yet, and is taken for one that calls it as Paddle does by default.
        drawn, at = Case.drawn(chance), chance.randrange(STEPS)
        left_out = tuple({*drawn.left_out, at + 1} - {*range(at + 1)})
        case = dataclasses.replace(drawn, clears=("zeros",) * STEPS, left_out=left_out, **NOTHING_REFUSED)
        saved = str(tmp_path / f"{number}")
        with Place(first) as place, place.job() as job:
            model = made(paddle, case)
            whole = trained(paddle, case, model, carried(paddle, case, model, job), behind=saving(job, saved, at))
        with Place(then) as place, place.job() as job:
            # Another seed: nothing of it may be left.
            model = made(paddle, case, seed=case.seed + 1)
            optimizer = carried(paddle, case, model, job)
            job.load(saved)
            same(state_of(model), whole[at], f"loaded: {case}")
            rest = trained(paddle, case, model, optimizer, first=at + 1)
        for step, (own, expected) in enumerate(zip(rest, whole[at + 1 :], strict=True), start=at + 1):
            same(own, expected, f"step {step}: {case}")


@pytest.mark.parametrize("elements", [1, 20, 100])
def test_a_small_dense_table_is_whole_on_fewer_servers(tmp_path: Path, elements: int) -> None:
    """Most of eight servers have nothing of it and were never given values: who reads all their files has the values, and Adam's steps."""
    spec = specs_of_tables.to_json(DenseTable(arrays=(Array(name="bias", shape=(elements,)),), rule=Adam()))
    names = [f"dense.{number}" for number in range(8)]
    saved = str(tmp_path / "saved")
    with Place(8) as place, place.job(strategy="async") as job:
        tables = [job.client.create_table(name, spec) for name in names]
        for table in tables:
            job.client.set_dense(table, np.ones(elements, np.float32))
        learned(job, tables, elements)
        job.save(saved)
        expected = learned(job, tables, elements)
    with Place(1) as place, place.job(strategy="async") as job:
        tables = [job.client.create_table(name, spec) for name in names]
        # In the order in which threads may get to them: those first that know nothing.
        files = sorted((file.name for file in Path(saved).glob("shard-*")), reverse=True)
        job.client.load(json.dumps({"path": saved, "step": 0, "files": files}))
        assert np.array_equal(learned(job, tables, elements), expected)


def learned(job: Session, tables: list[int], elements: int) -> np.ndarray:
    """What tables are after some gradients more."""
    for gradient in (1.0, -0.5, 2.0):
        for table in tables:
            job.client.push_dense(table, np.full(elements, gradient, np.float32))
    return np.stack([job.client.pull_dense(table) for table in tables])


def saving(job: Session, path: str, at: int) -> Callable[[int], None]:
    """Saves behind this step."""
    return lambda step: job.save(path) if step == at else None


@needs_paddle
@pytest.mark.paddle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("servers", [1, 8])
def test_a_trainer_that_comes_later_takes_over_what_there_is(servers: int) -> None:
    """Not what its own model has, be it the same first values or others."""
    import paddle

    paddle.set_device("cpu")
    chance = support.chance()
    for _ in range(3):
        case = Case.drawn(chance)
        with Place(servers, trainers=2) as place:
            first, late = _one_after_the_other(paddle, case, place)
        same(late, first, f"{servers} servers: {case}")
        same(first, state_of(made(paddle, case)), "as in plain Paddle")


def _one_after_the_other(paddle: Any, case: Case, place: Place) -> list[dict[str, np.ndarray]]:
    """What the models of two trainers begin with; the second one, with other first values, comes some time after the first."""
    models = [made(paddle, case), made(paddle, case, seed=case.seed + 1)]
    has_begun = threading.Event()

    def trainer(rank: int) -> dict[str, np.ndarray]:
        if rank:
            has_begun.wait(2)  # the first one may wait for this one, too
        with place.job(rank, "async") as job:
            optimizer = carried(paddle, case, models[rank], job)
            has_begun.set()
            found = state_of(models[rank])
            job.barrier("both have begun")
            del optimizer
            return found

    with ThreadPoolExecutor(2) as pool:
        return [*pool.map(trainer, range(2))]
