"""Parameter servers that really train: through `umiak launch`, with Paddle and with numpy, alone and with kills."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.pytest_support import NetworkFactory, require
from tests.support import forked_workers
from tests.support.launching import WORKERS, Stage
from tests.support.paths import ROOT
from umiak.ps import checkpoint

CLICKS = WORKERS / "click_training.py"
COUNTING = WORKERS / "counting.py"
STRATEGIES = ("sync", "async", "half_async", "geo", "hybrid")
ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}


@pytest.mark.paddle
def test_every_strategy_learns_what_one_process_learns(stage: Stage, tmp_path: Path) -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    results = tmp_path / "results.json"
    launcher = stage.launch("--server_num 2 --trainer_num 2", CLICKS, results, env=ENV, command=forked_workers.LAUNCH)
    assert launcher.wait() == 0, stage.transcript()
    found = json.loads(results.read_text())
    assert found["alone"] > 0.88
    for strategy in STRATEGIES:
        assert found[strategy] == pytest.approx(found["alone"], abs=0.002), strategy
    assert found["same bits"], "sync is one process that takes the same micro-batches and adds them in rank order"
    assert found["same bits accumulated"], "also if it adds them up in the model: two backward passes, one step"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_push_counts_once(stage: Stage, tmp_path: Path, strategy: str) -> None:
    launcher = stage.launch("--server_num 2 --trainer_num 2", COUNTING, tmp_path, strategy)
    assert launcher.wait() == 0, stage.transcript()
    assert sums(tmp_path) == [30.625 if strategy == "geo" else 40.0] * 2


def sums(directory: Path) -> list[float]:
    return [json.loads((directory / f"sum.{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("strategy", ["sync", "async"])
def test_a_killed_server_comes_back_with_everything(stage: Stage, tmp_path: Path, strategy: str) -> None:
    launcher = stage.launch("--server_num 2 --trainer_num 2", COUNTING, tmp_path, strategy, "--kill-server")
    assert launcher.wait() == 0, stage.transcript()
    assert sums(tmp_path) == [40.0, 40.0]
    assert (tmp_path / "killed").exists()
    assert "server 1" in launcher.stderr


def test_without_a_log_a_killed_server_is_not_passed_over_in_silence(stage: Stage, tmp_path: Path) -> None:
    launcher = stage.launch("--server_num 2 --trainer_num 2", COUNTING, tmp_path, "async", "--kill-server", "--no-log")
    assert launcher.wait() == 1
    assert "ServerForgot" in launcher.stderr


@pytest.mark.parametrize("strategy", ["sync", "async"])
def test_a_killed_trainer_comes_back_and_goes_on(stage: Stage, tmp_path: Path, strategy: str) -> None:
    flags = "--server_num 2 --trainer_num 2 --trainer_restart alone --max_restart 2"
    launcher = stage.launch(flags, COUNTING, tmp_path, strategy, "--kill-trainer")
    assert launcher.wait() == 0, stage.transcript()
    assert (tmp_path / "killed").exists()
    assert sums(tmp_path) == [40.0, 40.0]


def test_a_trainer_killed_behind_its_last_word_finds_its_servers(stage: Stage, tmp_path: Path) -> None:
    """All trainers have said that they are done; the one that is started again needs somebody to say it to."""
    flags = "--server_num 2 --trainer_num 2 --trainer_restart alone --max_restart 2"
    launcher = stage.launch(flags, COUNTING, tmp_path, "sync", "--kill-done")
    assert launcher.wait() == 0, stage.transcript()
    assert (tmp_path / "killed").exists()
    assert sums(tmp_path) == [40.0, 40.0]


def test_a_finished_jobs_state_serves_the_next_run(stage: Stage, tmp_path: Path) -> None:
    for _ in range(2):
        launcher = stage.launch(
            "--server_num 2 --trainer_num 2", COUNTING, tmp_path, "sync", "--state", tmp_path / "state"
        )
        assert launcher.wait() == 0, stage.transcript()
        assert sums(tmp_path) == [40.0, 40.0], "all steps were done the first time"


def test_a_failing_trainers_exit_code_is_the_jobs(stage: Stage, tmp_path: Path) -> None:
    launcher = stage.launch("--server_num 2 --trainer_num 2 --failure_grace 2", COUNTING, tmp_path, "sync", "--fail")
    assert launcher.wait() == 7


def test_tables_are_saved_and_loaded_into_another_number_of_servers(stage: Stage, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    first = stage.launch("--server_num 3 --trainer_num 2", COUNTING, tmp_path, "sync", "--save", saved)
    assert first.wait() == 0, stage.transcript()
    second = stage.launch("--server_num 1 --trainer_num 2", COUNTING, tmp_path, "sync", "--load", saved)
    assert second.wait() == 0, stage.transcript()
    assert sums(tmp_path) == [80.0, 80.0]


def test_the_same_script_runs_alone(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, str(COUNTING), str(tmp_path), "sync"], check=False)
    assert run.returncode == 0
    assert json.loads((tmp_path / "sum.0").read_text()) == 40.0


def loop_of_the_tutorial() -> str:
    """The numpy loop of docs/tutorials/parameter-servers.md, with two saves."""
    page = ROOT / "docs" / "tutorials" / "parameter-servers.md"
    _, script = page.read_text().split("<!-- file: clicks.py -->\n```python\n", 1)
    script, _ = script.split("```", 1)
    head = "for step in range(200):\n"
    assert head in script
    return script.replace(head, head + "    if step in (60, 120):\n        ps.save(f'saved.{step}')\n")


@pytest.mark.parametrize("servers", [0, 2])
def test_the_loop_of_the_tutorial_saves_at_its_steps(stage: Stage, tmp_path: Path, servers: int) -> None:
    script = tmp_path / "clicks.py"
    script.write_text(loop_of_the_tutorial())
    if servers:
        launcher = stage.launch(f"--server_num {servers} --trainer_num 2", script, cwd=tmp_path)
        assert launcher.wait() == 0, stage.transcript()
    else:
        assert subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=False).returncode == 0
    assert [checkpoint.read(tmp_path / f"saved.{step}").step for step in (60, 120)] == [60, 120]


def test_each_run_has_a_log_of_its_own(stage: Stage, tmp_path: Path) -> None:
    """A second run in the same log directory starts from scratch, and what the first one left is gone."""
    for _ in range(2):
        launcher = stage.launch("--server_num 1 --trainer_num 2", COUNTING, tmp_path, "sync", cwd=tmp_path)
        assert launcher.wait() == 0, stage.transcript()
        assert sums(tmp_path) == [40.0, 40.0]
    assert len(list((tmp_path / "log" / "ps" / "server.0").iterdir())) == 1


def test_a_server_without_work_does_not_hang(stage: Stage, tmp_path: Path) -> None:
    """Its trainer never asks for anything, and sees it tell the launcher again and again that it gets on.

    A time-out that ends a server that is silent would also end one that a busy machine is slow to start.
    """
    script = tmp_path / "patient.py"
    script.write_text(
        "import os, time, umiak\n"
        "from umiak import ps\n"
        "job = ps.init()\n"
        "if job.is_server:\n"
        "    raise SystemExit(job.serve())\n"
        "job.client\n"
        "of_server = os.path.join(os.path.dirname(os.environ['UMIAK_PROGRESS_FILE']), 'progress.server.0')\n"
        "seen = set()\n"
        "while len(seen) < 5:\n"
        "    seen.add(os.stat(of_server).st_mtime_ns)\n"
        "    umiak.progress()\n"
        "    time.sleep(0.01)\n"
    )
    launcher = stage.launch("--server_num 1 --trainer_num 1 --hang_timeout 50", script)
    assert launcher.wait() == 0, stage.transcript()


@pytest.mark.netns
def test_two_hosts_with_a_token(stage: Stage, network: NetworkFactory, tmp_path: Path) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 2 --server_num 1 --trainer_num 1 --master 10.88.0.1:7000"
    env = {"UMIAK_TOKEN": "known to both of us"}
    launchers = [stage.launch(flags, COUNTING, tmp_path, "sync", host=host, env=env) for host in (a, b)]
    assert [launcher.wait() for launcher in launchers] == [0, 0], stage.transcript()
    assert sums(tmp_path) == [40.0, 40.0]


@pytest.mark.netns
def test_two_hosts_without_a_token_are_told_what_to_do(stage: Stage, network: NetworkFactory, tmp_path: Path) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 2 --server_num 1 --trainer_num 1 --master 10.88.0.1:7000 --failure_grace 2"
    launchers = [stage.launch(flags, COUNTING, tmp_path, "sync", host=host) for host in (a, b)]
    assert [launcher.wait() for launcher in launchers] == [1, 1]
    assert "UM-PS-006" in launchers[0].stderr
    assert "export UMIAK_TOKEN" in launchers[0].stderr
