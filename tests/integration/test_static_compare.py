"""`umiak train --compare static`: a static program of PaddleRec's form on tables, beside Paddle's own executor."""

from __future__ import annotations

import importlib.util
import json
import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import paddle_forks
from tests.support.paddle_forks import Forks

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

READER = """
    import numpy as np
    from paddle.io import IterableDataset

    class RecDataset(IterableDataset):
        def __init__(self, file_list, config):
            super().__init__()
            self.file_list = file_list

        def __iter__(self):
            for file in self.file_list:
                for line in open(file):
                    label, *ids = [int(each) for each in line.split()]
                    yield [np.array([label]), *[np.array([each]) for each in ids]]
"""
MODEL = """
    import paddle

    class StaticModel:
        def __init__(self, config):
            self.config = config

        def create_feeds(self, is_infer=False):
            names = ["label", "a", "b"]
            return [paddle.static.data(name=each, shape=[None, 1], dtype="int64") for each in names]

        def net(self, inputs, is_infer=False):
            label, *ids = inputs
            attribute = paddle.ParamAttr(name="rows", initializer=paddle.nn.initializer.Uniform(-0.1, 0.1))
            {embedding}
            hidden = paddle.static.nn.fc(paddle.concat(rows, axis=1), 8, activation="relu")
            hidden = paddle.static.nn.batch_norm(hidden)
            hidden = paddle.nn.functional.dropout(hidden, 0.2)
            logit = paddle.static.nn.fc(hidden, 1)
            clicked = paddle.cast(label, "float32")
            self._cost = paddle.mean(paddle.nn.functional.binary_cross_entropy_with_logits(logit, clicked))
            {more}
            return {{"cost": self._cost}}

        def create_optimizer(self, strategy=None):
            optimizer = paddle.optimizer.{optimizer}
            if strategy is not None:
                import paddle.distributed.fleet as fleet
                optimizer = fleet.distributed_optimizer(optimizer, strategy)
            optimizer.minimize(self._cost)
"""
LAYER = "layer = paddle.nn.Embedding(50, 4, sparse=True, padding_idx=7, weight_attr=attribute)\n            rows = [paddle.reshape(layer(each), [-1, 4]) for each in ids]"
SERVED = "rows = [paddle.static.nn.sparse_embedding(each, [50, 4], param_attr=attribute) for each in ids]"
CONFIG = """
    runner:
      train_data_dir: data
      train_batch_size: 8
      train_reader_path: reader
      epochs: 1
      use_gpu: false
      seed: 5
"""
OTHERWISE = "if 'umiak.fleet' in __import__('sys').modules: self._cost = self._cost * 1.5"
Comparing = Callable[..., tuple[int, dict[str, Any], str]]
SERVERS = ("-o", "runner.sync_mode=sync", "-o", "runner.server_num=2", "-o", "runner.worker_num=2")


@pytest.fixture(autouse=True)
def _paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def write(directory: Path, *, embedding: str = LAYER, more: str = "pass", optimizer: str = "SGD(0.1)") -> None:
    text = textwrap.dedent(MODEL).format(embedding=embedding.replace("\n    ", "\n"), more=more, optimizer=optimizer)
    (directory / "static_model.py").write_text(text)
    (directory / "reader.py").write_text(textwrap.dedent(READER))
    (directory / "config.yaml").write_text(textwrap.dedent(CONFIG))
    (directory / "data").mkdir(exist_ok=True)
    draw = np.random.default_rng(4)
    lines = [f"{(a + b) % 2} {a} {b}\n" for a, b in draw.integers(0, 50, (64, 2))]
    (directory / "data" / "part-0").write_text("".join(lines))


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """With programs of the older form, as both sides have them."""
    with paddle_forks.opened(FLAGS_enable_pir_api="0") as opened:
        yield opened


