"""Messages between a trainer and its reader processes: whatever size they have, and what a process that dies leaves of one."""

from __future__ import annotations

import os
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from umiak.train.reading import exchange

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    Pipe = tuple[io.FileIO, io.FileIO]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    read, write = os.pipe()
    with exchange.opened(read, "rb") as source, exchange.opened(write, "wb") as target:
        yield source, target


@pytest.mark.parametrize("sizes", [(), (0,), (1, 0, 64, 65), (5_000_000, 3), (7,) * 3000])
def test_blocks_arrive_as_they_were(pipe: Pipe, sizes: tuple[int, ...]) -> None:
    """Also more of them than one call can write, and more bytes than a pipe holds."""
    source, target = pipe
    blocks = [os.urandom(size) for size in sizes]
    head = {"size": 3, "text": "µ"}

    def send() -> None:
        exchange.send(target, head, blocks)
        exchange.send(target, {"end": True})

    thread = threading.Thread(target=send)
    thread.start()
    found, views = exchange.receive(source)
    assert found == head
    assert [bytes(view) for view in views] == blocks
    assert exchange.receive(source) == ({"end": True}, [])
    thread.join()


def test_a_message_without_its_end_is_an_end(pipe: Pipe) -> None:
    source, target = pipe
    read, write = os.pipe()
    with exchange.opened(read, "rb") as copy, exchange.opened(write, "wb") as first:
        exchange.send(first, {"size": 1}, [b"x" * 1000])
        whole = os.read(copy.fileno(), 1 << 16)
    os.write(target.fileno(), whole[:-1])
    target.close()
    with pytest.raises(EOFError):
        exchange.receive(source)
    with pytest.raises(EOFError):
        exchange.receive(source)


@pytest.mark.parametrize(
    "written",
    [
        struct.pack("<IIQ", 1, 1, 1 << 60),
        struct.pack("<IIQ", 2, 0, 2) + b"no",
        struct.pack("<IIQ", 2, 9, 2) + b"{}",
        struct.pack("<IIQQ", 2, 1, 64, 100) + b"{}".ljust(56),
    ],
)
def test_what_is_no_message_is_refused(pipe: Pipe, written: bytes) -> None:
    source, target = pipe
    os.write(target.fileno(), written)
    with pytest.raises(ValueError, match=r"."):
        exchange.receive(source)


def test_nobody_reads(pipe: Pipe) -> None:
    source, target = pipe
    source.close()
    with pytest.raises(BrokenPipeError):
        exchange.send(target, {})
