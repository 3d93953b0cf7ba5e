"""The program of a session inside of a Ray actor, on the node of a worker: its input and its output.
An adapter; standard library only.

The driver of the session sends this class to Ray's workers by value, as that of a run does with its own:
nothing of umiak but `node` is imported here, and that travels in the same way.

The program is no child of Ray's worker, which kills its children when it ends:
it sees the end of its input then, and ends its command and all that this has started.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import subprocess
import sys
import threading
import time

from umiak.submit.backends.ray.node import NOT_PASSED_ON, OURS, directory_of, sent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping

PIECE_BYTES = 1 << 20
"""At most so much output is given at once."""
WAIT_S = 0.5
"""So long a call waits for output."""
END_S = 15.0
"""For a session to end after its input has."""
MOST_WORDS = 4096
PIPE_SIZE = 1031
"""`fcntl.F_SETPIPE_SZ`, which older Pythons do not name."""
SESSION = "umiak.submit.node.session"
GONE = "gone"
"""`messages.GONE`, which can't be imported here."""
START = """
import os, signal, sys
if os.fork():
    os._exit(0)
os.setsid()
signal.pthread_sigmask(signal.SIG_SETMASK, [])  # Ray blocks SIGINT
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)  # who starts Ray in the background ignores some, and a shell could not trap them
os.execv(sys.argv[1], sys.argv[1:])
"""


class SessionNode:
    """One session."""

    def __init__(self) -> None:
        self._input = self._output = -1
        self._said = b""
        self._listener: threading.Thread | None = None
        self._over = threading.Event()
        self._writing = threading.Lock()

    def start(self, order: JsonMapping) -> str:
        """Start the program: ``run_id``, ``name``, ``directory``, ``launcher``.
        Why it can't be started, or nothing; `GONE`: the node has no directory of the run.
        """
        try:
            directory = directory_of(order)
            try:
                seen = os.lstat(directory)
            except OSError:
                return GONE
            if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
                return f"{directory}: it is not a directory of this user"
            argv = [sys.executable, sent(order["launcher"]), "-m", SESSION, directory, "--own"]
            environ = {
                name: text
                for name, text in os.environ.items()
                if not name.startswith(OURS) and name not in NOT_PASSED_ON
            }
            pipe = subprocess.PIPE
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", START, *argv], env=environ, stdin=pipe, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        self._input, self._output = os.dup(child.stdin.fileno()), os.dup(child.stdout.fileno())
        errors = os.dup(child.stderr.fileno())
        for stream in (child.stdin, child.stdout, child.stderr):
            stream.close()
        child.wait()
        with contextlib.suppress(OSError):  # a limit of the node
            fcntl.fcntl(self._output, PIPE_SIZE, PIECE_BYTES)
        self._listener = threading.Thread(target=self._listen, args=(errors,), daemon=True)
        self._listener.start()
        return ""

    def read(self) -> tuple[bytes, bool, str]:
        """The next output, whether it has ended, and what else it has said then."""
        found = bytearray()
        wait_s = WAIT_S
        while len(found) < PIECE_BYTES and select.select([self._output], [], [], wait_s)[0]:
            data = os.read(self._output, PIECE_BYTES)
            if not data:
                self._over.set()
                if not found and self._listener is not None:
                    self._listener.join(1)
                    return b"", True, self._said.decode(errors="replace")
                break
            found += data
            wait_s = 0
        return bytes(found), False, ""

    def write(self, data: bytes) -> bool:
        """To its input; False if it has gone. A call waits for the one before."""
        view = memoryview(data)
        with self._writing:
            try:
                while view:
                    view = view[os.write(self._input, view) :]
            except OSError:
                return False
        return True

    def close(self) -> None:
        """End its input, and wait until it has ended what it has started."""
        if self._input < 0:
            return
        os.close(self._input)
        self._input = -1
        until = time.monotonic() + END_S
        while not self._over.is_set() and time.monotonic() < until:
            with contextlib.suppress(OSError):
                self.read()

    def _listen(self, errors: int) -> None:
        while data := os.read(errors, 1 << 16):
            self._said = (self._said + data)[-MOST_WORDS:]
        os.close(errors)
