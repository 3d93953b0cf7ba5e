"""A small plain Paddle model, its batches, and a loop as people write it: what models through tables are compared with."""

from __future__ import annotations

import numpy as np

from umiak import ps
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

ROWS, DIM, SLOTS, STEPS = 50, 4, 3, 6


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
    """The last row is in each: without it Paddle's Adam for sparse gradients reads behind their end on CPUs, and learns NaN now and then."""
    chance = np.random.default_rng(3)
    for _ in range(STEPS):
        ids = [chance.integers(least, most, 16) for _ in range(SLOTS)]
        ids[0][0] = most - 1
        slots = [paddle.to_tensor(each) for each in ids]
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


def lazy(paddle):
    return lambda model: paddle.optimizer.Adam(0.01, parameters=model.parameters(), lazy_mode=True)
