"""Adapter: disks that can be filled and given room again, small file systems in memory for processes that see this mount namespace.

with disks.mounted(path) as disk:
    disk.fill()
    disk.make_room()
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

SIZE_KIB = 16 << 10
UNSHARED = "UMIAK_CAMPAIGN_UNSHARED"


def unavailable() -> str | None:
    """Why there can be none here."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return "mounting needs root and the command `unshare`"
    return None


def unshare(module: str) -> None:
    """Run this module's program again, with the same arguments, where its mounts are seen by nobody else and end with it."""
    if not unavailable() and UNSHARED not in os.environ:
        os.environ[UNSHARED] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, "-m", module, *sys.argv[1:]])


@contextlib.contextmanager
def mounted(path: Path) -> Iterator[Disk]:
    """A disk at this path, for as long as this lasts."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_KIB}k", "none", path], check=True)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


class Disk:
    """One of them."""

    def __init__(self, path: Path) -> None:
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no room."""
        with open(self._filler, "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                while _has_room(file, size):
                    pass

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


def _has_room(file: IO[bytes], size: int) -> bool:
    try:
        file.write(bytes(size))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True
