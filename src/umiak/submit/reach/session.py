"""The client's end of a channel to a node: asks, and takes answers apart. An adapter.

    session = NodeSession("node0", channel)
    session.workers(run_id)                     [("trainer", 0), ("trainer", 1)]
    session.listing(roots, paths)               NodeListing: files with sizes, and what is left out
    session.contents(entry, offset)             a file, in pieces

Nothing that a node says is believed before it was checked: see `fetch_plan` for its paths.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line
from umiak.submit.node import session_frames as frames
from umiak.submit.reach.fetch_plan import NodeFile, NodeListing, OpenedFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.submit.backend import NodeChannel, RunFileRoots

MOST_NOISE = 1 << 16
"""Bytes before a node's first frame: more is no greeting of a shell."""
MOST_FILES = 5_000_000
"""Of one node."""


class NodeGone(UmiakError):
    """The connection to a node broke, or it speaks another language."""


class ChangedFile(Exception):
    """A file that could not be read to its end as it was."""


class NodeSession:
    """One program on one node."""

    def __init__(self, name: str, channel: NodeChannel) -> None:
        self.name = name
        self._channel = channel
        self._parser = frames.FrameParser()
        self._waiting: list[tuple[bytes, bytes]] = []
        self._writing = threading.Lock()
        self._is_closed = False
        self.heard_at = time.monotonic()
        """When the node has said something, if only that it is there."""
        self._greet()

    def close(self) -> None:
        """End it, and what it has started."""
        self._is_closed = True
        self._channel.close()

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """One frame. `NodeGone` if the node has gone."""
        try:
            with self._writing:
                self._channel.write(frames.frame(kind, payload))
        except OSError as error:
            raise self.gone(error.strerror or str(error)) from None

    def ask(self, question: JsonMapping) -> None:
        self.send(frames.REQUEST, json.dumps(question).encode())

    def next(self) -> tuple[bytes, bytes]:
        """The next frame, save answers to pings. `NodeGone` at the end."""
        while True:
            while self._waiting:
                kind, payload = self._waiting.pop(0)
                if kind != frames.PONG:
                    return kind, payload
            data = self._channel.read()
            self.heard_at = time.monotonic()
            if not data:
                raise self.gone("")
            try:
                self._waiting = self._parser.feed(data)
            except ValueError as error:
                raise self.gone(str(error)) from None

    def answer(self, *kinds: bytes) -> tuple[bytes, Any]:
        """The next frame, which is one of these and has JSON in it."""
        kind, payload = self.next()
        if kind not in kinds:
            raise self.gone(f"expected an answer, got {kind!r}")
        try:
            return kind, json.loads(payload)
        except ValueError:
            raise self.gone("expected JSON") from None

    # ---- questions

    def workers(self, run_id: str) -> list[tuple[str, int]]:
        """The role and rank of every worker of the run there."""
        self.ask({"do": "look", "run": run_id})
        _, data = self.answer(frames.ANSWER)
        with self._understood():
            return [(str(role), int(rank)) for role, rank in data["workers"]]

    def listing(self, roots: RunFileRoots, paths: Sequence[str]) -> NodeListing:
        """The files there."""
        wanted: list[JsonObject] = [{"prefix": name, "path": path} for name, path in roots.others]
        if roots.only:
            wanted.append({"path": roots.base, "only": list(roots.only)})
        if roots.in_place:
            wanted.append({"prefix": "work", "path": roots.in_place, "in_place": True})
        plans = f"{roots.base}/{roots.plans}" if roots.base else roots.plans
        self.ask({"do": "list", "roots": wanted, "paths": list(paths), "plans": plans})
        files: list[NodeFile] = []
        while True:
            kind, data = self.answer(frames.ENTRIES, frames.END)
            with self._understood():
                if kind == frames.END:
                    return NodeListing(
                        files=tuple(files),
                        left_out={why: tuple(map(str, names)) for why, names in data["left_out"].items()},
                        counts={why: int(count) for why, count in data["counts"].items()},
                    )
                files += [_file(row) for row in data]
            if len(files) > MOST_FILES:
                raise self.gone(f"it lists more than {MOST_FILES} files")

    def open(self, file: NodeFile, offset: int) -> OpenedFile | str:
        """Before `pieces`: what the file is now; a text: why it can't be read."""
        self.ask(
            {"do": "read", "path": file.path, "offset": offset, "size": file.size_bytes, "mtime_ns": file.mtime_ns}
        )
        kind, data = self.answer(frames.OPENED, frames.PROBLEM)
        with self._understood():
            if kind == frames.PROBLEM:
                return one_line(str(data.get("why") or "it can't be read"), 200)
            opened = OpenedFile(
                size_bytes=int(data["size"]), mtime_ns=int(data["mtime_ns"]), offset=int(data["offset"])
            )
        if not 0 <= opened.offset <= min(offset, opened.size_bytes):
            raise self.gone("it gives another part of a file than it was asked for")
        return opened

    def pieces(self, opened: OpenedFile) -> Iterator[bytes]:
        """The file; `ChangedFile` at its end if it was changed while it was read."""
        left = opened.size_bytes - opened.offset
        while True:
            kind, payload = self.next()
            if kind == frames.DATA:
                left -= len(payload)
                if left < 0:
                    raise self.gone("it sends more of a file than there is")
                yield payload
                continue
            if kind not in (frames.PROBLEM, frames.END):
                raise self.gone(f"expected a file, got {kind!r}")
            with self._understood():
                data = json.loads(payload)
                why = data.get("why") or "it can't be read" if kind == frames.PROBLEM else ""
                is_torn = bool(data.get("is_torn"))
            if why or left or is_torn:
                raise ChangedFile(one_line(str(why), 200) or "it was changed while it was read")
            return

    # ---- beginning and end

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        """What a node says may be anything."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise self.gone(f"its answer is none: {type(error).__name__}") from None

    def gone(self, why: str) -> NodeGone:
        """The node has gone, or is not what it should be."""
        last_words = "" if self._is_closed else self._channel.last_words()
        return NodeGone.refused(
            "UM-SUBMIT-392",
            f"{self.name}: the connection was lost",
            why="; ".join(filter(None, (one_line(why, 200), last_words))) or "the program there has ended",
            hint="`umiak status` says how the run is; repeat the command: `umiak fetch` goes on where it was",
        )

    def _greet(self) -> None:
        """Skip what shells and schedulers print before the program begins."""
        seen = b""
        while frames.HELLO not in seen:
            data = self._channel.read()
            if not data or len(seen) > MOST_NOISE:
                last_words = self._channel.last_words()
                noise = one_line(seen.decode(errors="replace").strip().rpartition("\n")[2], 200)
                problem = Problem(
                    code="UM-SUBMIT-403",
                    what=f"{self.name}: the program for commands and files did not start there",
                    why="; ".join(filter(None, (last_words, noise))) or "it ended without a word",
                    hint="a run that an older umiak has submitted may have no such program: submit it again with this one",
                )
                self._channel.close()
                raise NodeGone(problem, exit_status=Exit.REFUSED)
            seen += data
        rest = seen.partition(frames.HELLO)[2]
        try:
            self._waiting = self._parser.feed(rest)
        except ValueError as error:
            raise self.gone(str(error)) from None


class Heartbeat:
    """Tells a node again and again that its client lives."""

    def __init__(self, session: NodeSession) -> None:
        self._session = session
        self._over = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(frames.PING_S):
            try:
                self._session.send(frames.PING)
            except UmiakError:
                return


def _file(row: Sequence[Any]) -> NodeFile:
    path, size, mtime_ns, mode, target = row
    return NodeFile(
        path=str(path),
        size_bytes=max(0, int(size)),
        mtime_ns=int(mtime_ns),
        mode=int(mode) & 0o777,
        target=None if target is None else str(target),
    )
