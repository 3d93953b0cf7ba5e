"""Ports of a check: listening on them, and connecting to them. An adapter over the launcher's loop and frames.

A worker that listens says who it is to anyone who comes (`Here`), so the one who comes can tell it from another machine
or program at the same address. The one that came closes first: a port must be free for the job at once, and the side
that closes first keeps a connection's remains for a minute.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time

from umiak.adapters import frames
from umiak.core.cluster import split_host_port
from umiak.core.decode import encode_tagged
from umiak.core.names import is_loopback
from umiak.launch.preflight.messages import FROM_STRANGER_BYTES, Here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from umiak.adapters.loop import Loop, Timer

    Address = tuple[int, tuple[str, int]]

ACCEPT_AT_ONCE = 64
SPARE_DESCRIPTORS = 32
_WORDS = {
    errno.ETIMEDOUT: "timed out",
    errno.ECONNREFUSED: "refused",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the network",
}


class PortListener:
    """A port that this worker listens on."""

    def __init__(self, loop: Loop, endpoint: str, node: str, on_guest: Callable[[frames.FramedSocket], None]) -> None:
        host, port = split_host_port(endpoint)
        self._loop = loop
        self._on_guest = on_guest
        self._greeting = frames.frame(encode_tagged(Here(node=node, endpoint=endpoint)))
        self._sock = frames.listen(host if is_loopback(host) else "", port or 0)
        self._sock.setblocking(False)
        loop.on_readable(self._sock.fileno(), self._accept)

    def close(self) -> None:
        self._loop.forget(self._sock.fileno())
        self._sock.close()

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                sock, _address = self._sock.accept()
            except OSError:
                return  # nobody more
            if sock.fileno() >= _descriptors() - SPARE_DESCRIPTORS:
                sock.close()  # the other side will try again
                return
            framed = frames.FramedSocket(self._loop, sock, most_bytes=FROM_STRANGER_BYTES)
            framed.send(self._greeting)
            self._on_guest(framed)


class Connecting:
    """One attempt to connect. Exactly one of the two callbacks is called, from the loop, unless it is cancelled."""

    def __init__(
        self,
        loop: Loop,
        address: Address,
        limit_s: float,
        *,
        on_connected: Callable[[socket.socket], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._loop, self._on_connected, self._on_failed = loop, on_connected, on_failed
        family, target = address
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._sock.setblocking(False)
        self._timer: Timer = loop.after(limit_s, lambda: self._fail(errno.ETIMEDOUT))
        error = self._sock.connect_ex(target)
        if error in (0, errno.EINPROGRESS):
            loop.on_writable(self._sock.fileno(), self._decided)
        else:
            loop.soon(lambda: self._fail(error))

    def cancel(self) -> None:
        """Forget about it."""
        if self._sock.fileno() >= 0:
            self._timer.cancel()
            self._loop.forget(self._sock.fileno())
            self._sock.close()

    def _decided(self) -> None:
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error == 0 and _is_own_echo(self._sock):
            error = errno.ECONNREFUSED
        if error:
            self._fail(error)
            return
        self._timer.cancel()
        self._loop.forget(self._sock.fileno())
        self._on_connected(self._sock)

    def _fail(self, error: int) -> None:
        if self._sock.fileno() >= 0:
            self.cancel()
            self._on_failed(in_words(error))


class Addresses:
    """What host names mean, looked up once each: a slow name server must not hold up a worker that others talk to."""

    def __init__(self) -> None:
        self._by_host: dict[str, tuple[int, str] | str] = {}

    def learn(self, endpoints: Iterable[str], limit_s: float) -> None:
        """Look the hosts of all these endpoints up; those that remain after the limit count as not known."""
        until = time.monotonic() + limit_s
        for endpoint in endpoints:
            host = split_host_port(endpoint)[0]
            if host not in self._by_host:
                late = time.monotonic() > until
                self._by_host[host] = f"no name server answered for {host}" if late else _look_up(host)

    def of(self, endpoint: str) -> Address | str:
        """Where to connect to for an endpoint, or why that is not known."""
        try:
            host, port = split_host_port(endpoint)
        except ValueError as error:
            return str(error)
        self.learn([endpoint], 1.0)
        addresses = self._by_host[host]
        return addresses if isinstance(addresses, str) else (addresses[0], (addresses[1], port or 0))


def _look_up(host: str) -> tuple[int, str] | str:
    try:
        family, _, _, _, target = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        return f"the name {host} is not known: {(error.strerror or str(error)).lower()}"
    return family, str(target[0])


def close_without_trace(sock: socket.socket) -> None:
    """On closing, drop the connection at once: neither side keeps remains of it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def raise_descriptor_limit() -> None:
    """As many open files as the system allows: a collector has a connection to every worker."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        pass  # then it works with as many as there are


def in_words(error: int) -> str:
    """Why a connection could not be made."""
    return _WORDS.get(error) or os.strerror(error).lower()


def _descriptors() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def _is_own_echo(sock: socket.socket) -> bool:
    """On one's own machine a socket can connect to itself; that is nobody listening."""
    try:
        return bool(sock.getsockname() == sock.getpeername())
    except OSError:
        return False
