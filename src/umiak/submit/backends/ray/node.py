"""One node of a run inside of a Ray actor: a launcher as a subprocess, its lines, its end.
An adapter; standard library only.

The driver sends this class to Ray's workers by value:
no umiak is installed there, so that nothing of umiak is imported here.

A launcher has a session of its own, since Ray kills the process group of a worker that ends,
and is sent SIGTERM by the kernel when this process is killed. It then ends its workers, and nothing is left.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping

LINES = 2000
"""At most so many are given at once."""
WAIT_S = 0.5
"""So long a call waits for lines."""
MOST_WAITING_BYTES = 64 << 20
"""Of lines that nobody has fetched; then a launcher that writes more waits."""
LAST_LINES_S = 5.0
"""For what is still in the pipe when a launcher has ended."""
OURS = "UMIAK_"
REPORT = "state.json"
"""`umiak.core.node_report.FILE`, which can't be imported here."""
NOT_PASSED_ON = ("RAY_JOB_CONFIG_JSON_ENV_VAR",)
START = """
import ctypes, os, signal, sys
signal.pthread_sigmask(signal.SIG_SETMASK, [])  # Ray blocks SIGINT
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # when the parent ends
if os.getppid() != int(sys.argv[1]):
    sys.exit(3)
os.execv(sys.argv[2], sys.argv[2:])
"""


