"""The programs of Paddle's guides, as examples 04 to 07 have them, through `umiak launch` with the guides' flags."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from testbed.ports import free_port
from testbed.pytest_support import require
from tests.support import forked_workers
from tests.support.launching import Launcher, Stage
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
MLP, DIGITS, WIDE_AND_DEEP, RESNET = (
    EXAMPLES / name / "train.py" for name in ("04-collective-mlp", "05-digits", "06-wide-and-deep", "07-resnet")
)
ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
QUICK_MLP = ("--epochs", "1", "--samples", "3201")
IMAGES = 1437
EPOCH = re.compile(r"epoch (\d+)/(\d+)  loss (\d+\.\d+)  (?:accuracy|auc) (\d+\.\d+)(?: of (\d+\.\d+))?$", re.MULTILINE)
READ = re.compile(r"(?:worker|trainer) (\d+) of (\d+): read (\d+) of (\d+) (?:samples|images)$", re.MULTILINE)

pytestmark = pytest.mark.paddle


@pytest.fixture(autouse=True)
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def epochs(launcher: Launcher) -> list[tuple[float, float]]:
    """Loss, and accuracy or AUC, of each epoch; told by one worker."""
    told = EPOCH.findall(launcher.stdout)
    assert [int(each[0]) for each in told] == list(range(1, int(told[0][1]) + 1)), launcher.said
    return [(float(each[2]), float(each[3])) for each in told]


def check_shares(launchers: list[Launcher], *, world: int, in_all: int) -> None:
    """Every worker took part with about as many samples as the others, and together they read each exactly as often."""
    told = sorted(tuple(map(int, each)) for launcher in launchers for each in READ.findall(launcher.stdout))
    assert [rank for rank, *_ in told] == list(range(world))
    assert {(others, total) for _, others, _, total in told} == {(world, in_all)}
    assert sum(read for _, _, read, _ in told) == in_all
    assert all(read == pytest.approx(in_all / world, rel=0.05) for _, _, read, _ in told)


# ---- collective


def test_two_workers_train_the_same_mlp_as_one_and_save_it(stage: Stage, tmp_path: Path) -> None:
    """Batches of three are no halves: where parts are not of one size, their gradients must not count the same."""
    found = []
    for world in (1, 2):
        saved = tmp_path / f"{world}.pdparams"
        few = ("--epochs", "1", "--samples", "601", "--batch", "3", "--learning_rate", "0.01", "--save", saved)
        launcher = stage.launch(
            f"--nproc_per_node {world} --tee all", MLP, *few, env=ENV, command=forked_workers.LAUNCH
        )
        assert launcher.wait() == 0, stage.transcript()
        assert f"worker {world - 1} of {world}: read" in launcher.stdout
        assert saved.stat().st_size > 4 * (32 * 1280 + 1280 * 1280)
        found += epochs(launcher)
    (alone_loss, alone_accuracy), (loss, accuracy) = found
    assert alone_accuracy > 0.9
    assert loss == pytest.approx(alone_loss, abs=0.0003)
    assert accuracy == pytest.approx(alone_accuracy, abs=0.002)


def test_the_mlp_on_two_nodes(stage: Stage) -> None:
    """The guides' command, with another module's name: one process on each of two nodes that meet at `--master`."""
    guides = f"python -m paddle.distributed.launch --master 127.0.0.1:{free_port()} --nnodes=2"
    words = guides.replace("paddle.distributed.launch", "umiak.launch").split()
    command = [sys.executable, *words[1:], str(MLP), *QUICK_MLP]
    launchers = [stage.start(command, env=ENV | {"UMIAK_TOKEN": "known to both of us"}) for _ in range(2)]
    assert [launcher.wait() for launcher in launchers] == [0, 0], stage.transcript()
    check_shares(launchers, world=2, in_all=3201)
    (first,) = [launcher for launcher in launchers if EPOCH.search(launcher.stdout)]
    assert epochs(first)[-1][1] > 0.9


@pytest.mark.parametrize("flag", ["--devices 0,1", "--selected_gpus=0,1"])
def test_a_worker_for_each_device(stage: Stage, flag: str) -> None:
    """The node says that it has two GPUs. Paddle for the CPU does not look for them; it only must not ask for NCCL."""
    env = ENV | {"CUDA_VISIBLE_DEVICES": "0,1"}
    launcher = stage.launch(f"{flag} --backend gloo --tee all", MLP, *QUICK_MLP, env=env)
    assert launcher.wait() == 0, stage.transcript()
    check_shares([launcher], world=2, in_all=3201)
    assert epochs(launcher)[-1][1] > 0.9


def test_the_digits_are_learned(stage: Stage) -> None:
    launcher = stage.launch(
        "--nproc_per_node 2 --tee all",
        DIGITS,
        "--epochs",
        "5",
        "--at_least",
        "0.95",
        env=ENV,
        command=forked_workers.LAUNCH,
    )
    assert launcher.wait() == 0, stage.transcript()
    check_shares([launcher], world=2, in_all=5 * IMAGES)
    told = epochs(launcher)
    assert told[-1][1] >= 0.95
    assert told[-1][0] < 0.1 < told[0][0]


def test_the_resnet_in_the_pods_of_a_paddlejob(stage: Stage) -> None:
    """`python -m paddle.distributed.launch train.py` in two pods, which the operator's variables tell who they are."""
    hosts, port = ("127.0.0.1", "127.0.0.2"), free_port()
    job = ENV | {
        "UMIAK_TOKEN": "known to both of us",
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINING_ROLE": "TRAINER",
        "TRAINER_PORTS_NUM": "20",
        "PADDLE_PORT": str(port),
        "PADDLE_TRAINERS": ",".join(hosts),
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ENDPOINTS": ",".join(f"{host}:{port}" for host in hosts),
    }
    pods = [
        stage.launch(
            "",
            RESNET,
            "--epochs",
            "3",
            env=job | {"POD_IP": host, "PADDLE_TRAINER_ID": str(number)},
            command=forked_workers.LAUNCH,
        )
        for number, host in enumerate(hosts)
    ]
    assert [pod.wait() for pod in pods] == [0, 0], stage.transcript()
    assert "platform: paddlejob, node 1 of 2" in pods[1].stderr
    check_shares(pods, world=2, in_all=3 * IMAGES)
    assert epochs(pods[0])[-1][1] > 0.9


