"""Programs of fluid on several processes, as they were written for 1.8: in collective jobs, on servers in each strategy, through DistributeTranspiler."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from testbed.pytest_support import require
from tests.support import forked_workers, launching
from tests.support.launching import WORKERS, Stage

ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}

pytestmark = [pytest.mark.paddle]


@pytest.fixture(autouse=True)
def _paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def results(stage: Stage, directory: Path, flags: str, program: str, *words: object, **env: str) -> list[Any]:
    """What each of two trainers has written down."""
    kills = any(str(word).startswith("--kill") for word in words)
    command = launching.LAUNCH if kills else forked_workers.LAUNCH
    launcher = stage.launch(flags, WORKERS / program, directory, *words, env={**ENV, **env}, command=command)
    assert launcher.wait() == 0, stage.transcript()
    return [json.loads((directory / f"trainer.{rank}").read_text()) for rank in range(2)]


def test_trainers_that_average_gradients_compute_what_one_process_does(stage: Stage, tmp_path: Path) -> None:
    found = results(stage, tmp_path, "--nproc_per_node 2", "fluid_averaged.py")
    assert [each["workers"] for each in found] == [[0, 2, True, ["a", "b"]], [1, 2, False, ["c"]]]
    assert [each["own"] for each in found] == [[0, 2], [1, 3]], "each has its batches of the same stream"
    assert found[0]["first"] == found[1]["first"], "they begin with the same parameters"
    for each in found:
        assert each["apart"] < 1e-6
        assert each["moved"] > 1e-3
    assert (tmp_path / "saved" / "fc_0.w_0").exists()


def test_sync_is_what_one_process_computes(stage: Stage, tmp_path: Path) -> None:
    found = results(stage, tmp_path, "--server_num 2 --trainer_num 2", "fluid_served.py", "sync")
    assert found[0]["after"] == found[1]["after"] == pytest.approx(found[0]["alone"], abs=1e-5)
    assert found[0]["after"] < 0.5 < found[0]["before"]
    assert found[0]["model"] < 1e-6, "a model for inference has the rows of the servers"
    assert found[0]["holds"] == [], "trainers hold no embeddings"


def test_half_async_learns(stage: Stage, tmp_path: Path) -> None:
    found = results(stage, tmp_path, "--server_num 1 --trainer_num 2", "fluid_served.py", "half_async")
    assert all(each["after"] < 0.5 for each in found)


def test_geo_learns(stage: Stage, tmp_path: Path) -> None:
    found = results(stage, tmp_path, "--server_num 1 --trainer_num 2", "fluid_served.py", "geo")
    assert all(each["after"] < 0.5 for each in found)


def test_async_learns_and_survives_a_killed_server_and_a_killed_trainer(stage: Stage, tmp_path: Path) -> None:
    flags = "--server_num 2 --trainer_num 2 --trainer_restart alone --max_restart 3"
    words = ("async", "--kill-server", "--kill-trainer")
    found = results(stage, tmp_path, flags, "fluid_served.py", *words, UMIAK_PS_DURABILITY_MS="5")
    assert (tmp_path / "server").exists()
    assert (tmp_path / "trainer").exists()
    assert found[0]["after"] == found[1]["after"] < 0.5


def test_a_transpiled_network_is_what_one_process_computes(stage: Stage, tmp_path: Path) -> None:
    """Both trainers have the same batches, since batch_norm looks at one trainer's."""
    found = results(stage, tmp_path, "--server_num 2 --trainer_num 2", "fluid_transpiled.py")
    assert found[0]["losses"] == found[1]["losses"] == pytest.approx(found[0]["alone"], rel=1e-4)
    assert found[0]["losses"][6] < found[0]["losses"][0]
