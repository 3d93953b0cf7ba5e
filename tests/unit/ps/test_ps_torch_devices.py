"""What PyTorch's layers do for a GPU, on CPU tensors: the same code, with another answer to where a tensor is. `benchmarks/ps_gpu.py` runs it on a GPU."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.ps_cluster import Cluster
from umiak import ps
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

torch = pytest.importorskip("torch")
SGD = ps.Sgd(learning_rate=0.5)
WIDE = ps.Normal(deviation=1.0)


def fresh() -> Session:
    return ps.use(Session(PsSeat(), ps.Async(), SessionOptions(shards=4)))


@pytest.fixture
def elsewhere(monkeypatch):
    """Tensors count as being on a GPU as long as this is asked for."""

    def pretend(does: bool = True) -> None:
        monkeypatch.setattr(ps.torch, "is_elsewhere", (lambda it: isinstance(it, torch.Tensor)) if does else _nowhere)

    pretend()
    return pretend


def _nowhere(_tensor: object) -> bool:
    return False


class Net(torch.nn.Module):
    """Two tables, one of them with bags, and two dense layers above."""

    def __init__(self, session=None, **settings) -> None:
        super().__init__()
        self.ids = ps.torch.Embedding(dim=3, table="ids", init=WIDE, session=session, **settings)
        self.bags = ps.torch.Embedding(dim=2, table="bags", init=WIDE, session=session, pooling="mean", **settings)
        self.top = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        # Trainers are threads here, and PyTorch's own numbers are drawn for all threads together.
        random = np.random.default_rng(3)
        with torch.no_grad():
            for each in self.top.parameters():
                each.copy_(torch.tensor(random.uniform(-0.4, 0.4, each.shape)))

    def forward(self, batch):
        ids, slots = batch
        return self.top(torch.cat([self.ids(ids).flatten(1), self.bags.slots(slots).flatten(1)], 1))

    def looks(self, batch):
        ids, slots = batch
        return {self.ids: ids, self.bags: slots}


def batches(count: int, first: int = 0):
    for step in range(first, first + count):
        random = np.random.default_rng(step)
        ends = [0, 1, 1, 3, 6, 6, 7, 9, 12]
        slots = [(torch.tensor(random.integers(-3, 9, 12)), torch.tensor(ends)) for _ in range(2)]
        yield torch.tensor(random.integers(-3, 40, (8, 2))), slots


def train(session, steps: int = 6, prefetch: bool = False, **settings):
    model = Net(session, **settings)
    optimizer = ps.torch.optimizer(model, "adam", learning_rate=0.05, session=session)
    losses = []
    source = batches(steps, 100 * session.rank)
    for batch in session.prefetch(source, model.looks) if prefetch else source:
        optimizer.zero_grad()
        loss = (model(batch) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    keys = np.arange(-3, 40).view(np.uint64)
    found = [model.ids.rows.rows(keys, create=False), model.bags.rows.rows(keys, create=False)]
    return [np.array(losses), *found, *(each.detach().numpy().copy() for each in model.parameters())]


def near(one, other) -> None:
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("settings", [{}, {"padding_id": 3}, {"accessor": ps.Accessor(embed_init=WIDE)}])
def test_it_learns_as_on_the_cpu(elsewhere, settings) -> None:
    if "accessor" in settings:
        settings = {**settings, "init": None}
    there = train_with(settings)
    elsewhere(False)
    near(there, train_with(settings))


def train_with(settings):
    if "accessor" not in settings:
        return train(fresh(), **settings)
    session = fresh()
    layer = ps.torch.Embedding(dim=2, accessor=settings["accessor"], session=session)
    top = torch.nn.Linear(3, 1)
    torch.nn.init.ones_(top.weight)
    model = torch.nn.ModuleList([layer, top])
    optimizer = ps.torch.optimizer(model, SGD, session=session)
    for step in range(3):
        out = layer(torch.tensor([[1, 2], [2, step]]), clicks=torch.tensor([1.0, 0.0]))
        top(out).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [layer.rows.rows(np.arange(5, dtype=np.uint64), create=False)]


@pytest.mark.parametrize("strategy", ["async", "sync"])
def test_rows_that_come_ahead_are_those_of_a_pull(elsewhere, strategy: str) -> None:
    results = []
    for prefetch in (False, True):
        with Cluster(servers=2, trainers=1) as cluster, cluster.job(strategy) as session:
            results.append(train(session, prefetch=prefetch))
            pulls = json.loads(session.client.status())
            assert pulls
    for plain, ahead in zip(*results, strict=True):
        np.testing.assert_array_equal(plain, ahead)


def test_two_trainers_in_sync_learn_as_on_the_cpu(elsewhere) -> None:
    results = []
    for there in (True, False):
        elsewhere(there)
        with Cluster() as cluster:
            results.append(cluster.train("sync", lambda session: train(session, prefetch=session.rank == 0)))
    for one, other in zip(*results, strict=True):
        near(one, other)


def test_what_is_read_ahead_is_used_once_and_for_the_same_tensors_alone(elsewhere) -> None:
    session = fresh()
    layer = ps.torch.Embedding(dim=2, init=WIDE, session=session)
    ids, like = torch.tensor([5, 1, 5]), torch.tensor([5, 1, 5])
    (table, keys), *_ = layer.looks(ids)
    assert table is layer.rows
    assert keys().tolist() == [1, 5]
    (prepared,) = layer._prepared
    layer(like)
    assert layer._prepared == [prepared]
    out = layer(ids)
    assert layer._prepared == []
    assert torch.equal(out, layer(ids))
    [*layer.looks(ids)]
    ids += 1  # written into: other ids now
    assert torch.equal(layer(ids), layer(torch.tensor([6, 2, 6])))
    assert len(layer._prepared) == 1
    for other in range(4):
        [*layer.looks(torch.tensor([other]))]
    assert len(layer._prepared) == 2


def test_gradients_wait_on_the_device_until_somebody_asks(elsewhere) -> None:
    session = fresh()
    layer = ps.torch.Embedding(dim=1, init=ps.Constant(1.0), session=session)
    optimizer = ps.torch.optimizer(layer, SGD, session=session)
    layer(torch.tensor([1, 2, 2])).sum().backward()
    layer(torch.tensor([2])).sum().backward()
    assert layer.rows.has_gradients
    *_, table = optimizer.param_groups[0]["params"]
    assert table.grad.tolist() == [[1.0], [3.0]]
    optimizer.zero_grad()
    assert not layer.rows.has_gradients
    layer(torch.tensor([3])).sum().backward()
    optimizer.zero_grad()
    optimizer.step()
    assert layer.rows.rows(np.arange(4, dtype=np.uint64))[:, 0].tolist() == [1, 1, 1, 1]
    (layer(torch.tensor([[3, 3]]), gradient_scale=0.5) * 2).sum().backward()
    optimizer.step()
    assert layer.rows.rows(np.arange(4, dtype=np.uint64))[:, 0].tolist() == [1, 1, 1, 0]


def test_parameters_that_a_script_sets_are_learned_from(elsewhere) -> None:
    session = fresh()
    top = torch.nn.Linear(2, 1)
    optimizer = ps.torch.optimizer(top, SGD, session=session)
    places = [each.data_ptr() for each in top.parameters()]

    def step() -> None:
        optimizer.zero_grad()
        top(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    with torch.no_grad():
        top.weight.fill_(3.0)
    step()
    assert top.weight.tolist() == [[2.5, 2.5]]
    assert [each.data_ptr() for each in top.parameters()] == places, "graphs of CUDA know them by their places"
    top.weight.data = torch.full((1, 2), 7.0)
    step()
    assert top.weight.tolist() == [[6.5, 6.5]]
    top.weight.data[0, 0] = float("nan")
    step()
    step()
    assert not torch.isfinite(top.weight[0, 0])
    assert top.weight[0, 1] == 5.5


def test_a_grad_scaler_skips_what_overflows(elsewhere) -> None:
    session = fresh()
    model = Net(session)
    optimizer = ps.torch.optimizer(model, SGD, session=session)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    (batch,) = batches(1)
    before = model.ids.rows.rows(np.arange(40, dtype=np.uint64))
    for factor, moves in ((float("inf"), False), (1.0, True)):
        optimizer.zero_grad()
        scaler.scale(model(batch).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        moved = not np.array_equal(before, model.ids.rows.rows(np.arange(40, dtype=np.uint64)))
        assert moved is moves


def test_without_gradients_rows_are_only_read(elsewhere) -> None:
    session = fresh()
    layer = ps.torch.Embedding(dim=2, init=WIDE, absent="zeros", session=session)
    layer.eval()
    assert layer(torch.arange(5)).tolist() == [[0, 0]] * 5
    assert layer(torch.zeros(0, dtype=torch.int32)).shape == (0, 2)
    assert '"rows": 0' in session.client.status()


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_distinct_numbers_are_those_of_pytorch(count: int) -> None:
    from umiak.ps.on_device.rows import distinct

    ids = torch.tensor(np.random.default_rng(count).integers(-50, 50, count))
    unique, inverse, number = distinct(ids)
    assert torch.equal(unique[: int(number)], ids.unique())
    assert torch.equal(unique[inverse], ids)
