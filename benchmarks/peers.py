"""Other launchers, and how each is asked for the same things. Values, and the program that installs what is missing.

    python -m benchmarks.peers          makes .venv-peers with the newest torch, which brings 5 GB of libraries, and etcd3

Paddle and an etcd server belong to the development environment and are there already.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measure import ROOT, free_port

TORCH = "torch"
"""The newest one each time: a comparison with an old torchrun would say little."""
DIRECTORY = ROOT / ".venv-peers"
ETCD3 = DIRECTORY / "etcd3"
"""The etcd client that Paddle imports, in a folder of its own: it must not bring another protobuf with it."""
ETCD3_PACKAGES = ("etcd3==0.12.0", "grpcio", "tenacity", "six")
WORKER = str(Path(__file__).with_name("programs") / "worker.py")


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
    environ: Mapping[str, str] = {}

    def beside(self, port: int) -> list[str]:  # noqa: ARG002
        """The words that start what must run beside it and listen on this port; nothing, for most."""
        return []

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


class PaddleWithEtcd(Launcher):
    """paddle.distributed.launch with etcd, without which it restarts nothing.

    Its client, etcd3, can't be imported beside the protobuf that Paddle installs, unless protobuf is told to be slow.
    """

    name = "paddle, etcd"
    environ = {"PYTHONPATH": str(ETCD3), "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}

    def __init__(self) -> None:
        self._etcd = Path(sys.executable).with_name("etcd")
        if not ETCD3.exists() or not self._etcd.exists() or Paddle().missing:
            self.missing = "skipped: needs paddle, etcd and .venv-peers, `python -m benchmarks.peers` makes the last"

    def beside(self, port: int) -> list[str]:
        address, other = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
        clients = ["--listen-client-urls", address, "--advertise-client-urls", address]
        return [str(self._etcd), "--data-dir", "etcd", *clients, "--listen-peer-urls", other]

    def command(self, asked: Asked, *words: str) -> list[str]:
        flags = [*_paddle_flags(replace(asked, port=0)), "--master", f"etcd://127.0.0.1:{asked.port}"]
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
    python = str(DIRECTORY / "bin" / "python")
    steps: Sequence[Sequence[str]] = (
        [uv, "venv", "--allow-existing", "--python", sys.executable, str(DIRECTORY)],
        [uv, "pip", "install", "--upgrade", "--python", python, TORCH],
        [uv, "pip", "install", "--python", python, "--no-deps", "--target", str(ETCD3), *ETCD3_PACKAGES],
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
