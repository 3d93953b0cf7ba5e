"""What answers on a host that a job is sent to: JSON lines in, JSON lines out, over ssh. A program, Linux only.

    {"do": "check", "files": "9f31...", "wants_port": true}                 {"needs_files": true, "port": 41234, "free_bytes": ...}
    {"do": "hold", "run": "ctr-3f2a9c", "host": "node0", "plan": {...}}     {"is_started": false}
    {"do": "go"}                                                            {"said": "started"}
    {"do": "status", "run": "ctr-3f2a9c", "host": "node0"}                  {"status": {"state": "running", ...}}

A job starts in two steps, so that it starts on all hosts or on none, and everywhere at once: `hold` makes everything
ready, to the processes that become the launchers, and `go` lets them. An agent that ends in between has started
nothing.

`bootstrap` starts it from the launcher's file. It ends with its connection; what it has started goes on. Runs lie below
one directory of the user: ``runs/RUN/HOST`` (hosts may share their homes), files of jobs by their content hash in
``files``, launchers in ``launchers``.

Agents begin on all hosts of a job at once, and all wait for the slowest: what takes milliseconds to import
(`json`, `enum`, `signal`, `ctypes` do) is imported where it is needed, and not at all up to `go`. A test sees to it.
"""

from __future__ import annotations

import os
import select
import sys
import time

from umiak.adapters import kernel_requests, private_files
from umiak.core import light_json
from umiak.core.names import is_name
from umiak.core.problem import UmiakError
from umiak.submit.node import own_directory, supervisor
from umiak.submit.node.files import PLAN, RunFiles
from umiak.submit.node.plan import LAUNCHER, PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, BinaryIO

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.submit.backend import LogLine
    from umiak.submit.node.supervisor import HeldRun

RUNS, FILES, LAUNCHERS = "runs", "files", "launchers"
FAMILIES = {"shared": "umiak.submit.backends.shared.answers"}
"""Questions ``FAMILY.WORD``, and the modules that answer them."""
LOOK_S = 0.05
IMPORT_S = 120.0
BLOCK = 1 << 20
DEVICE_FILES = ("davinci", "xpu", "nvidia", "kfd")
"""How the names of accelerators in /dev begin."""


def main(
    directory: str, launcher: str, source: BinaryIO, sink: BinaryIO, first: bytes = b"", trusted: Sequence[str] = ()
) -> int:
    """Answer until the connection ends. ``first``:
    a question that was read already; ``trusted``: for `own_directory`.
    """
    agent = _Agent(directory, launcher, source, sink, trusted)
    line = first.strip() or source.readline()
    while line:
        agent.answer(light_json.loads(line))
        if agent.becomes is not None:
            return agent.becomes()
        line = source.readline()
    return 0


