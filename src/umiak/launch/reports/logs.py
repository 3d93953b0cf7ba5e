"""Where output goes: a file per worker, and tagged live lines on the console. An adapter.

Log files are rotated when they grow too large; whose they are is the business of `logfiles`. A console that does not
take its lines (a paused terminal, a full pipe) never holds the launcher up: lines that do not fit are left out with a
note, and stand in the file. A file that can't be had does not hold the worker up either.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import time

from umiak.core import colours
from umiak.core.shown import colours_only
from umiak.launch.reports.log_times import LogTimes
from umiak.launch.reports.logfiles import PRIVATE, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from umiak.launch.reports.logfiles import Access

TAIL_BYTES = 64 * 1024
CONSOLE_BACKLOG_BYTES = 1024 * 1024
OLD_FILES = 2
LONGEST_PARTIAL_LINE = 64 * 1024
SURE_ROOM_BYTES = 256
"""So much is taken at once by a pipe or terminal that says it has room."""


class Console:
    """Standard output or standard error, written without ever waiting for it."""

    def __init__(
        self, fd: int, environ: Mapping[str, str], on_writable: Callable[[int, Callable[[], None] | None], None]
    ) -> None:
        mode = os.fstat(fd).st_mode
        self.is_terminal = os.isatty(fd)
        self.colours = self.is_terminal and colours.are_wanted(environ)
        self._on_writable = on_writable
        may_block = stat.S_ISFIFO(mode) or self.is_terminal
        self._fd = _not_blocking(fd) if may_block else fd
        self._poll = _poll_for_room(fd) if may_block and self._fd == fd else None
        self._socket = socket.socket(fileno=os.dup(fd)) if stat.S_ISSOCK(mode) else None
        self._waiting = bytearray()
        self._left_out = 0
        self._dead = False

    def write(self, data: bytes) -> None:
        """Show whole lines, as far as the console takes them."""
        if self._dead:
            return
        if len(self._waiting) + len(data) > CONSOLE_BACKLOG_BYTES:
            self._left_out += data.count(b"\n")
            return
        self._tell_left_out()
        self._waiting += data
        self._flush()

    def drain(self, seconds: float) -> None:
        """At the end: give a slow reader this long to take what waits."""
        self._tell_left_out()
        until = time.monotonic() + seconds
        while self._waiting and not self._dead and time.monotonic() < until:
            self._flush()
            if self._waiting:
                time.sleep(0.01)

    def _tell_left_out(self) -> None:
        if self._left_out:
            self._waiting += f"... {self._left_out} lines left out here, they are in the log files\n".encode()
            self._left_out = 0

    def _flush(self) -> None:
        while self._waiting:
            try:
                sent = self._write(self._waiting)
            except BlockingIOError:
                self._on_writable(self._fd, self._writable)
                return
            except OSError:
                self._dead = True  # nobody reads any more; the job goes on, the files have everything
                self._waiting.clear()
                return
            del self._waiting[:sent]

    def _write(self, data: bytearray) -> int:
        if self._poll:
            if not self._poll.poll(0):
                raise BlockingIOError
            return os.write(self._fd, data[:SURE_ROOM_BYTES])
        return self._socket.send(data, socket.MSG_DONTWAIT) if self._socket else os.write(self._fd, data)

    def _writable(self) -> None:
        self._on_writable(self._fd, None)
        self._flush()


def _not_blocking(fd: int) -> int:
    """The same terminal or pipe, opened again: switching the shared one to non-blocking would disturb the shell."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd


