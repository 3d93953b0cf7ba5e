"""Reads the log files of a run on one machine as they grow:
every line once, also across rotation and after an interruption. An adapter.

A position is a file's inode, the offset behind the last line that was given, a checksum of what stands there, and the
bytes of the whole log up to it. A file keeps its inode when it is rotated to ``workerlog.0.1``, so reading goes on in
it, and then in the files that came after it. Where rotation has dropped something in between, a note says so.
"""

from __future__ import annotations

import os
from zlib import crc32

from umiak.core.cluster import Role
from umiak.core.value import value
from umiak.submit.backend import OURSELVES, LogLine
from umiak.submit.node.files import OUTPUT
from umiak.submit.node.line_times import CHECKED, FileTimes, LaunchTimes, start_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from umiak.submit.backend import LogsWanted
    from umiak.submit.node.files import RunFiles
    from umiak.submit.node.plan import RunPlan

ROLES = {"serverlog": Role.SERVER, "workerlog": Role.TRAINER, "heterlog": Role.HETER}
LAUNCHER = "launcher"
OLD_FILES = 2
CHUNK = 1 << 16
"""All logs of a run are read at once, in the order of time."""
LONGEST_LINE = 1 << 20
"""A longer one is given in pieces."""


@value
class LogSource:
    """Who writes a file."""

    name: str
    path: str
    role: Role | None = None
    rank: int | None = None


def sources(files: RunFiles, plan: RunPlan, wanted: LogsWanted) -> list[LogSource]:
    """The log files that there are now, of those that are wanted."""
    sources_there = []
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
                if launcher.first_rank is None:
                    sources_there.append(LogSource(name=f"{role.value}.{launcher.name}.{number}", path=path, role=role))
                    continue
                rank = launcher.first_rank + int(number)
                sources_there.append(LogSource(name=f"{role.value}.{rank}", path=path, role=role, rank=rank))
            elif name == OUTPUT:
                is_only = len(plan.launchers) == 1 and not launcher.node
                own = LAUNCHER if is_only else f"{LAUNCHER}.{launcher.name}"
                sources_there.append(LogSource(name=own, path=path))
    return sorted([each for each in sources_there if wanted.asks_for(each.role, each.rank)], key=order)


def order(source: LogSource) -> tuple[bool, str, int]:
    """Workers before the rest, by role and rank."""
    return source.role is None, source.role.value if source.role else source.name, source.rank or 0


