"""A program on a node whose standard input and output are pipes of a process here: on this machine, or through srun.
An adapter.

channel = ProcessChannel([*own_modules.command("umiak.submit.node.session")], environ)
"""

from __future__ import annotations

import os
import subprocess
import threading

from umiak.adapters import own_modules
from umiak.core.shown import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ProcessChannel", "on_this_machine"]

SESSION = "umiak.submit.node.session"
BLOCK_BYTES = 1 << 16
MOST_WORDS = 4096
END_S = 10.0
"""For a process to end after its input has."""
WRITTEN_S = 1.0
"""For a thread to write what it is writing, before the process is ended without an end of its input."""


class ProcessChannel:
    """A `umiak.submit.backend.NodeChannel`."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str]) -> None:
        # A session of its own: Ctrl-C at this terminal is for the command on the node, which is told of it by a frame.
        self._process = subprocess.Popen(
            words,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._said = b""
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def read(self) -> bytes:
        assert self._process.stdout is not None
        with self._reading:
            try:
                return os.read(self._process.stdout.fileno(), BLOCK_BYTES)
            except (OSError, ValueError):
                return b""

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        with self._writing:
            try:
                while view:
                    view = view[os.write(self._process.stdin.fileno(), view) :]
            except ValueError:  # closed by us
                raise BrokenPipeError(32, "the channel was closed") from None

    def close(self) -> None:
        self._end_input(WRITTEN_S)
        self._await_end()
        self._end_input(END_S)
        self._listener.join(END_S)
        with self._reading:
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    def _end_input(self, within_s: float) -> None:
        """Close it, unless a thread is in the middle of `write`: that must not find another file under this number."""
        assert self._process.stdin is not None
        if self._writing.acquire(timeout=within_s):
            try:
                self._process.stdin.close()
            except OSError:
                pass
            finally:
                self._writing.release()

    def _await_end(self) -> None:
        """It ends with its input; srun that can't, is ended."""
        for end in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                end()
        self._process.wait()

    def last_words(self) -> str:
        self._listener.join(1)
        lines = [each.strip() for each in self._said.decode(errors="replace").splitlines() if each.strip()]
        return one_line("; ".join(lines[-3:]), 500)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        while data := self._process.stderr.read(BLOCK_BYTES):
            self._said = (self._said + data)[-MOST_WORDS:]


def on_this_machine(environ: Mapping[str, str], base: str = "") -> ProcessChannel:
    """The program as a process here."""
    return ProcessChannel([*own_modules.command(SESSION), *([base] if base else [])], environ)
