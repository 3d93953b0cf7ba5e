"""Where to begin in the log files of one source, so that its last lines, or those since some time, are read and nothing before them. An adapter.

Files are read from their end, block by block, and by the times that are kept beside them.
"""

from __future__ import annotations

import os
from zlib import crc32

from umiak.core.value import value
from umiak.submit.node.line_times import FileTimes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

BLOCK = 1 << 16
CHECKED = 64
"""So many bytes in front of a position tell its file from another one."""
FARTHEST_LINE = 1 << 20
"""The beginning of a longer line is not looked for."""
FILE_CLOCK_BEHIND_S = 2.0
"""So far a file's time of change may be behind the clock: kernels take that of their last tick, some file systems know even seconds only."""


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
                offset, found = _tail(file, wanted) if wanted is not None else (0, 0)
                earliest = _since(file, paths, inode, since_s) if since_s is not None else 0
                if max(offset, earliest) > 0:
                    return _start(file, path, inode, max(offset, earliest))
                if wanted is not None:
                    wanted -= found
                    if wanted <= 0:
                        return _start(file, path, inode, 0)
        except FileNotFoundError:  # noqa: PERF203 - three at most
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
    found = 0
    while at > 0:
        begin = max(0, at - BLOCK)
        file.seek(begin)
        data = file.read(at - begin)
        place = len(data)
        while (place := data.rfind(b"\n", 0, place)) >= 0:
            found += 1
            if found == count:
                return begin + place + 1, found
        at = begin
    return 0, found + 1


def _since(file: BinaryIO, paths: Sequence[str], inode: int, since_s: float) -> int:
    """Where the first line begins that was ended since then; 0: from the beginning, as far as is known."""
    found = os.fstat(file.fileno())
    if found.st_mtime + FILE_CLOCK_BEHIND_S < since_s:
        return found.st_size
    times = FileTimes(paths, inode)
    if not times.are_known:
        return 0
    offset = times.offset_since(since_s)
    return found.st_size if offset is None else _line_start(file, offset)


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