def test_the_resnet_in_two_processes(stage: Stage) -> None:
    launcher = stage.launch(
        "--nproc_per_node 2 --tee all", RESNET, "--epochs", "3", env=ENV, command=forked_workers.LAUNCH
    )
    assert launcher.wait() == 0, stage.transcript()
    check_shares([launcher], world=2, in_all=3 * IMAGES)
    assert epochs(launcher)[-1][1] > 0.9


@pytest.mark.parametrize("program", [MLP, DIGITS, RESNET])
def test_too_little_accuracy_is_a_failure(stage: Stage, program: Path) -> None:
    launcher = stage.launch(
        "--nproc_per_node 2", program, "--epochs", "1", "--at_least", "1.01", env=ENV, command=forked_workers.LAUNCH
    )
    assert launcher.wait() == 1
    assert "is below 1.01" in launcher.stderr


# ---- parameter servers


def auc_and_best(launcher: Launcher) -> tuple[float, float]:
    reached, best = EPOCH.findall(launcher.stdout)[-1][3:]
    return float(reached), float(best)


def test_wide_and_deep_is_better_than_either_part(stage: Stage) -> None:
    """Both on two nodes with a server and a trainer each; the parts on one."""
    env = ENV | {"UMIAK_TOKEN": "known to both of us"}
    port, reached = free_port(), {}
    for parts in ("both", "wide", "deep"):
        flags, nodes = "--server_num 2 --trainer_num 2 --tee all", 1
        if parts == "both":
            flags, nodes = f"--nnodes 2 --master 127.0.0.1:{port} --server_num 1 --trainer_num 1 --tee all", 2
        launchers = [
            stage.launch(
                flags, WIDE_AND_DEEP, "--epochs", "2", "--parts", parts, env=env, command=forked_workers.LAUNCH
            )
            for _ in range(nodes)
        ]
        assert [launcher.wait() for launcher in launchers] == [0] * nodes, stage.transcript()
        check_shares(launchers, world=2, in_all=200_000)
        (first,) = [launcher for launcher in launchers if EPOCH.search(launcher.stdout)]
        reached[parts], best = auc_and_best(first)
    assert best - 0.05 < reached["both"] < best
    assert 0.7 < reached["wide"] < reached["both"] - 0.02
    assert 0.7 < reached["deep"] < reached["both"] - 0.02


def test_too_little_auc_is_a_failure(stage: Stage) -> None:
    flags = "--server_num 2 --trainer_num 2"
    launcher = stage.launch(
        flags, WIDE_AND_DEEP, "--epochs", "1", "--at_least", "0.99", env=ENV, command=forked_workers.LAUNCH
    )
    assert launcher.wait() == 1
    assert "is below 0.99" in launcher.stderr


# ---- the digits


def digits_module() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("digits_of_the_example", DIGITS.with_name("digits.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("strangers", [False, True])
def test_no_digit_is_in_both_parts_and_none_is_missing(strangers: bool) -> None:
    (images, labels), (test_images, test_labels) = digits_module().load(strangers=strangers)
    assert images.shape == (IMAGES, 1, 8, 8)
    assert test_images.shape == (360, 1, 8, 8)
    everything = np.concatenate([images, test_images])
    assert (everything.min(), everything.max()) == (0, 1)
    # 178 zeros, 182 ones, ...: what the repository says of this part of its data.
    assert np.bincount(np.concatenate([labels, test_labels])).tolist() == [
        *(178, 182, 177, 183, 181),
        *(182, 181, 179, 174, 180),
    ]
    assert np.bincount(test_labels, minlength=10).min() >= 20
    with np.load(DIGITS.with_name("digits.npz")) as file:
        original = sorted(image.tobytes() for image in file["images"])
    assert sorted(image.tobytes() for image in (everything * 16).astype("uint8")) == original


@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize(("count", "size"), [(IMAGES, 64), (IMAGES, 1), (10, 64), (7, 7)])
def test_each_sample_is_read_once_in_an_epoch(count: int, size: int, world: int) -> None:
    batches = digits_module().batches
    parts = [list(batches(count, size, rank, world, seed=3)) for rank in range(world)]
    assert len({len(steps) for steps in parts}) == 1, "all workers have equally many steps"
    read = np.concatenate([mine for steps in parts for _, mine in steps])
    assert sorted(read) == list(range(count))
    for shares in zip(*parts, strict=True):
        assert {whole for whole, _ in shares} == {sum(len(mine) for _, mine in shares)}
        assert all(len(mine) for _, mine in shares), "nobody's part is empty"
