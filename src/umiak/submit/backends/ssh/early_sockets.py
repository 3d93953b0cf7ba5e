"""TCP connections to many hosts that are opened while asyncssh is still being imported. An adapter.

    early = EarlySockets(loop)
    early.open({"node0": ("10.0.0.1", 22)})      returns at once
    await early.take("node0")                    a connected socket, or None

A server starts a process for each connection, which takes it as long as the rest of the login: both sides then work at
the same time. Who the host is and who logs in is not decided here: asyncssh does that, on this socket as on its own. A
host that can't be reached is asked by asyncssh again, which says what is wrong.
"""

from __future__ import annotations

import asyncio
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class EarlySockets:
    """Of the hosts of a place, by their labels."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._opened: dict[str, asyncio.Task[socket.socket]] = {}

    def open(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Begin to connect, in the loop's thread."""
        self._loop.call_soon_threadsafe(self._begin, dict(addresses))

    async def take(self, label: str) -> socket.socket | None:
        """The socket of a host, which is the caller's from now on; None if there is none. In the loop's thread."""
        task = self._opened.pop(label, None)
        if task is None:
            return None
        try:
            return await task
        except OSError:
            return None

    def close(self) -> None:
        """Those that nobody took. In the loop's thread."""
        for task in self._opened.values():
            if not task.cancel() and not task.cancelled() and task.exception() is None:
                task.result().close()
        self._opened.clear()

    def _begin(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        for label, (host, port) in addresses.items():
            self._opened[label] = self._loop.create_task(self._connected(host, port))

    async def _connected(self, host: str, port: int) -> socket.socket:
        """The first of a host's addresses alone: asyncssh tries the others."""
        family, kind, protocol, _, address = (await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            await self._loop.sock_connect(connection, address)
        except BaseException:
            connection.close()
            raise
        return connection
