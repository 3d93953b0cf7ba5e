"""`umiak.run`: a function, or a script, in several worker processes under `umiak launch`, from Python and notebooks.
A program.

    def train(lr):
        ...
        return accuracy

    results = umiak.run(train, 0.1, nproc_per_node=2)    # [accuracy of rank 0, accuracy of rank 1]
    umiak.run("train.py", "--lr", "0.1", nproc_per_node=2)

The call waits in a plain `poll`: no event loop, no fork of this process, no thread, so that it works in notebooks, in
threads and beside an event loop. The launcher is a process of its own, and gets SIGTERM from the kernel when this one
ends.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import select
import signal
import subprocess
import sys
from typing import Any

from umiak.adapters import own_modules
from umiak.adapters.process import OneInterrupt
from umiak.api import exchange, launcher, options
from umiak.api.results import RankFailure, Results, RunError
from umiak.core import colours
from umiak.core.decode import encode
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import colours_only
from umiak.core.value import value
from umiak.launch.command_line import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import BinaryIO, NoReturn, TextIO

    from umiak.core.json_types import JsonMapping

LAUNCHER = "umiak.api.launcher"
WORKER = "umiak.api.worker"
TRAINER = "trainer"
CHUNK = 1 << 16
MOST_SOURCE_BYTES = 4 << 20
TRACEBACK = "Traceback (most recent call last):"
TAG = re.compile(r"^\[\w+ (\d+)\] ", re.MULTILINE)
"""Of a worker's line, with its number."""
STAGES = {
    "load": (
        "UM-RUN-008",
        "could not load the function",
        "it must be importable there as it is here, from the same files",
    ),
    "call": ("UM-RUN-006", "failed", ""),
    "return": ("UM-RUN-009", "returned something that can't be sent", "return numbers, texts, lists, dicts or arrays"),
}


def run(
    target: Callable[..., object] | str | os.PathLike[str],
    /,
    *args: object,
    kwargs: Mapping[str, object] | None = None,
    module: bool = False,
    env: Mapping[str, str] | None = None,
    nproc_per_node: int | str | None = None,
    devices: str | Sequence[int] | None = None,
    max_restart: int | None = None,
    log_dir: str | os.PathLike[str] | None = None,
    **more: object,
) -> Results:
    """Run a function, or a script, in ``nproc_per_node`` processes under `umiak launch`, and wait for it.

    A function is called with ``args`` and ``kwargs`` in every process; what it returns comes back by rank. A script
    gets ``args`` as its command line; ``module=True`` takes its name as a module's, as ``-m`` does. ``env`` is added to
    the workers' environment. All other options are flags of `umiak launch`, spelled with underscores.

    RunError names every rank that failed, the first one first, with the traceback in the worker.
    Ctrl-C ends the workers.
    """
    settings = {
        "nproc_per_node": nproc_per_node,
        "devices": devices,
        "max_restart": max_restart,
        "log_dir": log_dir,
        **more,
    }
    for_function = callable(target)
    flags, problems = options.values(settings, for_function=for_function)
    problems += _misuse(target, kwargs, module, env)
    environ = options.environment(
        {**os.environ, **(env or {})} if not problems else os.environ, for_function=for_function
    )
    with exchange.directory() as path:
        program = [WORKER, path] if callable(target) else [str(target), *map(str, args)]
        try:
            request = reading.of_values(flags, environ, program, is_module=for_function or module)
        except UmiakError as error:
            problems += error.problems
        if problems:
            raise RunError(*problems)
        if callable(target):
            _pack(path, target, args, kwargs or {})
        exchange.put(path, launcher.REQUEST, json.dumps(encode(request)).encode())
        status, report = _Launched(path, environ).wait()
        if callable(target):
            return _Finished(path, status, report).results()
    if status:
        raise _launcher_failed(status, report)
    return Results((), log_dir=os.path.abspath(request.options.log_dir))


def _misuse(target: object, kwargs: object, module: bool, env: Mapping[str, str] | None) -> list[Problem]:
    wrong = []
    if not callable(target) and not isinstance(target, (str, os.PathLike)):
        wrong.append(
            ("neither a function nor the path of a script", target, "pass the function itself: umiak.run(train, 0.1)")
        )
    if not callable(target) and kwargs is not None:
        wrong.append(
            (
                "kwargs are for functions",
                kwargs,
                "arguments of a script are texts: umiak.run('train.py', '--lr', '0.1')",
            )
        )
    if callable(target) and module:
        wrong.append(("module=True is for names of modules", target, "umiak.run('package.train', module=True)"))
    for name, text in (env or {}).items():
        if not isinstance(name, str) or not isinstance(text, str):
            wrong.append(("a variable of env is no text", name, f"write env={{{str(name)!r}: '1'}}"))
    return [Problem(code="UM-RUN-003", what=f"{what}: {shown!r:.80}", hint=hint) for what, shown, hint in wrong]