class LogReader:
    """One source, read on from a position; without one, from where the lines begin that are wanted."""

    def __init__(
        self, source: LogSource, position: str = "", *, tail: int | None = None, since_s: float | None = None
    ) -> None:
        self.source = source
        known = [int(part) for part in position.split(":") if part.isdecimal()]
        self._inode, self._offset, self._checksum, self._total = known if len(known) == 4 else (-1, 0, 0, 0)
        if self._inode < 0 and (tail is not None or since_s is not None):
            start = start_of([path for path, _ in self._existing()], tail=tail, since_s=since_s)
            if start is not None:
                self._inode, self._offset, self._checksum = start.inode, start.offset, start.checksum
        self._partial = b""
        """Read, and not given yet: a line whose end was not written."""
        self._before = b""
        """The end of what was read of this file, for its checksum."""
        self._held: BinaryIO | None = None
        """The file that is read, kept open: as long as it is, no other file has its inode."""
        self._times: FileTimes | None = None
        self._launch_times = LaunchTimes()
        self._last_time: float | None = None

    def lines(self, *, is_over: bool) -> Iterator[LogLine]:
        """What has come since the last call.
        The beginning of a line waits for its end, unless nothing comes any more.
        """
        files = self._files()
        if self._held and self._inode not in [inode for _, inode in files]:
            yield from self._rest()  # it was deleted, and is still open here
        for path, inode in files:
            yield from self._read(path, inode)
        if is_over and self._partial:
            yield self._line(b"")

    def close(self) -> None:
        if self._held:
            self._held.close()
            self._held = None

    def _existing(self) -> list[tuple[str, int]]:
        """The files of this source with their inodes, the oldest first."""
        files = []
        for path in self._paths():
            try:
                files.append((path, os.stat(path).st_ino))
            except FileNotFoundError:
                continue
        return files

    def _paths(self) -> list[str]:
        return [f"{self.source.path}{suffix}" for suffix in (*(f".{n}" for n in range(OLD_FILES, 0, -1)), "")]

    def _files(self) -> list[tuple[str, int]]:
        """The files that have something new, the oldest first."""
        files = self._existing()
        own = [index for index, (path, inode) in enumerate(files) if inode == self._inode and self._is_ours(path)]
        # Without ours, more was rotated away than is kept: everything that is left is new.
        return files[own[-1] if own else 0 :]

    def _is_ours(self, path: str) -> bool:
        """Whether this is the file of our position, and not a later one that got the inode of a deleted one."""
        if self._held:
            return True
        try:
            with open(path, "rb") as file:
                start = max(0, self._offset - CHECKED)
                file.seek(start)
                self._before = file.read(self._offset - start)
        except FileNotFoundError:
            return False
        if len(self._before) == self._offset - start and crc32(self._before) == self._checksum:
            return True
        self._inode = -1
        return False

    def _read(self, path: str, inode: int) -> Iterator[LogLine]:
        if inode != self._inode or self._held is None:
            try:
                file = open(path, "rb")  # noqa: SIM115 - kept open
            except FileNotFoundError:
                return  # rotated just now: the next call finds it
            if os.fstat(file.fileno()).st_ino != inode:
                file.close()
                return
            expected = self._so_far()
            self.close()
            self._held = file
            self._times = FileTimes(self._paths(), inode)
            if inode != self._inode:
                self._inode, self._offset, self._before = inode, 0, b""
                yield from self._dropped(expected)
            if not self._times.are_known and self._last_time is None:
                self._last_time = self._launch_times.first_in(path)
        yield from self._rest()

    def _so_far(self) -> int | None:
        """Bytes of the log up to here; None: nobody knows."""
        if self._times is None:
            return self._total
        return None if self._times.before is None else self._times.before + self._offset

    def _dropped(self, expected: int | None) -> Iterator[LogLine]:
        """A note, if rotation has dropped something between what was read and the file that begins now."""
        before = self._times.before if self._times else None
        text = ""
        if before is None:
            if expected == 0 and len(self._existing()) > OLD_FILES:
                text = "lines before these may have been dropped when its log was rotated"
        elif expected is not None and before > expected:
            text = f"{_size(before - expected)} before these lines were dropped when its log was rotated"
        if text:
            hint = "UMIAK_LOG_MAX_BYTES=1G in the job's `env` keeps more"
            note = f"{self.source.name}: {text}; {hint}"
            yield LogLine(source=OURSELVES, text=note, role=self.source.role, rank=self.source.rank)

    def _rest(self) -> Iterator[LogLine]:
        assert self._held is not None
        self._held.seek(self._offset)
        while data := self._held.read(CHUNK):
            if self._times:
                self._times.refresh()
            yield from self._split(data)

    def _split(self, data: bytes) -> Iterator[LogLine]:
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._count(piece + b"\n")
            yield self._line(piece)
        self._count(rest)
        self._partial += rest
        if len(self._partial) > LONGEST_LINE:
            yield self._line(b"")

    def _count(self, data: bytes) -> None:
        self._offset += len(data)
        self._before = (self._before + data)[-CHECKED:]

    def _line(self, data: bytes) -> LogLine:
        data, self._partial = self._partial + data, b""
        text = data.removesuffix(b"\r").decode(errors="replace")
        at = self._times.at(self._offset - 1) if self._times and self._times.are_known else self._launch_times.of(text)
        self._last_time = self._last_time if at is None else at
        return LogLine(
            source=self.source.name,
            text=text,
            position=f"{self._inode}:{self._offset}:{crc32(self._before)}:{self._so_far() or 0}",
            role=self.source.role,
            rank=self.source.rank,
            time_s=self._last_time,
        )


def _size(count: int) -> str:
    """``312 bytes``, ``48.2 MB``."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count} bytes"
