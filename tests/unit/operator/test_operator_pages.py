"""The operator's pages: health and metrics over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from umiak.operator.controller import http_pages
from umiak.operator.controller.metrics import OperatorMetrics


def broken() -> tuple[int, str]:
    raise RuntimeError("secret")


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /healthz", 200, "ok\n"),
        ("GET /healthz?verbose", 200, "ok\n"),
        ("HEAD /healthz", 200, ""),
        ("GET /nothing", 404, "/broken\n/healthz\n"),
        ("POST /healthz", 405, "GET only\n"),
        ("GET /broken", 500, "RuntimeError\n"),
    ],
)
def test_pages(request_line: str, status: int, body: str) -> None:
    async def main() -> bytes:
        server = await http_pages.serve(("127.0.0.1", 0), {"/healthz": lambda: (200, "ok\n"), "/broken": broken})
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(f"{request_line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            return answer

    head, _, text = asyncio.run(main()).decode().partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert text == body


def test_counters_are_exact_however_large_they_are() -> None:
    metrics = OperatorMetrics()
    metrics.count("umiak_operator_reconciles_total", 1_234_567, result="done")
    metrics.count("umiak_operator_reconciles_total", result="done")
    assert 'umiak_operator_reconciles_total{result="done"} 1234568' in metrics.text().splitlines()
