"""Command lines of torchrun, run by umiak: the documentation's examples, error files, consoles; and beside the real torchrun."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from testbed.ports import free_port
from testbed.pytest_support import NetworkFactory
from tests.support.launching import OBEDIENT, WORKERS, Stage
from tests.support.paths import ROOT

PEERS = ROOT / ".venv-peers" / "bin"
TOKEN = {"UMIAK_TOKEN": "known to both of the nodes"}
RECORDING = WORKERS / "recording.py"


def test_standalone_is_one_node_whatever_the_platform_says(stage: Stage) -> None:
    slurm = {"SLURM_STEP_NODELIST": "n[0-3]", "SLURM_NODEID": "2", "SLURM_STEP_NUM_NODES": "4", "SLURM_PROCID": "2"}
    launcher = stage.launch("--standalone --nproc-per-node=2", env=slurm)
    lives = stage.story.until_alive(world=2)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert "platform:" not in launcher.stderr
    assert sorted(launcher.stdout.splitlines()) == [f"[trainer {rank}] born as trainer {rank}" for rank in (0, 1)]
    assert {life.env["ROLE_NAME"] for life in lives} == {"default"}


@pytest.mark.netns
def test_the_static_backend_of_two_nodes(stage: Stage, network: NetworkFactory) -> None:
    """torchrun --nnodes=2 --node-rank=0 --master-addr=... --master-port=29500 train.py; node 0 comes last."""
    a, b = network(2).hosts
    static = "--nnodes=2 --nproc-per-node=2 --master-addr=10.88.0.2 --master-port=29500"
    launchers = [stage.launch(f"{static} --node-rank={rank}", host=host, env=TOKEN) for rank, host in ((1, a), (0, b))]
    lives = stage.story.until_alive(world=4)
    assert [life.host for life in lives] == ["node1", "node1", "node0", "node0"]
    assert {(life.env["MASTER_ADDR"], life.env["MASTER_PORT"]) for life in lives} == {("10.88.0.2", "29500")}
    stage.story.order("exit 4", rank=3)
    assert [launcher.wait() for launcher in launchers] == [4, 4]


@pytest.mark.netns
def test_a_restart_keeps_the_port_of_the_store(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    static = "--nnodes 2 --master-addr 10.88.0.1 --max-restarts 1"
    launchers = [stage.launch(f"{static} --node-rank {rank}", host=host, env=TOKEN) for rank, host in enumerate((a, b))]
    stage.story.until_alive(world=2, generation=1)
    stage.story.order("exit 4", rank=1)
    lives = stage.story.until_alive(world=2, generation=2)
    assert {life.env["MASTER_PORT"] for life in lives} == {"29500"}
    assert {life.env["TORCHELASTIC_MAX_RESTARTS"] for life in lives} == {"1"}
    stage.story.order("exit 5", rank=0)
    assert [launcher.wait() for launcher in launchers] == [5, 5]


@pytest.mark.netns
@pytest.mark.parametrize("first", [0, 1])
def test_c10d_with_the_endpoint_on_any_node(stage: Stage, network: NetworkFactory, first: int) -> None:
    """Ranks are not said, so the nodes number themselves; the node with the endpoint's address may come second."""
    net = network(2)
    c10d = "--nnodes=1:2 --rdzv-id=job-7 --rdzv-backend=c10d --rdzv-endpoint=10.88.0.1:29400"
    hosts = net.hosts if first == 0 else net.hosts[::-1]
    launchers = [stage.launch(c10d, host=host, env=TOKEN) for host in hosts]
    lives = stage.story.until_alive(world=2)
    assert {life.env["TORCHELASTIC_RUN_ID"] for life in lives} == {"job-7"}
    assert {life.env["TORCHELASTIC_MAX_RESTARTS"] for life in lives} == {"0"}
    stage.story.order("exit 6", rank=1)
    assert [launcher.wait() for launcher in launchers] == [6, 6]


def test_variables_of_kubeflow_trainer_say_it_too(stage: Stage) -> None:
    port = free_port() + 10_000  # the launchers meet 10000 below it
    job = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(port)}
    pods = [stage.launch("", env={**job, "PET_NODE_RANK": str(rank)}) for rank in (1, 0)]
    lives = stage.story.until_alive(world=2)
    assert {life.env["MASTER_PORT"] for life in lives} == {str(port)}
    stage.story.order("end")
    assert [pod.wait() for pod in pods] == [0, 0]


# ---- error files


