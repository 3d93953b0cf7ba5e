"""``GET /metrics`` of a server: a small HTTP listener in a thread of its own. An adapter.

    endpoint = MetricsEndpoint("127.0.0.1", 9100, token=None, page=lambda: metrics.text(...))
    endpoint.port
    endpoint.close()

On loopback anybody may ask; elsewhere only who sends the job's token (``Authorization: Bearer ...``). One thread serves a
few connections at a time, each for a few seconds and a few kilobytes, so that strangers can't take much from a server.
"""

from __future__ import annotations

import hmac
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING

from umiak.core.names import is_loopback
from umiak.ps.servers.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CONNECTIONS = 8
MOST_HEADER_BYTES = 8192
LIMIT_S = 5.0
"""How long one connection may take, from its first byte to the last."""
ROUND_S = 0.5


class MetricsEndpoint:
    """Listens until it is closed. OSError if it can't."""

    def __init__(self, host: str, port: int, *, token: str | None, page: Callable[[], str]) -> None:
        self._needs = None if is_loopback(host) else token
        self._is_open = is_loopback(host)
        self._page = page
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._callers: dict[socket.socket, _Caller] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="umiak-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and end the thread."""
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._closing.is_set():
            for key, _ in self._selector.select(ROUND_S):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._callers:  # else it has just made room for another one
                    self._go_on(key.data)
            now = time.monotonic()
            for caller in [each for each in self._callers.values() if now > each.until]:
                self._drop(caller)
        for caller in [*self._callers.values()]:
            self._drop(caller)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._callers) >= MOST_CONNECTIONS:
            # The one that has had the most time: who asks in one go is through before its turn comes.
            self._drop(next(iter(self._callers.values())))
        connection.setblocking(False)
        caller = self._callers[connection] = _Caller(connection, time.monotonic() + LIMIT_S)
        self._selector.register(connection, selectors.EVENT_READ, caller)

    def _go_on(self, caller: _Caller) -> None:
        try:
            if caller.answer:
                sent = caller.connection.send(caller.answer)
                caller.answer = caller.answer[sent:]
                if not caller.answer:
                    self._drop(caller)
                return
            received = caller.connection.recv(MOST_HEADER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._drop(caller)
            return
        caller.heard += received
        ended = b"\r\n\r\n" in caller.heard
        if not received or (not ended and len(caller.heard) > MOST_HEADER_BYTES):
            self._drop(caller)
        elif ended:
            caller.answer = self._answer(caller.heard)
            self._selector.modify(caller.connection, selectors.EVENT_WRITE, caller)

    def _answer(self, heard: bytes) -> bytes:
        first, *lines = heard.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        if not self._may_ask(lines):
            return _response("401 Unauthorized", "the job's token is required\n", "WWW-Authenticate: Bearer\r\n")
        if rest.partition(" ")[0].partition("?")[0] != "/metrics":
            return _response("404 Not Found", "there is only /metrics\n")
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "GET only\n", "Allow: GET, HEAD\r\n")
        try:
            page = self._page()
        except Exception as error:  # noqa: BLE001 - the server may be ending; its metrics must not be what says so
            return _response("503 Service Unavailable", f"{type(error).__name__}\n")
        return _response("200 OK", page, has_content=method == "GET")

    def _may_ask(self, lines: list[str]) -> bool:
        if self._is_open:
            return True
        said = ""
        for line in lines:
            name, _, text = line.partition(":")
            if name.strip().lower() == "authorization":
                said = text.strip()
        kind, _, secret = said.partition(" ")
        # Compared whole, whatever is wrong, in a time that does not depend on where.
        fits = hmac.compare_digest(
            secret.strip().encode("latin-1"), (self._needs or "").encode("utf-8", "surrogateescape")
        )
        return fits and kind.lower() == "bearer" and self._needs is not None

    def _drop(self, caller: _Caller) -> None:
        self._callers.pop(caller.connection, None)
        self._selector.unregister(caller.connection)
        caller.connection.close()


class _Caller:
    """One connection: what it has said, and what it is still to be told."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self.connection = connection
        self.until = until
        self.heard = b""
        self.answer = b""


def _response(status: str, text: str, more: str = "", *, has_content: bool = True) -> bytes:
    content = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(content)}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + (content if has_content else b"")
