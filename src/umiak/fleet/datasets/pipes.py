"""Runs the program of a ``pipe_command``: a file on its standard input, samples on its standard output. An adapter.

It is a shell command (`bash`, with ``pipefail``, as Paddle runs it) in a process group of its own. Whatever happens to
this process, that group ends: a part of it does nothing but wait for the end of a pipe whose other end only this
process has. For `cat`, which is Paddle's default, there is no program: the file is read. Files of Hadoop (``hdfs:``,
``afs:``) are printed by its command.
"""

from __future__ import annotations

import fcntl
import os
import select
import shlex
import shutil
import signal
import subprocess
import threading
from collections import deque
from typing import TYPE_CHECKING

from umiak.contracts import injected
from umiak.core.problem import BadRequest, Exit, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

LAST_LINES = 12
"""Of what a program writes to standard error, so many lines are a part of the error."""
REMOTE = ("hdfs:", "afs:")
"""How names of files of Hadoop begin."""
_LONGEST_LINE = 2000
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 18
_PAUSE_S = 0.05
_SIGPIPE_STATUS = 128 + signal.SIGPIPE


class DatasetError(BadRequest, RuntimeError):
    """What a job with a dataset fails of while it runs."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem, exit_status=Exit.JOB_FAILED)


class PipeError(DatasetError):
    """The program of a pipe_command failed, or printed something that is no sample."""


class PlainFile:
    """A file, read as `PipeProgram` gives what `cat` prints of it."""

    origin = "of the file"

    def __init__(self, file: str) -> None:
        self.file = file
        self._descriptor = _open(file)
        self._is_killed = False

    def blocks(self, most_bytes: int) -> Iterator[bytes]:
        rest = b""
        while not self._is_killed and (piece := self._read(most_bytes)):
            text = rest + piece
            end = text.rfind(b"\n") + 1
            rest = text[end:]
            if end:
                yield text[:end]
        if rest:
            yield rest

    def line(self, number: int) -> str:
        """Where that line is."""
        return f"{self.file}, line {number}"

    def show_line(self, number: int) -> str:
        """A command that prints it."""
        return f"sed -n {number}p {shlex.quote(self.file)}"

    def kill(self) -> None:
        """`blocks` comes to an end. From any thread."""
        self._is_killed = True

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self, most_bytes: int) -> bytes:
        try:
            return os.read(self._descriptor, most_bytes)
        except OSError as error:
            raise _unreadable(self.file, error) from error


class PipeProgram:
    """A started program that reads one file."""

    origin = "that pipe_command prints"

    def __init__(self, command: str, file: str, remote: Sequence[str] = ()) -> None:
        self.command = command
        self.file = file
        self._is_remote = bool(remote)
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        watched, self._alive = os.pipe()
        try:
            source = _open(os.devnull if remote else file)
        except PipeError:
            os.close(watched)
            os.close(self._alive)
            raise
        try:
            self._process = subprocess.Popen(
                _shell(command, watched, _beginning(file, remote)),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                # It has no part in the job: one that imports paddle shall start as fast as it does alone.
                env={name: text for name, text in os.environ.items() if name not in injected.NAMES},
                pass_fds=(watched,),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._alive)
            raise
        finally:
            os.close(source)
            os.close(watched)
        self._errors = threading.Thread(target=self._pass_errors, name="pipe_command stderr", daemon=True)
        self._errors.start()
        try:
            fcntl.fcntl(self._output.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass  # the system allows no larger pipe; it works with a small one

    @property
    def pid(self) -> int:
        """Of the shell, which is the number of the process group as well."""
        return self._process.pid

    def blocks(self, most_bytes: int) -> Iterator[bytes]:
        """What it prints, in pieces of about so many bytes that end with a line; `PipeError` if it fails.

        Pieces of a program that prints slowly are smaller: nobody waits for a full one.
        """
        output = self._output.fileno()
        pieces: list[bytes] = []
        size = 0
        while piece := os.read(output, min(_READ_BYTES, most_bytes)):
            pieces.append(piece)
            size += len(piece)
            if size < most_bytes and select.select([output], [], [], _PAUSE_S)[0]:
                continue
            text = b"".join(pieces)
            end = text.rfind(b"\n") + 1
            pieces, size = [text[end:]], len(text) - end
            if end:
                yield text[:end]
        self._check_end()
        if size:
            yield b"".join(pieces)

    def line(self, number: int) -> str:
        """Where that line is that it has printed."""
        return f"{self.file}, line {number} of the program's output"

    def show_line(self, number: int) -> str:
        """A command that prints it."""
        return f"{self._by_hand()} | sed -n {number}p"

    def kill(self) -> None:
        """End it and everything that it started; `blocks` comes to an end. From any thread, before `close`."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def close(self) -> None:
        """End it, however far it is. Nobody may be in `blocks`."""
        if self._alive < 0:
            return
        self.kill()
        os.close(self._alive)
        self._alive = -1
        self._process.wait()
        self._errors.join()
        self._output.close()

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _by_hand(self) -> str:
        file = shlex.quote(self.file)
        return f"hadoop fs -cat {file} | ( {self.command} )" if self._is_remote else f"( {self.command} ) < {file}"

    def _check_end(self) -> None:
        status = self._process.wait()
        # With pipefail, 141: a later part of the pipeline had enough, and ended well.
        if status in (0, _SIGPIPE_STATUS):
            return
        self._errors.join(1.0)  # somebody else may hold its standard error open
        raise PipeError(
            Problem(
                code="UM-FLEET-045",
                what=f"the program of pipe_command failed with {_ending(status)}: {self.command}",
                why="\n    ".join(["its last lines of standard error:", *self._last]) if self._last else None,
                hint=f"try it: {self._by_hand()}",
                where=self.file,
            )
        )

    def _pass_errors(self) -> None:
        """What it writes to standard error is written to ours, and the end of it is kept."""
        errors = self._process.stderr
        assert errors is not None
        unfinished = b""
        with errors:
            while piece := os.read(errors.fileno(), _READ_BYTES):
                _write_all(piece)
                *lines, unfinished = (unfinished + piece).split(b"\n")
                for line in lines:
                    self._keep(line)
                unfinished = unfinished[-_LONGEST_LINE:]
        self._keep(unfinished)

    def _keep(self, line: bytes) -> None:
        if line.strip():
            self._last.append(line[:_LONGEST_LINE].decode(errors="replace").rstrip())


