"""When the lines of a log file on this machine were written: from the file that its launcher keeps beside it, or from the launcher's own lines. An adapter."""

from __future__ import annotations

import os
import time

from umiak.core.runtime import log_times
from umiak.core.runtime.log_times import HEAD_BYTES, RECORD_BYTES, LineTimes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LAUNCH = "LAUNCH "
FIRST_BYTES = 1 << 16
"""So far the first line with a time is looked for."""


class FileTimes:
    """The times of one log file, known by its inode: it may be rotated while it is read. No file is kept open: a run may have many logs."""

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
