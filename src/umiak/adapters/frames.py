"""Framed JSON over TCP, without ever blocking. An adapter; who talks, and about what, is not its business.

frame      4 bytes of length, big-endian, then that many bytes of JSON; the length is checked before anything is read
"""

from __future__ import annotations

import json
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.adapters.loop import Loop
    from umiak.core.json_types import JsonObject

MOST_UNSENT_BYTES = 64 * 1024 * 1024
"""A peer that lets more than this wait for it does not read at all."""
_READ_BYTES = 256 * 1024


def frame(content: object) -> bytes:
    """A frame that holds this content."""
    body = json.dumps(content, separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + body


class FramedSocket:
    """A non-blocking socket that takes and gives frames."""

    def __init__(self, loop: Loop, sock: socket.socket, *, most_bytes: int) -> None:
        self._loop = loop
        self._sock = sock
        self._most_bytes = most_bytes
        self._received = bytearray()
        self._unsent = bytearray()
        self.on_frame: Callable[[JsonObject], None] = ignore
        self.on_end: Callable[[str], None] = ignore
        self.on_let_go: Callable[[], None] = _nothing
        """Called once when the socket is closed, no matter who closes it: for those who count sockets."""
        self.last_heard = loop.now()
        self.ended = False
        self.is_garbled = False
        """Whether it ended because the other side does not speak in frames."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.on_readable(sock.fileno(), self._read)

    def take_frames_of(self, most_bytes: int) -> None:
        """From now on the other side's frames may have so many bytes."""
        self._most_bytes = most_bytes

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def local_host(self) -> str:
        host: str = self._sock.getsockname()[0]
        return host.removeprefix("::ffff:")

    @property
    def peer_host(self) -> str:
        try:
            host: str = self._sock.getpeername()[0]
        except OSError:
            return "unknown"
        return host.removeprefix("::ffff:")

    def send(self, data: bytes) -> None:
        """Send a whole frame, now or as soon as the other side takes it."""
        if self.ended:
            return
        if not self._unsent:
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                # Told from the loop, so that the sender is not called back in the middle of it.
                reason = error.strerror or "closed"
                self._loop.soon(lambda: self._end(reason))
                return
            data = data[sent:]
        if len(self._unsent) + len(data) > MOST_UNSENT_BYTES:
            self._loop.soon(lambda: self._end("it does not read what it is sent"))
        elif data:
            self._unsent += data
            self._loop.on_writable(self._sock.fileno(), self._write)

    def finish_sending(self) -> None:
        """Say that nothing more will come; the other side reads what is on its way and then sees the end."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        """Let go of the socket; the owner is not told."""
        if not self.ended:
            self.ended = True
            self._loop.forget(self._sock.fileno())
            self._sock.close()
            self.on_let_go()

    def hang_up(self, reason: str) -> None:
        """As if the other side had closed it: the owner is told."""
        self._end(reason)

    def _write(self) -> None:
        try:
            sent = self._sock.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error.strerror or "closed")
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.on_writable(self._sock.fileno(), None)

    def _read(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error.strerror or "reset")
            return
        if not data:
            self._end("closed")
            return
        self.last_heard = self._loop.now()
        self._received += data
        while not self.ended and len(self._received) >= 4:
            length = int.from_bytes(self._received[:4], "big")
            if length > self._most_bytes:
                self.is_garbled = True
                self._end(f"a frame of {length} bytes, at most {self._most_bytes} are taken")
                return
            if len(self._received) < 4 + length:
                return
            body = bytes(self._received[4 : 4 + length])
            del self._received[: 4 + length]
            try:
                content = json.loads(body)
            except (ValueError, RecursionError):
                self.is_garbled = True
                self._end("a frame that is not JSON")
                return
            if not isinstance(content, dict):
                self._end("a frame that is not an object")
                return
            self.on_frame(content)

    def _end(self, reason: str) -> None:
        if not self.ended:
            self.close()
            self.on_end(reason)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; an empty host means every address, IPv6 as well where the machine has it.
    OSError if taken.
    """
    host = host.removeprefix("::ffff:")  # an IPv4 address, which a socket of IPv6 alone can't have
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A port that was ours a moment ago may be taken again; one that somebody listens on may not.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
        sock.bind((host, port))
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


def ignore(_anything: object) -> None:
    """For callbacks that nobody has set."""


def _nothing() -> None:
    pass
