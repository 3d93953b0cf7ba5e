"""HTTP/1.1 requests on the launcher's own loop: just enough to talk to an API server. An adapter.

One request per connection, JSON in, JSON out, a time limit, and for streams each line as it comes. It exists because
the launcher has one thread that must never block, and because ``http.client`` costs it 30 ms and six megabytes.
"""

from __future__ import annotations

import json
import socket

from umiak.adapters import hostinfo
from umiak.core.names import is_digits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.adapters.loop import Loop

MOST_BYTES = 16 * 1024 * 1024


class Post:
    """One POST of a JSON object. ``on_answer(status, object)`` or ``on_failed(why)`` is called, once.

    With ``stream=True`` every object of the answer goes to ``on_answer`` as it arrives, and ``on_failed`` says that the
    stream has ended.
    """

    def __init__(
        self,
        loop: Loop,
        address: tuple[str, int],
        path: str,
        body: object,
        *,
        on_answer: Callable[[int, object], None],
        on_failed: Callable[[str], None],
        timeout_s: float = 3.0,
        stream: bool = False,
    ) -> None:
        self._loop, self._stream = loop, stream
        self._on_answer, self._on_failed = on_answer, on_failed
        self._received = bytearray()
        self._content = bytearray()
        self._status: int | None = None
        self._chunked = False
        self._length: int | None = None
        self._over = False
        self.local_host = ""
        """This machine's address on the route to the server, once connected."""
        content = json.dumps(body).encode()
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        self._request = (
            f"POST {path} HTTP/1.1\r\nHost: {host}:{address[1]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        ).encode() + content
        self._timer = loop.after(timeout_s, lambda: self._fail("no answer in time"))
        try:
            family, target = hostinfo.look_up(*address)
            self._sock = socket.socket(family, socket.SOCK_STREAM)
            self._sock.setblocking(False)
            self._sock.connect_ex(target)
            loop.on_writable(self._sock.fileno(), self._connected)
        except OSError as error:
            why = error.strerror or str(error)
            loop.soon(lambda: self._fail(why))

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        if not self._over:
            self._over = True
            self._timer.cancel()
            if hasattr(self, "_sock"):
                self._loop.forget(self._sock.fileno())
                self._sock.close()

    def _connected(self) -> None:
        try:
            sent = self._sock.send(self._request)
        except OSError as error:
            self._fail(error.strerror or "connection failed")
            return
        self._request = self._request[sent:]
        self.local_host = self._sock.getsockname()[0].removeprefix("::ffff:")
        if not self._request:
            self._loop.on_writable(self._sock.fileno(), None)
            self._loop.on_readable(self._sock.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self._sock.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error.strerror or "connection lost")
            return
        self._received += data
        if len(self._received) + len(self._content) > MOST_BYTES:
            self._fail("an answer that is too large")
            return
        if self._status is None and not self._read_head():
            if not data:
                self._fail("connection closed")
            return
        ended = self._read_chunks() if self._chunked else self._read_plain(closed=not data)
        if self._stream:
            self._hand_out_lines()
        if self._over:
            return
        if ended or not data:
            if self._stream or not ended:
                self._fail("connection closed")
            else:
                self._hand_out(bytes(self._content))

    def _read_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        lines = bytes(self._received[:end]).decode("latin-1").split("\r\n")
        del self._received[: end + 4]
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not is_digits(words[1]) or len(words[1]) != 3:
            self._fail("an answer that is not HTTP")
            return False
        self._status = int(words[1])
        headers = {name.strip().lower(): text.strip() for name, _, text in (line.partition(":") for line in lines[1:])}
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "")
        if is_digits(length) and len(length) < 19:
            self._length = int(length)
        if self._stream:
            self._timer.cancel()
        return True

    def _read_plain(self, *, closed: bool) -> bool:
        self._content += self._received
        self._received.clear()
        return len(self._content) >= self._length if self._length is not None else closed

    def _read_chunks(self) -> bool:
        while True:
            line_end = self._received.find(b"\r\n")
            if line_end < 0:
                return False
            digits = bytes(self._received[:line_end]).split(b";")[0].strip()
            if not digits or digits.strip(b"0123456789abcdefABCDEF"):
                self._fail("a chunk that is not HTTP")
                return False
            size = int(digits, 16)
            if len(self._received) < line_end + 4 + size:
                return False
            self._content += self._received[line_end + 2 : line_end + 2 + size]
            del self._received[: line_end + 4 + size]
            if size == 0:
                return True

    def _hand_out_lines(self) -> None:
        while not self._over and (end := self._content.find(b"\n")) >= 0:
            line = bytes(self._content[:end])
            del self._content[: end + 1]
            if line.strip():
                self._hand_out(line)

    def _hand_out(self, text: bytes) -> None:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            self._fail("an answer that is not JSON")
            return
        if not self._stream:
            self.cancel()
        assert self._status is not None
        self._on_answer(self._status, answer)

    def _fail(self, why: str) -> None:
        if not self._over:
            self.cancel()
            self._on_failed(why)
