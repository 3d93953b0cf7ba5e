"""Those who may not hold the server up: slow readers, silent clients, crowds, requests that fail."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.unit.dashboard.test_dashboard_server import TOKEN, ask, read_reply, with_dashboard
from umiak.dashboard.http.gate import Gate, GateSettings
from umiak.dashboard.program import Dashboard
from umiak.web.messages import HttpAnswer, RequestHead
from umiak.web.server import IDLE_S, MOST_CONNECTIONS, HttpServer


def test_a_slow_reader_is_dropped_and_the_others_are_served() -> None:
    async def run() -> None:
        answer = HttpAnswer(body=b"x" * (32 << 20))

        async def handle(head: RequestHead) -> HttpAnswer:
            return answer if head.path == "/large" else HttpAnswer(body=b"{}")

        gate = Gate(GateSettings(), TOKEN, "s" * 40)
        server = HttpServer(gate, handle, drain_within_s=0.2, head_within_s=0.2)
        port = await server.start(["127.0.0.1"], 0)
        request = f"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        slow_reader, slow_writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        slow_writer.write((request % "/large").encode())
        await slow_reader.readexactly(100)
        silent_reader, silent_writer = await asyncio.open_connection("127.0.0.1", port)
        silent_writer.write(b"GET / HT")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((request % "/small").encode())
        assert (await read_reply(reader)).body == b"{}"
        writer.close()
        while server.connections:
            await asyncio.sleep(0.01)
        assert await silent_reader.read() == b""
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await slow_reader.readexactly(len(answer.body))
        for each in (slow_writer, silent_writer):
            each.close()
        await server.close()

    asyncio.run(run())


def test_there_are_never_too_many_connections() -> None:
    async def run() -> None:
        async def handle(_: RequestHead) -> HttpAnswer:
            return HttpAnswer(body=b"{}")

        server = HttpServer(Gate(GateSettings(), TOKEN, "s" * 40), handle, most_connections=5)
        port = await server.start(["127.0.0.1"], 0)
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        endings = [asyncio.ensure_future(reader.read()) for reader, _ in opened]
        while sum(each.done() for each in endings) < 35:
            await asyncio.sleep(0.01)
        assert (server.connections, sum(each.done() for each in endings)) == (5, 35)
        for each in endings:
            each.cancel()
        await asyncio.gather(*endings, return_exceptions=True)
        for _, writer in opened:
            writer.close()
        await server.close()

    asyncio.run(run())


REQUEST = f"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"


def with_server(
    handle: Callable[[RequestHead], Awaitable[HttpAnswer]],
    story: Callable[[HttpServer, int], Awaitable[None]],
    kind: type[HttpServer] = HttpServer,
    most_connections: int = 5,
) -> None:
    async def run() -> None:
        server = kind(Gate(GateSettings(), TOKEN, "s" * 40), handle, most_connections=most_connections)
        port = await server.start(["127.0.0.1"], 0)
        try:
            await story(server, port)
        finally:
            await server.close()

    asyncio.run(run())


async def small(_: RequestHead) -> HttpAnswer:
    return HttpAnswer(body=b"{}")


def test_those_who_are_silent_keep_nobody_out() -> None:
    """Some say nothing, some half a request, some ask once and stay."""

    async def story(server: HttpServer, port: int) -> None:
        opened = []
        for number in range(200):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write((b"", b"GET / HT", (REQUEST % "/a").encode())[number % 3])
            opened.append(writer)
            if number % 40 == 39:
                own_reader, own_writer = await asyncio.open_connection("127.0.0.1", port)
                own_writer.write((REQUEST % "/b").encode())
                assert (await read_reply(own_reader)).status == 200
                opened.append(own_writer)
            assert server.connections <= 5
        for writer in opened:
            writer.close()

    with_server(small, story)


def test_those_who_do_not_take_their_answers_keep_nobody_out() -> None:
    body = b"x" * (32 << 20)

    async def handle(head: RequestHead) -> HttpAnswer:
        return HttpAnswer(body=body if head.path == "/large" else b"{}")

    async def story(server: HttpServer, port: int) -> None:
        slow = []
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write((REQUEST % "/large").encode())
            await reader.readexactly(100)
            slow.append((reader, writer))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((REQUEST % "/small").encode())
        assert (await read_reply(reader)).body == b"{}"
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await slow[0][0].readexactly(len(body))
        for each in (writer, *(writer for _, writer in slow)):
            each.close()

    with_server(handle, story)


def test_a_request_that_fails_is_answered() -> None:
    """Otherwise a page would wait, and say that there is no server."""
    failures: list[dict[str, object]] = []

    async def handle(head: RequestHead) -> HttpAnswer:
        if head.path == "/odd":
            raise ZeroDivisionError(f"{TOKEN} is in it")
        return HttpAnswer(body=b"{}")

    async def story(_: HttpServer, port: int) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((REQUEST % "/odd").encode())
        reply = await read_reply(reader)
        assert (reply.status, reply.body) == (500, b"a bug in umiak: ZeroDivisionError\n")
        assert isinstance(failures[0]["exception"], ZeroDivisionError), "and it is told where the server runs"
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((REQUEST % "/fine").encode())
        assert (await read_reply(reader)).status == 200
        writer.close()

    with_server(handle, story)


def test_one_too_many_is_told_so() -> None:
    """All others are being answered: none of them is given up for it."""
    goes_on = asyncio.Event()

    async def handle(_: RequestHead) -> HttpAnswer:
        await goes_on.wait()
        return HttpAnswer(body=b"{}")

    async def story(server: HttpServer, port: int) -> None:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for _, writer in opened:
            writer.write((REQUEST % "/a").encode())
        while server.waiting or server.connections < 5:
            await asyncio.sleep(0.01)
        refused = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for reader, writer in refused:
            writer.write((REQUEST % "/a").encode())
            reply = await read_reply(reader)
            assert (reply.status, reply.headers["retry-after"], reply.body) == (503, "2", b"too many connections\n")
            assert await reader.read() == b""
        goes_on.set()
        assert [(await read_reply(reader)).status for reader, _ in opened] == [200] * 5
        for _, writer in [*opened, *refused]:
            writer.close()

    with_server(handle, story)


def test_who_asks_again_and_again_and_reads_nothing_fills_no_memory() -> None:
    kept: list[int] = []

    class Watched(HttpServer):
        async def _one(
            self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> bool:
            kept.append(writer.transport.get_write_buffer_size())
            return await super()._one(task, reader, writer)

    asked = []

    async def handle(_: RequestHead) -> HttpAnswer:
        asked.append(1)
        return HttpAnswer(body=b"x" * 100_000)

    async def story(server: HttpServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write((REQUEST % "/a").encode() * 400)  # 40 MB of answers
        while server.waiting != 1 or not asked:
            await asyncio.sleep(0.01)
        assert len(asked) < 400
        assert set(kept) == {0}
        writer.close()
        assert reader

    with_server(handle, story, Watched)


def test_thousands_of_connections(tmp_path: Path) -> None:
    """From another address of this machine. Who has the token is answered all the while; `benchmarks.dashboard` tries it with 10,000."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = 4000 if hard == resource.RLIM_INFINITY else min(4000, hard - 4000)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], count + 4000), hard))

    async def story(dashboard: Dashboard) -> None:
        assert dashboard.server is not None
        opened = []
        try:
            for number in range(count):
                one = socket.socket()
                one.setblocking(False)
                one.bind(("127.0.0.77", 0))
                one.connect_ex(("127.0.0.1", dashboard.port))
                opened.append(one)
                if number % 50 == 49:
                    await asyncio.sleep(0)
                    with contextlib.suppress(OSError):
                        one.send(b"GET /runs HTTP/1.1\r\nHost:")
                if number % 1000 == 999:
                    assert (await ask(dashboard, "/runs.json")).status == 200
                assert dashboard.server.connections <= MOST_CONNECTIONS
        finally:
            for one in opened:
                one.close()
        assert (await ask(dashboard, "/about.json")).status == 200

    try:
        with_dashboard(tmp_path, story)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_ends_although_a_cancellation_was_forgotten() -> None:
    """As `asyncio.wait_for` does before Python 3.12, where a request comes in the same moment."""

    async def run() -> None:
        forgotten = []
        has_begun = asyncio.Event()

        async def handle(head: RequestHead) -> HttpAnswer:
            has_begun.set()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                forgotten.append(head.path)
            return HttpAnswer(body=b"late")

        server = HttpServer(Gate(GateSettings(), TOKEN, "s" * 40), handle)
        port = await server.start(["127.0.0.1"], 0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        await has_begun.wait()
        await asyncio.wait_for(server.close(), IDLE_S / 2)
        assert (server.connections, forgotten) == (0, ["/slow"])
        writer.close()

    asyncio.run(run())
