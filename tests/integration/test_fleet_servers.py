"""Unchanged scripts that call fleet, on our servers: 2 servers and 2 trainers in each strategy, saving, loading, kills."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import forked_workers, launching, plain_inference
from tests.support.launching import WORKERS, Launcher, Stage

SCRIPT = WORKERS / "fleet_training.py"
FLAGS = "--server_num 2 --trainer_num 2"
ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
STEPS, BATCH = 40, 64

pytestmark = [pytest.mark.paddle]


@pytest.fixture(autouse=True)
def _paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def results(directory: Path) -> list[dict[str, Any]]:
    return [json.loads((directory / f"trainer.{rank}").read_text()) for rank in range(2)]


def train(stage: Stage, directory: Path, *words: object, flags: str = FLAGS, **env: str) -> Launcher:
    directory.mkdir(exist_ok=True)
    kills = any(str(word).startswith("--kill") for word in words)
    command = launching.LAUNCH if kills else forked_workers.LAUNCH
    return stage.launch(flags, SCRIPT, directory, *words, env={**ENV, **env}, command=command)


def test_every_strategy_learns_and_a_save_is_what_the_next_job_begins_with(stage: Stage, tmp_path: Path) -> None:
    first = train(stage, tmp_path / "sync", "sync")
    assert first.wait() == 0, stage.transcript()
    sync = results(tmp_path / "sync")
    assert sync[0]["before"] == pytest.approx(0.693, abs=0.02)
    assert sync[0]["after"] == sync[1]["after"] < 0.5, "in sync all trainers see the same"
    assert sync[0]["after"] == pytest.approx(sync[0]["alone"], abs=1e-5), "and it is what plain Paddle computes"
    assert sync[0]["ranks"] == [0, 1]
    assert sync[0]["servers"] == 2
    assert [each["counted"] for each in sync] == [2 * (STEPS + 2) * BATCH - 2 * BATCH] * 2

    second = train(stage, tmp_path / "async", "async", "--load", tmp_path / "sync" / "saved")
    assert second.wait() == 0, stage.transcript()
    found = results(tmp_path / "async")
    assert min(each["before"] for each in found) <= sync[0]["after"] + 1e-6, "it begins with what was saved"
    assert found[0]["after"] < 0.5
    assert found[0]["after"] == found[1]["after"], "behind a barrier all trainers have what all have learned"
    assert found[0]["saved"] == pytest.approx(found[0]["after"], abs=1e-4), "and so has the model for inference"
    assert {each.name for each in (tmp_path / "async" / "model").iterdir()} >= {"model.pdmodel", "model.pdiparams"}
    prefixes = [str(tmp_path / run / part / "model") for run in ("sync", "async") for part in ("model", "static")]
    given = {prefix: dict(np.load(Path(prefix).parents[1] / "expected.npz")) for prefix in prefixes}
    for prefix, told in plain_inference.predictions(given).items():
        for way in plain_inference.WAYS:
            np.testing.assert_allclose(told[way][0], given[prefix]["predict"], atol=1e-6, err_msg=f"{prefix}, {way}")


def test_geo_learns(stage: Stage, tmp_path: Path) -> None:
    launcher = train(stage, tmp_path, "geo")
    assert launcher.wait() == 0, stage.transcript()
    found = results(tmp_path)
    assert all(each["after"] < 0.5 for each in found)
    assert found[0]["saved"] == pytest.approx(found[0]["after"], abs=1e-4), "the model for inference is this trainer's"


def test_a_killed_server_comes_back_with_everything(stage: Stage, tmp_path: Path) -> None:
    launcher = train(stage, tmp_path, "async", "--kill-server", UMIAK_PS_DURABILITY_MS="5")
    assert launcher.wait() == 0, stage.transcript()
    assert (tmp_path / "killed").exists()
    assert all(each["after"] < 0.5 for each in results(tmp_path))


def test_a_killed_trainer_comes_back(stage: Stage, tmp_path: Path) -> None:
    launcher = train(
        stage, tmp_path, "async", "--kill-trainer", flags=f"{FLAGS} --trainer_restart alone --max_restart 2"
    )
    assert launcher.wait() == 0, stage.transcript()
    assert (tmp_path / "killed").exists()
    assert all(each["after"] < 0.5 for each in results(tmp_path))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_trainers_that_wait_for_each_other_are_told_what_fleet_has(mode: str, stage: Stage) -> None:
    launcher = stage.launch(FLAGS, WORKERS / "fleet_deadlock.py", mode, env=ENV, command=forked_workers.LAUNCH)
    assert launcher.wait() == 1, stage.transcript()
    said = stage.transcript()
    assert "trainers wait for each other" in said
    assert "fleet.stop_worker()" in said
    assert "finish_steps" not in said
