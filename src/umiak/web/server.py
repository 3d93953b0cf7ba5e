"""Connections: requests are read with limits, judged, answered; slow readers and silent clients are dropped. An adapter.

    server = HttpServer(gate, handle)
    await server.start("127.0.0.1", 8200)

``handle`` gives an `HttpAnswer`, a `FilePiece` or a `Stream`. One connection never holds more than one answer, or a piece of one, here, however slow it
is: the next request is looked at when the answer before has gone, and what is not read in time is closed.

A crowd keeps nobody out: where there are too many connections, the one whose client has been silent, or slow to take its answer, for the longest time
makes room. If all of them are being answered, a new one is told so with 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time

from umiak.core.value import replace, value
from umiak.web.guard import HEADERS
from umiak.web.messages import (
    MOST_BODY_BYTES,
    MOST_HEAD_BYTES,
    HttpAnswer,
    HttpRefusal,
    RequestHead,
    head_of,
    request_head,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import Protocol

    class OpenFile(Protocol):
        """A file that is read in pieces."""

        def read(self, offset: int, count: int) -> bytes: ...
        def close(self) -> None: ...

    class RequestGate(Protocol):
        """What judges requests before anything is looked up."""

        def check(self, head: RequestHead, now_s: float) -> None:
            """HttpRefusal if the request must not be answered."""


HEAD_WITHIN_S = 10.0
IDLE_S = 60.0
DRAIN_WITHIN_S = 30.0
MOST_CONNECTIONS = 2000
OTHER_FILES = 256
"""What a process opens beside its connections, where it may open few files."""
MOST_REFUSED = 64
"""So many are told at a time that there is no room; more are closed without a word."""
REFUSED_WITHIN_S = 2.0
CANCEL_AGAIN_S = 0.5
PIECE_BYTES = 1 << 18
FULL = HttpAnswer(
    status=503, body=b"too many connections\n", kind="text/plain; charset=utf-8", headers={"Retry-After": "2"}
)
KEPT_ALIVE = (400, 401, 404, 416, 429)
"""Refusals after which a connection goes on, if its request was read as a whole."""


@value
class FilePiece:
    """A part of a file, sent as it is read."""

    answer: HttpAnswer
    file: OpenFile
    begin: int
    end: int


@value
class Stream:
    """An answer without an end, such as server-sent events."""

    answer: HttpAnswer
    pieces: AsyncIterator[bytes]


class HttpServer:
    """Listens, and hands requests that may be answered to ``handle``."""

    def __init__(
        self,
        gate: RequestGate,
        handle: Callable[[RequestHead], Awaitable[HttpAnswer | FilePiece | Stream]],
        *,
        most_connections: int = MOST_CONNECTIONS,
        drain_within_s: float = DRAIN_WITHIN_S,
        head_within_s: float = HEAD_WITHIN_S,
        most_body_bytes: int = 0,
        refused: Callable[[HttpRefusal], HttpAnswer] | None = None,
    ) -> None:
        """``most_body_bytes``: bodies of up to so many bytes are read and handed on with their heads; 0: no body is looked at. ``refused``: how a
        refusal is told; None: as a line of text."""
        self._most_body_bytes, self._refused = most_body_bytes, refused or _as_text
        self._busy = 0
        """Requests that were read and not answered yet."""
        self._is_ending = False
        self._gate, self._handle = gate, handle
        self._most_connections = most_connections
        self._drain_within_s, self._head_within_s = drain_within_s, head_within_s
        self._connections: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Task[None], None] = {}
        """Those whose clients have not asked yet, or not taken their answers: the one that has kept us waiting longest first."""
        self._refusing = 0
        self._server: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def waiting(self) -> int:
        """Connections whose clients keep us waiting."""
        return len(self._waiting)

    async def start(self, hosts: Sequence[str], port: int, tls: ssl.SSLContext | None = None) -> int:
        """The port that it listens at. OSError if that is taken."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if files != resource.RLIM_INFINITY:
            self._most_connections = max(1, min(self._most_connections, files - OTHER_FILES))
        self._server = await asyncio.start_server(
            self._connected,
            list(hosts),
            port,
            limit=MOST_HEAD_BYTES,
            ssl=tls,
            backlog=512,
            ssl_handshake_timeout=self._head_within_s if tls is not None else None,
        )
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        self._is_ending = True
        if self._server is not None:
            self._server.close()
        await end_tasks(list(self._connections))

    async def finish(self, within_s: float) -> None:
        """Take no more connections, answer the requests that are there, then close."""
        self._is_ending = True
        if self._server is not None:
            self._server.close()
        ends = time.monotonic() + within_s
        while self._busy and time.monotonic() < ends:
            await asyncio.sleep(0.01)
        await self.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or not self._has_room():
            await self._refuse(reader, writer)
            return
        self._connections.add(task)
        writer.transport.set_write_buffer_limits(high=0)  # an answer has gone when nothing of it is here any more
        try:
            while await self._one(task, reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.TimeoutError, asyncio.CancelledError):
            pass  # the client has gone, is too slow, or the server ends
        finally:
            self._connections.discard(task)
            self._waiting.pop(task, None)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _has_room(self) -> bool:
        """Whether another connection may be served. One whose client keeps us waiting is closed for it."""
        if len(self._connections) < self._most_connections:
            return True
        if not self._waiting:
            return False
        longest = next(iter(self._waiting))
        del self._waiting[longest]
        self._connections.discard(longest)
        longest.cancel()
        return True

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say that there is no room, and wait for a moment until it was read: a closed connection with unread bytes takes the answer with it."""
        if self._refusing >= MOST_REFUSED:
            writer.transport.abort()
            return
        self._refusing += 1
        try:
            writer.write(head_of(FULL, len(FULL.body), HEADERS, keeps_alive=False) + FULL.body)
            if writer.can_write_eof():
                writer.write_eof()
            await asyncio.wait_for(_until_end(reader), REFUSED_WITHIN_S)
        except (OSError, TimeoutError, asyncio.TimeoutError, asyncio.CancelledError):
            pass  # it has gone, or does not care
        finally:
            self._refusing -= 1
            writer.transport.abort()

    async def _one(self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Whether another may follow."""
        self._waiting[task] = None
        first = await asyncio.wait_for(reader.read(1), IDLE_S)
        if not first:
            return False
        self._busy += 1
        try:
            return await self._answer(task, first, reader, writer)
        finally:
            self._busy -= 1

    async def _answer(
        self, task: asyncio.Task[None], first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head: RequestHead | None = None
        is_read = False
        try:
            text = first + await self._rest_of_head(reader)
            self._waiting.pop(task, None)
            head = request_head(text)
            is_read = not head.body_bytes
            self._gate.check(head, time.monotonic())
            if self._most_body_bytes:
                head = replace(head, body=await self._body(head, reader, writer))
                is_read = True
            else:
                await self._skip_body(head, reader)
            answer = await self._handled(head)
        except HttpRefusal as refusal:
            # A body that nobody has read must not be taken for the next request.
            keeps_alive = is_read and not self._is_ending and refusal.status in KEPT_ALIVE
            return await self._send(head, self._refused(refusal), writer, keeps_alive=keeps_alive)
        if isinstance(answer, HttpAnswer):
            return await self._send(head, answer, writer, keeps_alive=head.keeps_alive and not self._is_ending)
        if isinstance(answer, FilePiece):
            return await self._send_file(head, answer, writer)
        await self._send_stream(head, answer, writer)
        return False

    async def _handled(self, head: RequestHead) -> HttpAnswer | FilePiece | Stream:
        """An answer also where ``handle`` has failed: who asks must not wait for one that never comes."""
        try:
            return await self._handle(head)
        except HttpRefusal:
            raise
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler({"message": "a request has failed", "exception": error})
            raise HttpRefusal(500, f"a bug in umiak: {type(error).__name__}") from error

    async def _rest_of_head(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self._head_within_s)
        except asyncio.LimitOverrunError:
            raise HttpRefusal(431, "the head of the request is too long") from None

    async def _body(self, head: RequestHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """All of a body; HttpRefusal if it is longer than any that is read."""
        if head.body_bytes > self._most_body_bytes:
            raise HttpRefusal(413, "the body is too long")
        if head.headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not head.body_bytes:
            return b""
        return await asyncio.wait_for(reader.readexactly(head.body_bytes), self._drain_within_s)

    async def _skip_body(self, head: RequestHead, reader: asyncio.StreamReader) -> None:
        """No request that is answered has anything in its body."""
        if head.body_bytes > MOST_BODY_BYTES:
            raise HttpRefusal(413, "the body is too long")
        if head.body_bytes:
            await asyncio.wait_for(reader.readexactly(head.body_bytes), self._head_within_s)

    async def _send(
        self, head: RequestHead | None, answer: HttpAnswer, writer: asyncio.StreamWriter, *, keeps_alive: bool
    ) -> bool:
        writer.write(head_of(answer, len(answer.body), HEADERS, keeps_alive=keeps_alive))
        if head is None or head.method != "HEAD":
            writer.write(answer.body)
        await self._drain(writer)
        return keeps_alive

    async def _send_file(self, head: RequestHead, piece: FilePiece, writer: asyncio.StreamWriter) -> bool:
        loop = asyncio.get_running_loop()
        with contextlib.closing(piece.file):
            length = piece.end - piece.begin
            writer.write(head_of(piece.answer, length, HEADERS, keeps_alive=head.keeps_alive))
            at = piece.begin if head.method != "HEAD" else piece.end
            while at < piece.end:
                count = min(PIECE_BYTES, piece.end - at)
                data = await loop.run_in_executor(None, piece.file.read, at, count)
                if not data:
                    return False  # it became shorter: the client sees a broken answer, not a wrong one
                at += len(data)
                writer.write(data)
                await self._drain(writer)
            await self._drain(writer)
        return head.keeps_alive

    async def _send_stream(self, head: RequestHead, stream: Stream, writer: asyncio.StreamWriter) -> None:
        writer.write(head_of(stream.answer, None, HEADERS, keeps_alive=False))
        await self._drain(writer)
        if head.method == "HEAD":
            return
        pieces = stream.pieces
        try:
            async for piece in pieces:
                writer.write(piece)
                await self._drain(writer)
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _drain(self, writer: asyncio.StreamWriter) -> None:
        """Until the client has taken what there is. One that is slow at it makes room for others like one that is silent."""
        task = asyncio.current_task()
        if task is None or not writer.transport.get_write_buffer_size():
            return await writer.drain()
        self._waiting[task] = None
        await asyncio.wait_for(writer.drain(), self._drain_within_s)
        self._waiting.pop(task, None)
        return None


async def end_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel them until they have ended. Once is not enough before Python 3.12: `asyncio.wait_for` forgets a cancellation that comes together with
    what it waits for, such as the next request."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until_end(reader: asyncio.StreamReader) -> None:
    while await reader.read(MOST_HEAD_BYTES):
        pass


def _as_text(refusal: HttpRefusal) -> HttpAnswer:
    body = f"{refusal.text}\n".encode()
    return HttpAnswer(status=refusal.status, body=body, kind="text/plain; charset=utf-8", headers=refusal.headers)
