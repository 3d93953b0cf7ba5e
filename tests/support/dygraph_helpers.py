"""Models in the form of PaddleRec 2 for tests, their data, and a plain loop over them as PaddleRec's own trainer has it."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 60
BATCH = 32

NET = """
    import paddle
    import paddle.nn.functional as F
    from paddle import nn


    class Scorer(nn.Layer):
        def __init__(self, rows, dim, wide, sparse):
            super().__init__()
            self.embedding = nn.Embedding(
                rows, dim, sparse=sparse,
                weight_attr=paddle.ParamAttr(initializer=nn.initializer.{init}),
            )
            self.hidden = nn.Linear(3 * dim + 2, wide)
            self.norm = nn.BatchNorm1D(wide)
            self.top = nn.Linear(wide, 2)

        def forward(self, ids, numbers):
            rows = [self.embedding(each).reshape([-1, self.embedding._embedding_dim]) for each in ids]
            x = F.relu(self.hidden(paddle.concat([*rows, numbers], axis=1)))
            return self.top({norm}){more}
"""

MODEL = """
    import paddle
    import paddle.nn.functional as F

    import net


    class DygraphModel:
        def create_model(self, config):
            get = lambda name: config.get(f"hyper_parameters.{{name}}")
            return net.Scorer(get("rows"), get("dim"), get("fc_sizes")[0], get("sparse"))

        def create_feeds(self, batch_data, config):
            label, *ids = [paddle.to_tensor(each.numpy().astype("int64").reshape(-1, 1)) for each in batch_data[:-1]]
            return label, ids, paddle.to_tensor(batch_data[-1].numpy().astype("float32").reshape(-1, 2))

        def create_loss(self, logits, label):
            return F.cross_entropy(logits, label).mean()

        def create_optimizer(self, dy_model, config):
            {optimizer}

        def create_metrics(self):
            return [paddle.metric.Auc("ROC"), paddle.metric.Accuracy()], ["auc", "acc"]

        def forward(self, dy_model, metrics_list, batch_data, config):
            label, ids, numbers = self.create_feeds(batch_data, config)
            logits = dy_model.forward(ids, numbers)
            likely = F.softmax(logits)
            metrics_list[0].update(preds=likely.numpy(), labels=label.numpy())
            metrics_list[1].update(metrics_list[1].compute(likely, label))
            return logits, label

        def train_forward(self, dy_model, metrics_list, batch_data, config):
            logits, label = self.forward(dy_model, metrics_list, batch_data, config)
            loss = self.create_loss(logits, label)
            {stepping}
            return loss, metrics_list, {{"loss": loss, "largest": logits.max()}}

        def infer_forward(self, dy_model, metrics_list, batch_data, config):
            self.forward(dy_model, metrics_list, batch_data, config)
            return metrics_list, None
"""

SGD = "return paddle.optimizer.SGD(config.get('hyper_parameters.optimizer.learning_rate'), parameters=dy_model.parameters())"
ADAM = "return paddle.optimizer.Adam(config.get('hyper_parameters.optimizer.learning_rate'), parameters=dy_model.parameters())"
LAZY = ADAM.replace("parameters=", "lazy_mode=True, parameters=")
CLIPPED = """self.schedule = paddle.optimizer.lr.ExponentialDecay(0.01, 0.98)
            return paddle.optimizer.Adam(
                self.schedule, parameters=dy_model.parameters(), lazy_mode=True,
                grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5),
            )"""
TIED = " + 0.1 * paddle.matmul(numbers[:, :1] * rows[0], self.embedding.weight[:2], transpose_y=True)"

CONFIG = """
    runner:
      train_data_dir: "data"
      train_batch_size: {batch}
      model: dygraph_model.py
      sparse_slots: "click a b c"
      dense_slots: "numbers:2"
      epochs: {epochs}
      print_interval: 5
      model_save_path: "saved"
      test_data_dir: "data"
      infer_batch_size: {batch}
      infer_load_path: "saved"
      infer_start_epoch: 0
      infer_end_epoch: {epochs}
      {more}

    hyper_parameters:
      optimizer:
        class: {rule}
        learning_rate: 0.01
      rows: {rows}
      dim: 4
      fc_sizes: [8]
      sparse: true
