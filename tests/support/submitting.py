"""Jobs that are really submitted to this machine: a directory of their own, workers that tell their pids, nothing left at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import Program, eventually, remember_launcher
from umiak.adapters import identity

UMIAK = (sys.executable, "-m", "umiak")
WORKER = """
import os, pathlib, signal, sys, time
here = pathlib.Path("seen")
here.mkdir(exist_ok=True)
role, rank = os.environ["UMIAK_ROLE"], os.environ["UMIAK_RANK"]
with open(here / "starts", "a") as file:
    file.write(f"{role}.{rank} {os.getpid()}\\n")
print(f"begin {role} {rank} of {os.environ['UMIAK_WORLD_SIZE']}", flush=True)
for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    if name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (here / f"stubborn.{rank}").touch()
    elif name == "until":
        while not pathlib.Path(value).exists():
            time.sleep(0.01)
    elif name == "lines":
        for number in range(int(value)):
            print(f"line {number}", flush=True)
    elif name == "fail" and rank == "0":
        sys.exit(int(value))
print("end", flush=True)
"""


RESTARTED = """
import os, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[1])
rank, life = os.environ["UMIAK_RANK"], os.environ["UMIAK_RESTART_COUNT"]
print(f"life {life} of {rank}", flush=True)
def wait(name):
    while not (here / name).exists():
        time.sleep(0.02)
signal.signal(signal.SIGTERM, lambda *_: (wait("go"), os._exit(0)))
(here / f"life.{life}.{rank}").touch()
if life == "0" and rank == "0":
    wait("life.0.1")
    sys.exit(7)
wait("end")
"""
"""Two workers: the first one fails once, and the other then takes its time to end, until there is a file `go`. The restart lasts as long."""


class Desk:
    """One person at one machine."""

    patience_s = 100
    """How long a command may take."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "work"
        self.directory.mkdir()
        self.state = directory / "state"
        (self.directory / "train.py").write_text(WORKER)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_", "XDG_"))}
        self.environ = {**kept, "HOME": str(directory), "XDG_STATE_HOME": str(self.state)}
        remember_launcher(directory)
        self.used: set[int] = set()

    def start(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> Program:
        """A command of umiak, in a shell of its own."""
        return Program(
            [*UMIAK, *words],
            cwd=self.directory,
            env={**self.environ, **(env or {})},
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more},
        )

    def umiak(self, *words: str, status: int = 0, env: Mapping[str, str] | None = None) -> str:
        """What a command prints; it must end with this status."""
        with self.start(*words, env=env) as process:
            out, err = process.communicate(timeout=self.patience_s)
        assert process.returncode == status, f"{words} ended with {process.returncode}:\n{out}{err}"
        return out if status == 0 else f"{out}{err}"

    def submit(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """A handle."""
        return self.umiak("submit", *words, env=env).strip()

    def status(self, handle: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.umiak("status", handle, "--json"))
        return found

    def run_directory(self, handle: str) -> Path:
        return self.state / "umiak" / "local" / handle.rpartition("/")[2]

    def supervisor(self, handle: str) -> identity.ProcessIdentity:
        return identity.ProcessIdentity.from_plain(
            json.loads((self.run_directory(handle) / "supervisor.json").read_text())
        )

    def starts(self) -> list[str]:
        """Every worker that ever began: ``trainer.0``."""
        return [line.split()[0] for line in self._starts()]

    def workers(self) -> list[int]:
        """The pids of every worker that ever began."""
        return [int(line.split()[1]) for line in self._starts()]

    def _starts(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / "seen" / "starts").read_text().splitlines()
        return []

    def until_started(self, count: int) -> list[int]:
        eventually(lambda: len(self._starts()) >= count)
        return self.workers()

    def touch(self, name: str) -> None:
        (self.directory / name).touch()

    def left(self) -> list[str]:
        """Command lines of processes that belong to this desk: by their working directory or their environment."""
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if f"XDG_STATE_HOME={self.state}".encode() in environ:
                    found.append(f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes()!r}")
        return found

    def close(self) -> None:
        """Nothing may be left; what is, is killed, and named."""
        for run in (self.state / "umiak" / "local").glob("*/supervisor.json"):
            identity.send(identity.ProcessIdentity.from_plain(json.loads(run.read_text())), signal.SIGTERM)
        eventually(lambda: not self.left())


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[Desk]:
    """A desk for one test; nothing of it is left when that is over."""
    desk = Desk(directory)
    try:
        yield desk
    finally:
        desk.close()
