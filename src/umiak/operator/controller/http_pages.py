"""A few pages over HTTP: health for the kubelet, metrics for Prometheus. An adapter; asyncio."""

from __future__ import annotations

import asyncio

from umiak.core.problem import Exit, Problem, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Page = Callable[[], tuple[int, str]]

LONGEST_REQUEST = 8192
REQUEST_S = 5.0
WORDS = {
    200: "OK",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def address_of(text: str) -> tuple[str, int] | None:
    """``:8080``, ``127.0.0.1:8080``, ``[::1]:8080``; None for ``0`` or nothing, which serve nothing. ValueError if it is none."""
    if text in ("", "0"):
        return None
    host, _, port = text.rpartition(":")
    number = int(port)
    if not 0 <= number < 65536:
        raise ValueError(text)
    return host.strip("[]"), number


async def serve(address: tuple[str, int], pages: Mapping[str, Page]) -> asyncio.Server:
    """Serve these pages until the server is closed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S)
            status, text = _page(head.split(b"\r\n", 1)[0].decode(errors="replace"), pages)
            body = text.encode()
            kind = "text/plain; version=0.0.4; charset=utf-8"
            lines = f"HTTP/1.1 {status} {WORDS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(lines.encode() + body)
            await writer.drain()
        except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    host, port = address
    try:
        return await asyncio.start_server(answer, host or None, port, limit=LONGEST_REQUEST)
    except OSError as error:
        where = f"{host}:{port}"
        problem = Problem(
            code="UM-OPERATOR-002",
            what=f"the address can't be listened on: {where}",
            why=error.strerror,
            hint="name another one, or 0 for none: `--metrics-bind-address`, `--health-probe-bind-address`",
        )
        raise UmiakError(problem, exit_status=Exit.REFUSED) from None


def _page(request: str, pages: Mapping[str, Page]) -> tuple[int, str]:
    verb, _, rest = request.partition(" ")
    page = pages.get(rest.partition(" ")[0].partition("?")[0])
    if verb not in ("GET", "HEAD"):
        return 405, "GET only\n"
    if page is None:
        return 404, "\n".join(sorted(pages)) + "\n"
    try:
        return page()
    except Exception as error:  # noqa: BLE001 - a page must not end the operator
        return 500, f"{type(error).__name__}\n"