def _poll_for_room(fd: int) -> select.poll:
    """For a terminal of another user (su, sudo), which can't be opened again: to be asked before each write."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return poll


class WorkerLog:
    """One worker's output: its file, its last words, and its tagged lines on the console if that is wanted."""

    def __init__(
        self,
        path: str,
        *,
        most_bytes: int,
        overwrite: bool,
        console: Console | None,
        spare_path: str = "",
        access: Access = PRIVATE,
    ) -> None:
        self.path = ""
        """The file; empty if there is none."""
        self._access = access
        self._most_bytes = most_bytes
        self._console = console
        self._tag = b""
        self._partial = b""
        self._ended_with_return = False
        self._tail = bytearray()
        self._told = False  # that it can't be written any more
        self._fd = -1
        self._trouble = self._open((path, spare_path) if spare_path else (path,), overwrite=overwrite)
        self._size = os.fstat(self._fd).st_size if self._fd >= 0 else 0
        self._times = LogTimes(self.path, self._fd, access) if self._fd >= 0 else None
        self.last_output = time.monotonic()

    def _open(self, paths: tuple[str, ...], *, overwrite: bool) -> str:
        """Open the first of these files that can be had; empty, or what is wrong with the first one."""
        trouble = ""
        for path in paths:
            try:
                self._fd = open_log(path, overwrite=overwrite, access=self._access)
            except OSError as error:
                trouble = trouble or f"{path} can't be written ({error.strerror})"
            else:
                self.path = path
                return trouble and f"{trouble}, its worker's output goes to {path}"
        return f"{trouble}, its worker goes on without a log"

    @property
    def trouble(self) -> str:
        """Why the file is not the one that was asked for, or can't be written; empty if all is well."""
        return self._trouble

    @property
    def tail(self) -> str:
        """The end of what this worker has written since it was started."""
        return self._tail.decode(errors="replace")

    def begin(self, tag: str, number: int) -> None:
        """A new process writes to this log, under this tag; what the last one said is not its own."""
        self._end_partial_line()
        self._tail.clear()
        self.last_output = time.monotonic()
        colour = colours.TAGS[number % len(colours.TAGS)] if self._console and self._console.colours else None
        self._tag = colours.painted(f"[{tag}] ", colour).encode() if tag else b""

    def feed(self, data: bytes) -> str:
        """Take output as it comes. The text is empty, or says why the file can't be written (once)."""
        self.last_output = time.monotonic()
        self._tail += data
        if len(self._tail) > TAIL_BYTES:
            del self._tail[: len(self._tail) - TAIL_BYTES]
        if self._console:
            self._show(data)
        return self._store(data)

    def close(self) -> None:
        self._end_partial_line()
        if self._times:
            self._times.close()
        if self._fd >= 0:
            os.close(self._fd)

    def _end_partial_line(self) -> None:
        if self._console and self._partial:
            self._console.write(self._tag + self._shown(self._partial) + b"\n")
        self._partial = b""

    def _show(self, data: bytes) -> None:
        assert self._console is not None
        if self._ended_with_return and data.startswith(b"\n"):
            self._console.write(b"\n")  # the second half of a line's end
            data = data[1:]
        self._ended_with_return = data.endswith(b"\r")
        # A progress bar ends its lines with a carriage return; it must be seen as well.
        lines = (self._partial + data).replace(b"\r\n", b"\n").splitlines(keepends=True)
        self._partial = b""
        if lines and not lines[-1].endswith((b"\n", b"\r")) and len(lines[-1]) < LONGEST_PARTIAL_LINE:
            self._partial = lines.pop()
        if lines:
            self._console.write(b"".join([self._tag + self._shown(line) for line in lines]))

    def _shown(self, line: bytes) -> bytes:
        """What a program prints may steer a terminal:
        set its title, write to the clipboard, move the cursor over other lines.
        """
        return colours_only(line) if self._console and self._console.is_terminal else line

    def _store(self, data: bytes) -> str:
        if self._fd < 0:
            return ""
        trouble = ""
        if self._size and self._size + len(data) > self._most_bytes:
            try:
                self._rotate()
            except OSError as error:
                trouble = f"{self.path} can't be rotated, it grows on: {error.strerror}"
            self._size = 0  # after a failure, it is tried again when as much has been written once more
        try:
            if self._times:
                self._times.mark()
            written = os.write(self._fd, data)
            self._size += len(data)
            if self._times:
                self._times.wrote(written)
        except OSError as error:
            trouble = f"{self.path} can't be written, its worker goes on without a log: {error.strerror}"
        if trouble:
            self._told, first = True, not self._told
            return trouble if first else ""
        return ""

    def _rotate(self) -> None:
        for number in range(OLD_FILES, 0, -1):
            younger = f"{self.path}.{number - 1}" if number > 1 else self.path
            if os.path.exists(younger):
                os.replace(younger, f"{self.path}.{number}")
        new = open_log(self.path, overwrite=True, access=self._access)
        os.dup2(new, self._fd, inheritable=False)
        os.close(new)
        if self._times:
            self._times.rotated(self._fd, OLD_FILES)
