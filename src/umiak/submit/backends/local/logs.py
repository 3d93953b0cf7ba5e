"""Reads the log files of a local run as they grow: every line once, also across rotation and after an interruption. An adapter.

A position is a file's inode and the offset behind the last line that was given. A file keeps its inode when it is rotated to
``workerlog.0.1``, so reading goes on in it, and then in the files that came after it.
"""

from __future__ import annotations

import os

from umiak.core.cluster import Role
from umiak.core.value import value
from umiak.submit.backend import LogLine
from umiak.submit.backends.local.files import OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.submit.backend import LogsWanted
    from umiak.submit.backends.local.files import LocalRunFiles
    from umiak.submit.backends.local.plan import LocalPlan

ROLES = {"serverlog": Role.SERVER, "workerlog": Role.TRAINER, "heterlog": Role.HETER}
LAUNCHER = "launcher"
OLD_FILES = 2
CHUNK = 1 << 20
LONGEST_LINE = 1 << 20
"""A longer one is given in pieces."""


@value
class LogSource:
    """Who writes a file."""

    name: str
    path: str
    role: Role | None = None
    rank: int | None = None


def sources(files: LocalRunFiles, plan: LocalPlan, wanted: LogsWanted) -> list[LogSource]:
    """The log files that there are now, of those that are wanted."""
    found = []
    for launcher in plan.launchers:
        directory = files.log_directory(launcher.name)
        try:
            names = sorted(os.listdir(directory))
        except FileNotFoundError:
            continue
        for name in names:
            stem, _, number = name.partition(".")
            role = ROLES.get(stem)
            path = os.path.join(directory, name)
            if role is not None and number.isdecimal():
                rank = launcher.first_rank + int(number)
                found.append(LogSource(name=f"{role.value}.{rank}", path=path, role=role, rank=rank))
            elif name == OUTPUT:
                own = LAUNCHER if len(plan.launchers) == 1 else f"{LAUNCHER}.{launcher.name}"
                found.append(LogSource(name=own, path=path))
    return sorted([each for each in found if _is_wanted(each, wanted)], key=_order)


def _is_wanted(source: LogSource, wanted: LogsWanted) -> bool:
    role = wanted.role or (Role.TRAINER if wanted.rank is not None else None)
    return (role is None or source.role is role) and (wanted.rank is None or source.rank == wanted.rank)


def _order(source: LogSource) -> tuple[bool, str, int]:
    return source.role is None, source.role.value if source.role else source.name, source.rank or 0


class LogReader:
    """One source, read on from a position."""

    def __init__(self, source: LogSource, position: str = "") -> None:
        self.source = source
        inode, _, offset = position.partition(":")
        self._inode = int(inode) if inode.isdecimal() else None
        self._offset = int(offset) if offset.isdecimal() else 0
        self._partial = b""
        """Read, and not given yet: a line whose end was not written."""

    def lines(self, *, is_over: bool) -> Iterator[LogLine]:
        """What has come since the last call. The beginning of a line waits for its end, unless nothing comes any more."""
        todo = self._files()
        for path, inode in todo:
            if inode != self._inode:
                self._inode, self._offset = inode, 0
            yield from self._read(path, inode)
        if is_over and self._partial:
            yield self._line(b"")

    def _files(self) -> list[tuple[str, int]]:
        """The files that have something new, the oldest first."""
        found = []
        for suffix in (*(f".{number}" for number in range(OLD_FILES, 0, -1)), ""):
            path = f"{self.source.path}{suffix}"
            try:
                there = os.stat(path)
            except FileNotFoundError:
                continue
            found.append((path, there.st_ino, there.st_size))
        own = [index for index, (_, inode, size) in enumerate(found) if inode == self._inode and size >= self._offset]
        # Without ours, more was rotated away than is kept: everything that is left is new.
        return [(path, inode) for path, inode, _ in found[own[-1] if own else 0 :]]

    def _read(self, path: str, inode: int) -> Iterator[LogLine]:
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed below
        except FileNotFoundError:
            return  # rotated just now: the next call finds it
        with file:
            if os.fstat(file.fileno()).st_ino != inode:
                return
            file.seek(self._offset)
            while data := file.read(CHUNK):
                pieces = (self._partial + data).split(b"\n")
                known = len(self._partial)
                self._partial = b""
                for piece in pieces[:-1]:
                    self._offset += len(piece) + 1 - known
                    known = 0
                    yield self._line(piece)
                self._offset += len(pieces[-1]) - known
                self._partial = pieces[-1]
                if len(self._partial) > LONGEST_LINE:
                    yield self._line(b"")

    def _line(self, text: bytes) -> LogLine:
        text, self._partial = self._partial + text, b""
        return LogLine(
            source=self.source.name,
            text=text.removesuffix(b"\r").decode(errors="replace"),
            position=f"{self._inode}:{self._offset}",
            role=self.source.role,
            rank=self.source.rank,
        )