class RunNode:
    """The launcher of one bundle."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._code: int | None = None
        self._directory = ""
        self._reported = ""
        self._lines: collections.deque[str] = collections.deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()

    def where(self) -> tuple[str, int, str]:
        """This host's address in the cluster, a port that is free there, and Ray's id of the node."""
        import ray
        import ray.util

        address: str = ray.util.get_node_ip_address()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as one:
            one.bind((address, 0))
            port: int = one.getsockname()[1]
            return address, port, ray.get_runtime_context().get_node_id()

    def start(self, order: JsonMapping) -> str:
        """Start the launcher: ``plan``, ``env``, ``name``, ``run_id``, ``launcher``, ``python``, ``directory``.
        Why it can't be started, or nothing.
        """
        try:
            self._directory = _own_directory(order)
            plan = json.loads(order["plan"])
            if plan["files"]:
                plan["files"]["archive"] = sent(plan["files"]["archive"])
            path = os.path.join(self._directory, "node.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(plan, file)
            python = order["python"] or sys.executable
            argv = [python, sent(order["launcher"]), "-m", "umiak.submit.payload.node_start", path]
            if not shutil.which(python):
                return f"there is no {python} on this node"
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        kept = {
            name: text for name, text in os.environ.items() if not name.startswith(OURS) and name not in NOT_PASSED_ON
        }
        ready = threading.Event()
        # The kernel's signal comes when the *thread* ends that has started the child:
        # this one stays until the child has ended.
        threading.Thread(target=self._run, args=(argv, {**kept, **order["env"]}, ready), daemon=True).start()
        ready.wait()
        return ""

    def read(self) -> tuple[list[str], int | None, str]:
        """The next lines, how the launcher ended once all lines were given,
        and what it has written about itself, if that is new.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._code is not None, WAIT_S)
            lines = [self._lines.popleft() for _ in range(min(LINES, len(self._lines)))]
            self._waiting_bytes -= sum(map(len, lines))
            self._changed.notify_all()
            return lines, None if self._lines or lines else self._code, self._news()

    def _news(self) -> str:
        try:
            with open(os.path.join(self._directory, "logs", REPORT), encoding="utf-8") as file:
                text = file.read()
        except OSError:
            return ""
        if text == self._reported:
            return ""
        self._reported = text
        return text

    def signal(self, number: int) -> None:
        """For the launcher."""
        if self._child is not None and self._code is None:
            self._child.send_signal(number)

    def kill(self) -> None:
        """End everything that the launcher has started, and the launcher."""
        if self._child is None:
            return
        for _ in range(3):  # what was started while we looked
            for pid in [*_descendants(self._child.pid), self._child.pid]:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def clean(self) -> None:
        """Remove the working directory."""
        shutil.rmtree(self._directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # other nodes of the run may be on this host
            os.rmdir(os.path.dirname(self._directory))

    def _run(self, argv: list[str], environ: dict[str, str], ready: threading.Event) -> None:
        words = [sys.executable, "-I", "-S", "-c", START, str(os.getpid()), shutil.which(argv[0]) or argv[0], *argv[1:]]
        try:
            self._child = child = subprocess.Popen(
                words,
                cwd=self._directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._put([f"error: can't be started: {error}"])
            self._end(126)
            return
        finally:
            ready.set()
        reader = threading.Thread(target=self._pump, args=(child,), daemon=True)
        reader.start()
        code = child.wait()
        reader.join(LAST_LINES_S)
        self._end(128 - code if code < 0 else code)

    def _pump(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        rest = b""
        while data := os.read(child.stdout.fileno(), 1 << 16):
            # A progress bar ends its lines with a carriage return.
            *whole, rest = (rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            self._put([line.decode(errors="replace") for line in whole])
        if rest:
            self._put([rest.decode(errors="replace")])

    def _put(self, lines: list[str]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting_bytes < MOST_WAITING_BYTES)
            self._lines.extend(lines)
            self._waiting_bytes += sum(map(len, lines))
            self._changed.notify_all()

    def _end(self, code: int) -> None:
        with self._changed:
            self._code = code
            self._changed.notify_all()


def directory_of(order: JsonMapping) -> str:
    """Where this node of a run has its directory: ``directory``, ``run_id``, ``name``."""
    # A link can't be led elsewhere after it was looked at.
    return os.path.join(os.path.realpath(_base_of(order)), order["run_id"], order["name"])


def _base_of(order: JsonMapping) -> str:
    return order["directory"] or os.path.join(tempfile.gettempdir(), f"umiak-ray-{os.geteuid()}")


def _own_directory(order: JsonMapping) -> str:
    """A new directory for this node of the run, which nobody else can look into."""
    base = _base_of(order)
    if not order["directory"]:
        _make_own(base)
    os.makedirs(base, mode=0o700, exist_ok=True)
    path = directory_of(order)
    _make_own(os.path.dirname(path))
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path, 0o700)
    return path


def _make_own(path: str) -> None:
    """A directory that is nobody else's: its name can be guessed, and what lies in it is run."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    seen = os.lstat(path)
    if not stat.S_ISDIR(seen.st_mode):
        raise PermissionError(1, "it is a link, or no directory", path)
    if seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
        raise PermissionError(1, f"{_owner_of(seen)}, and must be this user's alone", path)
    at = os.path.dirname(os.path.realpath(path))
    while not os.environ.get(
        "KUBERNETES_SERVICE_HOST"
    ):  # in a pod are no other users, and volumes are often open to all
        seen = os.lstat(at)
        if seen.st_uid not in (0, os.geteuid()) or (seen.st_mode & 0o022 and not seen.st_mode & stat.S_ISVTX):
            raise PermissionError(1, f"{_owner_of(seen)}: others could exchange what is in it", at)
        if at == os.path.dirname(at):
            return
        at = os.path.dirname(at)


def _owner_of(seen: os.stat_result) -> str:
    return f"it belongs to uid {seen.st_uid} (mode {stat.S_IMODE(seen.st_mode):04o})"


def sent(name: str) -> str:
    """Where Ray has put a file of a package."""
    for directory in (os.getcwd(), *sys.path):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return os.path.abspath(path)
    raise FileNotFoundError(2, "Ray has not brought it to this node", name)


def _descendants(ancestor: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except OSError:
            continue
        # The command's name stands in brackets and may hold anything, so count from its last bracket.
        children.setdefault(int(text[text.rindex(b")") + 2 :].split()[1]), []).append(int(name))
    descendants, waiting = [], [ancestor]
    while waiting:
        own = children.get(waiting.pop(), [])
        descendants += own
        waiting += own
    return descendants
