"""A WebSocket (RFC 6455) over an HTTP connection that is there already, as far as `pods/exec` needs it.
An adapter; standard library only.

socket = opened(connection, "/api/v1/namespaces/training/pods/ctr-0/exec?command=sh", headers, "v4.channel.k8s.io")
socket.send(b"\\0..."), socket.receive(), socket.close()
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import socket
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    import http.client
    from collections.abc import Mapping
    from typing import BinaryIO

MOST_BYTES = 16 << 20
"""In one message."""
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocket:
    """Whole messages, one way and the other. One thread receives; several may send."""

    def __init__(self, connection: http.client.HTTPConnection, source: BinaryIO) -> None:
        self._connection, self._source = connection, source
        self._sending = threading.Lock()
        self._is_closed = False

    def send(self, data: bytes) -> None:
        """One message of bytes. OSError if the other side has gone."""
        self._frame(_BINARY, data)

    def receive(self) -> bytes | None:
        """The next message; None at the end, however it came."""
        message = b""
        try:
            while True:
                is_last, kind, payload = self._next()
                if kind == _CLOSE:
                    return None
                if kind == _PING:
                    self._frame(_PONG, payload)
                elif kind in (_CONTINUED, _TEXT, _BINARY):
                    message += payload
                    if len(message) > MOST_BYTES:
                        return None
                    if is_last:
                        return message
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Say goodbye, and hang up: who receives meanwhile is at the end. Again: nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._frame(_CLOSE, b"\x03\xe8")
        own = self._connection.sock
        if own is not None:
            with contextlib.suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _next(self) -> tuple[bool, int, bytes]:
        first, second = self._exactly(2)
        size = second & 0x7F
        if size == 126:
            size = int.from_bytes(self._exactly(2), "big")
        elif size == 127:
            size = int.from_bytes(self._exactly(8), "big")
        if size > MOST_BYTES:
            raise ValueError(f"expected a message of at most {MOST_BYTES} bytes, got {size}")
        mask = self._exactly(4) if second & 0x80 else b""
        data = self._exactly(size)
        return bool(first & 0x80), first & 0x0F, masked(data, mask) if mask else data

    def _exactly(self, size: int) -> bytes:
        data = self._source.read(size) if size else b""
        if len(data) != size:
            raise ConnectionResetError(104, "the connection ended in the middle of a message")
        return data

    def _frame(self, kind: int, data: bytes) -> None:
        size = len(data)
        head = bytes([0x80 | kind])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
        else:
            head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
        mask = os.urandom(4)
        with self._sending:
            if self._connection.sock is None:
                raise BrokenPipeError(32, "the connection was closed")
            self._connection.sock.sendall(head + mask + masked(data, mask))


def masked(data: bytes, mask: bytes) -> bytes:
    """Every byte with its byte of the mask; again, it is what it was."""
    size = len(data)
    whole = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")


def opened(
    connection: http.client.HTTPConnection, target: str, headers: Mapping[str, str], protocol: str
) -> WebSocket | http.client.HTTPResponse:
    """The socket, or the answer of a server that refused it. OSError or HTTPException if there is none."""
    key = base64.b64encode(os.urandom(16))
    asked = {
        **headers,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key.decode(),
        "Sec-WebSocket-Protocol": protocol,
    }
    connection.request("GET", target, headers=asked)
    response = connection.getresponse()
    if response.status != 101:
        return response
    wanted = base64.b64encode(hashlib.sha1(key + _MAGIC, usedforsecurity=False).digest()).decode()
    if response.headers.get("Sec-WebSocket-Accept") != wanted:
        raise ConnectionResetError(104, "the server does not speak WebSocket")
    return WebSocket(connection, response.fp)  # what it has read too much is in there
