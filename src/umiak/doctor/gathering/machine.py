"""Reads shared memory and limits of this machine. An adapter; it only reads."""

from __future__ import annotations

import os
import resource

from umiak.doctor.facts import LimitFacts, ShmFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.asked import Asked

SHARED = "/dev/shm"  # noqa: S108 - no file is made there
_GROUPS = "/sys/fs/cgroup"
_RDMA = "/sys/class/infiniband"


def shm(_asked: Asked, _limit_s: float) -> ShmFacts:
    """How large it is, and how full."""
    try:
        room = os.statvfs(SHARED)
    except OSError:
        return ShmFacts(exists=False)
    return ShmFacts(
        exists=True,
        writable=os.access(SHARED, os.W_OK | os.X_OK),
        total_bytes=room.f_blocks * room.f_frsize,
        free_bytes=room.f_bavail * room.f_frsize,
    )


def limits(_asked: Asked, _limit_s: float) -> LimitFacts:
    """Those of this process, which a launcher started from the same shell has as well."""
    tasks, now = _tasks()
    return LimitFacts(
        open_files=_limit(resource.RLIMIT_NOFILE, 0),
        most_open_files=_limit(resource.RLIMIT_NOFILE, 1),
        locked_bytes=_limit(resource.RLIMIT_MEMLOCK, 0),
        processes=_limit(resource.RLIMIT_NPROC, 0),
        tasks=tasks,
        tasks_now=now,
        rdma=tuple(sorted(os.listdir(_RDMA))) if os.path.isdir(_RDMA) else (),
    )


def _limit(number: int, which: int) -> int | None:
    found = resource.getrlimit(number)[which]
    return None if found == resource.RLIM_INFINITY else found


def _tasks() -> tuple[int | None, int]:
    """How many tasks the control group may have, and has: the narrowest of all groups above this process."""
    narrowest: tuple[int | None, int] = (None, 0)
    for group in _groups():
        most, now = _read(os.path.join(group, "pids.max")), _read(os.path.join(group, "pids.current"))
        if most.isdecimal() and now.isdecimal():
            room = int(most) - int(now)
            if narrowest[0] is None or room < narrowest[0] - narrowest[1]:
                narrowest = int(most), int(now)
    return narrowest


def _groups() -> list[str]:
    found = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers in ("", "pids"):
            base = os.path.join(_GROUPS, controllers)
            while True:
                found.append(base + path.rstrip("/"))
                if path in ("/", ""):
                    break
                path = os.path.dirname(path)
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
