"""`fleet.init_server(path)`: trainers begin when all servers hold what is beneath the path, whatever is slow, late or killed; or the job ends."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import forked_workers, launching
from tests.support.launching import WORKERS, Launcher, Stage

SCRIPT = WORKERS / "fleet_beginning.py"
ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}

pytestmark = [pytest.mark.paddle]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that has learned and saved something."""
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    directory = tmp_path_factory.mktemp("saved")
    with launching.opened(tmp_path_factory.mktemp("stage")) as stage:
        launcher = stage.launch(
            "--server_num 2 --trainer_num 2", SCRIPT, directory, env=ENV, command=forked_workers.LAUNCH
        )
        assert launcher.wait() == 0, stage.transcript()
    return directory


def begin(stage: Stage, out: Path, path: Path, *words: str, trainers: int = 2, flags: str = "", **env: str) -> Launcher:
    own = f"--server_num 2 --trainer_num {trainers} {flags}"
    command = launching.LAUNCH if any(word.startswith("--kill") for word in words) else forked_workers.LAUNCH
    return stage.launch(own, SCRIPT, out, "--load", path, *words, env={**ENV, **env}, command=command)


def assert_began(out: Path, saved: Path, trainers: int = 2) -> None:
    learned = json.loads((saved / "learned").read_text())
    for rank in range(trainers):
        np.testing.assert_allclose(json.loads((out / f"trainer.{rank}").read_text()), learned, atol=1e-6)


@pytest.mark.parametrize("words", ["--slow-mark", "--late", "--slow-mark --late"])
def test_everybody_begins_with_what_was_saved(words: str, saved: Path, stage: Stage, tmp_path: Path) -> None:
    launcher = begin(stage, tmp_path, saved / "saved", *words.split())
    assert launcher.wait() == 0, stage.transcript()
    assert_began(tmp_path, saved)


def test_a_lone_trainer_waits_for_what_is_saved(saved: Path, stage: Stage, tmp_path: Path) -> None:
    launcher = begin(stage, tmp_path, saved / "saved", "--slow-mark", trainers=1)
    assert launcher.wait() == 0, stage.transcript()
    assert_began(tmp_path, saved, trainers=1)


def test_a_load_that_fails_ends_the_job_and_everybody_says_why(saved: Path, stage: Stage, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(saved / "saved", damaged)
    shard = max((damaged / "tables").glob("*shard*"), key=lambda file: file.stat().st_size)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(bytes(content))
    launcher = begin(stage, tmp_path, damaged)
    assert launcher.wait() == 1, stage.transcript()
    said = stage.transcript()
    assert "UM-FLEET-060" in said
    assert shard.name in said
    for name in (f"{role}log.{rank}" for role in ("worker", "server") for rank in range(2)):
        log = (stage.directory / "launcher0" / "log" / name).read_text()
        assert shard.name in log, f"{name} does not say why"
    assert not (tmp_path / "trainer.0").exists()
    assert not (tmp_path / "trainer.1").exists()


def test_a_server_killed_while_it_loads_ends_the_job(saved: Path, stage: Stage, tmp_path: Path) -> None:
    launcher = begin(stage, tmp_path, saved / "saved", "--kill-server")
    assert launcher.wait() not in (0, None), stage.transcript()
    assert (tmp_path / "killed").exists()
    assert not (tmp_path / "trainer.1").exists(), "nobody began from nothing"


def test_a_server_that_comes_back_while_it_loads_has_everything(saved: Path, stage: Stage, tmp_path: Path) -> None:
    launcher = begin(stage, tmp_path, saved / "saved", "--kill-server", UMIAK_PS_DURABILITY_MS="5")
    assert launcher.wait() == 0, stage.transcript()
    assert (tmp_path / "killed").exists()
    assert_began(tmp_path, saved)


def test_the_first_trainer_killed_while_servers_load_loads_again(saved: Path, stage: Stage, tmp_path: Path) -> None:
    again = "--trainer_restart alone --max_restart 2"
    launcher = begin(stage, tmp_path, saved / "saved", "--kill-trainer", flags=again)
    assert launcher.wait() == 0, stage.transcript()
    assert (tmp_path / "killed").exists()
    assert_began(tmp_path, saved)
