"""Which program of this machine listens at a port, as far as this user may know. An adapter.

    listener_of(8090)    -> "nginx (process 4711)", or None: nobody, or somebody whose files are not ours to read

Read from /proc, once something has gone wrong; never on the way of a launch that goes well.
"""

from __future__ import annotations

import os

from umiak.core.shown import one_line

_LISTENS = "0A"
_MOST_NAME = 40


def listener_of(port: int) -> str | None:
    """Name and process ID of what listens at a TCP port here."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    if not sockets:
        return None
    for process in filter(str.isdecimal, _names("/proc")):
        directory = f"/proc/{process}/fd"
        if any(_target(f"{directory}/{number}") in sockets for number in _names(directory)):
            try:
                with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as file:
                    return f"{one_line(file.read().strip(), _MOST_NAME)} (process {process})"
            except OSError:
                return f"process {process}"
    return None


def _inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        found |= {row[9] for row in rows if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port}
    return found


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # gone by now, or another user's
        return []


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
