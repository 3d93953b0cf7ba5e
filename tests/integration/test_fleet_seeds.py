"""The same seed gives the same first numbers in plain Paddle, and with one server and two; and so the same losses."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import PATIENCE_S, forked_workers
from tests.support.launching import KEPT_VARIABLES, WORKERS, Stage

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = WORKERS / "fleet_seeded.py"
ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}

pytestmark = [pytest.mark.paddle]


def test_the_same_seed_learns_the_same_with_any_number_of_servers(stage: Stage, tmp_path: Path) -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    plain = {**kept, **ENV}
    command = [sys.executable, str(SCRIPT), str(tmp_path / "plain"), "plain"]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    expected = json.loads((tmp_path / "plain").read_text())
    assert expected[-1] != expected[0]
    for servers in (1, 2):
        flags, out = f"--server_num {servers} --trainer_num 1", tmp_path / f"{servers}"
        launcher = stage.launch(flags, SCRIPT, out, "fleet", env=ENV, command=forked_workers.LAUNCH)
        assert launcher.wait() == 0, stage.transcript()
        np.testing.assert_allclose(json.loads((tmp_path / f"{servers}").read_text()), expected, atol=1e-6)
