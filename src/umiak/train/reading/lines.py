"""Lines of files in Python, for reader classes of users: pieces of text, each with its place. An adapter.

The same parts, and the same meaning of them, as the native reader's: the lines that begin in a range of bytes. Offsets are in the
uncompressed text.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.data import parts
from umiak.data.parts import Part

CHUNK_BYTES = 128 << 10
_MARK = b"\xef\xbb\xbf"


@value
class Chunk:
    """Some whole lines."""

    part: int
    """Which of the parts that are read."""
    offset: int
    text: bytes
    skip: int = 0
    """Samples of the first line that were given out before."""


def chunks(
    given: tuple[Part, ...], *, part: int = 0, offset: int | None = None, skip: int = 0, chunk_bytes: int | None = None
) -> Iterator[Chunk]:
    """All lines of some parts, from a place on."""
    for number in range(part, len(given)):
        here = offset if number == part else None
        for at, text in _texts(given[number], here, chunk_bytes or CHUNK_BYTES):
            yield Chunk(part=number, offset=at, text=text, skip=skip)
            skip = 0


def line_number(path: str, offset: int) -> int:
    """Which line begins at an offset; the first one is 1."""
    with _opened(path)[0] as file:
        lines, left = 1, offset
        while left > 0:
            block = file.read(min(left, 1 << 20))
            if not block:
                break
            lines += block.count(b"\n")
            left -= len(block)
    return lines


def _texts(part: Part, offset: int | None, chunk_bytes: int) -> Iterator[tuple[int, bytes]]:
    try:
        file, packed = _opened(part.path)
        with file:
            at = _begin(file, part, offset, packed=packed)
            while part.end is None or at < part.end:
                text = file.read(chunk_bytes if part.end is None else min(chunk_bytes, part.end - at))
                if not text.endswith(b"\n"):
                    text += file.readline()
                if not text:
                    break
                yield at, text
                at += len(text)
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        what = f"{part.path}: it can't be read: {getattr(error, 'strerror', None) or error}"
        raise UmiakError.refused("UM-DATA-002", what) from error


def _begin(file: IO[bytes], part: Part, offset: int | None, *, packed: bool) -> int:
    """Go to the first line; returns where that is."""
    if offset:
        if not packed:
            return file.seek(offset)
        left = offset
        while left > 0:
            block = file.read(min(left, 1 << 20))
            if not block:
                raise EOFError("it is shorter than before")
            left -= len(block)
        return offset
    if part.start:
        file.seek(part.start - 1)
        return part.start - 1 + len(file.readline())
    first = file.peek(3) if isinstance(file, io.BufferedReader) else b""
    return len(file.read(3)) if first.startswith(_MARK) else 0


def _opened(path: str) -> tuple[IO[bytes], bool]:
    """A file's text, and whether it is compressed."""
    file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
    first = file.peek(4)[:4]
    if not parts.is_packed(first):
        return file, False
    if first[:2] == parts.GZIP:
        file.close()
        return io.BufferedReader(gzip.GzipFile(path, "rb")), True
    if parts.is_bzip2(first):
        file.close()
        return io.BufferedReader(bz2.BZ2File(path)), True  # type: ignore[type-var, unused-ignore]
    if first == parts.XZ:
        file.close()
        return io.BufferedReader(lzma.LZMAFile(path)), True  # type: ignore[type-var, unused-ignore]
    try:
        import zstandard
    except ImportError as missing:
        file.close()
        raise UmiakError.of(
            "UM-DATA-002",
            f"{path}: zstd can't be unpacked for a reader class without the package zstandard",
            hint="python -m pip install zstandard",
        ) from missing
    stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=True)
    return io.BufferedReader(stream), True
