"""PyTorch's embedding layer and optimizer. `make test-torch` runs these in an environment that has PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from umiak import ps
from umiak.ps.environment import Seat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

torch = pytest.importorskip("torch")
SGD = ps.Sgd(learning_rate=0.5)
ONES = ps.Constant(value=1.0)


@pytest.fixture
def job() -> Session:
    return ps.use(Session(Seat(), ps.Async(), SessionOptions(shards=4)))


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
