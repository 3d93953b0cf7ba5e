"""Adapter: starting and stopping processes in ways that `subprocess` lacks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def program(name: str) -> str | None:
    """The path of a command, also where the directories of daemons are not on PATH."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def worker_supervisor(
    module: str, *args: str, env: Mapping[str, str] | None = None, talks: bool = False
) -> subprocess.Popen[str]:
    """Start a module of the testbed that cleans up when this process dies.

    Its last argument is a pidfd of this process. That tells of its death exactly: the kernel's parent-death signal
    would tell of the death of the thread that started the keeper, and the end of a pipe would wait for every forked
    copy of it.
    """
    stream = subprocess.PIPE if talks else subprocess.DEVNULL
    owner = os.pidfd_open(os.getpid())
    try:
        return subprocess.Popen(
            [sys.executable, "-E", "-s", "-S", "-m", module, *args, str(owner)],
            stdin=stream,
            stdout=stream,
            stderr=stream,
            text=True,
            env=env,
            cwd=Path(__file__).parent.parent,
            pass_fds=[owner],
            start_new_session=True,
        )
    finally:
        os.close(owner)


def pause(process: subprocess.Popen[str]) -> None:
    """Stop a child with SIGSTOP, and return once all of its threads stand still."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def resume(process: subprocess.Popen[str]) -> None:
    """Let a child go on after `pause`."""
    process.send_signal(signal.SIGCONT)
