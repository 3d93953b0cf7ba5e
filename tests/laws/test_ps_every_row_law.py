"""A law of plain Paddle models on tables: rows that no batch uses for a long time are then where Paddle has them.

Optimizers, schedules and gaps are generated. A row is used now and then, some rows never; alone, and with one and two servers in sync.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from tests.support.ps_cluster import Cluster
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Sync

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]

ROWS, DIM = 11, 9
SPARSE = {
    "adam": lambda p, rate, many: p.optimizer.Adam(rate(0.005), parameters=many),
    "adam of other betas": lambda p, rate, many: p.optimizer.Adam(rate(0.005), 0.8, 0.9, 1e-3, parameters=many),
    "sgd, l2": lambda p, rate, many: p.optimizer.SGD(rate(0.05), parameters=many, weight_decay=0.02),
    "sgd, l1": lambda p, rate, many: p.optimizer.SGD(
        rate(0.05), parameters=many, weight_decay=p.regularizer.L1Decay(0.001)
    ),
    "adagrad, l2": lambda p, rate, many: p.optimizer.Adagrad(rate(0.05), parameters=many, weight_decay=0.02),
}
"""Also of gradients of some rows."""
DENSE = {
    **SPARSE,
    "adam, l2": lambda p, rate, many: p.optimizer.Adam(rate(0.005), parameters=many, weight_decay=0.01),
    "adamw": lambda p, rate, many: p.optimizer.AdamW(rate(0.005), parameters=many, weight_decay=0.1),
    "momentum": lambda p, rate, many: p.optimizer.Momentum(rate(0.05), 0.9, parameters=many),
    "momentum, l2": lambda p, rate, many: p.optimizer.Momentum(rate(0.05), 0.8, parameters=many, weight_decay=0.01),
    "nesterov": lambda p, rate, many: p.optimizer.Momentum(rate(0.05), 0.9, parameters=many, use_nesterov=True),
    "rmsprop": lambda p, rate, many: p.optimizer.RMSProp(rate(0.005), parameters=many),
    "rmsprop, momentum": lambda p, rate, many: p.optimizer.RMSProp(
        rate(0.005), momentum=0.9, centered=True, parameters=many
    ),
}
SCHEDULES = {
    "": lambda lr, rate: rate,
    "steps": lambda lr, rate: lr.StepDecay(rate, 20, 0.7),
    "warm-up": lambda lr, rate: lr.LinearWarmup(rate, 60, 0.0, rate),
    "each step": lambda lr, rate: lr.CosineAnnealingDecay(rate, 70),
}


@dataclasses.dataclass(frozen=True)
class Story:
    """What is learned, and which rows when: for so many steps, the same few."""

    optimizer: str
    schedule: str
    is_sparse: bool
    parts: tuple[tuple[int, tuple[int, ...]], ...]


parts = st.lists(
    st.tuples(st.sampled_from([1, 1, 2, 30, 120]), st.tuples(st.integers(0, 6), st.integers(3, 8))),
    min_size=2,
    max_size=6,
).map(tuple)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    is_sparse = draw(st.booleans())
    optimizer = draw(st.sampled_from([*(SPARSE if is_sparse else DENSE)]))
    return Story(optimizer, draw(st.sampled_from([*SCHEDULES])), is_sparse, draw(parts))


def learned(paddle: Any, story: Story, job: Session | None) -> list[np.ndarray[Any, Any]]:
    """All rows behind each part; without a job, those of plain Paddle."""
    from umiak.ps import paddle_models as models

    paddle.seed(5)
    model = paddle.nn.Sequential(paddle.nn.Embedding(ROWS, DIM, sparse=story.is_sparse))
    schedules: list[Any] = []

    def rate(number: float) -> Any:
        schedules.append(SCHEDULES[story.schedule](paddle.optimizer.lr, number))
        return schedules[0]

    optimizer = DENSE[story.optimizer](paddle, rate, model.parameters())
    if job is not None:
        choice = models.TableChoice(tables=("0",))
        plan = models.plan_of(model, optimizer, is_shared=bool(job.seat.servers), choice=choice)
        assert plan.tables[0].every_row
        assert not plan.remarks
        optimizer = models.carry_over(model, plan, session=job)
    numbers, found = np.random.default_rng(2), []
    for steps, rows in story.parts:
        for _ in range(steps):
            # The last row is in each batch: without it Paddle's Adam for sparse gradients reads behind their end on CPUs.
            ids = paddle.to_tensor([*rows, ROWS - 1])
            goals = paddle.to_tensor(numbers.normal(size=(len(rows) + 1, DIM)).astype(np.float32))
            ((model(ids) - goals) ** 2).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
            if story.schedule:
                schedules[0].step()
        found.append(model.state_dict()["0.weight"].numpy().copy())
    return found


@pytest.mark.parametrize("servers", [0, 1, 2])
@given(story=stories())
@effort(0.1)
def test_rows_are_where_paddle_has_them_however_long_they_were_not_used(servers: int, story: Story) -> None:
    import paddle

    paddle.set_device("cpu")
    expected = learned(paddle, story, None)
    if servers:
        with Cluster(servers=servers, trainers=1) as cluster, cluster.job("sync") as job:
            ours = learned(paddle, story, job)
    else:
        ours = learned(paddle, story, Session(PsSeat(), Sync(), SessionOptions(shards=4)))
    for part, (own, theirs) in enumerate(zip(ours, expected, strict=True)):
        np.testing.assert_allclose(own, theirs, rtol=1e-5, atol=1e-5, err_msg=f"part {part}: {story}")
