"""`umiak train`'s engine beside a plain Paddle loop: the same seed and batches give the same losses."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.pytest_support import require

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

SLOTS, IDS, DIM, BATCH, STEPS = 5, 6, 4, 64, 40
"""So few ids that each occurs in every batch: then it makes no difference that here only rows learn that occur."""
MODEL = """\
import paddle
from umiak.core.value import value
from umiak.models import ClickModel

class Model(ClickModel):
    @value
    class Hyper:
        dim: int = 4

    def __init__(self, hyper, slots, tables):
        super().__init__(hyper, slots, tables)
        self.embedding = tables.embedding(hyper.dim)
        self.top = paddle.nn.Sequential(
            paddle.nn.Linear(len(self.features) * hyper.dim + slots.dense_width, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 1)
        )

    def logit(self, inputs):
        rows = self.embedding(inputs.ids(*self.features)).flatten(1)
        return self.top(paddle.concat([rows, inputs.dense()], axis=1))
"""


@pytest.fixture(autouse=True)
def _paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def arrays() -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(5)
    ids = draw.integers(0, IDS, (STEPS, BATCH, SLOTS)) + np.arange(SLOTS) * 1000
    dense = draw.random((STEPS, BATCH, 2)).astype(np.float32)
    clicks = (draw.random((STEPS, BATCH)) < 0.4).astype(np.int64)
    return ids, dense, clicks


def with_umiak(directory: Path, rule: str, rate: float) -> tuple[list[float], dict[str, Any], Any]:
    """Losses of the steps, the first parameters by name, and the rows of all ids before the first step."""
    from umiak.ps.environment import PsSeat
    from umiak.ps.options import SessionOptions
    from umiak.ps.sessions import Session
    from umiak.ps.strategies import Sync
    from umiak.train.config.slots import DenseSlot
    from umiak.train.config.values import Learning
    from umiak.train.engines.engine import EngineOptions
    from umiak.train.engines.paddle import PaddleEngine, load_model
    from umiak.train.modeling import Slots
    from umiak.train.reading.batches import Arrays

    (directory / "model.py").write_text(MODEL)
    names = ("click", *(f"s{slot}" for slot in range(SLOTS)))
    slots = Slots(sparse=names, dense=(DenseSlot(name="price", shape=(2,)),))
    job = Session(PsSeat(), Sync(), SessionOptions())
    learning = Learning(rule=rule, settings={"learning_rate": rate})
    engine = PaddleEngine(
        load_model(str(directory / "model.py")),
        slots,
        job=job,
        options=EngineOptions(learning=learning, seed=3),
        hyper_parameters={"dim": DIM},
    )
    first = {name: each.numpy().copy() for name, each in engine.model.named_parameters()}
    everything = np.arange(SLOTS * 1000, dtype=np.int64)
    rows = engine.job.client.pull(engine.embeddings.made[0].number, everything, create=False)
    board, losses = engine.metric_set(), []
    one_each = np.arange(BATCH + 1)
    ids, dense, clicks = arrays()
    for step in range(STEPS):
        sparse = {"click": (clicks[step], one_each)}
        sparse |= {f"s{slot}": (np.ascontiguousarray(ids[step, :, slot]), one_each) for slot in range(SLOTS)}
        losses.append(engine.learn(Arrays(size=BATCH, dense={"price": dense[step]}, sparse=sparse), board, step=step))
    job.abandon()
    return losses, first, rows


def with_paddle_alone(rule: str, rate: float, first: dict[str, Any], rows: Any) -> list[float]:
    import paddle

    # Not sparse: Paddle's Adam for sparse gradients corrects its means as if every step were the next one.
    table = paddle.nn.Embedding(len(rows), DIM)
    table.weight.set_value(rows)
    top = paddle.nn.Sequential(paddle.nn.Linear(SLOTS * DIM + 2, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 1))
    for name, each in top.named_parameters():
        each.set_value(first[f"top.{name}"])
    parameters = [*top.parameters(), *table.parameters()]
    made = {
        "sgd": lambda: paddle.optimizer.SGD(rate, parameters=parameters),
        "adam": lambda: paddle.optimizer.Adam(rate, parameters=parameters),
        "adagrad": lambda: paddle.optimizer.Adagrad(rate, parameters=parameters),
    }
    optimizer, losses = made[rule](), []
    ids, dense, clicks = arrays()
    for step in range(STEPS):
        embedded = table(paddle.to_tensor(ids[step])).flatten(1)
        logit = top(paddle.concat([embedded, paddle.to_tensor(dense[step])], axis=1))
        label = paddle.to_tensor(clicks[step][:, None].astype(np.float32))
        loss = paddle.nn.functional.binary_cross_entropy_with_logits(logit, label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses


@pytest.mark.parametrize(("rule", "rate"), [("sgd", 0.5), ("adam", 0.02), ("adagrad", 0.1)])
def test_the_same_losses_as_a_plain_loop(rule: str, rate: float, tmp_path: Path) -> None:
    losses, first, rows = with_umiak(tmp_path, rule, rate)
    plain = with_paddle_alone(rule, rate, first, rows)
    np.testing.assert_allclose(losses, plain, atol=2e-5)
    assert losses[0] - min(losses) > 0.01, "it has learned something, so that equal means something"
