"""CPU time of everything that a benchmark has started, at any moment of it: a control group, read again and again. An adapter.

    with cpu_group.entered() as group, group.watched() as watch:
        ...
    watch.used_s(began, ended)      by the clock of `time.time`

Processes that detach themselves count as well, on hosts of the testbed too. It needs root and cgroups with CPU accounting; else
nothing is measured, and `used_s` is None.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOTS = (Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup"))
EVERY_S = 0.02


class CpuWatch:
    """What a group had used, by the time."""

    def __init__(self, group: CpuGroup) -> None:
        self._group = group
        self._samples: list[tuple[float, float]] = []
        self._is_over = threading.Event()

    def used_s(self, began: float, ended: float) -> float | None:
        """CPU seconds in between."""
        if not self._samples:
            return None
        first, last = (min(self._samples, key=lambda each, at=at: abs(each[0] - at)) for at in (began, ended))  # type: ignore[misc]
        return last[1] - first[1]

    def look(self) -> None:
        while (used := self._group.used_s()) is not None:
            self._samples.append((time.time(), used))
            if self._is_over.wait(EVERY_S):
                return

    def stop(self) -> None:
        self._is_over.set()


class CpuGroup:
    """A control group; without a path, none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def used_s(self) -> float | None:
        """CPU seconds of all that are, or were, in it."""
        if self._path is None:
            return None
        nanoseconds = self._path / "cpuacct.usage"
        if nanoseconds.exists():
            return int(nanoseconds.read_text()) / 1e9
        rows = dict(line.split() for line in (self._path / "cpu.stat").read_text().splitlines())
        return int(rows["usage_usec"]) / 1e6

    @contextlib.contextmanager
    def watched(self) -> Iterator[CpuWatch]:
        watch = CpuWatch(self)
        thread = threading.Thread(target=watch.look)
        thread.start()
        try:
            yield watch
        finally:
            watch.stop()
            thread.join()


@contextlib.contextmanager
def entered() -> Iterator[CpuGroup]:
    """A group with this process, and with all that it starts from now on."""
    root = next((each for each in ROOTS if (each / "cgroup.procs").exists()), None)
    own = _made(root) if root else None
    try:
        yield CpuGroup(own)
    finally:
        if root and own:
            (root / "cgroup.procs").write_text(str(os.getpid()))
            with contextlib.suppress(OSError):  # somebody is still in it
                own.rmdir()


def _made(root: Path) -> Path | None:
    own = root / f"umiak-bench-{os.getpid()}"
    try:
        own.mkdir()
        (own / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        return None
    return own
