"""`umiak train` with ``class: cluster_train`` on two hosts of their own: every node runs the same command, and finds out from its variables who it is."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from testbed.pytest_support import NetworkFactory, require
from tests.support.launching import Stage
from tests.support.train_helpers import COLLECTIVE_CLUSTER
from tests.support.train_runs import EPOCHS, SAMPLES, made

pytestmark = [pytest.mark.paddle, pytest.mark.netns]


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
    assert [launcher.wait() for launcher in launchers] == [0, 0], stage.transcript()
    from umiak.ps import checkpoint
    from umiak.train.checkpoints.progress import from_plain

    found = from_plain(dict(checkpoint.read(shared / "out" / runner / str(EPOCHS - 1)).metadata))
    assert found is not None
    assert found.trainers_in_all == 2
    assert [row.samples for row in found.history] == [SAMPLES] * EPOCHS


def test_a_collective_job_on_paddlecloud(tmp_path: Path, stage: Stage, network: NetworkFactory) -> None:
    """A Kubernetes cluster as PaddleRec 1.8.5 knows it: its guide's config, but on CPUs, and its variables, without a role."""
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    dnn = Path(importlib.util.find_spec("umiak").submodule_search_locations[0]) / "models" / "rank" / "dnn"
    shutil.copy(dnn / "model.py", tmp_path)
    shutil.copytree(dnn / "data" / "sample_data" / "train", tmp_path / "train_data")
    (tmp_path / "config.yaml").write_text(COLLECTIVE_CLUSTER)
    hosts = network(2).hosts
    addresses = [f"10.88.0.{number}" for number in (1, 2)]
    launchers = []
    for rank, host in enumerate(hosts):
        env = {
            "PADDLE_TRAINERS": ",".join(addresses),
            "PADDLE_TRAINER_ID": str(rank),
            "POD_IP": addresses[rank],
            "PADDLE_PORT": "6170",
            "TRAINER_PORTS_NUM": "2",
            "TRAINER_GPU_CARD_COUNT": "0",
            "PADDLE_PADDLEREC_ROLE": "WORKER",
            "PADDLEREC_CLUSTER_TYPE": "K8S",
            "CPU_NUM": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "paddlerec.run", "-m", "config.yaml", "-o", "runner.device=cpu"]
        launchers.append(stage.start([*command, "--run_dir", f"run{rank}"], host=host, env=env, cwd=tmp_path))
    assert [launcher.wait() for launcher in launchers] == [0, 0], stage.transcript()
    from umiak.ps import checkpoint
    from umiak.train.checkpoints.progress import from_plain

    found = from_plain(dict(checkpoint.read(tmp_path / "increment_dnn" / "1").metadata))
    assert found is not None
    assert (found.mode, found.trainers_in_all) == ("collective", 2)
    assert [row.samples for row in found.history] == [100, 100], "data that every node sees is divided"
