"""A program in a pod, through the API's ``pods/exec``: its standard input and output in one WebSocket. An adapter.

The first byte of a message says which stream it is of (``v4.channel.k8s.io``): 0 to 2 as file descriptors, 3 how the program ended.
"""

from __future__ import annotations

import json

from umiak.core.shown import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.kube.web_socket import WebSocket

PROTOCOL = "v4.channel.k8s.io"
BLOCK_BYTES = 1 << 15
MOST_WORDS = 4096
_INPUT, _OUTPUT, _ERRORS, _END = 0, 1, 2, 3


class PodChannel:
    """A `umiak.submit.backend.NodeChannel`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._said = b""

    def read(self) -> bytes:
        while message := self._socket.receive():
            stream, data = message[0], message[1:]
            if stream == _OUTPUT and data:
                return data
            if stream == _ERRORS:
                self._said = (self._said + data)[-MOST_WORDS:]
            elif stream == _END:
                self._said = (self._said + b"\n" + _words(data))[-MOST_WORDS:]
        return b""

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), BLOCK_BYTES):
            self._socket.send(bytes([_INPUT]) + data[start : start + BLOCK_BYTES])

    def close(self) -> None:
        self._socket.close()

    def last_words(self) -> str:
        lines = [each.strip() for each in self._said.decode(errors="replace").splitlines() if each.strip()]
        return one_line("; ".join(lines[-3:]), 500)


def _words(data: bytes) -> bytes:
    """What the API says about the end of a program; nothing of a good one."""
    try:
        status = json.loads(data)
        return b"" if status.get("status") == "Success" else str(status.get("message") or "").encode()
    except (ValueError, AttributeError):
        return b""
