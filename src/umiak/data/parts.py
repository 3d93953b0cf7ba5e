"""Files divided among trainers, so that each line is read by exactly one of them. An adapter: it looks at sizes and first bytes.

A part of a plain file is a range of bytes, and means the lines that *begin* in it. So a file can be cut anywhere.
Compressed files are not cut: each belongs to one trainer as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import value

PACKED_GROWTH = 4
"""How much more work a byte of a compressed file is taken for."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@value
class Part:
    """The lines of a file that begin at a byte from ``start`` on and before ``end`` (None: to its end)."""

    path: str
    start: int = 0
    end: int | None = None


def split(paths: Sequence[str | os.PathLike[str]], parts: int) -> list[tuple[Part, ...]]:
    """Deal files out to ``parts`` readers in order, each getting about the same number of bytes.

    Everybody who calls this with the same files and number gets the same answer. A reader may get nothing.
    """
    if parts < 1:
        raise UmiakError(Problem(code="UM-DATA-004", what=f"files can't be divided into {parts} parts"))
    files = [_weighed(os.fspath(path)) for path in paths]
    total = sum(weight for _, _, weight in files)
    shares: list[list[Part]] = [[] for _ in range(parts)]
    before = 0
    for path, size, weight in files:
        if weight != size:
            # A file that can't be cut goes to whoever gets its middle.
            shares[min(parts - 1, (2 * before + weight) * parts // (2 * total))].append(Part(path=path))
        elif size:
            _cut(path, size, before, total, shares)
        before += weight
    return [tuple(share) for share in shares]


def _cut(path: str, size: int, before: int, total: int, shares: list[list[Part]]) -> None:
    """Deal out a plain file that has ``before`` of all ``total`` bytes in front of it."""
    parts = len(shares)
    for number in range(before * parts // total, parts):
        start = max(0, -(-number * total // parts) - before)
        end = min(size, -(-(number + 1) * total // parts) - before)
        if start >= size:
            break
        if start < end:
            shares[number].append(
                Part(path=path) if (start, end) == (0, size) else Part(path=path, start=start, end=end)
            )


def _weighed(path: str) -> tuple[str, int, int]:
    """A file with its size, and how much work it is; these differ if it is compressed."""
    try:
        with Path(path).open("rb") as file:
            first = file.read(4)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        problem = Problem(code="UM-DATA-002", what=f"{path}: it can't be read: {error.strerror}")
        raise UmiakError(problem) from error
    # Skippable frames of zstd come under sixteen numbers.
    packed = first[:2] == _GZIP or first == _ZSTD or (first[1:] == b"\x2a\x4d\x18" and first[0] & 0xF0 == 0x50)
    return path, size, size * PACKED_GROWTH if packed else size
