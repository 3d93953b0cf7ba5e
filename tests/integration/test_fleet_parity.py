"""A static program on 2 servers with 2 trainers reaches what it reaches alone, in each strategy, from files and by Executor.run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from testbed.pytest_support import require
from tests.support import PATIENCE_S, forked_workers
from tests.support.launching import KEPT_VARIABLES, WORKERS, Stage

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = WORKERS / "fleet_auc.py"
FLAGS = "--server_num 2 --trainer_num 2"
ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
WITHIN = 0.002

pytestmark = [pytest.mark.paddle]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What plain Paddle reaches alone, and the files that trainers read."""
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    found = tmp_path_factory.mktemp("parity")
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    # Paddle itself can copy older programs for a test only.
    plain = {**ENV, "FLAGS_enable_pir_api": "0"}
    command = [sys.executable, str(SCRIPT), str(found), "alone"]
    done = subprocess.run(command, env={**kept, **plain}, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return found


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_it_reaches_what_it_reaches_alone(mode: str, stage: Stage, out: Path) -> None:
    alone = json.loads((out / "alone").read_text())
    assert min(alone[half] for half in ("queue", "run")) > 0.99
    launcher = stage.launch(FLAGS, SCRIPT, out, mode, env=ENV, command=forked_workers.LAUNCH)
    assert launcher.wait() == 0, stage.transcript()
    for rank in range(2):
        found = json.loads((out / f"{mode}.{rank}").read_text())
        for half in ("queue", "run"):
            assert found[f"{half} before"] < 0.6, "nobody has learned these ids yet"
            assert found[half] == pytest.approx(alone[half], abs=WITHIN), (mode, rank, half)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_shows_and_clicks_of_all_trainers_are_counted(mode: str, stage: Stage, tmp_path: Path) -> None:
    script = WORKERS / "fleet_counting.py"
    launcher = stage.launch(FLAGS, script, tmp_path, mode, env=ENV, command=forked_workers.LAUNCH)
    assert launcher.wait() == 0, stage.transcript()
    expected = [[5 * 2 * (1 + number % 3), 5] for number in range(20)]
    assert [json.loads((tmp_path / f"{mode}.{rank}").read_text()) for rank in range(2)] == [expected] * 2
