"""Adapter: a temporary directory and the programs that run in it, which go away together.

    with workspace.opened("etcd") as work:
        server = work.popen(["etcd", "--data-dir", work.path / "data"], log="etcd.log")

On leaving, all programs started here are killed, with all of their descendants that kept their environment, and the
directory is removed. A guard does the same when the process that opened the workspace dies without leaving; it is this
module run as a program, `python -m testbed.workspace DIRECTORY OWNER`. Needs no privileges. A program that must not be able
to escape, or that clears its environment as sshd does, belongs on a testbed host.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import processes

if TYPE_CHECKING:
    from testbed import hosts

MARK = "TESTBED_WORKSPACE"


@contextlib.contextmanager
def opened(name: str) -> Iterator[Workspace]:
    """Make a workspace, with `name` in its path for anyone who finds it."""
    path = Path(tempfile.mkdtemp(prefix=f"testbed-{name}-"))
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    guardian = processes.worker_supervisor("testbed.workspace", str(path), env=unmarked)
    work = Workspace(path)
    try:
        yield work
    finally:
        work.close()
        guardian.kill()
        guardian.wait()


class Workspace:
    """A temporary directory, `path`, and the programs started in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._processes: list[subprocess.Popen[str]] = []

    def popen(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        log: str,
        host: hosts.Host | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a program in the directory, on a testbed host or here, with its output appended to the file `log`."""
        marked = {**(os.environ if env is None else env), MARK: str(self.path)}
        with open(self.path / log, "a", encoding="utf-8") as output:
            if host is not None:
                return host.popen(
                    args, env=marked, cwd=self.path, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
            process = subprocess.Popen(
                args,
                env=marked,
                cwd=self.path,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the program that uses the workspace
                text=True,
            )
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Kill what still runs and remove the directory."""
        kill_all(self.path)
        for process in self._processes:
            process.wait()
        shutil.rmtree(self.path, ignore_errors=True)


def kill_all(path: Path) -> None:
    """Kill every process that was started in the workspace, until there is none."""
    mark = f"{MARK}={path}".encode()
    while pids := [pid for pid in _pids() if mark in _environment(pid)]:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def guard(path: Path, owner: int) -> None:
    """Wait for the death of the process behind a pidfd, then clear the workspace."""
    select.select([owner], [], [])
    kill_all(path)
    time.sleep(0.1)  # a program that was being started got its environment meanwhile
    kill_all(path)
    shutil.rmtree(path, ignore_errors=True)


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it ended meanwhile, or is somebody else's
        return []


if __name__ == "__main__":
    guard(Path(sys.argv[1]), int(sys.argv[2]))
