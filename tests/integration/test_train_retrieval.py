"""Retrieval on tables from end to end: negatives are drawn, and Recall@k over the catalogue is the same for one trainer and for two."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from testbed.pytest_support import require
from tests.support.train_runs import Work

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle"), pytest.mark.timeout(180)]

USERS, ITEMS, ROWS = 40, 30, 1500

CONFIG = """\
runner: {model: recall.ncf, train_data_dir: data, train_batch_size: 50, infer_batch_size: 64, epochs: 6, seed: 1, evaluate_data_dir: data, test_data_dir: data,
  model_save_path: "{workspace}/out", infer_load_path: "{workspace}/out", sync_mode: sync, worker_num: 2, server_num: 1}
mode: [train]
hyper_parameters: {latent_dim: 8, fc_layers: [8, 4], optimizer: {class: Adam, learning_rate: 0.05}}
features:
  label: click
  group: user
  columns:
  - {name: user, kind: id}
  - {name: item, kind: id}
retrieval: {items: items.parquet, features: [item], weight: views, negatives: KIND, loss: LOSS, count: 5, recall: [5, 30]}
"""


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Users of three tastes choose the items of theirs; there is nothing but what they chose."""
    draw = np.random.default_rng(2)
    users = draw.integers(0, USERS, ROWS)
    items = draw.integers(0, ITEMS // 3, ROWS) * 3 + users % 3
    made = Work(tmp_path)
    (tmp_path / "data").mkdir()
    table = {"click": [1] * ROWS, "user": [f"u{each}" for each in users], "item": [f"i{each}" for each in items]}
    parquet.write_table(pa.table(table), tmp_path / "data" / "log.parquet", row_group_size=100)
    names = [f"i{each}" for each in range(ITEMS)]
    views = np.bincount(items, minlength=ITEMS) + 1
    parquet.write_table(pa.table({"item": names, "views": views}), tmp_path / "items.parquet")
    return made


@pytest.mark.parametrize(("kind", "loss"), [("uniform", "log_loss"), ("in_batch", "softmax")])
def test_what_was_chosen_is_found_among_all_items(work: Work, kind: str, loss: str) -> None:
    work.config.write_text(CONFIG.replace("KIND", kind).replace("LOSS", loss))
    done = work.run_forked("train")
    assert done.status == 0, done.said
    evaluated = work.epochs("train")[-1]["evaluated"]
    assert evaluated["recall@30"] == 1.0
    assert evaluated["recall.unknown_items"] == 0
    assert evaluated["recall@5"] > 1.5 * 5 / ITEMS, (
        "a third of the items is a user's taste, so it may be three times that"
    )
    done = work.here("infer")
    assert done.status == 0, done.said
    alone = work.metrics("infer")[-1]["evaluated"]
    assert {name: alone[name] for name in alone if name.startswith("recall")} == {
        name: evaluated[name] for name in evaluated if name.startswith("recall")
    }
