"""An unchanged script for fleet's parameter servers, example 08, on umiak's: by every command that starts it, in real processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.fresh_environments import FreshEnvironment, built_shim
from tests.support.paths import ROOT

SCRIPT = str(ROOT / "examples" / "08-wide-and-deep-fleet" / "train.py")
SMALL = ("--samples", "20000", "--epochs", "2")
IS_ON = "parameter-server calls of paddle.distributed.fleet are umiak's in Python workers"


def launched(cwd: Path, *words: str, python: str = sys.executable) -> tuple[int, str]:
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_", "FLAGS_"))}
    done = subprocess.run(
        [python, *words], cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


def test_two_servers_and_two_trainers(tmp_path: Path) -> None:
    """Also while workers are watched for hanging, which takes the same sitecustomize."""
    counts = ("--server_num", "2", "--trainer_num", "2", "--hang_timeout", "250")
    status, said = launched(
        tmp_path, "-m", "umiak", "launch", *counts, SCRIPT, *SMALL, "--mode", "sync", "--at_least", "0.7"
    )
    assert status == 0, said
    assert said.count(IS_ON) == 1
    assert re.findall(r"epoch (\d)/2  auc 0\.\d+", said) == ["1", "2"]
    assert [*(tmp_path / "log").glob("stacks.*")]


def test_fleetrun_with_its_old_flags(tmp_path: Path) -> None:
    fresh = FreshEnvironment(tmp_path / "venv")
    fresh.pip("install", "--no-index", "--no-deps", built_shim(tmp_path / "dist"))
    fleetrun = (str(fresh.bin / "fleetrun"), "--worker_num=2", "--server_num=1")
    status, said = launched(tmp_path, *fleetrun, SCRIPT, *SMALL, "--at_least", "0.6", python=str(fresh.bin / "python"))
    assert status == 0, said
    assert IS_ON in said


def test_a_worker_in_another_environment_borrows_the_launchers_umiak(tmp_path: Path) -> None:
    fresh = FreshEnvironment(tmp_path / "venv", with_umiak=False)
    python = str(fresh.bin / "python")
    assert launched(tmp_path, "-c", "import umiak", python=python)[0] == 1
    counts = ("--server_num", "1", "--trainer_num", "1")
    status, said = launched(
        tmp_path, "-m", "umiak.launch", *counts, python, SCRIPT, *SMALL, "--epochs", "1", "--at_least", "0.55"
    )
    assert status == 0, said


def test_without_compat_the_calls_are_paddles_own_and_fail(tmp_path: Path) -> None:
    counts = ("--server_num", "1", "--trainer_num", "1", "--with_gloo", "0")
    status, said = launched(tmp_path, "-m", "umiak", "launch", "--no_compat", *counts, SCRIPT, *SMALL)
    assert status == 1
    assert IS_ON not in said
    assert "umiak/fleet" not in said
    assert "site-packages/paddle/" in said