def _pack(path: str, function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Leave the call for the workers."""
    name = getattr(function, "__qualname__", repr(function))
    try:
        packed = exchange.packed((function, args, dict(kwargs)))
    except exchange.NotImportable as error:
        from umiak.adapters import installation

        raise RunError.of(
            "UM-RUN-004",
            f"can't be sent to the workers: {error.name}",
            why="it is defined in a notebook, in the script itself or in a function, and cloudpickle is not installed",
            hint=f"move it into a module and import it, or: {installation.command('run')}",
        ) from None
    except Exception as error:
        raise RunError.of(
            "UM-RUN-005",
            f"can't be sent to the workers: {name} or its arguments",
            why=f"{type(error).__name__}: {error}",
            hint="make what can't be sent (files, locks, connections, models on devices) inside the function",
        ) from error
    caller = {"path": list(sys.path), "argv": list(sys.argv), "sources": _sources()}
    exchange.put(path, "caller", exchange.packed(caller))
    exchange.put(path, "function", packed)


def _sources() -> dict[str, list[str]]:
    """The lines of what has no file, as cells of a notebook have none: a worker's traceback shows them."""
    import linecache

    lines: dict[str, list[str]] = {}
    room = MOST_SOURCE_BYTES
    for name, entry in reversed([*linecache.cache.items()]):  # the newest first
        if len(entry) < 4 or os.path.isfile(name):
            continue
        room -= sum(map(len, entry[2]))
        if room < 0:
            break
        lines[name] = list(entry[2])
    return lines


# ---- while it runs


class _Launched:
    """A launcher of this call's own, with its output on the way to this process's."""

    def __init__(self, path: str, environ: Mapping[str, str]) -> None:
        if sys.stdout:
            sys.stdout.flush()
        # Read here, and not inherited: a notebook replaces sys.stdout,
        # and a traceback that is in the exception is not shown as well.
        self._process = subprocess.Popen(
            [sys.executable, *own_modules.start_words(LAUNCHER), str(os.getpid()), path],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches it through this process alone, and once
        )
        self._messages = _LauncherOutput(sys.stderr)
        self._output = _Output(sys.stdout, environ)
        sinks: dict[Any, _Sink] = {self._process.stderr: self._messages, self._process.stdout: self._output}
        self._sinks = {stream.fileno(): sink for stream, sink in sinks.items() if stream}

    def wait(self) -> tuple[int, list[str]]:
        """Until it has ended: its exit status, and what it says about a failure."""
        try:
            with OneInterrupt():
                try:
                    return self._wait()
                except BaseException as error:
                    self._stop(signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
                    raise
        finally:
            for stream in (self._process.stdout, self._process.stderr):
                if stream:
                    stream.close()

    def _wait(self) -> tuple[int, list[str]]:
        poll = select.poll()
        for fd in self._sinks:
            poll.register(fd, select.POLLIN)
        while self._sinks:
            for fd, _ in poll.poll():
                data = os.read(fd, CHUNK)
                self._sinks[fd].put(data)
                if not data:
                    poll.unregister(fd)
                    del self._sinks[fd]
        status = self._process.wait()
        self._output.end(self._messages.held)
        return (128 - status if status < 0 else status), self._messages.held

    def _stop(self, number: signal.Signals) -> None:
        """Workers have their grace; a second Ctrl-C kills them, and a third gives up waiting:
        the launcher ends them alone.
        """
        try:
            self._process.send_signal(number)
            self._wait()
        except KeyboardInterrupt:
            self._process.send_signal(number)
            self._wait()


class _Sink:
    """Where a stream of the launcher goes."""

    def __init__(self, to: TextIO | None) -> None:
        self._to = to
        # This process's own streams get the bytes as they are, whatever its language is; others take text.
        is_own = to is not None and to in (sys.__stdout__, sys.__stderr__)
        self._bytes: BinaryIO | None = getattr(to, "buffer", None) if is_own else None
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape" if self._bytes else "replace")

    def put(self, data: bytes) -> None:
        """Pass it on; no data means that it is over."""
        self._show(self._decoder.decode(data, not data))

    def _show(self, text: str) -> None:
        if self._to is None:
            return  # a process without standard streams
        try:
            if self._bytes is None:
                self._to.write(text)
            else:
                self._to.flush()
                self._bytes.write(text.encode("utf-8", "surrogateescape"))
            self._to.flush()
        except (OSError, ValueError):
            pass  # closed, or full: the job goes on


class _Output(_Sink):
    """What workers print. A traceback waits until something else follows:
    one that ends a worker is in the exception, and is not shown twice.
    """

    def __init__(self, to: TextIO | None, environ: Mapping[str, str]) -> None:
        super().__init__(to)
        self._rest = ""
        self._held: list[str] = []
        self._is_terminal = to is not None and self._bytes is not None and to.isatty()
        self._paints = self._is_terminal and colours.are_wanted(environ)
        self._unshown = ""
        """On a terminal: the beginning of a line. What steers a terminal may be cut in two."""

    def put(self, data: bytes) -> None:
        text = self._rest + self._decoder.decode(data, not data)
        whole, end, self._rest = text.rpartition("\n")
        if not self._held and TRACEBACK not in text:
            self._show(text)  # also a line without an end, as that of a progress bar
            self._rest = ""
            return
        for line in (whole + end).splitlines(keepends=True):
            if TRACEBACK in line or (self._held and (self._is_open or _untagged(line).startswith((" ", "\n")))):
                self._held.append(line)
            else:
                self._release()
                self._show(line)

    @property
    def _is_open(self) -> bool:
        """Whether the line that names the exception has not come yet."""
        last = _untagged(self._held[-1])
        return last.startswith((" ", TRACEBACK, "\n"))

    def end(self, report: Sequence[str]) -> None:
        """Nothing comes any more; ``report``: what the exception will have."""
        reported = {line.strip() for line in report}
        if not all(_untagged(line).strip() in reported for line in self._held if _untagged(line).strip()):
            self._release()
        self._show(self._rest)
        if self._unshown:
            self._show("\n")
        self._held, self._rest = [], ""

    def _show(self, text: str) -> None:
        """On a terminal as the launcher itself does it: what programs print may not steer it, and tags have colours."""
        if self._is_terminal:
            text = self._unshown + text
            end = max(text.rfind("\n"), text.rfind("\r")) + 1
            text, self._unshown = text[:end], text[end:]
            text = colours_only(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")
        super()._show(TAG.sub(_painted, text) if self._paints else text)

    def _release(self) -> None:
        self._show("".join(self._held))
        self._held = []


def _painted(tag: re.Match[str]) -> str:
    return colours.painted(tag[0], colours.TAGS[int(tag[1]) % len(colours.TAGS)])


def _untagged(line: str) -> str:
    return line.partition("] ")[2] if line.startswith("[") and "] " in line else line


class _LauncherOutput(_Sink):
    """The launcher's messages. What it says about a failure goes into the exception instead."""

    def __init__(self, to: TextIO | None) -> None:
        super().__init__(to)
        self.held: list[str] = []
        self._line = ""

    def put(self, data: bytes) -> None:
        *lines, self._line = (self._line + self._decoder.decode(data, not data)).split("\n")
        if not data and self._line:
            lines, self._line = [*lines, self._line], ""
        for line in lines:
            if self.held or line.startswith("error: "):
                self.held.append(line)
            else:
                self._show(f"{line}\n")


# ---- when it has ended


@value
class _Start:
    """What a worker said when it started."""

    attempt: tuple[int, int]
    log_dir: str
    node: str
    world: int


class _Finished:
    """What the workers of an ended job have left."""

    def __init__(self, path: str, status: int, report: list[str]) -> None:
        self._path, self._status, self._report = path, status, report
        self._names = exchange.names(path)
        starts = [self._read_start(name) for name in self._names if name.startswith("start.")]
        self._start = max(starts, key=lambda start: start.attempt, default=None)

    def results(self) -> Results:
        """What the function returned, by rank; or RunError."""
        start = self._start
        if self._status or start is None:
            self._raise(start)
        files = self._of_last_attempt("result", start)
        for rank in range(start.world):
            if rank not in files:
                raise _no_result(rank, start)
        try:
            returned = [exchange.unpacked(exchange.get(self._path, files[rank])) for rank in range(start.world)]
        except RunError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            hint = "return what this process can import as well"
            raise RunError.of(
                "UM-RUN-009", "a result can't be read here", why=why, hint=hint, exit_status=Exit.JOB_FAILED
            ) from error
        return Results(returned, log_dir=start.log_dir)

    def _read_start(self, name: str) -> _Start:
        facts = json.loads(exchange.get(self._path, name))
        generation, restarts = name.split(".")[1].split("-")
        attempt = (int(generation), int(restarts))
        return _Start(attempt=attempt, log_dir=facts["log_dir"], node=facts["node"], world=int(facts["world"]))

    def _of_last_attempt(self, kind: str, start: _Start) -> dict[int, str]:
        """The files of this kind by rank."""
        first = f"{kind}.{start.attempt[0]}-{start.attempt[1]}.{TRAINER}."
        return {int(name[len(first) :]): name for name in self._names if name.startswith(first)}

    def _raise(self, start: _Start | None) -> NoReturn:
        failures = self._failures(start) if start else []
        if not failures or start is None:
            raise _launcher_failed(self._status, self._report)
        stage, first = failures[0]
        code, verb, hint = STAGES[stage] if stage else ("UM-RUN-007", "failed", "")
        log = os.path.join(start.log_dir, f"workerlog.{first.rank}")
        others = ", ".join(f"rank {each.rank} ({each.what})" for _, each in failures[1:])
        problem = Problem(
            code=code,
            what=f"rank {first.rank} of {start.world} {verb}: {first.what}",
            why=f"it failed first; after it: {others}" if others else None,
            hint=f"{hint + '; ' if hint else ''}its whole output is in {log}",
        )
        details = "".join(
            f"\ntraceback of rank {each.rank}:\n{_indented(each.traceback)}\n" for _, each in failures if each.traceback
        )
        if not first.traceback:
            details = "\n".join(["\nthe launcher says:", *(f"  {line}" for line in self._report), details])
        ranks = tuple(each for _, each in failures)
        raise RunError(
            problem, exit_status=self._status, failures=ranks, details=details.rstrip("\n")
        ) from first.exception

    def _failures(self, start: _Start) -> list[tuple[str, RankFailure]]:
        """How each rank failed and at which stage, the first failure first."""
        failures: dict[int, tuple[float, str, RankFailure]] = {}
        for rank, name in self._of_last_attempt("failure", start).items():
            error = exchange.unpacked(exchange.get(self._path, name))
            failure = RankFailure(
                rank=rank,
                what=error["what"],
                traceback=error["traceback"].rstrip("\n"),
                exit_code=1,
                exception=_copy_of(error["exception"]),
            )
            failures[rank] = (error["at"], error["stage"], failure)
        for number, (at, failure) in enumerate(_noticed(start)):
            # A peer of a worker that was killed may have said so before the launcher noticed the kill.
            failures.setdefault(failure.rank, (at if number else 0.0, "", failure))
        return [(stage, failure) for _, stage, failure in sorted(failures.values(), key=lambda each: each[0])]


def _noticed(start: _Start) -> Iterator[tuple[float, RankFailure]]:
    """The failures that the launcher's journal has of the last generation, in order."""
    try:
        with open(os.path.join(start.log_dir, "events.jsonl"), encoding="utf-8") as file:
            entries = [json.loads(line) for line in file if start.node in line and '"failure":{' in line]
    except (OSError, ValueError):
        return  # a full disk; the launcher's report is all that there is
    for entry in entries:
        event = entry.get("event", {})
        failure = event.get("failure")
        if not failure or event["is"] not in ("WorkerExited", "WorkerHung") or event["generation"] != start.attempt[0]:
            continue
        if failure["node"] == start.node and failure["rank"] is not None:
            yield entry["t"], _from_journal(failure)


def _from_journal(failure: JsonMapping) -> RankFailure:
    number, code = failure["signal"], failure["exit_code"]
    if number is not None:
        what = (
            f"killed by {signal.Signals(number).name} ({number})"
            if number in {*signal.Signals}
            else f"killed by {number}"
        )
    else:
        what = failure["what"] or (f"exit code {code}" if code is not None else failure["kind"])
        what = f"hung: {what}" if failure["kind"] == "hung" else what
    return RankFailure(rank=failure["rank"], what=what, traceback=failure["traceback"], signal=number, exit_code=code)


def _copy_of(packed: bytes | None) -> BaseException | None:
    if packed is None:
        return None
    try:
        copy = exchange.unpacked(packed)
    except Exception:  # noqa: BLE001 - its class may not be there in this process; the text says it all
        return None
    return copy if isinstance(copy, BaseException) else None


def _no_result(rank: int, start: _Start) -> RunError:
    return RunError.of(
        "UM-RUN-012",
        f"rank {rank} of {start.world} ended without a result",
        why="its process ended with status 0 inside the function, as os._exit(0) does",
        hint=f"its output is in {os.path.join(start.log_dir, f'workerlog.{rank}')}",
        exit_status=Exit.JOB_FAILED,
    )


def _launcher_failed(status: int, report: list[str]) -> RunError:
    """The launcher itself was stopped, or could not start a worker; or a script failed. Its own words say why."""
    what = f"the job ended with exit status {status}"
    hint = None if report else "`umiak launch` with the same flags shows more; see docs/reference/exit-status.md"
    problem = Problem(code="UM-RUN-010", what=what, hint=hint)
    return RunError(problem, exit_status=status, details="\n".join(["", *report]) if report else "")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
