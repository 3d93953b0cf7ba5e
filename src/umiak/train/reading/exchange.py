"""Messages between a trainer and its reader processes, over pipes: JSON and blocks of bytes. An adapter. Nothing is pickled.

A message is three numbers (the length of its JSON, how many blocks there are, how many bytes follow), the length of each block, the JSON
and the blocks, each of which begins at a multiple of 64 bytes. It is written with one call and read with two or three, into memory that
the blocks are views of: a thread that waits for the interpreter's lock after each of many calls would keep its trainer waiting.

Pipes are unbuffered: `opened`. One that several threads share is a `SharedPipe`.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

_HEAD = struct.Struct("<IIQ")
_LINE = 64
_MOST_BYTES = 1 << 40
"""More is no message."""
_MOST_PIECES = 512
"""Of one call; systems allow 1,024."""
_PIPE_BYTES = 1 << 20
"""So large is a pipe, where the system allows it: a batch fits, and its writer goes on with the next one."""


def opened(descriptor: int, mode: str) -> io.FileIO:
    """A pipe's end for `send` or `receive`."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # the system allows no larger one; it works with a small one
    return io.FileIO(descriptor, mode)


class SharedPipe:
    """A pipe's end that one thread uses and another one closes.

    It is closed when nobody uses it any more. Closed at once, its number could belong to another file by the time at which a thread
    begins to read from it, and that thread would take the other file's bytes.
    """

    def __init__(self, descriptor: int, mode: str) -> None:
        self._pipe = opened(descriptor, mode)
        self._changing = threading.Lock()
        self._users = 0
        self._is_over = False

    @contextmanager
    def in_use(self) -> Iterator[io.FileIO]:
        """ValueError if it is closed, or is to be."""
        with self._changing:
            if self._is_over:
                raise ValueError("the pipe is closed")
            self._users += 1
        try:
            yield self._pipe
        finally:
            with self._changing:
                self._users -= 1
                self._close_if_free()

    def close(self) -> None:
        """Close it, now or when the last user leaves it. Never waits."""
        with self._changing:
            self._is_over = True
            self._close_if_free()

    def _close_if_free(self) -> None:
        if self._is_over and not self._users:
            self._pipe.close()


def send(pipe: io.FileIO, head: JsonObject, blocks: Sequence[bytes | memoryview] = ()) -> None:
    """Write one message. OSError if nobody reads."""
    text = json.dumps(head, default=str).encode()  # a config may have dates in it
    lengths = [len(block) for block in blocks]
    start = struct.pack(f"<{len(lengths)}Q", *lengths) + text
    pieces: list[bytes | memoryview] = [start, bytes(-len(start) % _LINE)]
    for block, length in zip(blocks, lengths, strict=True):
        pieces += [block, bytes(-length % _LINE)]
    pieces = [piece for piece in pieces if len(piece)]
    total = sum(map(len, pieces))
    _write_all(pipe, [_HEAD.pack(len(text), len(lengths), total), *pieces])


def receive(pipe: io.FileIO) -> tuple[JsonObject, list[memoryview]]:
    """Wait for a message. EOFError if the other side has ended, also amid a message; ValueError for what is none."""
    text_length, count, total = _HEAD.unpack(_exactly(pipe, _HEAD.size))
    if not 8 * count + text_length <= total <= _MOST_BYTES:
        raise ValueError(f"a message of {total} bytes, {count} blocks and {text_length} bytes of text")
    whole = _exactly(pipe, total)
    behind = 8 * count
    lengths = struct.unpack_from(f"<{count}Q", whole)
    head: JsonObject = json.loads(bytes(whole[behind : behind + text_length]))
    behind = _next_line(behind + text_length)
    blocks = []
    for length in lengths:
        blocks.append(whole[behind : behind + length])
        behind = _next_line(behind + length)
    if behind != total:
        raise ValueError(f"a message of {total} bytes with blocks of {sum(lengths)}")
    return head, blocks


def _next_line(place: int) -> int:
    return place + -place % _LINE


def _write_all(pipe: io.FileIO, pieces: list[bytes | memoryview]) -> None:
    """`os.writev` until nothing is left: it may write a part only."""
    descriptor = pipe.fileno()
    at = 0
    while at < len(pieces):
        written = os.writev(descriptor, pieces[at : at + _MOST_PIECES])
        while at < len(pieces) and written >= len(pieces[at]):
            written -= len(pieces[at])
            at += 1
        if written:
            pieces[at] = memoryview(pieces[at])[written:]


def _exactly(pipe: io.FileIO, length: int) -> memoryview:
    # Not a bytearray: that would be filled with zeros first.
    room = np.empty(length, np.uint8).data
    done = 0
    while done < length:
        read = pipe.readinto(room[done:])
        if not read:
            raise EOFError
        done += read
    return room
