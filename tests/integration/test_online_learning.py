"""Online learning by day and pass: waits, judges, trains, publishes; is killed, stopped and resumed; rows come and go."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support.launching import Launcher, Stage
from umiak.ps import checkpoint, export

pytestmark = pytest.mark.paddle
DAYS = ("20260131", "20260201")
TIMES = ("0000", "0800", "1600")
SPLITS = [f"{day}/{time}" for day in DAYS for time in TIMES]
SLOTS, IDS, SAMPLES = 6, 60, 1500
RARE = 10**6
"""Ids from here on occur on the first day alone, a few times each."""
ENV = {"OMP_NUM_THREADS": "1", "GLOG_v": "0"}

MODEL = """
import paddle
from umiak.models import ClickModel

class Model(ClickModel):
    def __init__(self, hyper, slots, tables):
        super().__init__(hyper, slots, tables)
        self.embedding = tables.embedding(5)
        self.top = paddle.nn.Linear(len(self.features) * 5, 1)

    def logit(self, inputs):
        return self.top(self.embedding(inputs.ids(*self.features)).flatten(1))
"""

CONFIG = """
workspace: "."
mode: online
runner:
- name: online
  class: online_learning
  start_day: 20260131
  end_day: 20260201
  split_interval: 480
  data_donefile: data.done
  data_sleep_second: 1
  checkpoint_per_pass: 2
  save_delta_frequency: 2
  save_first_base: true
  save_checkpoint_path: kept
  save_inference_path: served
  seed: 1
  phases: train
