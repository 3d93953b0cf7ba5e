"""A dynamic program of `paddle.fluid` on two processes of umiak's launcher learns what it learns on one. Real Paddle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support import forked_workers
from tests.support.launching import WORKERS, Stage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.paddle
def test_two_processes_learn_what_one_learns(stage: Stage, tmp_path: Path) -> None:
    environment = {"OMP_NUM_THREADS": "1", "GLOG_v": "0"}
    launcher = stage.launch(
        "--nproc_per_node 2",
        WORKERS / "fluid_parallel.py",
        str(tmp_path),
        env=environment,
        command=forked_workers.LAUNCH,
    )
    assert launcher.wait() == 0, launcher.stderr
    first, second = (json.loads((tmp_path / f"told.{rank}").read_text()) for rank in (0, 1))
    assert [first["ranks"], second["ranks"], second["rank"]] == [2, 2, 1]
    assert first["state"] == second["state"]
    losses, state = first["alone"]
    np.testing.assert_allclose(np.mean([first["losses"], second["losses"]], 0), losses, rtol=1e-4)
    for key, values in state.items():
        np.testing.assert_allclose(first["state"][key], values, rtol=1e-3, atol=1e-5)
