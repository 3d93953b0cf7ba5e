"""The files of runs, opened safely and read in pieces. An adapter.

    with RunFile.open(path) as file: ...       a plain file: no link, no pipe, nothing that could block
    tail(path, 16384), lines_after(path, offset)
    Locks().holds(path)                        whether some process keeps a file locked: it is being written to

Nothing here writes, locks or waits: a run never notices that somebody looks at it.
"""

from __future__ import annotations

import os
import stat

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

LARGEST_LINE = 1 << 20
PIECE = 1 << 20
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class RunFile:
    """A plain file, open."""

    def __init__(self, fd: int, size: int, changed_s: float) -> None:
        self.fd, self.size, self.changed_s = fd, size, changed_s

    @classmethod
    def open(cls, path: str) -> RunFile:
        """OSError if it is not there, or is anything but a plain file."""
        fd = os.open(path, _FLAGS)
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            os.close(fd)
            raise OSError(22, "not a regular file", path)
        return cls(fd, seen.st_size, seen.st_mtime)

    def read(self, offset: int, count: int) -> bytes:
        return os.pread(self.fd, count, offset)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> RunFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def tail(path: str, count: int) -> bytes:
    """The last bytes of a file. OSError if it can't be read."""
    with RunFile.open(path) as file:
        return file.read(max(0, file.size - count), count)


def head(path: str, count: int) -> bytes:
    """The first bytes of a file. OSError if it can't be read."""
    with RunFile.open(path) as file:
        return file.read(0, count)


def last_lines(path: str, count: int) -> list[bytes]:
    """Whole lines out of the last bytes of a file."""
    with RunFile.open(path) as file:
        begin = max(0, file.size - count)
        data = file.read(begin, count)
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return lines if begin == 0 else lines[1:]


@value
class Growth:
    """What a file has got since somebody looked."""

    lines: tuple[bytes, ...] = ()
    offset: int = 0
    """Where to go on."""
    is_new_file: bool = False
    """It is shorter than before, or another one: what was read of it does not count any more."""
    inode: int = 0
    has_more: bool = False


def growth(path: str, offset: int, inode: int, most: int = 8 * PIECE) -> Growth:
    """The whole lines behind an offset, up to so many bytes. OSError if it can't be read."""
    with RunFile.open(path) as file:
        found = os.fstat(file.fd).st_ino
        is_new = bool(inode and found != inode) or file.size < offset
        begin = 0 if is_new else offset
        data = file.read(begin, most)
        end = data.rfind(b"\n") + 1
        if not end and len(data) >= LARGEST_LINE:
            end = len(data)  # no line of ours
        lines = tuple(data[:end].splitlines())
        return Growth(
            lines=lines,
            offset=begin + end,
            is_new_file=is_new,
            inode=found,
            has_more=bool(end) and begin + end < file.size and len(data) == most,
        )


class Locks:
    """Which files are locked now, as the kernel lists them. To try a lock would disturb a launcher that begins in this moment."""

    def __init__(self) -> None:
        self._held = _held()

    def holds(self, path: str) -> bool:
        """Whether a process of this machine has locked the file."""
        return self._find(path) is not None

    def holder(self, path: str) -> int | None:
        """The process that has locked the file; None if nobody has, or none that can be seen from here."""
        return self._find(path) or None

    def _find(self, path: str) -> int | None:
        try:
            seen = os.lstat(path)
        except OSError:
            return None
        return self._held.get((os.major(seen.st_dev), os.minor(seen.st_dev), seen.st_ino))


def _held() -> dict[tuple[int, int, int], int]:
    """``1: FLOCK  ADVISORY  WRITE 20672 fe:00:10086022 0 EOF``; the process is 0 or less if it is of another container."""
    found: dict[tuple[int, int, int], int] = {}
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            for line in file:
                words = line.split()
                if len(words) > 5 and words[1] == "FLOCK":
                    major, minor, inode = words[5].split(":")
                    found[int(major, 16), int(minor, 16), int(inode)] = max(0, int(words[4]))
    except (OSError, ValueError):
        pass
    return found
