"""`umiak train` with ``class: cluster_train`` on two hosts of their own: every node runs the same command, and finds out from its variables who it is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from testbed.pytest_support import NetworkFactory, require
from tests.integration.launching import Stage
from tests.train_runs import EPOCHS, SAMPLES, made

pytestmark = [pytest.mark.paddle, pytest.mark.netns, pytest.mark.timeout(180)]
WITHIN_S = 150


@pytest.mark.parametrize("runner", ["sync", "async", "collective"])
def test_two_nodes_train_together(runner: str, tmp_path: Path, stage: Stage, network: NetworkFactory) -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    shared = made(tmp_path).path  # hosts have a /dev/shm of their own
    words = ["-m", "config.yaml", "-o", f"mode={runner}", "-o", f"runner.{runner}.class=cluster_train"]
    words += ["-o", f"runner.{runner}.worker_num=1"]
    words += [] if runner == "collective" else ["-o", f"runner.{runner}.server_num=1"]
    launchers = []
    for rank, host in enumerate(network(2).hosts):
        env = {
            "UMIAK_NNODES": "2",
            "UMIAK_NODE_RANK": str(rank),
            "UMIAK_MASTER": "10.88.0.1:7000",
            "UMIAK_TOKEN": "known to both of us",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "umiak.cli.main", "train", *words, "--run_dir", f"run{rank}"]
        launchers.append(stage.start(command, host=host, env=env, cwd=shared))
    assert [launcher.wait(within_s=WITHIN_S) for launcher in launchers] == [0, 0], stage.transcript()
    from umiak.ps import checkpoint
    from umiak.train.milestones import from_plain

    found = from_plain(dict(checkpoint.read(shared / "out" / runner / str(EPOCHS - 1)).metadata))
    assert found is not None
    assert found.trainers_in_all == 2
    assert [row.samples for row in found.history] == [SAMPLES] * EPOCHS
