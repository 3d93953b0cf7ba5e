"""The configs of PaddleRec's guide to clusters, as they stand there, trained: in one process, on a cluster's nodes, collectively, through its own command."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.ports import free_port
from testbed.pytest_support import require
from tests.support import PATIENCE_S, eventually
from tests.support.train_helpers import ASYNC_CLUSTER, COLLECTIVE_CLUSTER, PS_CLUSTER, SINGLE
from tests.support.train_runs import Forked, Process, Started
from umiak.ps import checkpoint
from umiak.train.checkpoints.progress import Progress, from_plain

DNN = Path(importlib.util.find_spec("umiak").submodule_search_locations[0]) / "models" / "rank" / "dnn"
UMIAK = [sys.executable, "-m", "umiak.cli.main", "train"]
PADDLEREC = [sys.executable, "-m", "paddlerec.run"]
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
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def saved(directory: Path) -> dict[str, Progress]:
    """The checkpoints that the guide's configs leave."""
    found = {}
    for path in sorted((directory / "increment_dnn").iterdir()):
        progress = from_plain(dict(checkpoint.read(path).metadata))
        assert progress is not None
        found[path.name] = progress
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


def on_nodes(nodes: list[tuple[Path, dict[str, str]]], *words: str, fails: bool = False) -> str:
    """The same command on every node, each with its directory and its variables; what all of them said.

    ``fails``: whether a trainer must; those that wait for it are not waited for.
    """
    started = [
        Started([*PADDLEREC, "-m", "config.yaml", "--run_dir", f"run{number}", *words], directory, environ(**more))
        for number, (directory, more) in enumerate(nodes)
    ]
    return said_by(started, fails=fails)


def on_forked_nodes(nodes: list[tuple[Path, dict[str, str]]], *words: str, fails: bool = False) -> str:
    """The same by processes that have imported Paddle already: for tests of what nodes read and write, not of how they start."""
    started = [
        Forked(directory, ["train", "-m", "config.yaml", "--run_dir", f"run{number}", *words], more)
        for number, (directory, more) in enumerate(nodes)
    ]
    return said_by(started, fails=fails)


def said_by(started: Sequence[Process], *, fails: bool) -> str:
    try:
        if fails:
            eventually(lambda: any(each.status() for each in started))
            for each in started:
                if not each.is_over():
                    each.signal(signal.SIGKILL)
        done = [each.end() for each in started]
    finally:
        for each in started:
            if not each.is_over():
                each.signal(signal.SIGKILL)
    said = "\n".join(each.said for each in done)
    if not fails:
        assert [each.status for each in done] == [0] * len(started), said
    return said