@pytest.fixture
def compared(forks: Forks, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparing:
    """A comparison in a directory, whose processes have imported Paddle before they begin."""

    def run(*words: str) -> tuple[int, dict[str, Any], str]:
        """The exit status, what was printed as JSON, and what was said."""
        command = ["umiak.cli.main", "train", "-m", "config.yaml", "--compare", "static", "--json", *words]
        own = ("PADDLE_", "UMIAK_", "TRAINING_", "FLAGS_")
        environ = {name: each for name, each in os.environ.items() if not name.startswith(own)}
        output = tmp_path_factory.mktemp("output")
        out, err = output / "out", output / "err"
        status = forks.run(
            command, cwd=str(tmp_path), environ={**environ, "TMPDIR": str(tmp_path)}, out=str(out), err=str(err)
        )
        printed = out.read_text()
        return status, json.loads(printed) if printed else {}, err.read_text()

    return run


@pytest.mark.parametrize(
    ("embedding", "optimizer", "words"),
    [(LAYER, "SGD(0.1)", ()), (SERVED, "SGD(0.1)", SERVERS)],
    ids=["alone", "servers"],
)
def test_an_equal_program(
    embedding: str, optimizer: str, words: tuple[str, ...], tmp_path: Path, compared: Comparing
) -> None:
    write(tmp_path, embedding=embedding, optimizer=optimizer)
    status, told, said = compared("--steps", "6", *words)
    assert status == 0, (said, told)
    assert (told["verdict"], told["model"], told["steps"]) == ("equal", "static", 6)
    assert (told["trainers"], told["servers"]) == ((2, 2) if words else (1, 0))
    assert any("row 7 of rows, its padding index" in each for each in told["reasons"]) == (embedding == LAYER)
    moved = {each["name"]: each["moved"] for each in told["parameters"]}
    assert moved["rows"] > 1e-3
    assert len([name for name, way in moved.items() if way > 1e-4]) >= 6, (
        "dense parameters and running statistics as well"
    )


def test_a_model_that_leaves_fleet_out(tmp_path: Path, compared: Comparing) -> None:
    """As PaddleRec's `recall/mind`: alone it trains as ever, with servers each trainer would learn by itself."""
    write(tmp_path)
    path = tmp_path / "static_model.py"
    path.write_text(path.read_text().replace("if strategy is not None", "if False"))
    status, told, said = compared("--steps", "3")
    assert (status, told.get("verdict")) == (0, "equal"), said
    assert any("never gives fleet its optimizer" in each for each in told["remarks"]), told["remarks"]
    status, _, said = compared("--steps", "3", *SERVERS)
    assert status == 1, said
    assert "UM-FLEET-018" in said


def test_what_is_done_otherwise_is_said(tmp_path: Path, compared: Comparing) -> None:
    """Paddle's Momentum goes on moving rows that no sample has any more."""
    write(tmp_path, optimizer="Momentum(0.1)")
    status, told, said = compared("--steps", "4")
    assert status == 4, said
    assert told["verdict"] == "differs"
    assert {each["name"] for each in told["parameters"] if each["first_step"] == told["first_step"]} == {"rows"}
    assert any("Momentum: a row of a table moves when it is used" in each for each in told["remarks"]), told["remarks"]


def test_a_program_that_learns_otherwise(tmp_path: Path, compared: Comparing) -> None:
    write(tmp_path, more=OTHERWISE)
    status, told, said = compared("--steps", "3")
    assert status == 4, said
    assert told["verdict"] == "differs"
    assert told["first_step"] == 1
    assert told["loss"]["first_step"] == 1


def test_bad_requests(tmp_path: Path, compared: Comparing) -> None:
    write(tmp_path)
    status, _, said = compared("-o", "runner.sync_mode=async", "-o", "runner.worker_num=2")
    assert (status, "UM-TRAIN-585" in said) == (2, True)
    (tmp_path / "static_model.py").unlink()
    status, _, said = compared()
    assert (status, "UM-TRAIN-586" in said) == (2, True)
    (tmp_path / "config.yaml").write_text("- 1\n")
    status, _, said = compared()
    assert (status, "UM-CONFIG-003" in said) == (2, True)