- {name: judge, class: infer, init_model_path: kept, phases: yesterday}
phase:
- {name: train, model: "{workspace}/model.py", dataset_name: d}
- {name: yesterday, model: "{workspace}/model.py", dataset_name: e}
dataset:
- {name: d, data_path: data, batch_size: 64, sparse_slots: "click 1 2 3 4 5 6"}
- {name: e, data_path: data/20260131/*/part-*, batch_size: 512, sparse_slots: "click 1 2 3 4 5 6"}
hyper_parameters:
  optimizer: {class: Adam, learning_rate: 0.01}
"""

COUNTED = """
table_parameters:
  embedding:
    accessor:
      embedx_dim: 4
      embedx_threshold: 1
      ctr_accessor_param: {base_threshold: 8, delta_threshold: 1, delete_threshold: 8}
"""


@pytest.fixture(autouse=True)
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def write_data(root: Path) -> None:
    """Clicks that depend on the ids. Every pass is drawn from the same law, so that more passes make a better model."""
    random = np.random.default_rng(5)
    weights = random.normal(0, 0.8, (SLOTS, IDS))
    for split in SPLITS:
        ids = random.integers(0, IDS, (SAMPLES, SLOTS))
        clicked = random.random(SAMPLES) < 1 / (1 + np.exp(-weights[np.arange(SLOTS), ids].sum(1)))
        names = ids + 1000 * np.arange(1, SLOTS + 1)
        if split.startswith(DAYS[0]):
            names[:20, 0] = RARE + np.arange(20) % 10
        directory = root / "data" / split
        directory.mkdir(parents=True)
        with open(directory / "part-0", "w") as file:
            for click, row in zip(clicked, names, strict=True):
                file.write(
                    " ".join([f"click:{click:d}", *(f"{slot + 1}:{id_}" for slot, id_ in enumerate(row))]) + "\n"
                )
        (directory / "data.done").write_text("this is no sample\n")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "place"
    root.mkdir()
    write_data(root)
    (root / "model.py").write_text(MODEL)
    (root / "config.yaml").write_text(CONFIG + COUNTED)
    return root


def train(stage: Stage, place: Path, *words: str, run_dir: str = "run") -> Launcher:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "umiak.cli.main",
        "train",
        "-m",
        "config.yaml",
        "--run_dir",
        run_dir,
    ]
    return stage.start([*command, *words], cwd=place, env=ENV)


def passes(place: Path, run_dir: str = "run") -> list[dict[str, Any]]:
    lines = (place / run_dir / "online" / "metrics.jsonl").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each["event"] == "pass"]


def published(place: Path, path: str = "served") -> list[tuple[str, int, str]]:
    lines = [json.loads(line) for line in (place / path / "donefile.jsonl").read_text().splitlines()]
    for each in lines:
        checkpoint.read(place / path / each["path"], verify=True)
    return [(each["day"], each["pass"], each["kind"]) for each in lines]


def rows(path: Path) -> dict[int, Any]:
    found: dict[int, Any] = export.contents(path)["embedding"]["rows"]
    return found


def same(one: Path, other: Path) -> None:
    first, second = export.contents(one), export.contents(other)
    assert first["embedding"]["rows"].keys() == second["embedding"]["rows"].keys()
    for key, (flags, numbers) in first["embedding"]["rows"].items():
        assert flags == second["embedding"]["rows"][key][0]
        assert np.array_equal(numbers, second["embedding"]["rows"][key][1])
    assert np.array_equal(first["dense"]["values"], second["dense"]["values"])


EVERYTHING = [
    (DAYS[0], 0, "base"),
    (DAYS[0], 2, "delta"),
    (DAYS[0], 3, "base"),
    (DAYS[0], 3, "batch"),
    (DAYS[1], 1, "delta"),
    (DAYS[1], 3, "base"),
    (DAYS[1], 3, "batch"),
]


def check_learning(told: list[dict[str, Any]]) -> None:
    assert [f"{each['day']}/{TIMES[each['pass'] - 1]}" for each in told] == SPLITS
    assert {each["samples"] for each in told} == {SAMPLES}
    assert told[0]["evaluated"] == {}, "a model that has learned nothing is not judged"
    unseen = [each["evaluated"]["auc"] for each in told[1:]]
    assert unseen[0] < unseen[-1]
    assert unseen[-1] > 0.75


def test_two_days_alone_killed_and_resumed(stage: Stage, place: Path) -> None:
    whole = train(stage, place)
    assert whole.wait() == 0
    check_learning(passes(place))
    assert published(place) == EVERYTHING
    kept = [path.relative_to(place / "kept").as_posix() for path in sorted((place / "kept").glob("*/*"))]
    assert kept == ["20260131/2", "20260201/1", "20260201/3"]

    # Rows that few have seen are gone when their day is over; until then they are there, in a base or a delta they never are.
    rare = {RARE + number for number in range(10)}
    assert rare <= rows(place / "kept" / DAYS[0] / "2").keys()
    assert not rare & rows(place / "served" / DAYS[0] / "delta-2").keys()
    assert not rare & rows(place / "served" / DAYS[0] / "batch").keys()
    assert "20260131 is over: 10 rows are not worth keeping any more" in whole.said
    assert rows(place / "served" / DAYS[0] / "base-0") == {}
    assert len(rows(place / "served" / DAYS[0] / "base")) == SLOTS * IDS

    judged = train(stage, place, "-o", "mode=judge")
    assert judged.wait() == 0
    assert [f"evaluates kept/{each} ({number} of 3)" in judged.said for number, each in enumerate(kept, 1)] == [
        True
    ] * 3

    # The same again, killed while it waits for the fifth pass: the fourth one is saved, and what follows is the same.
    for name in ("kept", "served"):
        (place / name).rename(place / f"whole-{name}")
    done = place / "data" / SPLITS[4] / "data.done"
    done.rename(place / "held")
    killed = train(stage, place, run_dir="killed")
    killed.expect(f"{DAYS[1]} pass 2 waits for {done.relative_to(place)}")
    killed.signal(signal.SIGKILL)
    killed.wait()
    (place / "held").rename(done)
    resumed = train(stage, place, "--resume", run_dir="killed")
    assert resumed.wait() == 0
    assert f"resuming from kept/{DAYS[1]}/1: everything up to {SPLITS[3]}" in resumed.said
    check_learning(passes(place, "killed"))
    assert published(place) == EVERYTHING
    for path in ("20260201/3",):
        same(place / "kept" / path, place / "whole-kept" / path)
    for path in ("20260201/base", "20260201/batch"):
        same(place / "served" / path, place / "whole-served" / path)

    # Nothing is left to do, and a day more is an error that names what is missing, where nobody waits.
    more = train(stage, place, "--resume", "-o", "runner.end_day=20260202", "-o", "runner.data_donefile=")
    assert more.wait() == 2
    assert "20260202 pass 1 has no data: data/20260202/0000 [UM-TRAIN-030]" in more.said


def test_two_trainers_and_two_servers_stopped_and_resumed(stage: Stage, place: Path) -> None:
    several = ["-o", "runner.worker_num=2", "-o", "runner.server_num=2", "-o", "runner.distribute_strategy=async"]
    done = place / "data" / SPLITS[2] / "data.done"
    done.rename(place / "held")
    stopped = train(stage, place, *several)
    stopped.expect(f"{DAYS[0]} pass 3 waits for {done.relative_to(place)}")
    stopped.signal(signal.SIGTERM)
    assert stopped.wait() == 143
    assert json.loads((place / "run" / "online" / "outcome.json").read_text()) == {
        "resumable": True,
        "stopped": True,
        "saved": f"kept/{DAYS[0]}/2",
    }
    (place / "held").rename(done)
    resumed = train(stage, place, *several, "--resume")
    assert resumed.wait() == 0
    check_learning(passes(place))
    assert published(place) == EVERYTHING
    assert "20260131 is over: 10 rows are not worth keeping any more" in resumed.said
    # Every sample was shown once, no matter who trained on it: what was counted on two days, faded at the end of each.
    shows = sum(float(numbers[3]) for _, numbers in rows(place / "kept" / DAYS[1] / "3").values())
    first_day, second_day = (3 * SAMPLES * SLOTS - rare for rare in (60, 0))
    assert shows == pytest.approx((first_day * 0.98 + second_day) * 0.98, rel=1e-4)


def test_resumed_within_a_pass(stage: Stage, place: Path) -> None:
    """What a pass was judged by before it is told at its end, though another process has come to that."""
    (place / "config.yaml").write_text(CONFIG)
    often = {"save_step_path": "kept", "save_step_interval": 15, "keep_checkpoints": 50}
    first = train(stage, place, *[word for key, each in often.items() for word in ("-o", f"runner.{key}={each}")])
    assert first.wait() == 0
    whole = passes(place)
    note = "note: a delta has all rows of embedding: which have changed is known of tables that table_parameters names"
    assert first.said.count(note) == 1
    # As if it had been killed in the fourth pass.
    second_day = place / "kept" / DAYS[1]
    second_day.rename(place / "whole")
    second_day.mkdir()
    (place / "whole" / "1_batch_15").rename(second_day / "1_batch_15")
    resumed = train(stage, place, "--resume", run_dir="again")
    assert resumed.wait() == 0
    assert (
        f"resuming from kept/{DAYS[1]}/1_batch_15: everything up to {SPLITS[2]}, and batch 15 behind it" in resumed.said
    )
    assert [each["evaluated"] for each in passes(place, "again")] == [each["evaluated"] for each in whole[3:]]
    same(second_day / "3", place / "whole" / "3")
