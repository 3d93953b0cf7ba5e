"""What servers keep beside a run's logs so that they come back after a kill: how old it is. An adapter.

snapshots("/home/ada/ctr/log")      [{"server": 0, "time": ..., "bytes": ...}], the newest of each server
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

DIRECTORY = "ps"
_SERVER = re.compile(r"server\.(\d+)")
_SNAPSHOT = re.compile(r"snapshot-\d+")
MOST_SERVERS = 1000


def snapshots(directory: str) -> list[JsonObject]:
    """By the server's number on its node; nothing where servers keep nothing."""
    found: dict[int, float] = {}
    try:
        names = [(each, _SERVER.fullmatch(each)) for each in os.listdir(os.path.join(directory, DIRECTORY))]
    except OSError:
        return []
    for name, number in sorted(names, key=lambda each: each[0])[:MOST_SERVERS]:
        if number is None:
            continue
        path = os.path.join(directory, DIRECTORY, name)
        for where, below, _ in os.walk(path):
            for each in [each for each in below if _SNAPSHOT.fullmatch(each)]:
                changed_s = _changed_s(os.path.join(where, each))
                found[int(number[1])] = max(found.get(int(number[1]), 0.0), changed_s)
            below[:] = [each for each in below if not _SNAPSHOT.fullmatch(each)]
    return [{"server": number, "time": at} for number, at in sorted(found.items()) if at]


def _changed_s(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0
