"""Files divided among trainers, so that each line is read by exactly one of them. An adapter: it looks at sizes and first bytes.

A part of a plain file is a range of bytes, and means the lines that *begin* in it. So a file can be cut anywhere.
Compressed files are not cut: each belongs to one trainer as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from umiak.core.problem import UmiakError
from umiak.core.value import value

PACKED_GROWTH = 4
"""How much more work a byte of a compressed file is taken for."""

MAGIC_BYTES = 4
"""So many of its first bytes say whether a file is compressed."""
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
BZIP2 = b"BZh"
XZ = b"\xfd7zX"


@value
class Part:
    """The lines of a file that begin at a byte from ``start`` on and before ``end`` (None: to its end)."""

    path: str
    start: int = 0
    end: int | None = None


@value
class File:
    """A file as far as dividing needs to know it."""

    path: str
    size: int
    packed: bool = False
    """Whether it is compressed, and so can't be cut."""

    @property
    def weight(self) -> int:
        """How much work it is, in bytes of text."""
        return self.size * PACKED_GROWTH if self.packed else self.size


def split(paths: Sequence[str | os.PathLike[str]], parts: int) -> list[tuple[Part, ...]]:
    """Deal files out to ``parts`` readers in order, each getting about the same number of bytes.

    Everybody who calls this with the same files and number gets the same answer. A reader may get nothing.
    """
    if parts < 1:
        raise UmiakError.of("UM-DATA-004", f"files can't be divided into {parts} parts")
    return split_files([weigh(path) for path in paths], parts)


def split_files(files: Sequence[File], parts: int) -> list[tuple[Part, ...]]:
    """The same for files that were looked at before; nothing is touched."""
    total = sum(file.weight for file in files)
    shares: list[list[Part]] = [[] for _ in range(parts)]
    before = 0
    for file in files:
        if file.packed:
            # A file that can't be cut goes to the reader that gets its middle.
            middle = (2 * before + file.weight) * parts // (2 * total) if total else 0
            shares[min(parts - 1, middle)].append(Part(path=file.path))
        elif file.size:
            _cut(file.path, file.size, before, total, shares)
        before += file.weight
    return [tuple(share) for share in shares]


def pieces(files: Sequence[File], piece_bytes: int) -> tuple[Part, ...]:
    """Files in order, plain ones cut into pieces of at most so many bytes: for handing out one at a time."""
    made = []
    for file in files:
        if file.packed or 0 < file.size <= piece_bytes:
            made.append(Part(path=file.path))
        else:
            count = -(-file.size // piece_bytes)
            cuts = [file.size * number // count for number in range(count)] if count else []
            ends = [*cuts[1:], file.size]
            made += [Part(path=file.path, start=start, end=end) for start, end in zip(cuts, ends, strict=False)]
    return tuple(made)


def weigh(path: str | os.PathLike[str]) -> File:
    """Look at a file's size and its first bytes."""
    path = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            first = file.read(MAGIC_BYTES)
            return File(path=path, size=os.fstat(file.fileno()).st_size, packed=is_packed(first))
    except OSError as error:
        raise UmiakError.of("UM-DATA-002", f"{path}: it can't be read: {error.strerror}") from error


def is_packed(first: bytes) -> bool:
    """Whether the first four bytes are those of a compressed file."""
    # Skippable frames of zstd come under sixteen numbers.
    skippable = first[1:] == b"\x2a\x4d\x18" and first[0] & 0xF0 == 0x50
    return first[:2] == GZIP or first in (ZSTD, XZ) or skippable or is_bzip2(first)


def is_bzip2(first: bytes) -> bool:
    """Whether the first four bytes are those of bzip2: its letters, and a digit."""
    return first[:3] == BZIP2 and first[3:4] in b"123456789"


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
