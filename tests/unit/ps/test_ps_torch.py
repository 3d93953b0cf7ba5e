"""PyTorch's embedding layer and optimizer. `make test` and `make test-torch` run these in a process that has PyTorch."""

from __future__ import annotations

import copy
import io
import json
import math

import numpy as np
import pytest

from tests.support.ps_cluster import Cluster
from umiak import ps
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

torch = pytest.importorskip("torch")
SGD = ps.Sgd(learning_rate=0.5)
ONES = ps.Constant(value=1.0)


@pytest.fixture
def job() -> Session:
    return ps.use(Session(PsSeat(), ps.Async(), SessionOptions(shards=4)))


def rows_of(layer, count: int) -> np.ndarray:
    return layer.rows.rows(np.arange(count, dtype=np.uint64))


def test_rows_learn_and_repeated_ids_add_up(job) -> None:
    layer = ps.torch.Embedding(dim=2, init=ONES)
    optimizer = ps.torch.optimizer(layer, SGD)
    out = layer(torch.tensor([[0, 1], [1, 1]]))
    assert out.shape == (2, 2, 2)
    (out * 2).sum().backward()
    optimizer.step()
    assert rows_of(layer, 3)[:, 0].tolist() == [0, -2, 1]


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_bags_are_pooled_as_by_pytorch(job, pooling: str) -> None:
    layer = ps.torch.Embedding(dim=3, init=ps.Normal(deviation=1.0), pooling=pooling)
    optimizer = ps.torch.optimizer(layer, SGD)
    before = rows_of(layer, 8)
    values, offsets = torch.tensor([4, 7, 4, 1]), torch.tensor([0, 3, 3, 4])
    reference = torch.nn.EmbeddingBag.from_pretrained(
        torch.tensor(before), freeze=False, mode=pooling, include_last_offset=True
    )
    pooled, expected = layer(values, offsets), reference(values, offsets)
    torch.testing.assert_close(pooled, expected)
    weights = torch.tensor([[3.0], [5.0], [7.0]])
    (pooled * weights).sum().backward()
    (expected * weights).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(rows_of(layer, 8), before - 0.5 * reference.weight.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_without_gradients_rows_are_only_read(job) -> None:
    layer = ps.torch.Embedding(dim=2)
    with torch.no_grad():
        read = layer(np.arange(5))
    layer.eval()
    assert torch.equal(read, layer(np.arange(5)))
    assert '"rows": 0' in job.client.status()


def test_where_they_are_only_read_absent_rows_can_be_zeros(job) -> None:
    layer = ps.torch.Embedding(dim=2, init=ONES, absent="zeros")
    layer(np.arange(3))
    layer.eval()
    assert layer(np.arange(5)).detach().numpy()[:, 0].tolist() == [1, 1, 1, 0, 0]
    layer.train()
    with torch.no_grad():
        assert layer(np.arange(5)).detach().numpy()[:, 0].tolist() == [1, 1, 1, 0, 0]
    assert layer(np.arange(5)).detach().numpy()[:, 0].tolist() == [1] * 5, "in training they begin as ever"
    with pytest.raises(ps.BadRequest, match="UM-PS-010"):
        ps.torch.Embedding(dim=2, init=ONES, absent="nothing")


def test_dense_parameters_learn_as_with_pytorchs_adam(job) -> None:
    def network():
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))

    ours, theirs = network(), network()
    optimizer = ps.torch.optimizer(ours, ps.Adam(learning_rate=0.1))
    reference = torch.optim.Adam(theirs.parameters(), lr=0.1)
    for step in range(5):
        x = torch.tensor(np.random.default_rng(step).normal(size=(8, 4)).astype("float32"))
        for model, each in ((ours, optimizer), (theirs, reference)):
            (model(x) ** 2).mean().backward()
            each.step()
            each.zero_grad()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_a_schedule_and_several_slots(job) -> None:
    layer = ps.torch.Embedding(dim=1, init=ONES)
    optimizer = ps.torch.optimizer(layer, "sgd", learning_rate=1.0, schedule=lambda step: 0.5**step)
    one, two = (np.array([1, 2, 3]), np.array([0, 2, 3])), (np.array([9]), np.array([0, 0, 1]))
    for _ in range(2):
        together = layer.slots([one, two])
        assert together.shape == (2, 2, 1)
        together.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert rows_of(layer, 10)[[1, 9], 0].tolist() == [-0.5, -0.5]
    assert optimizer.get_lr() == 0.5


