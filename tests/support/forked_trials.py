"""The processes in which `umiak train --check` imports a model, as forks that have imported Paddle already: a second of a core less for each.

    with forked_trials.installed():
        work.here("alone", "--check")

For tests of what is found. What a test says of how such a process is started needs a program.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import train_runs
from umiak.train.run import checks


@contextlib.contextmanager
def installed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        names = {name: getattr(subprocess, name) for name in ("PIPE", "DEVNULL", "TimeoutExpired", "run")}
        patch.setattr(checks, "subprocess", SimpleNamespace(**names, Popen=ForkedTrial))
        yield


class ForkedTrial:
    """What `checks` does with a `subprocess.Popen`: it asks, and reads the answer from its own descriptor."""

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int], **_: Any) -> None:
        *_, what, number = command
        assert (what, int(number)) == ("model", *pass_fds)
        self._answers = os.dup(*pass_fds)
        self.returncode: int | None = None
        self._process: Any = None

    def communicate(self, asked: bytes = b"", timeout: float | None = None) -> tuple[None, bytes]:
        context = train_runs.with_paddle_imported()
        with tempfile.TemporaryDirectory() as directory:
            self._process = context.Process(target=_trial, args=(directory, os.getcwd(), dict(os.environ), asked))
            self._process.start()
            self._process.join(timeout)
            assert self._process.exitcode is not None, "it has not ended"
            self.returncode = self._process.exitcode
            with os.fdopen(self._answers, "wb") as answers:
                answers.write(Path(directory, "answer").read_bytes())
            return None, Path(directory, "err").read_bytes()


def _trial(directory: str, cwd: str, environ: dict[str, str], asked: bytes) -> None:
    """As the program begins: with standard streams, variables and a working directory of its own."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    answer = os.open(f"{directory}/answer", os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(f"{directory}/err", os.O_WRONLY | os.O_CREAT), 2)
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w", closefd=False)) for number in (1, 2))
    sys.stdin = io.TextIOWrapper(io.BytesIO(asked))
    from umiak.train.run import trial

    sys.exit(trial.main(["model", str(answer)]))
