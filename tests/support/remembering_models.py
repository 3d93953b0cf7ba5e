"""A generated model in the form of PaddleRec 2 that counts each call of its code and draws from every generator: one call too many, or in another order, changes its losses."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support import dygraph_helpers as models

ROWS = 120

NET = """
    import itertools
    import random

    import numpy as np
    import paddle
    import paddle.nn.functional as F
    from paddle import nn

    SEEN = []
    RECENT = {{"loss": 0.0}}
    chance = random.Random(5)
    numbers = itertools.count()


    def turn(step=[0]):
        step[0] += 1
        return step[0]


    class Scorer(nn.Layer):
        made = 0

        def __init__(self, rows, dim, wide):
            super().__init__()
            Scorer.made += 1
            self.embedding = nn.Embedding(rows, dim, sparse={sparse})
            self.hidden = nn.Linear(3 * dim + 2, wide)
            self.norm = nn.BatchNorm1D(wide)
            self.drop = nn.Dropout(0.3)
            self.top = nn.Linear(wide, 2, bias_attr=False)
            self.calls = 0
            self.rng = np.random.default_rng(9)
            self.cache = {{}}
            self.register_buffer("passes", paddle.zeros([1]))

        def forward(self, ids, numbers_of):
            self.calls += 1
            self.passes += 1
            self.cache.setdefault("first", self.calls)
            rows = [self.embedding(each).reshape([-1, self.embedding._embedding_dim]) for each in ids]
            x = self.drop(self.norm(F.relu(self.hidden(paddle.concat([*rows, numbers_of], axis=1)))))
            SEEN.append(len(SEEN))
            return self.top(x)
"""

MODEL = """
    import random

    import numpy as np
    import paddle
    import paddle.nn.functional as F

    import net

    np.random.seed({seed})
    CALLS = {{"train": 0, "infer": 0, "metrics": 0}}


    class DygraphModel:
        steps = 0

        def __init__(self):
            self.history = []

        def create_model(self, config):
            random.seed({seed} + 1)
            return net.Scorer(config["hyper_parameters.rows"], config["hyper_parameters.dim"], 8)

        def create_optimizer(self, dy_model, config):
            self.schedule = paddle.optimizer.lr.StepDecay(0.05, 4, 0.5)
            return paddle.optimizer.SGD(self.schedule, parameters=dy_model.parameters())

        def create_metrics(self):
            CALLS["metrics"] += 1
            random.random()
            return [paddle.metric.Auc("ROC")], ["auc"]

        def forward(self, dy_model, metrics_list, batch_data, config):
            label, *ids = [paddle.to_tensor(each.numpy().astype("int64").reshape(-1, 1)) for each in batch_data[:-1]]
            numbers = paddle.to_tensor(batch_data[-1].numpy().astype("float32").reshape(-1, 2))
            logits = dy_model.forward(ids, numbers)
            metrics_list[0].update(preds=F.softmax(logits).numpy(), labels=label.numpy())
            return logits, label

        def train_forward(self, dy_model, metrics_list, batch_data, config):
            CALLS["train"] += 1
            DygraphModel.steps += 1
            config["drawn"] = config.get("drawn", 0) + 1
            logits, label = self.forward(dy_model, metrics_list, batch_data, config)
            factor = 1.0 {draws}
            self.schedule.step()
            loss = F.cross_entropy(logits, label).mean() * factor
            self.history.append(float(loss))
            net.RECENT["loss"] = float(loss)
            return loss, metrics_list, {{"loss": loss}}

        def infer_forward(self, dy_model, metrics_list, batch_data, config):
            CALLS["infer"] += 1
            random.random(), np.random.rand(), paddle.rand([3]), net.chance.random(), next(net.numbers), net.turn()
            self.history.append(0.0)
            self.forward(dy_model, metrics_list, batch_data, config)
            return metrics_list, None
"""

GENERATORS = ("random.random()", "float(np.random.rand())", "paddle.rand([1]).item()")
DRAWS = (
    *GENERATORS,
    "net.chance.random()",
    "float(dy_model.rng.random())",
    "0.1 * dy_model.calls",
    "0.1 * next(net.numbers)",
    "0.1 * net.turn()",
    "0.1 * self.steps",
    "0.1 * CALLS['train']",
    "0.1 * CALLS['metrics']",
    "0.1 * CALLS['infer']",
    "0.1 * len(self.history)",
    "0.1 * len(net.SEEN)",
    "0.1 * net.Scorer.made",
    "0.1 * dy_model.cache['first']",
    "net.RECENT['loss']",
    "0.1 * dy_model.passes.item()",
    "0.1 * config['drawn']",
)
"""What a loss may depend on that no argument of `train_forward` says."""


def write(directory: Path, seed: int, *, sparse: bool, among: Sequence[str]) -> None:
    """`net.py` and `dygraph_model.py`; which of all draws a loss depends on, and in what order, is drawn."""
    chosen = random.Random(seed).sample(among, k=len(among) if seed == 0 else min(6, len(among)))
    draws = "".join(f"\\\n                + 0.05 * {each}" for each in chosen)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "net.py").write_text(textwrap.dedent(NET).format(sparse=sparse))
    (directory / "dygraph_model.py").write_text(textwrap.dedent(MODEL.format(seed=seed, draws=draws)))


def story(
    directory: Path,
    seed: int,
    *runner: str,
    samples: int = 192,
    epochs: int = 2,
    sparse: bool = False,
    among: Sequence[str] = DRAWS,
) -> list[list[NDArray[Any]]]:
    """Model, config and data; returns the batches of a plain loop.

    Bits can be compared where Paddle's SGD rounds as tables do. So no id occurs twice in a batch: Paddle moves its row twice, and a table once by the sum. And
    every parameter, and every row, is a multiple of 8 numbers: those behind the last 8 Paddle computes in one rounding instead of two.
    """
    write(directory, seed, sparse=sparse, among=among)
    config = models.write_config(directory, *runner, epochs=epochs)
    config.write_text(config.read_text().replace(f"rows: {models.ROWS}", f"rows: {ROWS}").replace("dim: 4", "dim: 8"))
    chance = np.random.default_rng(seed)
    batches = []
    for _ in range(samples // models.BATCH):
        ids = chance.permutation(ROWS)[: 3 * models.BATCH].reshape(models.BATCH, 3)
        numbers = chance.random((models.BATCH, 2)).round(4).astype(np.float32)
        labels = (ids.sum(axis=1) % 2).astype(np.int64)
        batches.append([labels[:, None], *(column[:, None] for column in ids.T), numbers])
    (directory / "data").mkdir(exist_ok=True)
    lines = [
        f"click:{label} a:{a} b:{b} c:{c} numbers:{x} numbers:{y}\n"
        for labels, *ids, numbers in batches
        for (label,), (a,), (b,), (c,), (x, y) in zip(labels, *ids, numbers, strict=True)
    ]
    (directory / "data" / "part-0").write_text("".join(lines))
    return batches
