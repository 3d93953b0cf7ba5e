"""Writes down when the lines of a worker's log came, beside the log,
for `umiak logs --since` and logs in the order of time. An adapter.

Nothing here stops a worker or its log: where the file can't be written, times are missing.
"""

from __future__ import annotations

import os
import time

from umiak.core.runtime import log_times
from umiak.launch.reports.logfiles import open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.reports.logfiles import Access


class LogTimes:
    """The times of one log."""

    def __init__(self, log_path: str, log_fd: int, access: Access) -> None:
        self._log_path, self._access = log_path, access
        self._fd = -1
        self._size = self._before = 0
        self._written_at = 0.0
        self._begin(log_fd)

    def mark(self) -> None:
        """Something is about to be written to the log.
        Before it is: who reads the log finds the time of a line as soon as the line.
        """
        passed_s = abs(time.time() - self._written_at)  # clocks are set back as well
        if self._fd < 0 or passed_s < log_times.GRAIN_S:
            return
        if self._size <= log_times.ALWAYS_BYTES + self._offset // 2 or passed_s >= log_times.COARSE_S:
            self._written_at = time.time()
            self._add(log_times.pair(self._offset, int(self._written_at * 1000)))

    def wrote(self, count: int) -> None:
        """So many bytes were."""
        self._offset += count

    def rotated(self, log_fd: int, old_files: int) -> None:
        """The log was rotated: its file is a new one."""
        before = self._before + self._offset
        self.close()
        try:
            for number in range(old_files, 0, -1):
                younger = f"{self._log_path}.{number - 1}" if number > 1 else self._log_path
                if os.path.exists(log_times.path_of(younger)):
                    os.replace(log_times.path_of(younger), log_times.path_of(f"{self._log_path}.{number}"))
        except OSError:
            pass
        self._begin(log_fd, before)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _begin(self, log_fd: int, before: int | None = None) -> None:
        """Go on in the file that belongs to this log file, or begin a new one."""
        stat = os.fstat(log_fd)
        self._offset, self._written_at = stat.st_size, 0.0
        self._before = before or 0
        path = log_times.path_of(self._log_path)
        try:
            head = _head(path) if before is None else None
            if head is not None and head[0] == stat.st_ino and stat.st_size:
                self._before = head[1]
                self._fd = open_log(path, access=self._access)
                self._size = os.fstat(self._fd).st_size
                self._size -= (
                    self._size % log_times.RECORD_BYTES
                )  # a launcher that was killed may have left half a record
                os.ftruncate(self._fd, self._size)
                return
            self._fd = open_log(path, overwrite=True, access=self._access)
            self._size = 0
            self._add(log_times.pair(stat.st_ino, self._before))
        except OSError:
            self.close()

    def _add(self, data: bytes) -> None:
        try:
            os.write(self._fd, data)
            self._size += len(data)
        except OSError:
            self.close()  # what came behind half a record could not be read


def _head(path: str) -> tuple[int, int] | None:
    """The head of the file that is there; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        data = os.read(fd, log_times.HEAD_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
    return log_times.pair_of(data) if len(data) == log_times.HEAD_BYTES else None