"""


def write_model(
    directory: Path,
    *,
    optimizer: str = LAZY,
    init: str = "Uniform(-0.1, 0.1)",
    more: str = "",
    stepping: str = "",
    norm: str = "self.norm(x)",
) -> Path:
    """`net.py` and `dygraph_model.py`; returns the latter."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "net.py").write_text(textwrap.dedent(NET).format(init=init, more=more, norm=norm))
    text = textwrap.dedent(MODEL).format(optimizer=optimizer.replace("\n    ", "\n"), stepping=stepping or "pass")
    (directory / "dygraph_model.py").write_text(text)
    return directory / "dygraph_model.py"


def write_config(directory: Path, *runner: str, epochs: int = 2, rule: str = "Adam", batch: int = BATCH) -> Path:
    """A config of the newer layout beside the model; ``runner``: more lines of that section."""
    more = "\n  ".join(["seed: 11", *runner])
    text = textwrap.dedent(CONFIG).format(epochs=epochs, batch=batch, rows=ROWS, rule=rule, more=more)
    (directory / "config.yaml").write_text(text)
    return directory / "config.yaml"


def write_data(
    directory: Path, samples: int = 640, files: int = 2, seed: int = 3, noise: float = 0.3
) -> list[list[NDArray[Any]]]:
    """Lines whose label follows from their ids; returns the batches that a plain loop reads."""
    random = np.random.default_rng(seed)
    ids = random.integers(0, ROWS, (samples, 3))
    numbers = random.random((samples, 2)).round(4).astype(np.float32)
    taste = np.sin(np.arange(ROWS))
    labels = (taste[ids].sum(axis=1) + numbers[:, 0] + random.normal(0, noise, samples) > 0.5).astype(np.int64)
    directory.mkdir(parents=True, exist_ok=True)
    lines = [
        f"click:{label} a:{a} b:{b} c:{c} numbers:{x} numbers:{y}\n"
        for label, (a, b, c), (x, y) in zip(labels, ids, numbers, strict=True)
    ]
    size = -(-samples // files)
    for number in range(files):
        (directory / f"part-{number}").write_text("".join(lines[number * size : (number + 1) * size]))
    columns = [labels, *ids.T]
    return [
        [*(column[at : at + BATCH, None] for column in columns), numbers[at : at + BATCH]]
        for at in range(0, samples, BATCH)
    ]


def plain_losses(
    file: Path, batches: list[list[NDArray[Any]]], *, epochs: int, seed: int = 11, state: dict[str, Any] | None = None
) -> tuple[list[float], list[float]]:
    """What PaddleRec's own trainer does: the loss of every batch, and the AUC of every epoch. ``state`` gets the weights at the end."""
    import paddle

    with _imported(file) as (module, config):
        paddle.seed(seed)
        user = module.DygraphModel()
        model = user.create_model(config)
        optimizer = user.create_optimizer(model, config)
        losses, aucs = [], []
        for _ in range(epochs):
            model.train()
            metrics, _ = user.create_metrics()
            for batch in batches:
                optimizer.clear_grad()
                tensors = [paddle.to_tensor(each) for each in batch]
                loss, metrics, _ = user.train_forward(model, metrics, tensors, config)
                loss.backward()
                optimizer.step()
                losses.append(float(loss.mean()))
            aucs.append(float(metrics[0].accumulate()))
        if state is not None:
            state.update({name: each.numpy() for name, each in model.state_dict().items()})
    return losses, aucs


class _imported:  # noqa: N801 - used like a function
    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> tuple[Any, dict[str, Any]]:
        import importlib

        import yaml

        sys.path.insert(0, str(self.file.parent))
        for name in ("net", "dygraph_model"):
            sys.modules.pop(name, None)
        said = yaml.safe_load((self.file.parent / "config.yaml").read_text())
        return importlib.import_module("dygraph_model"), dict(_flat(said))

    def __exit__(self, *_: object) -> None:
        sys.path.remove(str(self.file.parent))
        for name in ("net", "dygraph_model"):
            sys.modules.pop(name, None)


def _flat(section: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, each in section.items():
        if isinstance(each, dict):
            yield from _flat(each, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", each


def story(
    directory: Path, *runner: str, samples: int = 640, epochs: int = 2, noise: float = 0.3, **model: str
) -> list[list[NDArray[Any]]]:
    """A whole directory: model, config and data."""
    write_model(directory, **model)
    write_config(directory, *runner, epochs=epochs)
    os.makedirs(directory / "data", exist_ok=True)
    return write_data(directory / "data", samples, noise=noise)