def served(trainers: int, **more: str) -> list[dict[str, str]]:
    """The variables that a platform sets for a parameter server and its trainers, which are on this machine."""
    port = free_port()
    job = {
        "PADDLE_PADDLEREC_ROLE": "WORKER",
        "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port}",
        "PADDLE_TRAINERS_NUM": str(trainers),
        **more,
    }
    server = {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(port)}
    ranks = [{"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(rank)} for rank in range(trainers)]
    return [{**job, **own} for own in (server, *ranks)]


@pytest.mark.parametrize(("text", "epochs"), [(ASYNC_CLUSTER, 4), (PS_CLUSTER, 2)], ids=["async", "default"])
def test_nodes_of_a_cluster_with_parameter_servers(text: str, epochs: int, uploaded: Path) -> None:
    """Every node runs the same command; the platform's variables say which server or trainer it is."""
    (uploaded / "config.yaml").write_text(text)
    on_nodes([(uploaded, node) for node in served(2)])
    *_, last = saved(uploaded).values()
    assert last.trainers_in_all == 2
    assert [row.samples for row in last.history] == [SAMPLES] * epochs, "each sample is read by one trainer"


class TestDataOfItsOwn:
    """An MPI cluster: each node finds its own part of the data in ``./train_data``. The first has two trainers and 50 samples, the second
    one trainer and 21: nobody has the same number of batches.
    """

    SAMPLES = 71

    def made(self, first: Path, second: Path, text: str) -> None:
        for node in (first, second):
            node.mkdir(exist_ok=True)
            shutil.copy(DNN / "model.py", node)
            (node / "config.yaml").write_text(text)
            shutil.rmtree(node / "train_data", ignore_errors=True)
            (node / "train_data").mkdir()
        lines = [(DNN / "data" / "sample_data" / "train" / name).read_text() for name in ("part-0", "part-1")]
        (first / "train_data" / "part").write_text(lines[0])
        (second / "train_data" / "part").write_text("".join(lines[1].splitlines(keepends=True)[:21]))

    def nodes(self, first: Path, second: Path, **more: str) -> list[tuple[Path, dict[str, str]]]:
        return list(zip([first, first, first, second], served(3, **more), strict=True))

    @pytest.mark.parametrize("strategy", ["sync", "async", "half_async", "geo", "hybrid"])
    def test_each_node_reads_its_own_part_whole(self, strategy: str, tmp_path: Path) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        self.made(first, second, PS_CLUSTER)
        said = on_forked_nodes(
            self.nodes(first, second, PADDLEREC_CLUSTER_TYPE="MPI"), "-o", f"runner.distribute_strategy={strategy}"
        )
        assert "note: dataset" not in said
        *_, last = saved(first).values()
        assert [row.samples for row in last.history] == [self.SAMPLES] * 2

    def test_a_word_of_the_config_says_the_same(self, tmp_path: Path) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        self.made(first, second, PS_CLUSTER)
        nodes = self.nodes(first, second, PADDLEREC_CLUSTER_TYPE="K8S")
        said = on_forked_nodes(nodes, fails=True)
        assert "UM-DATA-013" in said
        assert "write `node_data: own`" in said
        on_forked_nodes(self.nodes(first, second, PADDLEREC_CLUSTER_TYPE="K8S"), "-o", "runner.node_data=own")
        *_, last = saved(first).values()
        assert [row.samples for row in last.history] == [self.SAMPLES] * 2

    def test_copies_of_one_directory_are_noticed(self, tmp_path: Path) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        self.made(first, second, PS_CLUSTER)
        shutil.copy(first / "train_data" / "part", second / "train_data" / "part")
        said = on_forked_nodes(self.nodes(first, second, PADDLEREC_CLUSTER_TYPE="MPI"))
        assert "note: dataset dataloader_train: 2 nodes have files of the same names and sizes" in said

    @pytest.mark.parametrize("strategy", ["sync", "async"])
    def test_within_an_epoch_it_goes_on_where_each_node_was(self, strategy: str, tmp_path: Path) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        self.made(first, second, PS_CLUSTER)
        kept = tmp_path / "kept"
        words = ["-o", f"runner.distribute_strategy={strategy}", "-o", "runner.save_step_interval=4"]
        words += ["-o", f"runner.save_step_path={kept}", "-o", f"runner.save_checkpoint_path={tmp_path / 'ends'}"]
        words += ["-o", "runner.keep_checkpoints=100"]
        on_forked_nodes(self.nodes(first, second, PADDLEREC_CLUSTER_TYPE="MPI"), *words)

        def forget_all_but_one() -> None:
            shutil.rmtree(tmp_path / "ends")
            begun = sorted(kept.glob("epoch_0_batch_*"), key=lambda path: int(path.name.rpartition("_")[2]))
            for path in [*begun[1:], *kept.glob("epoch_1_*")]:
                shutil.rmtree(path)

        forget_all_but_one()
        said = on_forked_nodes(self.nodes(first, second, PADDLEREC_CLUSTER_TYPE="MPI"), *words, "--resume")
        assert "resuming from" in said
        found = from_plain(dict(checkpoint.read(tmp_path / "ends" / "1").metadata))
        assert found is not None
        assert [row.samples for row in found.history] == [self.SAMPLES] * 2
        forget_all_but_one()
        (second / "train_data" / "part").rename(second / "train_data" / "other")
        nodes = self.nodes(first, second, PADDLEREC_CLUSTER_TYPE="MPI")
        said = on_forked_nodes(nodes, *words, "--resume", fails=True)
        assert ("UM-DATA-003" if strategy == "sync" else "UM-TRAIN-070") in said


def test_collectively(uploaded: Path) -> None:
    """The guide's config asks for GPUs; here it says cpu instead, and a launcher starts what a platform would."""
    (uploaded / "config.yaml").write_text(COLLECTIVE_CLUSTER)
    launch = [sys.executable, "-m", "umiak.launch", "--nproc_per_node", "2", "-m", "umiak.cli.main", "train"]
    run([*launch, "-m", "config.yaml", "-o", "runner.device=cpu"], uploaded)
    found = saved(uploaded)
    assert list(found) == ["0", "1"]
    assert [(row.samples, found["1"].mode) for row in found["1"].history] == [(SAMPLES, "collective")] * 2


def test_collectively_on_cpu_without_a_word_about_the_backend(uploaded: Path) -> None:
    """What PaddleRec gives its children on a node, and no PADDLE_DISTRI_BACKEND."""
    (uploaded / "config.yaml").write_text(COLLECTIVE_CLUSTER)
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    job = {"PADDLE_PADDLEREC_ROLE": "WORKER", "PADDLE_TRAINERS_NUM": "2"}
    job["PADDLE_TRAINER_ENDPOINTS"] = ",".join(endpoints)
    nodes = [
        (uploaded, {**job, "PADDLE_TRAINER_ID": str(rank), "PADDLE_CURRENT_ENDPOINT": own})
        for rank, own in enumerate(endpoints)
    ]
    on_nodes(nodes, "-o", "runner.device=cpu")
    assert [(row.samples, saved(uploaded)["1"].mode) for row in saved(uploaded)["1"].history] == [
        (SAMPLES, "collective")
    ] * 2


def test_a_cluster_without_a_cluster_is_an_error(uploaded: Path) -> None:
    (uploaded / "config.yaml").write_text(PS_CLUSTER)
    done = subprocess.run(
        [*UMIAK, "-m", "config.yaml"],
        cwd=uploaded,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert "UM-TRAIN-004" in done.stderr
