"""The configs of PaddleRec's guide to clusters, as they stand there, trained: in one process, on a cluster's nodes, collectively, through its own command."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.pytest_support import require
from tests.integration.launching import free_port
from tests.train_helpers import ASYNC_CLUSTER, COLLECTIVE_CLUSTER, PS_CLUSTER, SINGLE
from umiak.ps import checkpoint
from umiak.train.milestones import Milestone, from_plain

DNN = Path(importlib.util.find_spec("umiak").submodule_search_locations[0]) / "models" / "rank" / "dnn"
UMIAK = [sys.executable, "-m", "umiak.cli.main", "train"]
PADDLEREC = [sys.executable, "-m", "paddlerec.run"]
WITHIN_S = 110
SAMPLES = 100

pytestmark = pytest.mark.paddle


@pytest.fixture(autouse=True)
def _paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def environ(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore", **more}


@pytest.fixture
def uploaded(tmp_path: Path) -> Path:
    """A node's working directory: the model beside the config, the data where the guide says that it is put."""
    shutil.copy(DNN / "model.py", tmp_path)
    shutil.copytree(DNN / "data" / "sample_data" / "train", tmp_path / "train_data")
    return tmp_path


def run(command: list[str], directory: Path, **more: str) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env=environ(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def saved(directory: Path) -> dict[str, Milestone]:
    """The checkpoints that the guide's configs leave."""
    found = {}
    for path in sorted((directory / "increment_dnn").iterdir()):
        milestone = from_plain(dict(checkpoint.read(path).metadata))
        assert milestone is not None
        found[path.name] = milestone
    return found


@pytest.mark.parametrize("command", [UMIAK, PADDLEREC], ids=["umiak", "paddlerec"])
def test_one_process(command: list[str], tmp_path: Path) -> None:
    """Its workspace is a model of the library, and its data comes with that."""
    (tmp_path / "config.yaml").write_text(SINGLE)
    said = run([*command, "-m", "config.yaml"], tmp_path)
    assert "epoch 4/4 done" in said
    found = saved(tmp_path)
    assert list(found) == ["1", "3"], "every second epoch"
    assert [row.samples for row in found["3"].history] == [SAMPLES] * 4


@pytest.mark.parametrize(("text", "epochs"), [(ASYNC_CLUSTER, 4), (PS_CLUSTER, 2)], ids=["async", "default"])
def test_nodes_of_a_cluster_with_parameter_servers(text: str, epochs: int, uploaded: Path) -> None:
    """Every node runs the same command; the platform's variables say which server or trainer it is."""
    (uploaded / "config.yaml").write_text(text)
    port = free_port()
    job = {
        "PADDLE_PADDLEREC_ROLE": "WORKER",
        "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port}",
        "PADDLE_TRAINERS_NUM": "2",
    }
    server = {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(port)}
    nodes = [server, *({"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(rank)} for rank in range(2))]
    started = [
        subprocess.Popen(
            [*PADDLEREC, "-m", "config.yaml", "--run_dir", f"run{number}"],
            cwd=uploaded,
            env=environ(**job, **node),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, node in enumerate(nodes)
    ]
    try:
        said = [each.communicate(timeout=WITHIN_S)[0] for each in started]
    finally:
        for each in started:
            each.kill()
    assert [each.returncode for each in started] == [0, 0, 0], "\n".join(said)
    *_, last = saved(uploaded).values()
    assert last.trainers_in_all == 2
    assert [row.samples for row in last.history] == [SAMPLES] * epochs, "each sample is read by one trainer"


def test_collectively(uploaded: Path) -> None:
    """The guide's config asks for GPUs; here it says cpu instead, and a launcher starts what a platform would."""
    (uploaded / "config.yaml").write_text(COLLECTIVE_CLUSTER)
    launch = [sys.executable, "-m", "umiak.launch", "--nproc_per_node", "2", "-m", "umiak.cli.main", "train"]
    run([*launch, "-m", "config.yaml", "-o", "runner.device=cpu"], uploaded)
    found = saved(uploaded)
    assert list(found) == ["0", "1"]
    assert [(row.samples, found["1"].mode) for row in found["1"].history] == [(SAMPLES, "collective")] * 2


def test_a_cluster_without_a_cluster_is_an_error(uploaded: Path) -> None:
    (uploaded / "config.yaml").write_text(PS_CLUSTER)
    done = subprocess.run(
        [*UMIAK, "-m", "config.yaml"],
        cwd=uploaded,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 2
    assert "UM-TRAIN-004" in done.stderr
