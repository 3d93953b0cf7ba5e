"""A plain Paddle model with an embedding, learned in a plain Paddle loop and through tables."""

from __future__ import annotations

import numpy as np
import pytest

from umiak import ps
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

ROWS, DIM, SLOTS, STEPS = 50, 4, 3, 6


@pytest.fixture
def paddle():
    import paddle

    paddle.set_device("cpu")
    return paddle


@pytest.fixture
def models():
    from umiak.ps import paddle_models

    return paddle_models


def session() -> Session:
    return ps.use(Session(PsSeat(), ps.Sync(), SessionOptions(shards=4)))


def made(paddle, *, sparse: bool = True, padding: int | None = None, attr=None, fc_attr=None, rows: int = ROWS):
    class Net(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = paddle.nn.Embedding(rows, DIM, sparse=sparse, padding_idx=padding, weight_attr=attr)
            self.fc = paddle.nn.Linear(SLOTS * DIM, 8, weight_attr=fc_attr)
            self.out = paddle.nn.Linear(8, 1)

        def forward(self, slots):
            rows = [self.embedding(each) for each in slots]
            hidden = paddle.nn.functional.relu(self.fc(paddle.concat(rows, axis=1)))
            return self.out(hidden)

    paddle.seed(7)
    return Net()


def batches(paddle, *, least: int = 0, most: int = ROWS):
    chance = np.random.default_rng(3)
    for _ in range(STEPS):
        slots = [paddle.to_tensor(chance.integers(least, most, 16)) for _ in range(SLOTS)]
        yield slots, paddle.to_tensor(chance.normal(size=(16, 1)).astype(np.float32))


def loss_of(paddle, model, slots, labels):
    return ((model(slots) - labels) ** 2).mean() * 3.0


def plain(paddle, model, optimizers, each_step=lambda: None, **kind):
    losses = []
    for slots, labels in batches(paddle, **kind):
        loss = loss_of(paddle, model, slots, labels)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.clear_grad()
        each_step()
        losses.append(float(loss))
    return losses, {name: each.numpy().copy() for name, each in model.state_dict().items()}


def carried(paddle, models, model, optimizers, each_step=lambda: None, *, expects=False, choice=None, **kind):
    plan = models.plan_of(model, optimizers, is_shared=False, choice=choice or models.TableChoice())
    optimizer = models.carry_over(model, plan, session=session())
    losses = []
    for slots, labels in batches(paddle, **kind):
        if expects:
            optimizer.expect([each.numpy() for each in slots])
        loss = loss_of(paddle, model, slots, labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        each_step()
        losses.append(float(loss))
    state = {name: each.numpy().copy() for name, each in model.state_dict().items()} | optimizer.weights()
    return losses, state, plan


def compare(paddle, models, optimizer, *, tables: int, choice=None, expects=False, least=0, **kind):
    """The same losses and parameters both ways; ``optimizer`` makes the optimizers, and what is done after each step."""

    def ways(model):
        found = optimizer(model)
        found, each_step = found if isinstance(found, tuple) else (found, lambda: None)
        return (found if isinstance(found, list) else [found]), each_step

    model = made(paddle, **kind)
    losses, state = plain(paddle, model, *ways(model), least=least)
    model = made(paddle, **kind)
    ours, our_state, plan = carried(paddle, models, model, *ways(model), expects=expects, choice=choice, least=least)
    assert len(plan.tables) == tables
    np.testing.assert_allclose(ours, losses, rtol=2e-5, atol=1e-6)
    assert set(our_state) == set(state)
    for name, values in state.items():
        np.testing.assert_allclose(our_state[name], values, rtol=2e-4, atol=2e-6, err_msg=name)
    return plan


def lazy(paddle):
    return lambda model: paddle.optimizer.Adam(0.01, parameters=model.parameters(), lazy_mode=True)
