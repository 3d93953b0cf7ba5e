"""Training on tables with rows that come late and go again, and a lock that all trainers make together: alone, with servers, collectively."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import umiak_native

from testbed.pytest_support import require
from tests.support.train_runs import Work
from umiak.data.hashing import stable_hash
from umiak.ps import export

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle"), pytest.mark.timeout(180)]

MODEL = """\
from umiak.models import Constant, Sgd
from umiak.models import Model as Base


class Model(Base):
    \"\"\"Adds one to the row of each id: what a row holds is how often its id was learned since it is there.\"\"\"

    def __init__(self, hyper, slots, tables):
        super().__init__(hyper, slots, tables)
        self.embedding = tables.embedding(1, init=Constant(0.0), rule=Sgd(learning_rate=1.0))

    def forward(self, inputs):
        return {"row": self.embedding(inputs.ids("city", "user", "item")).flatten(1)}

    def loss(self, results, inputs):
        return -results["row"].sum()
"""
CONFIG = """\
workspace: "./"
mode: [alone]
runner:
- {name: alone, class: online_learning, ONLINE}
- {name: sync, class: online_learning, worker_num: 2, server_num: 2, distribute_strategy: sync, ONLINE}
- {name: async, class: online_learning, worker_num: 1, server_num: 2, distribute_strategy: async, ONLINE}
phase:
- {name: train, model: "{workspace}/model.py", dataset_name: days}
dataset:
- {name: days, data_path: data, batch_size: 8}
hyper_parameters: {optimizer: {class: Adam, learning_rate: 0.02}}
features:
  label: click
  columns:
  - {name: city, kind: id}
  - {name: user, kind: id, admit: {count: 2}, expire: {days: 1}}
  - {name: item, kind: id, expire: {days: 2}}
"""
ONLINE = "start_day: 20260101, end_day: 20260104, split_interval: 1440, checkpoint_per_pass: 1, save_checkpoint_path: out, phases: [train]"
DAYS: dict[str, list[tuple[str, str, str]]] = {
    "20260101": [("rome", "early", "i1")] * 8 + [("rome", "early", "i2")] * 8,
    "20260102": [("oslo", "often", "i2")] * 8,
    "20260103": [("oslo", "often", "i3")] * 16,
    "20260104": [("oslo", "once", "i3")] * 8,
}
"""Batches of eight: two on the first day."""


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def filled(path: Path) -> Work:
    work = Work(path)
    work.config.write_text(CONFIG.replace("ONLINE", ONLINE))
    (path / "model.py").write_text(MODEL)
    for day, rows in DAYS.items():
        (path / "data" / day / "0000").mkdir(parents=True)
        lines = [f"1,{','.join(row)}" for row in rows]
        (path / "data" / day / "0000" / "part.csv").write_text("click,city,user,item\n" + "\n".join(lines) + "\n")
    return work


WAITS = 1


def learned(checkpoint: Path, table: str) -> dict[str, float]:
    """What is in the rows of a table, by their words; ids that wait for their row have none."""
    found = export.contents(str(checkpoint))[table]["rows"]
    return {WORDS[int(key)]: float(np.asarray(row)[0]) for key, (flags, row) in found.items() if not flags & WAITS}


def key_of(name: str, word: str) -> int:
    """The id of a word in an open table."""
    hashed = np.array([stable_hash(word)], np.uint64)
    return int(umiak_native.feature_open(hashed, np.zeros(1, np.bool_), umiak_native.feature_seed(name))[0])


WORDS = {
    key_of(name, word): word
    for rows in DAYS.values()
    for row in rows
    for name, word in zip(("city", "user", "item"), row, strict=True)
}


@pytest.mark.parametrize("runner", ["alone", "async", "sync"])
def test_rows_come_after_some_steps_and_go_after_some_days(tmp_path: Path, runner: str) -> None:
    work = filled(tmp_path)
    done = work.here(runner) if runner == "alone" else work.run_forked(runner)
    assert done.status == 0, done.said
    third, last = (tmp_path / "out" / day / "1" for day in ("20260103", "20260104"))
    assert learned(third, "embedding").keys() == {"rome", "oslo"}, "rows without `admit` and `expire` are as ever"
    assert learned(third, "embedding.user").keys() == {"often"}, "`early` is too old"
    assert learned(third, "embedding.item").keys() == {"i2", "i3"}, "i1 was not used while three days ended"
    assert learned(last, "embedding.user") == {}, "`once` was there in one step"
    assert learned(last, "embedding.item").keys() == {"i3"}
    assert "20260103 is over: " in done.said
    if runner != "sync":  # two trainers take a step together, and each gradient counts by its share
        assert learned(last, "embedding") == {"rome": 16.0, "oslo": 32.0}
        assert learned(third, "embedding.user") == {"often": 16.0}, "its first step is not learned"
        assert learned(third, "embedding.item") == {"i2": 16.0, "i3": 16.0}
