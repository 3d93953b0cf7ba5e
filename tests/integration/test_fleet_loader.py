"""A script that is fed by `DataLoader.from_generator`, and one that reads what it saved by `DistributedInfer`, on servers."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import forked_workers
from tests.support.launching import WORKERS, Stage

if TYPE_CHECKING:
    from pathlib import Path

ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}

pytestmark = [pytest.mark.paddle]


def test_training_from_a_loader_and_inference_of_what_was_saved(stage: Stage, tmp_path: Path) -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    for flags, mode in (("--server_num 2 --trainer_num 2", "train"), ("--server_num 1 --trainer_num 2", "infer")):
        launcher = stage.launch(
            flags, WORKERS / "fleet_loader.py", tmp_path, mode, env=ENV, command=forked_workers.LAUNCH
        )
        assert launcher.wait() == 0, stage.transcript()
    expected = json.loads((tmp_path / "train.0").read_text())
    assert np.std(expected) > 0.01, "something was learned"
    for rank in range(2):
        np.testing.assert_allclose(json.loads((tmp_path / f"infer.{rank}").read_text()), expected, atol=1e-6)
