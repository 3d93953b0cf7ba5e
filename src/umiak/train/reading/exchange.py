"""Messages between a trainer and its reader processes, over pipes: JSON and blocks of bytes. An adapter. Nothing is pickled."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import IO, Any

_HEAD = struct.Struct("<II")
_BLOCK = struct.Struct("<Q")


def send(pipe: IO[bytes], head: dict[str, Any], blocks: Sequence[bytes | memoryview] = ()) -> None:
    """Write one message. OSError if nobody reads."""
    text = json.dumps(head, default=str).encode()  # a config may have dates in it
    pipe.write(_HEAD.pack(len(text), len(blocks)))
    pipe.write(text)
    for block in blocks:
        pipe.write(_BLOCK.pack(len(block)))
        pipe.write(block)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Wait for a message. EOFError if the other side has ended, also amid a message."""
    length, count = _HEAD.unpack(_exactly(pipe, _HEAD.size))
    head: dict[str, Any] = json.loads(_exactly(pipe, length))
    return head, [_exactly(pipe, _BLOCK.unpack(_exactly(pipe, _BLOCK.size))[0]) for _ in range(count)]


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length) if length else b""
    if len(data) < length:
        raise EOFError
    return data