# ---- as a torch.optim.Optimizer


class Net(torch.nn.Module):
    """A row of two for each of two ids, and a layer above them."""

    def __init__(self, session=None, **settings) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.rows = ps.torch.Embedding(dim=2, init=ONES, session=session, **settings)
        self.top = torch.nn.Linear(4, 1)

    def forward(self, ids):
        return self.top(self.rows(ids).flatten(1))


def loss_of(model, step: int = 0):
    ids = torch.tensor(np.random.default_rng(step).integers(0, 6, (8, 2)))
    return (model(ids) - 3).pow(2).mean()


def learned(model) -> tuple[np.ndarray, ...]:
    return rows_of(model.rows, 6), *(each.detach().numpy().copy() for each in model.parameters())


def same(one, other) -> bool:
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def fresh() -> Session:
    return Session(PsSeat(), ps.Async(), SessionOptions(shards=4))


def test_it_is_an_optimizer_of_pytorch(job) -> None:
    model = Net()
    optimizer = ps.torch.optimizer(model, "sgd", learning_rate=0.25)
    assert isinstance(optimizer, torch.optim.Optimizer)
    (group,) = optimizer.param_groups
    assert group["lr"] == optimizer.defaults["lr"] == 0.25
    *dense, rows = group["params"]
    assert {*map(id, dense)} == {*map(id, model.parameters())}
    assert rows.grad is None
    assert optimizer.state == {}
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append(1))

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    first = optimizer.step(closure).detach()
    assert optimizer.step(closure).detach() < first
    assert called == [1, 1]
    loss_of(model).backward()
    optimizer.zero_grad(set_to_none=False)
    assert all(not each.grad.any() for each in model.parameters())
    assert rows.grad is None
    optimizer.zero_grad()
    assert all(each.grad is None for each in model.parameters())
    with pytest.raises(ps.BadRequest, match="one group of parameters"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})


def test_a_scheduler_of_pytorch_says_the_learning_rate_that_servers_have() -> None:
    with Cluster(servers=2, trainers=1) as cluster, cluster.job("sync") as session:
        model = Net(session)
        model.own = ps.torch.Embedding(dim=1, table="own", rule=ps.Adagrad(0.5), session=session)
        model.own(torch.tensor([1]))
        optimizer = ps.torch.optimizer(model, "sgd", learning_rate=1.0, session=session)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        seen = []
        for step in range(6):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
            scheduler.step()
            tables = json.loads(session.client.status())[0]["tables"]
            seen.append([tables[name]["learning_rate"] for name in ("dense", "embedding", "own")])
        assert seen == [[rate, rate, rate / 2] for rate in (1.0, 1.0, 0.5, 0.5, 0.25, 0.25)]
        assert optimizer.get_lr() == scheduler.get_last_lr()[0] == 0.125
        optimizer.set_lr(3.0)
        assert optimizer.param_groups[0]["lr"] == 3.0


def test_with_a_scheduler_it_learns_as_pytorchs_own(job) -> None:
    torch.manual_seed(3)
    ours = torch.nn.Linear(4, 1)
    theirs = copy.deepcopy(ours)
    pairs = [(ours, ps.torch.optimizer(ours, "adam", learning_rate=0.1))]
    pairs.append((theirs, torch.optim.Adam(theirs.parameters(), lr=0.1)))
    schedulers = [torch.optim.lr_scheduler.LambdaLR(each, lambda step: 1 / (1 + step)) for _, each in pairs]
    for step in range(5):
        x = torch.tensor(np.random.default_rng(step).normal(size=(8, 4)).astype("float32"))
        for (model, optimizer), scheduler in zip(pairs, schedulers, strict=True):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
            scheduler.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "accessor", [None, ps.Accessor(embed_optimizer=ps.Sgd(0.5), embed_init=ONES, show_scale=False)]
)
@pytest.mark.parametrize("unscales", [False, True])
def test_a_grad_scaler_changes_nothing_but_what_overflows(accessor, unscales: bool) -> None:
    """Rows are unscaled too, and what they count (an accessor's shows) is not."""

    class Sparse(Net):
        def __init__(self, session) -> None:
            super().__init__(session, accessor=accessor)
            if accessor is not None:
                self.top = torch.nn.Linear(6, 1)

    def train(with_scaler: bool):
        session = fresh()
        model = Sparse(session)
        optimizer = ps.torch.optimizer(model, SGD, session=session)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=with_scaler)
        for step in range(3):
            optimizer.zero_grad()
            for part in range(2):  # accumulates
                scaler.scale(loss_of(model, 2 * step + part)).backward()
            if unscales:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        return learned(model)

    plain, scaled = train(False), train(True)
    # The rows of two batches are merged in another order.
    assert all(np.allclose(mine, theirs, rtol=1e-5, atol=1e-7) for mine, theirs in zip(plain, scaled, strict=True))
    assert not np.allclose(plain[0], 1)


