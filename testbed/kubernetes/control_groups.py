"""Adapter: control groups of containers, below one group that is removed with its owner.

As a program it waits for the owner's death: `python -m testbed.kubernetes.control_groups NAME OWNER`.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from testbed import processes

_MOUNT = Path("/sys/fs/cgroup")
_REMOVE_WITHIN_S = 60


@contextlib.contextmanager
def opened(name: str) -> Iterator[None]:
    """Remove the groups of this name on leaving, and when this process dies."""
    worker_supervisor = processes.worker_supervisor("testbed.kubernetes.control_groups", name)
    try:
        yield
    finally:
        remove(name)
        worker_supervisor.kill()
        worker_supervisor.wait()


def make(path: str) -> None:
    """Make a group in every hierarchy, with all controllers for the groups below it."""
    for hierarchy in _hierarchies():
        level = hierarchy
        for name in path.split("/"):
            _enable(level)
            level = level / name
            level.mkdir(exist_ok=True)
            for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in version 1, and then no process may enter
                if hierarchy != _MOUNT and (level / setting).exists() and not (level / setting).read_text().strip():
                    (level / setting).write_text((level.parent / setting).read_text())
        _enable(level)


def remove(name: str) -> None:
    """Remove the groups of this name, once the processes in them have ended."""
    deadline = time.monotonic() + _REMOVE_WITHIN_S
    while left := [path for folder in (_MOUNT, *_MOUNT.iterdir()) if (path := folder / name).exists()]:
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def _hierarchies() -> list[Path]:
    if (_MOUNT / "cgroup.controllers").exists():
        return [_MOUNT]
    version_1 = [path for path in _MOUNT.iterdir() if path.is_dir() and not path.is_symlink()]
    return [path for path in sorted(version_1) if (path / "tasks").exists()]


def _enable(group: Path) -> None:
    """Let the groups below have the controllers of this one; version 1 needs no such thing."""
    if not (group / "cgroup.subtree_control").exists():
        return
    for controller in (group / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


if __name__ == "__main__":
    select.select([int(sys.argv[2])], [], [])
    remove(sys.argv[1])
