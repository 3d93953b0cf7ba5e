"""What a node does with a job that was sent to it: files, data in, the launcher, data out. With the launcher's file, as on a node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from umiak.core.job import FileSet, Transfer
from umiak.core.value import replace
from umiak.submit.payload import file_set, launcher_file
from umiak.submit.payload.node_plan import NodePlan, SentFiles, as_text, from_text, output_url

SCRIPT = """
import os, pathlib, sys
print("data", pathlib.Path("data/part-0").read_text(), "secret", os.environ["DB_PASSWORD"], "plain", os.environ["PLAIN"])
pathlib.Path("models").mkdir()
pathlib.Path("models/weights").write_text("trained")
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def launcher() -> str:
    return launcher_file.find().path


@pytest.fixture
def plan(tmp_path: Path) -> NodePlan:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    found = file_set.collect(FileSet(), str(project))
    run = tmp_path / "run"
    run.mkdir()
    file_set.pack(found, str(run / "files.tar.gz"))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "part-0").write_text("rows")
    secrets = run / "secrets.json"
    secrets.touch(mode=0o600)
    secrets.write_text(json.dumps({"DB_PASSWORD": "hush-hush-hush"}))
    return NodePlan(
        run_id="try-1",
        directory="work",
        launch=("--job_id", "try-1", "--", "train.py", "0"),
        env=(("PLAIN", "seen"),),
        files=SentFiles(digest=found.manifest.digest, store="../store", archive="files.tar.gz"),
        inputs=(Transfer(url=str(tmp_path / "kept"), path="data"),),
        outputs=(Transfer(url=str(tmp_path / "home"), path="models"),),
        secrets_file="secrets.json",
    )


def start(launcher: str, plan: NodePlan, tmp_path: Path, **more: str) -> subprocess.Popen[str]:
    path = tmp_path / "run" / "node.json"
    path.write_text(as_text(plan))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **more}
    argv = [sys.executable, launcher, "-m", "umiak.submit.payload.node_start", str(path), "--log_dir", "../logs"]
    return subprocess.Popen(
        argv, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(started: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = started.communicate(timeout=PATIENCE_S)
    return started.returncode, said


def test_a_node_fetches_files_that_were_stored(launcher: str, plan: NodePlan, tmp_path: Path) -> None:
    assert plan.files is not None
    (tmp_path / "run" / "files.tar.gz").rename(tmp_path / "stored.tar.gz")
    fetched = replace(plan.files, archive="fetched.tar.gz", url=str(tmp_path / "stored.tar.gz"))
    status, said = finish(start(launcher, replace(plan, files=fetched), tmp_path))
    assert status == 0, said
    assert "data rows" in said


def test_a_node_does_the_whole_plan(launcher: str, plan: NodePlan, tmp_path: Path) -> None:
    status, said = finish(start(launcher, plan, tmp_path))
    assert status == 0, said
    assert "data rows secret hush-hush-hush plain seen" in said
    assert (tmp_path / "home" / "weights").read_text() == "trained"
    assert from_text((tmp_path / "run" / "node.json").read_text()) == plan
    assert "hush-hush-hush" not in (tmp_path / "run" / "node.json").read_text()


def test_results_come_home_from_a_failed_run(launcher: str, plan: NodePlan, tmp_path: Path) -> None:
    failing = replace(plan, launch=(*plan.launch[:-1], "7"))
    status, said = finish(start(launcher, failing, tmp_path))
    assert status == 7, said
    assert (tmp_path / "home" / "weights").read_text() == "trained"


def test_results_that_cannot_be_stored_fail_the_run(launcher: str, plan: NodePlan, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where a directory is wanted")
    status, said = finish(start(launcher, plan, tmp_path))
    assert status != 0
    assert "[UM-SUBMIT-" in said


def test_secrets_that_others_can_read_are_refused(launcher: str, plan: NodePlan, tmp_path: Path) -> None:
    (tmp_path / "run" / "secrets.json").chmod(0o644)
    status, said = finish(start(launcher, plan, tmp_path))
    assert (status, "[UM-SUBMIT-071]" in said) == (3, True)
    assert "hush" not in said


@pytest.mark.parametrize("outputs", [True, False], ids=["then results", "nothing after it"])
def test_the_launcher_gets_the_signals_of_a_node(launcher: str, plan: NodePlan, tmp_path: Path, outputs: bool) -> None:
    wait = "import os, time, pathlib; pathlib.Path('models').mkdir(); print('ready', flush=True); time.sleep(600)"
    waiting = replace(plan, launch=("--job_id", "try-1", "--", sys.executable, "-c", wait))
    started = start(launcher, waiting if outputs else replace(waiting, outputs=()), tmp_path)
    assert started.stdout is not None
    while "ready" not in (line := started.stdout.readline()):
        assert line, "it ended"
    started.send_signal(signal.SIGTERM)
    status, said = finish(started)
    assert status == 143, said


def test_a_signal_that_stands_for_the_end_ends_the_launcher(launcher: str, plan: NodePlan, tmp_path: Path) -> None:
    """Under mpirun SIGTERM does not reach a node in time."""
    wait = "import time; print('ready', flush=True); time.sleep(600)"
    words = ("--job_id", "try-1", "--", sys.executable, "-c", wait)
    started = start(launcher, replace(plan, launch=words, outputs=(), stop_signals=("SIGUSR1",)), tmp_path)
    assert started.stdout is not None
    while "ready" not in (line := started.stdout.readline()):
        assert line, "it ended"
    started.send_signal(signal.SIGUSR1)
    status, said = finish(started)
    assert status == 143, said


def test_a_plan_that_launches_nothing_brings_data_in_or_out(launcher: str, plan: NodePlan, tmp_path: Path) -> None:
    status, said = finish(start(launcher, replace(plan, only_data=True, outputs=()), tmp_path))
    assert status == 0, said
    assert (tmp_path / "run" / "work" / "data" / "part-0").read_text() == "rows"
    out = Transfer(url=str(tmp_path / "home"), path="data")
    status, said = finish(
        start(launcher, replace(plan, only_data=True, files=None, inputs=(), outputs=(out,)), tmp_path)
    )
    assert status == 0, said
    assert (tmp_path / "home" / "part-0").read_text() == "rows"


def test_a_plan_that_is_damaged_is_refused(launcher: str, plan: NodePlan, tmp_path: Path) -> None:
    started = start(launcher, plan, tmp_path)
    finish(started)
    path = tmp_path / "run" / "node.json"
    path.write_text(path.read_text()[:-20])
    again = subprocess.run(
        [sys.executable, launcher, "-m", "umiak.submit.payload.node_start", str(path)], capture_output=True, text=True
    )
    assert (again.returncode, "[UM-SUBMIT-070]" in again.stderr) == (3, True)


def test_one_node_brings_results_home_unless_each_has_its_own_place() -> None:
    shared, own = Transfer(url="s3://b/m", path="m"), Transfer(url="s3://b/m/{rank}", path="m")
    assert [output_url(shared, rank) for rank in (0, 1, None)] == ["s3://b/m", "", "s3://b/m"]
    assert [output_url(own, rank) for rank in (0, 1)] == ["s3://b/m/0", "s3://b/m/1"]
