"""Programs that are run for a page: ended with all that they started when they take too long, or say too much. An adapter."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_ANSWER = 8 << 20


class TooMuch(Exception):
    """A program said more than anybody reads."""


async def output_of(argv: Sequence[str], limit_s: float) -> bytes:
    """What a program says within so long. TimeoutError after that; the program and what it has started are ended in any case. TooMuch after `LARGEST_ANSWER` bytes."""
    # A pipe of our own: asyncio waits for the end of a process until its pipes are read to their end, which nobody does after a flood.
    stream, (here, there) = asyncio.StreamReader(), os.pipe()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(here, "rb", 0)
    )
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=there,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(there)
        try:
            return await asyncio.wait_for(_read(stream), limit_s)
        except asyncio.TimeoutError:  # another class than TimeoutError before Python 3.11
            raise TimeoutError from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    finally:
        pipe.close()


async def _read(stream: asyncio.StreamReader) -> bytes:
    pieces, size = [], 0
    while piece := await stream.read(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise TooMuch("its answer is too long")
    return b"".join(pieces)