def test_what_a_script_recorded_is_told(stage: Stage) -> None:
    launcher = stage.launch("--standalone --max-restarts 1", RECORDING)
    assert launcher.wait() == 3
    words = launcher.stderr.rpartition("error: ")[2]
    told = "trainer 0 on node 127.0.0.1 failed with exit code 3: LookupError: no such column:  [31mclick [UM-JOB-001]"
    assert words.splitlines()[0] == told
    assert "its traceback:" in words
    assert "in look_up" in words
    files = sorted(launcher.log_dir.glob("error.*"))
    assert [file.name for file in files] == ["error.trainer.0.1-0.json", "error.trainer.0.2-1.json"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_workers_that_end_well_leave_no_error_file(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2")
    lives = stage.story.until_alive(world=2)
    assert len({life.env["TORCHELASTIC_ERROR_FILE"] for life in lives}) == 2
    assert all(Path(life.env["TORCHELASTIC_ERROR_FILE"]).parent == launcher.log_dir for life in lives)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert list(launcher.log_dir.glob("error.*")) == []


def test_an_error_file_that_is_something_else_holds_nobody_up(stage: Stage, tmp_path: Path) -> None:
    script = tmp_path / "odd.py"
    script.write_text(
        "import os, sys\n"
        "path = os.environ['TORCHELASTIC_ERROR_FILE']\n"
        "os.unlink(path)\n"
        "os.mkfifo(path, 0o600)\n"
        "sys.exit('odd end')\n"
    )
    launcher = stage.launch("--standalone", script)
    assert launcher.wait() == 1
    assert "trainer 0 on node 127.0.0.1 failed with exit code 1 [UM-JOB-001]" in launcher.stderr
    assert "odd end" in launcher.stderr


# ---- proxies

PROXIES = {"http_proxy": "http://me:hunter2@proxy:1", "https_proxy": "http://proxy:2", "HTTP_PROXY": "http://proxy:3"}


@pytest.mark.parametrize("flags", ["", "--keep_proxy False --standalone"])
def test_workers_do_not_see_proxies(stage: Stage, flags: str) -> None:
    launcher = stage.launch(flags, env=PROXIES)
    (life,) = stage.story.until_alive(world=1)
    stage.story.order("end")
    assert launcher.wait() == 0
    seen = {name: text for name, text in life.env.items() if "_proxy" in name.lower()}
    assert seen == {
        "http_proxy_original": PROXIES["http_proxy"],
        "https_proxy_original": PROXIES["https_proxy"],
        "HTTP_PROXY": PROXIES["HTTP_PROXY"],
    }
    assert "hidden from the workers: http_proxy (as http_proxy_original)" in launcher.stderr
    assert "hunter2" not in launcher.said


@pytest.mark.parametrize(
    ("flags", "env"), [("--keep_proxy", {}), ("", {"UMIAK_KEEP_PROXY": "1"}), ("--standalone", {})]
)
def test_workers_see_proxies_if_that_is_wanted(stage: Stage, flags: str, env: dict[str, str]) -> None:
    launcher = stage.launch(flags, OBEDIENT, env=PROXIES | env)
    (life,) = stage.story.until_alive(world=1)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert {name: text for name, text in life.env.items() if "_proxy" in name.lower()} == PROXIES
    assert "hidden from the workers" not in launcher.stderr


# ---- Paddle's variables


def test_a_collective_pod_of_a_paddlejob_keeps_what_the_operator_says(stage: Stage) -> None:
    port = free_port()
    pod = {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINING_ROLE": "TRAINER",
        "TRAINER_PORTS_NUM": "20",
        "PADDLE_PORT": str(port),
        "PADDLE_TRAINERS": "127.0.0.1",
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_TRAINER_ID": "0",
        "POD_IP": "127.0.0.1",
    }
    launcher = stage.launch("--nproc_per_node 2", env=pod)
    lives = stage.story.until_alive(world=2)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert [(life.env["TRAINING_ROLE"], life.env["PADDLE_PORT"]) for life in lives] == [("TRAINER", str(port))] * 2


def test_gloo_is_off_where_the_old_launcher_ran(stage: Stage) -> None:
    launcher = stage.launch("--server_num 1 --worker_num 1", WORKERS / "parameter_server.py")
    lives = stage.story.until_alive(count=2)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert {life.env["PADDLE_WITH_GLOO"] for life in lives} == {"0"}


# ---- consoles


@pytest.mark.parametrize(
    ("flags", "seen"),
    [
        ("", {0, 1, 2}),
        ("-r 3", set()),
        ("-r3 -t 1:3", {1}),
        ("--redirects 1:3", {0, 2}),
        ("--local-ranks-filter 0,2", {0, 2}),
        ("--tee 3", {0, 1, 2}),
    ],
)
def test_whose_output_is_shown(stage: Stage, flags: str, seen: set[int]) -> None:
    launcher = stage.launch(f"--standalone --nproc-per-node 3 {flags}")
    stage.story.until_alive(world=3)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert {rank for rank in range(3) if f"born as trainer {rank}" in launcher.stdout} == seen
    assert all(f"born as trainer {rank}" in launcher.log(f"workerlog.{rank}") for rank in range(3))


def test_a_script_needs_no_ending_and_a_program_no_python(stage: Stage, tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text("import sys\nprint('python', sys.argv[1])\n")
    program = tmp_path / "train.py"
    program.write_text("#!/bin/sh\necho shell $1\n")
    program.chmod(0o700)
    first = stage.launch("--standalone", script, "one")
    second = stage.launch("--standalone --no-python", program, "two")
    assert (first.wait(), second.wait()) == (0, 0)
    assert (first.stdout, second.stdout) == ("[trainer 0] python one\n", "[trainer 0] shell two\n")


# ---- beside the real torchrun

DUMP = """
import json, os, sys
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    with open(f"{sys.argv[1]}.{os.environ['RANK']}", "w") as file:
        json.dump(dict(os.environ), file)
    if sys.argv[2:] and os.environ["RANK"] == "1":
        raise KeyError("no such column")

main()
"""
DIFFERENT = {
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
}
"""The variables of torchrun's that are there under both, but not the same; the page "Move from torchrun" lists them."""
real_torchrun = pytest.mark.skipif(not (PEERS / "torchrun").exists(), reason="no .venv-peers: make bench-peers")


@real_torchrun
@pytest.mark.parametrize(
    "flags",
    [
        "--standalone --nproc-per-node=2",
        "--nproc_per_node 2 --max_restarts 1 --role reader",
        "--nnodes 1:1 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id seven",
        "--nproc-per-node 2 --node-rank 0 --master-addr 127.0.0.1 --master-port {port} --signals-to-handle SIGTERM",
    ],
)
def test_workers_find_the_same_variables_as_under_torchrun(tmp_path: Path, flags: str) -> None:
    (tmp_path / "dump.py").write_text(DUMP)
    words = flags.format(port=free_port()).split()
    for name, command in commands().items():
        subprocess.run([*command, *words, "dump.py", name], cwd=tmp_path, env=ENVIRON, check=True, capture_output=True)
    for rank in (0, 1):
        theirs, ours = (json.loads((tmp_path / f"{name}.{rank}").read_text()) for name in ("torchrun", "umiak"))
        theirs.pop("_", None)
        assert [name for name in theirs if name not in ours] == []
        different = {name for name in theirs if ours[name] != theirs[name] and name != "PYTHONPATH"}
        assert different <= DIFFERENT
        if "--master-port" in flags:
            assert not different & {"MASTER_ADDR", "MASTER_PORT"}
        if "seven" in flags:
            assert "TORCHELASTIC_RUN_ID" not in different


@real_torchrun
def test_what_torchs_own_record_writes_is_read(tmp_path: Path) -> None:
    (tmp_path / "dump.py").write_text(DUMP)
    words = ["--standalone", "--nproc-per-node=2", "dump.py", "out", "fail"]
    ended = {
        name: subprocess.run([*command, *words], cwd=tmp_path, env=ENVIRON, capture_output=True, text=True, check=False)
        for name, command in commands().items()
    }
    assert {name: each.returncode for name, each in ended.items()} == {"torchrun": 1, "umiak": 1}
    said = ended["umiak"].stderr.rpartition("error: ")[2]
    assert said.startswith(
        "trainer 1 on node 127.0.0.1 failed with exit code 1: KeyError: 'no such column' [UM-JOB-001]"
    )
    assert 'raise KeyError("no such column")' in said
    assert "KeyError: 'no such column'" in ended["torchrun"].stderr


ENVIRON = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(ROOT / "src")}


def commands() -> dict[str, list[str]]:
    """Both launchers, in one Python, so that the scripts find torch."""
    assert shutil.which("torchrun", path=str(PEERS))
    return {
        "torchrun": [str(PEERS / "torchrun")],
        "umiak": [str(PEERS / "python"), "-m", "umiak.launch"],
    }
