"""Programs that begin with Paddle imported, which takes a process two seconds of a core: forks of one process that has nothing else of it.

    with paddle_forks.opened() as forks:
        status = forks.run(["umiak.cli.main", "train", ...], cwd=..., environ=..., out=..., err=...)

Each is a process, the first of its session, with a working directory, variables and files of its own, and is killed when nobody waits for it any
more. Nothing of umiak is imported before it begins. What a test says of the start of an interpreter needs real ones.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing.util
import os
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

SOCKET = "PADDLE_FORKS"
"""The variable in which a fork finds where others are asked for."""


class Forks:
    """Where forks are asked for."""

    def __init__(self, path: str) -> None:
        self.path = path

    def run(self, words: Sequence[str], *, cwd: str, environ: Mapping[str, str], out: str, err: str) -> int:
        """Run a module with its words to its end, with its output in files. Returns its exit status; of a signal, less than zero."""
        wanted = {"words": [*words], "cwd": cwd, "environ": {**environ, SOCKET: self.path}, "out": out, "err": err}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            connection.sendall(json.dumps(wanted).encode() + b"\n")
            return int(connection.makefile().readline())


@contextlib.contextmanager
def opened(**flags: str) -> Iterator[Forks]:
    """The process that is divided, for as long as this lasts. ``flags`` are variables that Paddle reads when it is imported."""
    with tempfile.TemporaryDirectory(prefix="forks-") as directory:
        path = f"{directory}/socket"
        command = [sys.executable, "-m", "tests.support.paddle_forks", path]
        root = Path(__file__).parents[2]
        with subprocess.Popen(
            command, cwd=root, env={**os.environ, **flags}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server:
            assert server.stdin
            assert server.stdout
            assert server.stdout.readline() == b"ready\n"
            yield Forks(path)
            server.stdin.close()  # it ends then, as it does when this process is killed


def serve(path: str) -> None:
    """Answer until nobody is there to ask."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import paddle  # noqa: F401
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    while True:
        readable, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in readable:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(connection)
        connection.close()


def _answer(connection: socket.socket) -> NoReturn:
    """Run what is wanted, and kill it if the process that wants it is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wanted = json.loads(connection.makefile().readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(wanted)
    ended = os.pidfd_open(pid)
    readable, _, _ = select.select([ended, connection], [], [])
    if ended not in readable:
        os.killpg(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(f"{status}\n".encode())
    os._exit(0)


def _become(wanted: dict[str, Any]) -> NoReturn:
    """The program. What `python -m` does before is done here."""
    os.setsid()
    files = [os.open(os.devnull, os.O_RDONLY)]
    files += [os.open(wanted[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) for name in ("out", "err")]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["environ"])
    tempfile.tempdir = None
    from tests.support import forked_workers

    del sys.path[0]  # that of the tests
    module, *words = wanted["words"]
    sys.argv = [module, *words]
    status = 1
    try:
        forked_workers.install()
        if "--compare" in words:
            _sides_are_forks()
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on as the one that is divided
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            multiprocessing.util._exit_function()  # type: ignore[attr-defined]
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _sides_are_forks() -> None:
    """Both sides of `umiak train --compare`, each with nothing but Paddle; trainers of the first one are forks of their launcher."""
    from umiak.adapters import own_modules
    from umiak.train.compare import program

    def start(words: Sequence[str], environ: Mapping[str, str], log: str) -> int:
        at = len(own_modules.start_words(""))
        before_311 = re.search(r"run_module\('([\w.]+)'", words[at])
        module = before_311[1] if before_311 else words[at]
        own = [module, *words[at + 1 :]]
        return Forks(os.environ[SOCKET]).run(own, cwd=os.getcwd(), environ=environ, out=log, err=log)

    program.start = start


if __name__ == "__main__":
    serve(sys.argv[1])
