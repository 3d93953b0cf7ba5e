"""Completion in real shells: keys are typed into a terminal, and what the shell then runs is looked at."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from umiak.core.status import JobStatus, State
from umiak.submit import configuration
from umiak.submit.records import Records
from umiak.submit.run_record import RunRecord

TAB, ENTER = "\t", "\r"
SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        "bind 'set enable-bracketed-paste off'; source umiak.bash; PS1='REA''DY>'",
    ),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source ./umiak.zsh; PS1='REA''DY>'"),
    "fish": (["fish", "--no-config", "-i"], "function fish_prompt; echo -n REA''DY\\>; end; source umiak.fish"),
}
TYPED = [
    ("comp", "completion"),
    ("launch --log_le", "launch --log_level"),
    ("launch --log_level WARN", "launch --log_level WARNING"),
    ("launch --log_level=WARN", "launch --log_level=WARNING"),
    ("launch --nproc_per_node 2 --hang", "launch --nproc_per_node 2 --hang_timeout"),
    ("launch --master 10.0.0.1:8090 --hang", "launch --master 10.0.0.1:8090 --hang_timeout"),
    ("launch --nproc_per_node=2 trai", "launch --nproc_per_node=2 train.py"),
    ("launch train.py --hang", "launch train.py --hang"),  # the script's own flag
    ("launch --sort_ip True --hang", "launch --sort_ip True --hang_timeout"),
    ("launch --np 2 --hang", "launch --np 2 --hang_timeout"),  # an old name, understood and not offered
    ("launch --tee al", "launch --tee all"),
    ("train --exp", "train --explain"),
    ("train -m trai", "train -m train.py"),
    ("ps stat", "ps status"),
    ("ps status --inter", "ps status --interval"),
    ("completion fi", "completion fish"),
    ("train -m umiak.models.rank.wide", "train -m umiak.models.rank.wide_deep"),
    ("logs ctr-0", "logs ctr-0ver"),
    ("status -w ctr-3", "status -w ctr-3f2a9c"),
    ("wait ctr-", "wait ctr-"),  # two begin so
    ("cancel ctr-", "cancel ctr-3f2a9c"),  # the other one is over
    ("logs ssh://lab/ctr-3", "logs ssh://lab/ctr-3f2a9c"),
    ("submit --on la", "submit --on lab"),
    ("list --on=mi", "list --on=mine"),
    ("hosts check --on loc", "hosts check --on local"),
]


HYPHENS = ("launch --log-level WARN", "launch --log-level WARNING")
"""fish completes values of flags that it offers, and they are offered in one spelling."""


def keep_runs_and_places(home: Path) -> None:
    """As `umiak` itself leaves them: in ``home`` there are runs, a config of its own, and a project below it is not the nearest one."""
    records = Records(configuration.context({"HOME": str(home)}).state_directory)
    records.prepare()
    for run, status in (("ctr-3f2a9c", None), ("ctr-0ver", JobStatus(state=State.SUCCEEDED, exit_code=0))):
        records.write(
            RunRecord(
                run_id=run,
                name="ctr",
                place="lab",
                backend="ssh",
                directory="/",
                digest="",
                submitted_s=1.0,
                handle=f"ssh://lab/{run}",
                status=status,
            )
        )
    (home / "umiak.toml").write_text('[place.lab]\nbackend = "ssh"\n[place.lab.env]\nX = "1"\n')
    (home / ".config" / "umiak").mkdir(parents=True)
    (home / ".config" / "umiak" / "config.toml").write_text('[place."mine"]  # my own\nbackend = "local"\n')


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_typed_is_completed(shell: str, tmp_path: Path) -> None:
    command, setup = SHELLS[shell]
    if not shutil.which(command[0]):
        pytest.skip(f"{shell} is not installed")
    made = subprocess.run(
        [sys.executable, "-m", "umiak", "completion", shell], capture_output=True, timeout=PATIENCE_S, check=True
    )
    (tmp_path / f"umiak.{shell}").write_bytes(made.stdout)
    (tmp_path / "train.py").touch()
    keep_runs_and_places(tmp_path)
    # Stands for umiak: it writes down what it is called with, also if completing should call it.
    stub = tmp_path / "bin" / "umiak"
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\necho "$@" >> "$RAN"\necho "RA""N"\n')
    stub.chmod(0o755)
    ran = tmp_path / "ran"
    environ = {
        "PATH": f"{stub.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "RAN": str(ran),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
    }
    with Terminal(command, tmp_path, environ) as terminal:
        terminal.type(setup + ENTER, until="READY>")
        lines = TYPED if shell == "fish" else [*TYPED, HYPHENS]
        for typed, _ in lines:
            terminal.type(f"umiak {typed}{TAB}{ENTER}", until="RAN", then="READY>")
    assert ran.read_text().splitlines() == [wanted for _, wanted in lines]


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, command: list[str], directory: Path, environ: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self._shell = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command],
            cwd=directory,
            env=environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._ours)

    def type(self, keys: str, *, until: str, then: str = "") -> None:
        """Type, and read along until the shell has shown one text and, behind it, another."""
        os.write(self._ours, keys.encode())
        shown, deadline = "", time.monotonic() + PATIENCE_S
        while then not in shown.partition(until)[2] or until not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([self._ours], [], [], 1.0)[0]:
                shown += os.read(self._ours, 65536).decode(errors="replace")
