"""When the lines of a log file on this machine were written: from the file that its launcher keeps beside it,
or from the launcher's own lines; and from which byte of a log lines are asked for by their number or time. An adapter.
"""

from __future__ import annotations

import os
import time
from zlib import crc32

from umiak.core.runtime import log_times
from umiak.core.runtime.log_times import HEAD_BYTES, RECORD_BYTES, LineTimes
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

LAUNCH = "LAUNCH "
FIRST_BYTES = 1 << 16
"""So far the first line with a time is looked for."""


class FileTimes:
    """The times of one log file, known by its inode: it may be rotated while it is read.
    No file is kept open: a run may have many logs.
    """

    def __init__(self, log_paths: Sequence[str], inode: int) -> None:
        self.before: int | None = None
        """Bytes that were written to this log before this file; None: nobody knows."""
        self._paths = [log_times.path_of(path) for path in reversed(log_paths)]
        self._inode = inode
        self._read = HEAD_BYTES
        self._times = LineTimes()
        self.refresh()

    @property
    def are_known(self) -> bool:
        return self.before is not None

    def refresh(self) -> None:
        """Read what has come since."""
        for path in self._paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                if self._is_taken(fd):
                    return
            except OSError:
                continue
            finally:
                os.close(fd)

    def _is_taken(self, fd: int) -> bool:
        head = os.pread(fd, HEAD_BYTES, 0)
        if len(head) < HEAD_BYTES or log_times.pair_of(head)[0] != self._inode:
            return False
        self.before = log_times.pair_of(head)[1]
        while data := os.pread(fd, 1 << 20, self._read):
            whole = len(data) - len(data) % RECORD_BYTES
            if not whole:
                break
            self._times.feed(data[:whole])
            self._read += whole
        return True

    def at(self, offset: int) -> float | None:
        return self._times.at(offset)

    def offset_since(self, since_s: float) -> int | None:
        return self._times.offset_since(since_s)


class LaunchTimes:
    """The times in the lines of a launcher: ``LAUNCH INFO 2022-05-18 11:53:09,773 ...``, in the time of its machine."""

    def __init__(self) -> None:
        self._last: tuple[str, float] = ("", 0.0)

    def of(self, text: str) -> float | None:
        """None if a line has none."""
        if not text.startswith(LAUNCH):
            return None
        words = text[:64].split(" ", 4)
        if len(words) < 4 or len(words[2]) != 10 or len(words[3]) != 12:
            return None
        second, _, fraction = f"{words[2]} {words[3]}".partition(",")
        try:
            if second != self._last[0]:
                numbers = [int(part) for part in second.replace("-", " ").replace(":", " ").split()]
                year, month, day, hour, minute, whole = numbers
                self._last = second, time.mktime((year, month, day, hour, minute, whole, 0, 0, -1))
            return self._last[1] + int(fraction) / 1000
        except (ValueError, OverflowError):
            return None

    def first_in(self, path: str) -> float | None:
        """The first one in a file."""
        try:
            with open(path, "rb") as file:
                data = file.read(FIRST_BYTES)
        except OSError:
            return None
        lines = data.decode(errors="replace").splitlines()
        return next((at for line in lines if (at := self.of(line)) is not None), None)


BLOCK = 1 << 16
CHECKED = 64
"""So many bytes in front of a position tell its file from another one."""
FARTHEST_LINE = 1 << 20
"""The beginning of a longer line is not looked for."""
FILE_CLOCK_BEHIND_S = 2.0
"""So far a file's time of change may be behind the clock:
kernels take that of their last tick, some file systems know even seconds only.
"""


@value
class LogStart:
    """A place in one of the files."""

    path: str
    inode: int
    offset: int
    checksum: int


def start_of(paths: Sequence[str], *, tail: int | None, since_s: float | None) -> LogStart | None:
    """``paths``: the files of one source that there are, the oldest first. None: from the beginning of the oldest."""
    wanted = max(tail, 1) if tail is not None else None
    for path in reversed(paths):
        try:
            with open(path, "rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                offset, lines = _tail(file, wanted) if wanted is not None else (0, 0)
                earliest = _since(file, paths, inode, since_s) if since_s is not None else 0
                if max(offset, earliest) > 0:
                    return _start(file, path, inode, max(offset, earliest))
                if wanted is not None:
                    wanted -= lines
                    if wanted <= 0:
                        return _start(file, path, inode, 0)
        except FileNotFoundError:
            continue  # rotated just now
    return None


def _tail(file: BinaryIO, count: int) -> tuple[int, int]:
    """Where the last lines begin; 0 if the file has fewer, or just as many. And how many lines it has then."""
    at = file.seek(0, os.SEEK_END)
    if not at:
        return 0, 0
    file.seek(at - 1)
    if file.read(1) == b"\n":
        at -= 1
    else:
        count += 1  # the last line has no end yet, and may not be given
    lines = 0
    while at > 0:
        begin = max(0, at - BLOCK)
        file.seek(begin)
        data = file.read(at - begin)
        place = len(data)
        while (place := data.rfind(b"\n", 0, place)) >= 0:
            lines += 1
            if lines == count:
                return begin + place + 1, lines
        at = begin
    return 0, lines + 1


def _since(file: BinaryIO, paths: Sequence[str], inode: int, since_s: float) -> int:
    """Where the first line begins that was ended since then; 0: from the beginning, as far as is known."""
    stat = os.fstat(file.fileno())
    if stat.st_mtime + FILE_CLOCK_BEHIND_S < since_s:
        return stat.st_size
    times = FileTimes(paths, inode)
    if not times.are_known:
        return 0
    offset = times.offset_since(since_s)
    return stat.st_size if offset is None else _line_start(file, offset)


def _line_start(file: BinaryIO, offset: int) -> int:
    least = max(0, offset - FARTHEST_LINE)
    at = offset
    while at > least:
        begin = max(least, at - BLOCK)
        file.seek(begin)
        place = file.read(at - begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        at = begin
    return least


def _start(file: BinaryIO, path: str, inode: int, offset: int) -> LogStart:
    begin = max(0, offset - CHECKED)
    file.seek(begin)
    return LogStart(path=path, inode=inode, offset=offset, checksum=crc32(file.read(offset - begin)))