@pytest.mark.parametrize("overflows_in", ["rows", "dense"])
def test_a_step_that_overflows_is_skipped(job, overflows_in: str) -> None:
    model = Net()
    optimizer = ps.torch.optimizer(model, SGD)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    loss_of(model).backward()  # the table is made
    optimizer.step()
    before = learned(model)
    optimizer.zero_grad()
    rows = model.rows(torch.tensor([[1, 2]]))
    loss = rows.sum() * math.inf if overflows_in == "rows" else model.top(rows.detach().flatten(1)).sum() * math.inf
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    assert scaler.get_scale() == 512.0
    assert same(before, learned(model))
    scaler.scale(loss_of(model)).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not same(before, learned(model))


@pytest.mark.parametrize("strategy", ["sync", "hybrid"])
def test_a_trainer_that_skips_a_step_takes_part_in_it(strategy: str) -> None:
    """Else the others would wait for it, and meet it at a barrier never."""

    def train(session, skips: bool):
        model = Net(session)
        # Rows of `hybrid` learn from each trainer at once: with a larger rate it diverges, and a loss that is not finite skips further steps.
        optimizer = ps.torch.optimizer(model, ps.Sgd(learning_rate=0.02), session=session)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        for step in range(4):
            optimizer.zero_grad()
            overflows = skips and session.rank == 1 and step == 2
            scaler.scale(loss_of(model, 2 * step + session.rank) * (math.inf if overflows else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            session.barrier()
        optimizer.zero_grad()
        return session.step, scaler.get_scale(), learned(model)

    with Cluster() as cluster:
        first, second = cluster.train(strategy, lambda session: train(session, skips=True))
    with Cluster() as cluster:
        whole, _ = cluster.train(strategy, lambda session: train(session, skips=False))
    assert (first[0], second[0]) == (4, 4)
    assert (first[1], second[1]) == (64.0, 32.0)
    assert same(first[2], second[2])
    assert np.isfinite(first[2][0]).all()
    assert not same(first[2], whole[2])


def test_what_clips_the_gradients_of_its_parameters_clips_rows_too(job) -> None:
    """As Lightning does: it takes the parameters from ``param_groups``."""
    model = Net()
    optimizer = ps.torch.optimizer(model, ps.Sgd(1.0))
    before = learned(model)
    loss_of(model).backward()
    parameters = optimizer.param_groups[0]["params"]
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1e-3)
    assert norm > 1
    optimizer.step()
    moved = sum(float(np.square(now - then).sum()) for now, then in zip(learned(model), before, strict=True))
    assert math.sqrt(moved) == pytest.approx(1e-3, rel=1e-2)
    loss_of(model).backward()
    parameters[-1].grad = None
    assert not job.registry.has_gradients


def test_the_state_goes_through_a_file_and_back() -> None:
    def made():
        session = fresh()
        model = Net(session)
        optimizer = ps.torch.optimizer(model, "sgd", learning_rate=0.5, session=session)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

    model, optimizer, scheduler = made()
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        scheduler.step()
    file = io.BytesIO()
    torch.save({"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    assert saved["optimizer"]["param_groups"][0]["lr"] == 0.125
    assert saved["optimizer"]["state"] == {}, "moments and parameters are in the servers' checkpoint"
    other, again, its_scheduler = made()
    its_scheduler.load_state_dict(saved["scheduler"])
    again.load_state_dict(saved["optimizer"])
    assert again.state_dict() == optimizer.state_dict()
    before = learned(other)
    loss_of(other).backward()
    gradient = other.top.weight.grad.numpy().copy()
    again.step()
    np.testing.assert_allclose(learned(other)[1], before[1] - np.float32(0.125) * gradient, rtol=1e-6)
