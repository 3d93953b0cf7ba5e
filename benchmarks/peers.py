"""Other launchers, and how each is asked for the same things. Values, and the program that installs what is missing.

    python -m benchmarks.peers          makes .venv-peers with torch, which brings 3 GB and more of libraries

Paddle is the framework of the development environment and is there already.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measure import ROOT, free_port

TORCH = "torch==2.*"
DIRECTORY = ROOT / ".venv-peers"
WORKER = str(Path(__file__).with_name("worker.py"))


@dataclass(frozen=True)
class Asked:
    """A job as the benchmarks want it. ``port``: where several nodes meet on the loopback interface; 0: one node."""

    nodes: str = "1"
    workers: int = 1
    port: int = 0
    restarts: int = 0
    number: int = 0
    """Which of the nodes this launcher is; only log files are named after it."""


class Launcher:
    """One launcher. ``missing`` says why it can't be run here, if it can't."""

    name = ""
    missing = ""

    def command(self, asked: Asked, *words: str) -> list[str]:
        """The words that start a node of this job, with the benchmark's worker and these arguments for it."""
        raise NotImplementedError


class Umiak(Launcher):
    """Ours."""

    name = "umiak"

    def command(self, asked: Asked, *words: str) -> list[str]:
        flags = [*_paddle_flags(asked), *(["--max_restart", str(asked.restarts)] if asked.restarts else [])]
        return [str(Path(sys.executable).with_name("umiak")), "launch", *flags, WORKER, *words]


class Paddle(Launcher):
    """paddle.distributed.launch with its HTTP master."""

    name = "paddle"

    def __init__(self) -> None:
        if importlib.util.find_spec("paddle") is None:
            self.missing = "skipped: paddle is not installed here"

    def command(self, asked: Asked, *words: str) -> list[str]:
        # A range of nodes means something to it only with etcd.
        flags = _paddle_flags(replace(asked, nodes=asked.nodes.rpartition(":")[2]))
        if asked.restarts:
            flags += ["--max_restart", str(asked.restarts), "--elastic_level", "1"]
        return [sys.executable, "-m", "paddle.distributed.launch", *flags, WORKER, *words]


class Torchrun(Launcher):
    """torchrun: static for one node without restarts, its own store otherwise."""

    name = "torchrun"

    def __init__(self) -> None:
        self.python = str(DIRECTORY / "bin" / "python")
        if not (DIRECTORY / "bin" / "torchrun").exists():
            self.missing = "skipped: no .venv-peers here, `python -m benchmarks.peers` makes it"

    def command(self, asked: Asked, *words: str) -> list[str]:
        flags = ["--nnodes", asked.nodes, "--nproc-per-node", str(asked.workers), "--max-restarts", str(asked.restarts)]
        if asked.port:
            flags += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{asked.port}", "--rdzv-id", "bench"]
        elif asked.restarts:
            flags.append("--standalone")
        else:
            flags += ["--master-port", str(free_port())]
        return [str(DIRECTORY / "bin" / "torchrun"), *flags, WORKER, *words]


class Plain(Launcher):
    """No launcher at all: what Python itself takes."""

    name = "plain python"

    def command(self, asked: Asked, *words: str) -> list[str]:  # noqa: ARG002
        return [sys.executable, "-u", WORKER, *words]


def everyone(*, with_peers: bool) -> list[Launcher]:
    """Ours first, then the others."""
    return [Umiak(), Paddle(), Torchrun()] if with_peers else [Umiak()]


def install() -> int:
    """Make the environment of the peers, beside the one of the project."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if uv is None:
        print("uv is not installed: pip install uv", file=sys.stderr)
        return 3
    steps: Sequence[Sequence[str]] = (
        [uv, "venv", "--allow-existing", "--python", sys.executable, str(DIRECTORY)],
        [uv, "pip", "install", "--python", str(DIRECTORY / "bin" / "python"), TORCH],
    )
    for step in steps:
        status = subprocess.run(step, check=False).returncode
        if status:
            return status
    return 0


def _paddle_flags(asked: Asked) -> list[str]:
    flags = ["--nnodes", asked.nodes, "--nproc_per_node", str(asked.workers), "--log_dir", f"log.{asked.number}"]
    return [*flags, "--master", f"127.0.0.1:{asked.port}"] if asked.port else flags


if __name__ == "__main__":
    sys.exit(install())
