"""What a reader reads, brought into the form that the native core takes. An adapter: it looks at the first bytes of files.

several("part-0.txt")                 one input or many, as a list
native(Part(path="part-0.txt"))       a path that the native core opens itself
native(io.BytesIO(b"click:1"))        something that Python reads, a block at a time
native("part-0.xz")                   bzip2 and xz: read through Python's own modules
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from umiak.core.problem import BadRequest, Problem
from umiak.data import parts
from umiak.data.other_formats import HEAD_BYTES
from umiak.data.parts import Part

Input = str | os.PathLike[str] | Part | bytes | bytearray | memoryview | IO[bytes] | IO[str]
"""A path, a part of a file, bytes, or an open file: a pipe, `io.BytesIO`, or anything else with a method ``read``."""

Native = (
    tuple[str, int, int | None]
    | tuple[str, int, int | None, Callable[[], object]]
    | tuple[int, str]
    | tuple[bytes, str]
    | tuple[Callable[[], object], str]
)


def several(inputs: Input | Sequence[Input]) -> list[Input]:
    """One input or many, each of which can be one."""
    given: list[Any] = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    problems = [_not_one(each) for each in given if not _can_be_one(each)]
    BadRequest.raise_any(problems)
    return given


def native(item: Any) -> Native:
    """An input as `umiak_native.SlotReader` takes it."""
    if isinstance(item, (str, os.PathLike)):
        item = Part(path=os.fspath(item))
    if isinstance(item, Part):
        unpack = _unpacker(_first_bytes(item.path), item.path)
        return (item.path, item.start, item.end, unpack) if unpack else (item.path, item.start, item.end)
    if isinstance(item, (bytes, bytearray, memoryview)):
        whole = bytes(item)
        unpack = _unpacker(whole[:4], io.BytesIO(whole))
        return (unpack, "<bytes>") if unpack else (whole, "<bytes>")
    name = str(getattr(item, "name", f"<{type(item).__name__}>"))
    number = _descriptor(item)
    return (lambda: item, name) if number is None else (number, name)


def is_file(item: Input) -> bool:
    """Whether it is named by its path."""
    return isinstance(item, (str, os.PathLike, Part))


def head(path: str) -> bytes:
    """The first bytes of a file's text, unpacked; nothing of what can't be read, or is no file."""
    first = _first_bytes(path)
    unpack = _unpacker(first, path)
    try:
        if unpack is not None:
            file: Any = unpack()
        elif first[:2] == parts.GZIP:
            import gzip

            file = gzip.GzipFile(path)
        elif first:
            file = io.FileIO(path)
        else:
            return b""
        with file:
            return bytes(file.read(HEAD_BYTES))
    except (OSError, EOFError, ValueError):
        return b""


def _can_be_one(item: object) -> bool:
    known = isinstance(item, (str, bytes, bytearray, memoryview, os.PathLike, Part))
    return known or hasattr(item, "fileno") or hasattr(item, "read")


def _not_one(item: object) -> Problem:
    return Problem(
        code="UM-DATA-004",
        what=f"inputs: not an input: {item!r}",
        hint="give a path, a list of paths, bytes, or an open file",
    )


def _first_bytes(path: str) -> bytes:
    """Of a file; nothing of a pipe, which would lose them, and nothing of what can't be read: that is told later."""
    try:
        if not Path(path).is_file():
            return b""
        with Path(path).open("rb") as file:
            return file.read(4)
    except OSError:
        return b""


def _unpacker(first: bytes, of: str | io.BytesIO) -> Callable[[], object] | None:
    """What opens an input that the native core can't unpack."""
    if parts.is_bzip2(first):
        return lambda: _bzip2(of)
    return (lambda: _xz(of)) if first == parts.XZ else None


def _bzip2(of: str | io.BytesIO) -> object:
    import bz2

    return bz2.BZ2File(of)


def _xz(of: str | io.BytesIO) -> object:
    import lzma

    return lzma.LZMAFile(of)


def _descriptor(item: Any) -> int | None:
    """An open file's, through which its bytes can be read as they are."""
    below = item.buffer if isinstance(item, io.TextIOWrapper) else item
    if isinstance(below, io.BufferedIOBase) and not isinstance(below, (io.BufferedReader, io.BufferedRandom)):
        return None  # what `bz2.open` and its like give has the descriptor of the compressed file
    try:
        number: int = item.fileno()
    except (AttributeError, OSError):
        return None
    return number
