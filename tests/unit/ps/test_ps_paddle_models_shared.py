"""Plain Paddle models through tables that trainers share, and the plans for them."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import threading

import numpy as np
import pytest

from tests.support import PATIENCE_S
from tests.support.plain_models import DIM, ROWS, SLOTS, batches, lazy, loss_of, made, plain
from tests.support.ps_cluster import Cluster, ThreadGroup
from umiak.ps.clients.collective import CollectiveClient
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Collective

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def paddle():
    import paddle

    paddle.set_device("cpu")
    return paddle


@pytest.fixture
def models():
    from umiak.ps import paddle_models

    return paddle_models


# ---- with servers


def halves(paddle, rank: int):
    for slots, labels in batches(paddle):
        part = slice(8 * rank, 8 * rank + 8)
        yield [each[part] for each in slots], labels[part]


@pytest.mark.parametrize("rows", [ROWS, 300_000])
def test_two_trainers_in_step_learn_what_one_learns_from_both_batches(paddle, models, rows) -> None:
    attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Uniform(-0.5, 0.5))
    model = made(paddle, attr=attr, rows=rows)
    ours = [made(paddle, attr=attr, rows=rows) for _ in range(2)]
    # What the second trainer has to begin with does not count.
    ours[1].fc.weight.set_value(np.zeros([SLOTS * DIM, 8], np.float32))
    plans = [models.plan_of(each, lazy(paddle)(each), is_shared=True) for each in ours]

    def trainer(job):
        own, plan = ours[job.rank], plans[job.rank]
        optimizer = models.carry_over(own, plan, session=job)
        for slots, labels in halves(paddle, job.rank):
            optimizer.expect([each.numpy() for each in slots])
            loss_of(paddle, own, slots, labels).backward()
            optimizer.step()
            optimizer.clear_grad()
        return {name: each.numpy().copy() for name, each in own.state_dict().items()}

    with Cluster(servers=2, trainers=2) as cluster:
        states = cluster.train("sync", trainer)
    _, state = plain(paddle, model, [lazy(paddle)(model)])
    for name, values in state.items():
        np.testing.assert_array_equal(states[0][name], states[1][name])
        np.testing.assert_allclose(states[0][name], values, rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("keeps", [False, True])
def test_two_collective_trainers_learn_what_one_learns_from_both_batches(paddle, models, keeps) -> None:
    """With the rows in a table, and with an embedding that stays a parameter."""
    model = made(paddle)
    ours = [made(paddle) for _ in range(2)]
    ours[1].embedding.weight.set_value(np.zeros([ROWS, DIM], np.float32))
    choice = models.TableChoice(parameters=("embedding",) if keeps else ())
    plans = [models.plan_of(each, lazy(paddle)(each), is_shared=True, choice=choice) for each in ours]
    brought: list[object] = [None, None]
    meet = threading.Barrier(2, timeout=PATIENCE_S)

    def trainer(rank: int):
        client = CollectiveClient(ThreadGroup(rank, brought, meet), shards=4)
        job = Session(PsSeat(rank=rank, world=2), Collective(), SessionOptions(shards=4), connect=lambda: client)
        own = ours[rank]
        optimizer = models.carry_over(own, plans[rank], session=job)
        for slots, labels in halves(paddle, rank):
            loss_of(paddle, own, slots, labels).backward()
            optimizer.step()
            optimizer.clear_grad()
        return {name: each.numpy().copy() for name, each in own.state_dict().items()}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        states = [*pool.map(trainer, range(2))]
    eager = paddle.optimizer.Adam(0.01, parameters=model.parameters(), lazy_mode=not keeps)
    _, state = plain(paddle, model, [eager])
    for name, values in state.items():
        np.testing.assert_array_equal(states[0][name], states[1][name])
        np.testing.assert_allclose(states[0][name], values, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("strategy", ["async", "geo", "half_async"])
def test_other_strategies_learn(paddle, models, strategy) -> None:
    model = made(paddle)

    def trainer(job):
        plan = models.plan_of(model, paddle.optimizer.Adam(0.02, parameters=model.parameters()), is_shared=True)
        assert plan.tables[0].every_row
        assert not plan.remarks
        optimizer = models.carry_over(model, plan, session=job)
        losses = []
        for _ in range(10):
            slots, labels = next(batches(paddle))
            optimizer.expect([each.numpy() for each in slots])
            loss = loss_of(paddle, model, slots, labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        return losses

    with Cluster(servers=2, trainers=1) as cluster:
        (losses,) = cluster.train(strategy, trainer)
    assert losses[-1] < 0.9 * losses[0]


def test_a_first_trainer_that_comes_again_keeps_what_was_learned(paddle, models) -> None:
    with Cluster(servers=2, trainers=1) as cluster:
        found = []
        for turn in range(2):
            model = made(paddle)
            plan = models.plan_of(model, lazy(paddle)(model), is_shared=True)
            with cluster.job("async") as job:
                optimizer = models.carry_over(model, plan, session=job)
                if turn == 0:
                    optimizer.set_weights({"embedding.weight": np.ones([ROWS, DIM], np.float32)})
                found.append(optimizer.weights()["embedding.weight"].mean())
                job.abandon()
    assert found == [1.0, 1.0]


# ---- plans


def test_a_plan_is_told(paddle, models) -> None:
    model = made(paddle, sparse=True)
    model.small = paddle.nn.Embedding(5, 2)
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters(), grad_clip=clip)
    alone = models.plan_of(model, optimizer, is_shared=False).lines()
    assert alone[0].startswith("table embedding: 50 rows of 4, Adam(learning_rate=0.01, ")
    assert alone[0].endswith("Clip(global_norm=1): sparse=True; a step moves all of its rows, as in Paddle")
    assert alone[-1] == "stays a parameter: small.weight: no sparse=True"
    shared = models.plan_of(model, optimizer, is_shared=True).lines()
    apart = "remark: gradients are clipped by each trainer for itself, before they are put together"
    assert [each for each in shared if each.startswith("remark: ")] == [apart]
    assert shared[0] == alone[0]
    lazily = models.plan_of(model, optimizer, is_shared=True, choice=models.TableChoice(lazy=True)).lines()
    assert lazily[0].endswith("Clip(global_norm=1): sparse=True")
    assert [each for each in lazily if each.startswith("remark: ")] == [
        "remark: embedding: rows learn lazily, only in steps that use them, although Adam without lazy_mode moves all rows in each step in Paddle",
        apart,
    ]


def test_what_becomes_a_table_can_be_chosen(paddle, models) -> None:
    model = made(paddle, sparse=False)
    model.second = paddle.nn.Embedding(200, DIM)
    sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    chosen = {
        models.TableChoice(): [],
        models.TableChoice(tables=("second",)): ["second"],
        models.TableChoice(least_rows=100): ["second"],
        models.TableChoice(least_rows=10): ["embedding", "second"],
        models.TableChoice(least_rows=10, parameters=("second",)): ["embedding"],
    }
    for choice, names in chosen.items():
        assert [each.name for each in models.plan_of(model, sgd, is_shared=True, choice=choice).tables] == names
    model = made(paddle)
    adam = paddle.optimizer.Adam(0.1, parameters=model.parameters())
    for choice in (models.TableChoice(), models.TableChoice(lazy=True)):
        (table,) = models.plan_of(model, adam, is_shared=False, choice=choice).tables
        assert table.every_row is not choice.lazy


def test_lazy_mode_counts_where_gradients_are_sparse(paddle, models) -> None:
    """Of a layer without `sparse=True`, Paddle's Adam moves all rows, whatever it was told."""
    choice = models.TableChoice(tables=("embedding",))
    for is_sparse in (True, False):
        model = made(paddle, sparse=is_sparse)
        lazy_adam = paddle.optimizer.Adam(0.1, parameters=model.parameters(), lazy_mode=True)
        (table,) = models.plan_of(model, lazy_adam, is_shared=False, choice=choice).tables
        assert table.every_row is not is_sparse
