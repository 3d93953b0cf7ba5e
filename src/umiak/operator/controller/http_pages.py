"""A few pages over HTTP: health for the kubelet, metrics for Prometheus. An adapter; asyncio.

Not aiohttp's server, which leaves a connection open for ever on which no request comes.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from umiak.core.problem import UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Page = Callable[[], tuple[int, str]]

LONGEST_REQUEST = 8192
REQUEST_S = 5.0


def address_of(text: str) -> tuple[str, int] | None:
    """``:8080``, ``127.0.0.1:8080``, ``[::1]:8080``; None for ``0`` or nothing, which serve nothing.
    ValueError if it is none.
    """
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
            request = head.split(b"\r\n", 1)[0].decode(errors="replace")
            status, text = _page(request, pages)
            body = text.encode()
            kind = "text/plain; version=0.0.4; charset=utf-8"
            lines = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(lines.encode() + (b"" if request.startswith("HEAD ") else body))
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
        raise UmiakError.refused(
            "UM-OPERATOR-002",
            f"the address can't be listened on: {where}",
            why=error.strerror,
            hint="name another one, or 0 for none: `--metrics-bind-address`, `--health-probe-bind-address`",
        ) from None


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
