"""What `umiak exec` and `umiak fetch` start on a node:
it finds the run's workers, runs a command beside them, gives files. A program, Linux only.

    python umiak-launcher.pyz -m umiak.submit.node.session [DIRECTORY OF THE RUN [--own]]

With ``--own`` only workers count whose job works in that directory: a machine may be several nodes of a run.

Requests come as frames on standard input, answers go to standard output (`session_frames`):
``look``, ``exec``, ``list`` and ``read``. It ends with its input, and what it has started ends then too.
"""

from __future__ import annotations

import os
import sys

from umiak.core import light_json
from umiak.submit.node import session_frames as frames
from umiak.submit.node.session_command import send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from umiak.core.json_types import JsonMapping
    from umiak.submit.node.run_workers import RunWorker
    from umiak.submit.node.session_files import RunFilesHere

OWN = "--own"


def main(words: Sequence[str]) -> int:
    """The command."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)  # nothing that is imported or started here reads frames, or writes between them
    os.dup2(2, 1)
    return serve(source, sink, words[0] if words else "", is_own=OWN in words)


def serve(source: int, sink: int, base: str = "", *, is_own: bool = False) -> int:
    """Answer until the other side has gone. ``is_own``: only workers below the base."""
    for fd in (source, sink):
        os.set_inheritable(fd, False)
    try:
        send(sink, frames.HELLO)
        _Session(source, sink, base, base if is_own else "").run()
    except OSError:
        pass  # the client has gone
    return 0


class _Session:
    def __init__(self, source: int, sink: int, base: str, below: str) -> None:
        self._source, self._sink, self._base, self._below = source, sink, base, below
        self._parser = frames.FrameParser()
        self._files: RunFilesHere | None = None

    def run(self) -> None:
        while data := os.read(self._source, frames.BLOCK_BYTES):
            for kind, payload in self._parser.feed(data):
                if kind == frames.PING:
                    send(self._sink, frames.frame(frames.PONG))
                elif kind == frames.REQUEST and self._answer(light_json.loads(payload)):
                    return

    def _answer(self, request: JsonMapping) -> bool:
        """Whether that was all: a session has one command."""
        word = request.get("do")
        if word == "look":
            self._say(frames.ANSWER, {"workers": [[each.role, each.rank] for each in self._workers(request)]})
        elif word == "exec":
            return self._execute(request)
        elif word == "list":
            self._list(request)
        elif word == "read":
            self._read(request)
        else:
            self._say(frames.PROBLEM, {"kind": "request", "what": str(word)})
        return False

    def _say(self, kind: bytes, data: Any) -> None:
        send(self._sink, frames.json_frame(kind, data))

    def _execute(self, request: JsonMapping) -> bool:
        from umiak.submit.node.session_command import CommandSession

        worker = self._chosen(request)
        if worker is None:
            here = [[each.role, each.rank] for each in self._workers(request)]
            self._say(frames.PROBLEM, {"kind": "worker", "workers": here})
            return False
        try:
            CommandSession(self._source, self._sink, self._parser, request, worker).run()
        except OSError as error:
            problem = {"kind": "command", "what": error.filename or "", "why": error.strerror, "errno": error.errno}
            self._say(frames.PROBLEM, problem)
        return True

    def _list(self, request: JsonMapping) -> None:
        from umiak.submit.node.session_files import RunFilesHere

        self._files = files_here = RunFilesHere(self._base, request)
        for batch in files_here.entries():
            self._say(frames.ENTRIES, batch)
        self._say(frames.END, {"left_out": files_here.left_out, "counts": files_here.counts})

    def _read(self, request: JsonMapping) -> None:
        """A file from an offset on, if it still is the one of which the client has the beginning."""
        path = str(request["path"])
        try:
            if self._files is None:
                raise FileNotFoundError(2, "nothing was listed", path)
            fd = self._files.open(path)
        except OSError as error:
            self._say(frames.PROBLEM, {"kind": "file", "what": path, "why": error.strerror, "errno": error.errno})
            return
        with os.fdopen(fd, "rb", buffering=0) as file:
            seen = os.fstat(fd)
            offset = int(request.get("offset") or 0)
            if [seen.st_size, seen.st_mtime_ns] != [request.get("size"), request.get("mtime_ns")]:
                offset = 0
            self._say(frames.OPENED, {"size": seen.st_size, "mtime_ns": seen.st_mtime_ns, "offset": offset})
            left = seen.st_size - offset
            os.lseek(fd, offset, os.SEEK_SET)
            while left > 0:
                try:
                    block = file.read(min(frames.BLOCK_BYTES, left))
                except OSError as error:
                    problem = {"kind": "file", "what": path, "why": error.strerror, "errno": error.errno}
                    self._say(frames.PROBLEM, problem)
                    return
                if not block:
                    break
                send(self._sink, frames.frame(frames.DATA, block))
                left -= len(block)
            after = os.fstat(fd)
        # A log that grew meanwhile is whole as far as it was asked for; what was written over may be torn.
        is_torn = left > 0 or (after.st_mtime_ns != seen.st_mtime_ns and after.st_size <= seen.st_size)
        self._say(frames.END, {"is_torn": is_torn})

    def _workers(self, request: JsonMapping) -> list[RunWorker]:
        from umiak.submit.node import run_workers

        return run_workers.find(str(request["run"]), self._below)

    def _chosen(self, request: JsonMapping) -> RunWorker | None:
        """The worker that was asked for; of none in particular the first trainer,
        else any, else a launcher while no worker runs.
        """
        from umiak.submit.node import run_workers

        role, rank, workers = request.get("role"), request.get("rank"), self._workers(request)
        if rank is not None or role:
            role = role or "trainer"
            return next((each for each in workers if each.role == role and rank in (None, each.rank)), None)
        workers.sort(key=lambda each: each.role != "trainer")
        return workers[0] if workers else run_workers.launcher(str(request["run"]), self._below)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
