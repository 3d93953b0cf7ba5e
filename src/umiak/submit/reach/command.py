"""A command on a node, with this process's standard input, output and error. An adapter.

    NodeCommand(session, Streams()).run({"run": "ctr-3f2a9c", "words": ["nvidia-smi"]})      its exit code

One thread takes what the node sends, this one reads standard input and hears signals.
SIGINT and SIGTERM go to the command; a second one ends this process, and with it the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import termios
import threading
import time
import tty

from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.submit.node import session_frames as frames
from umiak.submit.reach.session import Heartbeat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from umiak.core.json_types import JsonMapping
    from umiak.submit.reach.session import NodeSession

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
NOT_FOUND, NOT_EXECUTABLE = 127, 126
BROKEN_PIPE = 128 + signal.SIGPIPE


@value
class CommandEnd:
    """How a command on a node ended."""

    code: int
    left: int = 0
    """Processes that it left behind, which were ended."""


class WorkerMissing(Exception):
    """The node has no worker of that role and rank."""


class NodeCommand:
    """One command."""

    def __init__(
        self,
        session: NodeSession,
        take: Callable[[bool, bytes], None],
        *,
        source: int | None = None,
        has_terminal: bool = False,
    ) -> None:
        """``take``: whether it is of standard error, and the bytes; OSError if nobody reads them any more.
        ``source``: where its input comes from; None: it has none.
        """
        self._session = session
        self._take = take
        self._source = source
        self._has_terminal = has_terminal
        self._unread = 0
        """Bytes of input on their way."""
        self._end: CommandEnd | UmiakError | None = None
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._signals: list[int] = []
        self._told_to_stop = 0

    def run(self, request: JsonMapping) -> CommandEnd:
        """Until it has ended. `WorkerMissing` if nobody there is who was asked for;
        UmiakError if it can't be started or the node goes.
        """
        shown = terminal_size(self._source) if self._has_terminal and self._source is not None else {}
        self._session.ask({**request, "do": "exec", "tty": self._has_terminal, **shown})
        kind, reply = self._session.answer(frames.STARTED, frames.PROBLEM)
        if kind == frames.PROBLEM:
            raise self._refused(reply)
        beat = Heartbeat(self._session)
        receiver = threading.Thread(target=self._receive, daemon=True)
        try:
            with self._listening(), self._raw():
                receiver.start()
                self._send()
        finally:
            beat.stop()
            for fd in (self._wake_read, self._wake_write):
                os.close(fd)
        if isinstance(self._end, UmiakError):
            raise self._end
        assert self._end is not None
        return self._end

    def _refused(self, told: JsonMapping) -> Exception:
        if told.get("kind") == "worker":
            return WorkerMissing()
        what, why = one_line(str(told.get("what")), 200), one_line(str(told.get("why")), 200)
        problem = Problem(
            code="UM-SUBMIT-394",
            what=f"{self._session.name}: the command can't be started: {what}",
            why=why,
            hint="it is looked for on the node, in the PATH of the job; for a pipe or a variable write `-- sh -c '...'`",
        )
        is_missing = told.get("errno") == 2
        return UmiakError(problem, exit_status=NOT_FOUND if is_missing else NOT_EXECUTABLE)

    # ---- what the node sends

    def _receive(self) -> None:
        try:
            self._end = self._received()
        except UmiakError as error:
            self._end = self._end or error
        except OSError:  # nobody reads our output any more
            self._end = CommandEnd(code=BROKEN_PIPE)
        except Exception as error:  # noqa: BLE001 - told by the other thread
            self._end = UmiakError.of("UM-SUBMIT-392", f"{self._session.name}: {error}")
        self._wake()

    def _received(self) -> CommandEnd:
        while True:
            kind, payload = self._session.next()
            if kind in (frames.STDOUT, frames.STDERR):
                self._take(kind == frames.STDERR, payload)
            elif kind == frames.TAKEN:
                self._unread -= int(payload)
                self._wake()
            elif kind == frames.EXIT:
                data = json.loads(payload)
                return CommandEnd(code=int(data["code"]) & 0xFF, left=int(data.get("left") or 0))
            elif kind == frames.PROBLEM:
                raise self._session.gone(one_line(str(json.loads(payload)), 200))

    # ---- what is sent to it

    def _send(self) -> None:
        source = self._source
        if source is None:
            try:
                self._session.send(frames.STDIN_END)
            except UmiakError as error:
                self._await_end(error)  # a short command has ended, and has said how
        while self._end is None:
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            if source is not None and self._unread < frames.WINDOW_BYTES:
                poll.register(source, select.POLLIN)
            ready = [fd for fd, _ in poll.poll(1000)]
            if self._wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            try:
                self._pass_signals()
                if source in ready and source is not None and not self._pass_input(source):
                    source = None
            except UmiakError as error:
                # It may have ended just now, and has then said how.
                self._await_end(error)
            if time.monotonic() - self._session.heard_at > frames.SILENT_S:
                self._end = self._session.gone(f"no answer for {frames.SILENT_S:g} s")

    def _await_end(self, error: UmiakError) -> None:
        until = time.monotonic() + 5
        while self._end is None and time.monotonic() < until:
            select.select([self._wake_read], [], [], 0.1)
        self._end = self._end or error

    def _pass_input(self, source: int) -> bool:
        """False at its end."""
        try:
            data = os.read(source, frames.BLOCK_BYTES)
        except OSError:
            data = b""
        if data:
            self._unread += len(data)
            self._session.send(frames.STDIN, data)
        else:
            self._session.send(frames.STDIN_END)
        return bool(data)

    def _pass_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if number == signal.SIGWINCH:
                if self._source is not None:
                    self._session.send(frames.RESIZE, json.dumps(terminal_size(self._source)).encode())
                continue
            self._told_to_stop += 1
            if self._told_to_stop > 1:
                self._end = CommandEnd(code=128 + number)
                return
            self._session.send(frames.SIGNAL, json.dumps(signal.Signals(number).name).encode())

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Signals become frames; in a thread that is not the main one, they are others' to hear."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers: Sequence[int] = (*FORWARDED, signal.SIGWINCH) if self._has_terminal else FORWARDED
        before = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, self._heard)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _heard(self, number: int, _: object) -> None:
        self._signals.append(number)
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it wakes anyway
            os.write(self._wake_write, b"!")

    def _raw(self) -> contextlib.AbstractContextManager[object]:
        if self._has_terminal and self._source is not None:
            return RawTerminal(self._source)
        return contextlib.nullcontext()


def own_streams() -> Callable[[bool, bytes], None]:
    """Output to this process's standard output and error, kept apart."""

    def take(is_error: bool, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(2 if is_error else 1, view) :]

    return take


class RawTerminal:
    """Keys are not read as lines or signals here: Ctrl-C is a key of the shell on the node."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before: list[Any] | None = None

    def __enter__(self) -> RawTerminal:
        self._before = termios.tcgetattr(self._fd)
        tty.setraw(self._fd, termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)


def terminal_size(fd: int) -> dict[str, int]:
    """Rows and columns; nothing where they can't be known."""
    try:
        seen = os.get_terminal_size(fd)
    except OSError:
        return {}
    return {"rows": seen.lines, "columns": seen.columns}