Source = PipeProgram | PlainFile


def is_remote(file: str) -> bool:
    """Whether Hadoop has it."""
    return file.startswith(REMOTE)


def opened(command: str, file: str, remote: Sequence[str] = ()) -> Source:
    """What is to be read of a file of a dataset; ``remote`` prints those of Hadoop."""
    if remote and is_remote(file):
        return PipeProgram(command, file, remote)
    is_plain = command.strip() == "cat" and not file.endswith(".gz") and os.path.isfile(file)
    return PlainFile(file) if is_plain else PipeProgram(command, file)


def _open(file: str) -> int:
    try:
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: OSError) -> PipeError:
    what = f"a file of the dataset can't be read: {file}"
    return PipeError(Problem(code="UM-FLEET-044", what=what, why=error.strerror))


def _beginning(file: str, remote: Sequence[str]) -> str:
    """What prints the file into the command, if that does not simply read it."""
    parts = [shlex.join([*remote, "-cat", file])] if remote else []
    return " | ".join([*parts, "zcat"] if file.endswith(".gz") else parts)


def _shell(command: str, watched: int, beginning: str) -> list[str]:
    """The command, and beside it what ends its process group
    when nobody holds the other end of ``watched`` any more.
    """
    shell = shutil.which("bash")
    watch = f"( read -r _ </proc/self/fd/{watched}; kill -KILL -- -$$ ) </dev/null >/dev/null 2>&1 &"
    options = "set -o pipefail\n" if shell else ""
    whole = f"{beginning} | {{ {command}\n}}" if beginning else command
    return [shell or "sh", "-c", f"{watch}\n{options}{whole}"]


def _ending(status: int) -> str:
    number = -status if status < 0 else status - 128
    try:
        name = signal.Signals(number).name if status < 0 or status > 128 else ""
    except ValueError:
        name = ""
    return f"{name} (exit code {status})" if name else f"exit code {status}"


def _write_all(piece: bytes) -> None:
    try:
        os.write(2, piece)
    except OSError:
        pass  # nobody reads our standard error; the program shall not fail of that
