"""Tries the connections from one node to all others, many at a time and each for a limited time. An adapter."""

from __future__ import annotations

from collections import deque

from umiak.adapters import frames
from umiak.core.decode import Malformed, decode_tagged
from umiak.launch.message_checks import harmless
from umiak.launch.preflight import sockets
from umiak.launch.preflight.messages import BANNER_BYTES, MOST_FAILURES, Here, Probed, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from umiak.adapters.loop import Loop, Timer
    from umiak.core.json_types import JsonObject

CONNECT_S = 4.0
"""A lost first packet is sent again after one second, and again after two more."""
ANSWER_S = 10.0
"""The network works by then; how soon a worker answers is a matter of how busy its node is."""
AT_ONCE = 128


def connecting_s(count: int) -> float:
    """How long so many trials take if no packet arrives."""
    return CONNECT_S * _rounds(count)


def longest_s(count: int) -> float:
    """How long so many trials take at most."""
    return (CONNECT_S + ANSWER_S) * _rounds(count)


def _rounds(count: int) -> int:
    return -(-count // AT_ONCE)


class Prober:
    """The trials of one node; ``on_done`` is called once, from the loop."""

    def __init__(
        self,
        loop: Loop,
        addresses: sockets.Addresses,
        node: str,
        on_done: Callable[[Probed], None],
        *,
        workers: Iterable[str],
        launchers: Iterable[str],
    ) -> None:
        self.loop, self.addresses, self.node = loop, addresses, node
        self._on_done = on_done
        self._waiting = deque(
            [(endpoint, True) for endpoint in workers] + [(endpoint, False) for endpoint in launchers]
        )
        self._tried = len(self._waiting)
        self._running = 0
        self._failed = 0
        self._unreachable: list[Unreachable] = []
        loop.soon(self._go_on)

    def ended(self, endpoint: str, why: str) -> None:
        """One trial is over; ``why`` is empty if the connection works."""
        self._running -= 1
        if why:
            self._failed += 1
            if len(self._unreachable) < MOST_FAILURES:
                self._unreachable.append(Unreachable(endpoint=endpoint, why=why))
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._running < AT_ONCE:
            self._running += 1
            endpoint, is_worker = self._waiting.popleft()
            _Trial(self, endpoint, is_worker=is_worker)
        if not self._running and not self._waiting:
            unreachable = tuple(sorted(self._unreachable, key=lambda each: each.endpoint))
            self._on_done(Probed(tried=self._tried, failed=self._failed, unreachable=unreachable))


class _Trial:
    """One connection: made, and for a worker's port also answered by that worker."""

    def __init__(self, prober: Prober, endpoint: str, *, is_worker: bool) -> None:
        self._prober, self._endpoint, self._is_worker = prober, endpoint, is_worker
        self._framed: frames.FramedSocket | None = None
        self._timer: Timer | None = None
        address = prober.addresses.of(endpoint)
        if isinstance(address, str):
            prober.loop.soon(lambda: prober.ended(endpoint, address))
            return
        sockets.Connecting(prober.loop, address, CONNECT_S, on_connected=self._connected, on_failed=self._over)

    def _connected(self, sock: socket.socket) -> None:
        sockets.close_without_trace(sock)
        if not self._is_worker:
            sock.close()
            self._over("")
            return
        self._timer = self._prober.loop.after(ANSWER_S, lambda: self._over("connected, but no answer"))
        self._framed = frames.FramedSocket(self._prober.loop, sock, most_bytes=BANNER_BYTES)
        self._framed.on_frame = self._answered
        self._framed.on_end = lambda reason: self._over(f"another program answers there ({reason})")

    def _answered(self, content: JsonObject) -> None:
        try:
            here = harmless(decode_tagged((Here,), content))
        except Malformed:
            self._over("another program answers there")
            return
        if here.node == self._prober.node:
            self._over("this address leads back to the node itself")
        elif here.endpoint != self._endpoint:
            self._over(f"{here.endpoint} answers there")
        else:
            self._over("")

    def _over(self, why: str) -> None:
        if self._timer:
            self._timer.cancel()
        if self._framed:
            self._framed.close()
        self._prober.ended(self._endpoint, why)