class _Agent:
    def __init__(self, directory: str, launcher: str, source: BinaryIO, sink: BinaryIO, trusted: Sequence[str]) -> None:
        self._directory = directory
        self._trusted = trusted
        self._launcher = launcher
        self._source = source
        self._sink = sink
        self._held: tuple[HeldRun, RunFiles, str] | None = None
        """What waits for `go`, and the token that is written down then."""
        self.becomes: Callable[[], int] | None = None
        """Set by a question after which this process is another program."""
        self._known: Mapping[str, Callable[[JsonMapping], JsonMapping]] = {
            "check": self._check,
            "files": self._take_files,
            "hold": self._hold,
            "go": self._go,
            "drop": self._drop,
            "status": self._status,
            "logs": self._logs,
            "cancel": self._cancel,
            "list": self._list,
            "clean": self._clean,
            "session": self._begin_session,
            "become": self._execute,
        }

    def answer(self, request: JsonMapping) -> None:
        try:
            family, _, word = str(request["do"]).rpartition(".")
            if family:
                answered = _answers(family)(word, self._directory, self._launcher, request, self._trusted)
            else:
                answered = self._known[word](request)
        except UmiakError as error:
            problem = error.problems[0]
            answered = {"error": problem.what, "why": problem.why, "code": problem.code, "hint": problem.hint}
        except OSError as error:
            answered = {"error": error.filename or "", "why": error.strerror, "errno": error.errno}
        self._say(answered)

    def _begin_session(self, request: JsonMapping) -> JsonObject:
        """Become the program for commands and files of a run: its frames follow the answer, and nothing else does.
        Without a ``host`` the run's directory is one that several machines share.
        """
        path = self._files_of(request).path if request.get("host") else self._run_directory(request)
        if not os.path.isdir(path):
            raise FileNotFoundError(2, "the run's files are gone from this host", path)

        def session() -> int:
            from umiak.submit.node.session import serve

            return serve(self._source.fileno(), self._sink.fileno(), path)

        self.becomes = session
        return {"ready": True}

    def _run_directory(self, request: JsonMapping) -> str:
        if not is_name(str(request["run"])):
            raise OSError(22, "not a name", str(request["run"]))
        return os.path.join(self._directory, RUNS, str(request["run"]))

    def _execute(self, request: JsonMapping) -> JsonObject:
        """Become another program of this machine, such as srun: its input and output are the connection's.
        No secret is among its words.
        """
        import shutil

        words, environ = [str(each) for each in request["words"]], dict(request["env"])
        program = shutil.which(words[0], path=str(request.get("path") or "") or environ.get("PATH"))
        if program is None:
            raise FileNotFoundError(2, "no such command", words[0])
        self.becomes = lambda: kernel_requests.become(words, environ, program)
        return {"ready": True}

    def _say(self, data: JsonMapping) -> None:
        self._sink.write(light_json.dumps(data).encode() + b"\n")
        self._sink.flush()

    def _files_of(self, request: JsonMapping) -> RunFiles:
        run, host = str(request["run"]), str(request["host"])
        if not (is_name(run) and is_name(host)):
            raise OSError(22, "not a name", f"{run}/{host}")
        path = os.path.join(self._directory, RUNS, run, host)
        own_directory.check(path, self._trusted)  # what it says about processes is believed
        return RunFiles(path)

    # ---- before a job

    def _check(self, request: JsonMapping) -> JsonObject:
        """What this host has; whether that is enough, the client decides.
        Also what it must know to plan a job, if there is one.
        """
        why = ""
        try:
            own_directory.make(self._directory, self._trusted)
            probe = os.path.join(self._directory, f".probe.{os.getpid()}")
            private_files.write(probe, "x")
            private_files.remove(probe)
        except OSError as error:
            why = str(error.strerror)
        seen = os.statvfs(self._directory)
        framework = str(request.get("framework") or "")
        return {
            "now_s": time.time(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "executable": sys.executable,
            "directory": self._directory,
            "unwritable": why,
            "free_bytes": seen.f_bavail * seen.f_frsize,
            "free_files": seen.f_favail if seen.f_files else None,
            "import_error": _import_error(framework) if framework else "",
            "cpus": os.cpu_count() or 1,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "needs_files": not self._has_files(str(request.get("files") or "")),
            "port": _free_port() if request.get("wants_port") else 0,
            "devices": _devices(request["env"]) if request.get("wants_devices") else 0,
        }

    # ---- starting

    def _has_files(self, digest: str) -> bool:
        """Whether a job's files are here, from now on as files that were used just now."""
        if not digest:
            return True
        path = os.path.join(self._directory, FILES, digest)
        own_directory.check(path, self._trusted)
        try:
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def _take_files(self, request: JsonMapping) -> JsonObject:
        """The archive comes right behind this line."""
        left = int(request["size_bytes"])
        store = os.path.join(self._directory, FILES)
        own_directory.make(store, self._trusted)
        archive = os.path.join(store, f".{request['digest']}.{os.urandom(6).hex()}.tar.gz")
        problem: OSError | None = None
        try:
            with open(archive, "wb", opener=_private) as file:
                while left:
                    block = self._source.read(min(BLOCK, left))
                    if not block:
                        raise EOFError
                    left -= len(block)
                    if problem is None:
                        try:
                            file.write(block)
                            file.flush()
                        except OSError as error:
                            problem = error  # the rest is read all the same: the next line comes behind it
            if problem is not None:
                raise problem
            from umiak.submit.payload import unpack

            unpack.unpack(str(request["digest"]), store, archive)
        finally:
            private_files.remove(archive)
        return {}

    def _hold(self, request: JsonMapping) -> JsonObject:
        """Make a run ready to go, unless it was started here before: then with what."""
        self._drop(request)
        files = self._files_of(request)
        if files.supervisor() is not None:
            from umiak.platforms import native

            master = dict(files.plan().launchers[0].placement).get(native.VARIABLES["master"], "")
            return {"is_started": True, "token": files.token(), "master": master}
        own_directory.make(files.path, self._trusted)
        for name, text in request["texts"].items():
            private_files.write(os.path.join(files.path, os.path.basename(name)), text)
        plan = request["plan"]
        here = {PYTHON: sys.executable, LAUNCHER: self._launcher}
        for each in plan["launchers"]:
            each["argv"] = [here.get(word, word) for word in each["argv"][:2]] + each["argv"][2:]
        private_files.write(os.path.join(files.path, PLAN), light_json.dumps(plan))
        self._held = supervisor.hold(files, request["secrets"]), files, request["token"]
        return {"is_started": False}

    def _go(self, _: JsonMapping) -> JsonObject:
        """Let what is held begin."""
        if self._held is None:
            raise OSError(0, "nothing was made ready: the connection was lost in between")
        (held, files, token), self._held = self._held, None
        files.write_token(token)  # before the run is claimed: a submission that is repeated needs it
        return {"said": held.go()}

    def _drop(self, _: JsonMapping) -> JsonObject:
        """Let what is held end."""
        if self._held is not None:
            (held, _files, _token), self._held = self._held, None
            held.drop()
        return {}

    # ---- asking

    def _status(self, request: JsonMapping) -> JsonObject:
        from umiak.core.decode import encode
        from umiak.submit.node import control

        files = self._files_of(request)
        if not files.exists:
            return {"status": None, "machines": [], "is_elastic": False}
        status = control.status(files)
        if status.state.is_over:
            files.forget_token()  # of a run whose supervisor was killed
        plan = files.plan()
        return {"status": encode(status), "machines": list(plan.machines), "is_elastic": plan.is_elastic}

    def _logs(self, request: JsonMapping) -> JsonObject:
        from umiak.core.cluster import Role
        from umiak.submit.backend import LogsWanted
        from umiak.submit.logs import order as log_order
        from umiak.submit.node import control

        files = self._files_of(request)
        if not files.exists:
            return {"end": "unknown"}
        since_s = request.get("since_s")
        ahead_s = log_order.clock_ahead_s(time.time(), request.get("now_s"))
        wanted = LogsWanted(
            follow=bool(request.get("follow")),
            role=Role(request["role"]) if request.get("role") else None,
            rank=request.get("rank"),
            after=request.get("after") or {},
            tail=request.get("tail"),
            since_s=None if since_s is None else float(since_s) + ahead_s,
        )
        is_told = False
        for several in _batches(control.lines(files, wanted), ahead_s):
            if several:
                self._say({"lines": several})
            else:
                if not is_told:  # from now on lines come as they are written
                    self._say({"is_up_to_date": True})
                    is_told = True
                if select.select([self._source], [], [], LOOK_S)[0]:
                    break  # the client has gone, or wants something else
        return {"end": "over"}

    def _cancel(self, request: JsonMapping) -> JsonObject:
        from umiak.submit.node import control

        files = self._files_of(request)
        if not files.exists:
            return {}
        control.cancel(files, float(request["grace_s"]), str(request["run"]))
        files.forget_token()
        return {}

    def _list(self, _: JsonMapping) -> JsonObject:
        path = os.path.join(self._directory, RUNS)
        own_directory.check(path, self._trusted)
        try:
            return {"runs": sorted(os.listdir(path))}
        except FileNotFoundError:
            return {"runs": []}

    def _clean(self, request: JsonMapping) -> JsonObject:
        """Remove runs that are over, and files and launchers, that were not used for so long."""
        from umiak.submit.node import control

        own_directory.check(os.path.join(self._directory, RUNS), self._trusted)
        removed = control.clean(self._directory, older_than_s=float(request["older_than_s"]))
        seen = os.statvfs(self._directory)
        return {"removed": removed, "free_bytes": seen.f_bavail * seen.f_frsize}


def _answers(family: str) -> Callable[[str, str, str, JsonMapping, Sequence[str]], JsonMapping]:
    """By its name: those modules import this package, and not the other way round."""
    function: Callable[[str, str, str, JsonMapping, Sequence[str]], JsonMapping]
    function = __import__(FAMILIES[family], fromlist=["answer"]).answer
    return function


def _batches(lines: Iterator[LogLine | None], ahead_s: float) -> Iterator[list[list[Any]]]:
    """Lines in parcels; an empty one: nothing new for now."""
    several: list[list[Any]] = []
    for line in lines:
        if line is None:
            if several:
                yield several
            several = []
            yield several
            continue
        time_s = None if line.time_s is None else line.time_s - ahead_s
        role = line.role.value if line.role else None
        several.append([line.source, line.text, line.position, role, line.rank, time_s])
        if len(several) == 256:
            yield several
            several = []
    if several:
        yield several


def _import_error(framework: str) -> str:
    """What an import says in the environment of a job; empty: it works."""
    import subprocess

    try:
        done = subprocess.run(
            [sys.executable, "-c", f"import {framework}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=IMPORT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not imported within {IMPORT_S:g} s"
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"exit status {done.returncode}")[:300]


def _devices(env: Mapping[str, str]) -> int:
    """The accelerators that a launcher finds here: it starts a worker for each."""
    environ = {**os.environ, **env}
    if not _may_have_devices(environ):
        return 0
    from umiak.adapters.devices import find

    devices = find(environ)
    return len(devices.ids) if devices else 0


def _may_have_devices(environ: Mapping[str, str], root: str = "/") -> bool:
    """False where `adapters.devices` surely finds none: it need not be imported then."""
    if any(name.endswith("_VISIBLE_DEVICES") for name in environ):
        return True
    try:
        names = os.listdir(f"{root}dev")
    except OSError:
        return True
    return any(name.startswith(DEVICE_FILES) for name in names) or os.path.exists(f"{root}proc/driver/nvidia/gpus")


def _free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("", 0))
        port: int = one.getsockname()[1]
        return port


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, private_files.PRIVATE_FILE)
