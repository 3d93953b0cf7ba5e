"""A command beside a worker: with its variables, in its job's directory, ended with its client. An adapter, Linux only.

    CommandSession(source, sink, parser, request, worker).run()

The command is a process of this one, in a session of its own, with pipes or a pseudo terminal. If the client goes,
SIGHUP and SIGTERM are sent to all that the command has started, and SIGKILL soon after; if this process is killed, the
kernel kills the command. What a command leaves behind when it ends is ended too. The job's processes are never among
these: they are not our descendants.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
import time

from umiak.adapters import kernel_requests, process
from umiak.contracts.native import EXEC
from umiak.core import light_json
from umiak.submit.node import session_frames as frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.core.json_types import JsonMapping
    from umiak.submit.node.run_workers import RunWorker
    from umiak.submit.node.session_frames import FrameParser

GRACE_S = 5.0
"""For a command whose client has gone."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGTSTP", "SIGKILL")
"""Those that a client may send."""
SHELLS = ("/bin/bash", "/bin/sh")


class CommandSession:
    """One command, from its start to its end or its client's."""

    def __init__(self, source: int, sink: int, parser: FrameParser, request: JsonMapping, worker: RunWorker) -> None:
        self._source, self._sink, self._parser = source, sink, parser
        self._has_terminal = bool(request.get("tty"))
        self._size = _size(request)
        self._words = [str(each) for each in request.get("words") or ()]
        self._environ = dict(worker.environ)
        self._environ[EXEC] = "1"
        self._directory = worker.directory
        if self._has_terminal:
            self._environ["TERM"] = str(request.get("term") or "dumb")
            for name in ("LINES", "COLUMNS"):
                self._environ.pop(name, None)
        if not self._words:
            self._words = [_shell(self._environ), *(["-i"] if self._has_terminal else [])]
        self._pid = 0
        self._outputs: dict[int, bytes] = {}
        """Where its output comes from, and the frames that it becomes."""
        self._input = -1
        self._unread = bytearray()
        """Input that the command has not taken."""
        self._is_input_over = False
        self._heard_at = time.monotonic()
        self._kill_at: float | None = None
        """The client has gone: when what is left is killed."""

    def run(self) -> None:
        """Until the command is over. OSError if it can't be started."""
        kernel_requests.become_subreaper()
        self._start()
        self._say(frames.json_frame(frames.STARTED, {"pid": self._pid}))
        pidfd = os.pidfd_open(self._pid)
        code = self._follow(pidfd)
        left = process.kill_descendants(spare=[self._pid])
        self._drain()
        self._say(frames.json_frame(frames.EXIT, {"code": 128 - code if code < 0 else code, "left": left}))

    # ---- starting

    def _start(self) -> None:
        error_read, error_write = os.pipe2(os.O_CLOEXEC)
        if self._has_terminal:
            ours, theirs = os.openpty()
            streams = (theirs, theirs, theirs)
            _resize(ours, self._size)
            self._input, self._outputs = ours, {ours: frames.STDOUT}
            mine: Sequence[int] = (ours,)
        else:
            in_read, in_write = os.pipe()
            out_read, out_write = os.pipe()
            err_read, err_write = os.pipe()
            streams = (in_read, out_write, err_write)
            self._input, self._outputs = in_write, {out_read: frames.STDOUT, err_read: frames.STDERR}
            mine = (in_write, out_read, err_read)
        for each in mine:
            os.set_inheritable(each, False)
        parent = os.getpid()
        self._pid = os.fork()  # this process has one thread
        if self._pid == 0:
            try:
                self._become(parent, streams)
            except OSError as error:
                os.write(error_write, light_json.dumps([error.errno, error.filename or ""]).encode())
            finally:
                os._exit(127)
        os.close(error_write)
        for each in {*streams}:
            os.close(each)
        os.set_blocking(self._input, False)
        failed = os.read(error_read, 4096)
        os.close(error_read)
        if failed:
            os.waitpid(self._pid, 0)
            number, name = light_json.loads(failed)
            raise OSError(number, os.strerror(number), name or self._words[0])

    def _become(self, parent: int, streams: Sequence[int]) -> None:
        """In the new process."""
        os.setsid()
        kernel_requests.ask_for_death_signal(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        if self._has_terminal:
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
        for target, each in enumerate(streams):
            os.dup2(each, target)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and programs would inherit that
            signal.signal(number, signal.SIG_DFL)
        os.chdir(self._directory)
        self._environ["PWD"] = self._directory
        try:
            kernel_requests.become(self._words, self._environ)
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), self._words[0]) from None

    # ---- running

    def _follow(self, pidfd: int) -> int:
        """Its exit code, of a signal the negative number."""
        while True:
            poll = select.poll()
            if self._kill_at is None:
                poll.register(self._source, select.POLLIN)
            for each in self._outputs:
                poll.register(each, select.POLLIN)
            if self._unread:
                poll.register(self._input, select.POLLOUT | (select.POLLIN if self._input in self._outputs else 0))
            poll.register(pidfd, select.POLLIN)
            for fd, _ in poll.poll(self._wait_s() * 1000):
                if fd == self._source:
                    self._hear()
                elif fd in self._outputs and not self._pass_on(fd):
                    del self._outputs[fd]
                elif fd == pidfd:
                    _, status = os.waitpid(self._pid, 0)
                    return os.waitstatus_to_exitcode(status)
            self._feed()
            now = time.monotonic()
            if self._kill_at is None and now - self._heard_at > frames.SILENT_S:
                self._lose_client()
            if self._kill_at is not None and now >= self._kill_at:
                process.kill_descendants(spare=[self._pid])

    def _wait_s(self) -> float:
        until = self._heard_at + frames.SILENT_S if self._kill_at is None else self._kill_at
        return max(0.0, min(60.0, until - time.monotonic()) + 0.01)

    def _hear(self) -> None:
        try:
            data = os.read(self._source, frames.BLOCK_BYTES)
            frames_of_data = self._parser.feed(data)
        except (OSError, ValueError):
            data, frames_of_data = b"", []
        if not data:
            self._lose_client()
            return
        self._heard_at = time.monotonic()
        for kind, payload in frames_of_data:
            self._obey(kind, payload)

    def _obey(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.STDIN:
            self._unread += payload
        elif kind == frames.STDIN_END:
            self._is_input_over = True
        elif kind == frames.PING:
            self._say(frames.frame(frames.PONG))
        elif kind == frames.RESIZE and self._has_terminal:
            _resize(self._input, _size(light_json.loads(payload)))
        elif kind == frames.SIGNAL:
            name = str(light_json.loads(payload))
            if name in SIGNALS:
                self._signal(getattr(signal, name))

    def _feed(self) -> None:
        """Give the command what it takes of its input."""
        if self._input < 0:
            return
        try:
            count = os.write(self._input, self._unread[: frames.BLOCK_BYTES]) if self._unread else 0
        except BlockingIOError:
            return
        except OSError:  # it reads no more: what comes is dropped, as a shell's pipe does it
            count = len(self._unread)
        if count:
            del self._unread[:count]
            self._say(frames.json_frame(frames.TAKEN, count))
        if self._is_input_over and not self._unread and not self._has_terminal:
            os.close(self._input)
            self._input = -1

    def _pass_on(self, fd: int) -> bool:
        """Its output to the client; False at its end."""
        try:
            data = os.read(fd, frames.BLOCK_BYTES)
        except OSError:  # of a terminal that nobody has open any more
            data = b""
        if data:
            self._say(frames.frame(self._outputs[fd], data))
        return bool(data)

    def _drain(self) -> None:
        for fd in [*self._outputs]:
            os.set_blocking(fd, False)  # somebody else's process may still hold it
            while self._pass_on(fd):
                pass

    def _lose_client(self) -> None:
        """Nobody is there any more who wants it."""
        if self._kill_at is not None:
            return
        self._kill_at = time.monotonic() + GRACE_S
        for number in (signal.SIGHUP, signal.SIGCONT, signal.SIGTERM):
            self._signal(number)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._pid, number)
        if self._has_terminal:  # the command may have given the terminal to another group
            with contextlib.suppress(OSError):
                os.killpg(os.tcgetpgrp(self._input), number)

    def _say(self, data: bytes) -> None:
        if self._kill_at is not None:
            return
        try:
            send(self._sink, data)
        except OSError:
            self._lose_client()


def send(sink: int, data: bytes) -> None:
    """All of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def _shell(environ: Mapping[str, str]) -> str:
    own = environ.get("SHELL", "")
    shells = [each for each in (own, *SHELLS) if os.path.isabs(each) and os.access(each, os.X_OK)]
    # Accounts that nobody logs in to have one that refuses.
    return next((each for each in shells if os.path.basename(each) not in ("nologin", "false")), SHELLS[-1])


def _size(request: JsonMapping) -> tuple[int, int]:
    rows, columns = (int(request.get(name) or 0) for name in ("rows", "columns"))
    return min(max(rows, 0), 0xFFFF), min(max(columns, 0), 0xFFFF)


def _resize(terminal: int, size: tuple[int, int]) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
