"""A person who submits jobs from the first host of a cluster of the testbed; files are those of this machine, as on a shared file system."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.support import PATIENCE_S, eventually, remember_launcher
from tests.support.submitting import RESTARTED
from umiak.core.cluster import Placement
from umiak.platforms import detect

UMIAK = (sys.executable, "-m", "umiak")
WORKER = """
import os, pathlib, signal, socket, sys, time
here = pathlib.Path("seen")
here.mkdir(exist_ok=True)
role, rank = os.environ["UMIAK_ROLE"], os.environ["UMIAK_RANK"]
def say(text):
    with open(here / "said", "a") as file:
        file.write(f"{role}.{rank} {socket.gethostname()} {os.getpid()} {text}\\n")
def ended(number, _):
    say("told to end")
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
say("begin")
print(f"begin {role} {rank} of {os.environ['UMIAK_WORLD_SIZE']}", flush=True)
for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    if name == "until":
        while not pathlib.Path(value).exists():
            time.sleep(0.02)
    elif name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif name == "lines":
        for number in range(int(value)):
            print(f"line {number} of {rank}", flush=True)
    elif name == "secret":
        say(f"{value} has {len(os.environ[value])} letters")
    elif name == "read":
        say(f"read {pathlib.Path(value).read_text()}")
    elif name == "write" and rank == "0":
        pathlib.Path(value).parent.mkdir(exist_ok=True)
        pathlib.Path(value).write_text("trained")
    elif name == "fail" and rank == "1":
        sys.exit(int(value))
print("end", flush=True)
"""


class Runner(Protocol):
    """Starts commands on the host that jobs are submitted from."""

    def popen(self, words: Sequence[str], env: Mapping[str, str], cwd: Path, **more: Any) -> subprocess.Popen[str]: ...


class ClusterDesk:
    """One person with one place."""

    def __init__(self, directory: Path, place: str, runner: Runner, more: Mapping[str, str] | None = None) -> None:
        self.directory = directory / "work"
        self.directory.mkdir()
        self.shared = directory / "shared"
        self.state = directory / "state"
        (self.directory / "train.py").write_text(WORKER)
        (self.directory / "umiak.toml").write_text(
            f"[place.hpc]\n{place}\ndirectory = {json.dumps(str(self.shared))}\n"
        )
        kept = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("UMIAK_", "PADDLE_", "XDG_", "SLURM_", "OMPI_"))
        }
        self.environ = {**kept, "HOME": str(directory), "XDG_STATE_HOME": str(self.state), **(more or {})}
        remember_launcher(directory)
        self._runner = runner
        self.records = directory / "records"
        self.records.mkdir()

    @staticmethod
    def python(directory: Path) -> str:
        """A setting: a Python that keeps the environment of every node's start, and is the real one then. The check that comes before
        a start is none."""
        path = directory / "python"
        keep = f'[ "$1" = -I ] || env -0 >{directory}/records/$(hostname).$$'
        path.write_text(f'#!/bin/sh\n{keep}\nexec {sys.executable} "$@"\n')
        path.chmod(0o755)
        return f'python = "{path}"'

    def environments(self) -> list[dict[str, str]]:
        """What nodes were given."""
        texts = [path.read_text() for path in self.records.iterdir()]
        return [dict(item.split("=", 1) for item in text.split("\0") if item) for text in texts]

    def placements(self) -> list[Placement]:
        """What nodes read in it, in the order of their ranks."""
        found = [placement for environ in self.environments() if (placement := detect(environ))]
        return sorted(found, key=lambda each: each.rank or 0)

    def start(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return self._runner.popen([*UMIAK, *words], {**self.environ, **(env or {})}, self.directory, **options)

    def umiak(self, *words: str, status: int = 0, env: Mapping[str, str] | None = None) -> str:
        """What a command prints; it must end with this status."""
        with self.start(*words, env=env) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, f"{words} ended with {process.returncode}:\n{out}{err}\n{self.told()}"
        return out if status == 0 else f"{out}{err}"

    def submit(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """A handle."""
        return self.umiak("submit", "--on", "hpc", *words, env=env).strip()

    def wait(self, handle: str, status: int = 0) -> dict[str, Any]:
        """The last status of a run."""
        self.umiak("wait", handle, status=status)
        return self.status(handle)

    def status(self, handle: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.umiak("status", handle, "--json"))
        return found

    def run_directory(self, handle: str) -> Path:
        return self.shared / "runs" / handle.rpartition("/")[2]

    def said(self, where: Path | None = None) -> list[str]:
        """What workers wrote down, without their hosts and pids."""
        return [" ".join([words[0], *words[3:]]) for words in self._said(where)]

    def hosts(self, where: Path | None = None) -> dict[str, str]:
        return {words[0]: words[1] for words in self._said(where)}

    def _said(self, where: Path | None) -> list[list[str]]:
        path = (where or self.directory) / "seen" / "said"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def until_said(self, *texts: str, where: Path | None = None) -> None:
        eventually(lambda: {*texts} <= {*self.said(where)})

    def touch(self, name: str) -> None:
        (self.directory / name).touch()

    def told(self) -> str:
        """Everything in the logs of all runs, for messages of failed tests."""
        paths = [path for path in self.shared.glob("runs/*/log/**/*.log*") if path.is_file()]
        paths += [path for path in self.shared.glob("runs/*/log/*/*log.[0-9]") if path.is_file()]
        return "\n".join(f"---- {path}\n{path.read_text(errors='replace')[-1500:]}" for path in paths)

    def left(self) -> list[str]:
        """Processes that belong to this desk, by their environment."""
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                directory = os.readlink(f"/proc/{pid}/cwd")
                is_ours = f"XDG_STATE_HOME={self.state}".encode() in environ
                if is_ours or directory.startswith(str(self.directory.parent)):
                    found.append(f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes()!r}")
        return found

    def restarts(self, meeting: Path) -> None:
        """A job on two nodes whose first worker fails once: its status while that lasts, and at the end."""
        (self.directory / "restarted.py").write_text(RESTARTED)
        (self.directory / "job.yaml").write_text(
            f"name: ctr\ncommand: restarted.py {meeting}\nnodes: 2\nrestarts: 3\nenv: {{UMIAK_FAILURE_GRACE: '600'}}\n"
        )
        handle = self.submit("job.yaml")
        eventually(lambda: self.status(handle)["state"] == "restarting")
        told = self.status(handle)
        assert told["reason"] == "trainer 0 failed, restart 1 of 3"
        assert [node["state"] for node in told["nodes"]] == ["restarting", "restarting"]
        assert all(node["host"] for node in told["nodes"])
        (meeting / "go").touch()
        eventually((meeting / "life.1.1").exists)
        eventually(lambda: self.status(handle)["state"] == "running")
        assert self.status(handle)["reason"] == "restarted once: trainer 0 failed, restart 1 of 3"
        (meeting / "end").touch()
        told = self.wait(handle)
        assert told["state"] == "succeeded"
        assert [(node["state"], node["exit_code"]) for node in told["nodes"]] == [("succeeded", 0), ("succeeded", 0)]
