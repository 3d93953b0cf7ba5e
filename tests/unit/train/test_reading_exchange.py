"""Messages between a trainer and its reader processes: whatever size they have, and what a process that dies leaves of one."""

from __future__ import annotations

import os
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from tests.support import PATIENCE_S
from umiak.train.reading import exchange, pool

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


class TestAPipeOfSeveralThreads:
    """A number that is free again belongs to the next file that is opened: bytes of that one went to a thread that had none to read."""

    def test_it_keeps_its_number_while_somebody_uses_it(self) -> None:
        read, write = os.pipe()
        pipe = exchange.SharedPipe(read, "rb")
        with pipe.in_use() as source:
            pipe.close()
            others = os.pipe()
            os.write(others[1], b"not for it")
            assert read not in others
            os.close(write)
            assert source.read() == b""
            assert os.read(others[0], 100) == b"not for it"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(read)
        for each in others:
            os.close(each)

    def test_nobody_begins_to_use_it_when_it_is_to_be_closed(self) -> None:
        read, write = os.pipe()
        pipe = exchange.SharedPipe(read, "rb")
        with pipe.in_use():
            pipe.close()
            with pytest.raises(ValueError, match="closed"), pipe.in_use():
                pass
        os.close(write)

    def test_a_reader_process_ends_while_its_answer_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its thread is stopped right before the system call, as another thread may stop it at any time."""
        worker = pool.WorkerProcess(0, [])
        begun, go = threading.Event(), threading.Event()
        received: list[object] = []

        def late(pipe: io.FileIO) -> object:
            begun.set()
            assert go.wait(PATIENCE_S)
            return receive(pipe)

        def hear() -> None:
            try:
                received.append(worker.hear())
            except EOFError as error:
                received.append(error)

        receive = exchange.receive
        monkeypatch.setattr(exchange, "receive", late)
        thread = threading.Thread(target=hear)
        thread.start()
        assert begun.wait(PATIENCE_S)
        worker.end()
        read, write = os.pipe()
        with exchange.opened(read, "rb") as source, exchange.opened(write, "wb") as target:
            exchange.send(target, {"for": "another"})
            go.set()
            thread.join(PATIENCE_S)
            assert [type(each) for each in received] == [EOFError]
            assert receive(source) == ({"for": "another"}, [])
