"""When the lines of a log file were written, and how much was rotated away before them: the file beside it. Values.

    times.workerlog.0     a head: inode of the log file, bytes that were written to the log before this file
                          records: offset in the log file, milliseconds since 1970

A record says that what is written from this offset on came at this time; what comes soon after has none of its own.
All numbers have eight bytes, the lowest first.
"""

from __future__ import annotations

HEAD_BYTES = RECORD_BYTES = 16
GRAIN_S = 0.001
"""Between two records."""
COARSE_S = 1.0
"""Between two records where they would take too much room."""
ALWAYS_BYTES = 1 << 20
"""Records may have this many bytes, and half as many as the log file."""
_NAME = "times."


def path_of(log_path: str) -> str:
    """``log/times.workerlog.0`` for ``log/workerlog.0``."""
    directory, slash, name = log_path.rpartition("/")
    return f"{directory}{slash}{_NAME}{name}"


def pair(first: int, second: int) -> bytes:
    """A head, or a record."""
    return first.to_bytes(8, "little") + second.to_bytes(8, "little")


def pair_of(data: bytes) -> tuple[int, int]:
    """The two numbers of a head, or of a record."""
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:16], "little")


class LineTimes:
    """The records of one log file, fed as they come."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._times_ms: list[int] = []
        self._next = 0

    def feed(self, data: bytes) -> None:
        """Whole records."""
        for at in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
            offset, time_ms = pair_of(data[at : at + RECORD_BYTES])
            self._offsets.append(offset)
            self._times_ms.append(time_ms)

    def at(self, offset: int) -> float | None:
        """When the byte at this offset was written, in seconds since 1970. Asked in rising order, it takes no time."""
        found, offsets = self._next, self._offsets
        if found and (found > len(offsets) or offsets[found - 1] > offset):
            found = 0
        while found < len(offsets) and offsets[found] <= offset:
            found += 1
        self._next = found
        return self._times_ms[found - 1] / 1000 if found else None

    def offset_since(self, since_s: float) -> int | None:
        """Where what was written since then begins; None: nothing was."""
        for offset, time_ms in zip(self._offsets, self._times_ms, strict=True):
            if time_ms / 1000 >= since_s:
                return offset
        return None
