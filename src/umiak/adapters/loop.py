"""The event loop of the launcher: one thread, file descriptors, timers and signals. An adapter.

Why not asyncio: importing it takes 30-45 ms and ten megabytes, a third of the launcher's whole budget. What is needed
here is little: readable, writable, and at a time.

What was received is always handled before timers fire. A launcher that was frozen for a while thus first reads the
heartbeats that waited for it, and does not take its own sleep for the silence of others.

Signals that have arrived are handled before anything else, also when something else was ready first: a signal to all
processes of a node ends workers as well, and the launcher must know of the signal when it judges why a worker ended.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SHORTEST_NAP_S = 0.05
MOST_NAPS = 100


class Timer:
    """A call that is due at a time; ``cancel()`` takes it back."""

    __slots__ = ("call", "when")

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when


class Loop:
    """Waits for whatever comes next and calls the function that was registered for it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._masks: dict[int, int] = {}
        self._timers: list[Timer] = []
        self._soon: list[Callable[[], None]] = []
        self._running = False
        self._signal_handlers: dict[int, Callable[[int], None]] = {}
        self._wake_read = -1
        self._has_signals = False
        self._turned_at = self.now()
        self._naps: list[tuple[float, float]] = []  # when each ended, and how long it was
        self.on_nap: Callable[[float], None] = lambda _seconds: None
        """Called first thing after this process stood still (SIGSTOP, a sleeping laptop), with for how long."""

    @staticmethod
    def now() -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def on_readable(self, fd: int, call: Callable[[], None] | None) -> None:
        """Call when something can be read (or the other side closed); None: no more."""
        self._set(self._readers, fd, call)

    def on_writable(self, fd: int, call: Callable[[], None] | None) -> None:
        """Call when something can be written; None: no more."""
        self._set(self._writers, fd, call)

    def forget(self, fd: int) -> None:
        """Before a descriptor is closed."""
        self._set(self._readers, fd, None)
        self._set(self._writers, fd, None)

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        """Call at a time of ``now()``."""
        timer = Timer(when, call)
        heapq.heappush(self._timers, timer)
        return timer

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call in so many seconds."""
        return self.at(self.now() + seconds, call)

    def soon(self, call: Callable[[], None]) -> None:
        """Call before anything else is waited for."""
        self._soon.append(call)

    def on_signal(self, number: int, call: Callable[[int], None]) -> None:
        """Call from the loop, not from inside the signal handler."""
        if self._wake_read < 0:
            self._wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
            self.on_readable(self._wake_read, self._read_signals)
        self._signal_handlers[number] = call
        signal.signal(number, self._signal_arrived)

    def stood_still_s(self, within_s: float) -> float:
        """For how long, of the last so many seconds, this process stood still."""
        since = self.now() - within_s
        return sum(min(seconds, ended - since) for ended, seconds in self._naps if ended > since)

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        """Until ``stop()``."""
        self._running = True
        while self._running:
            self._run_soon()
            if self._running:
                self._wait()

    def _wait(self) -> None:
        while self._timers and self._timers[0].call is None:
            heapq.heappop(self._timers)
        timeout = max(0.0, self._timers[0].when - self.now()) if self._timers else -1
        try:
            ready = self._epoll.poll(timeout)
            if not ready and timeout > 0:
                # A process that was stopped for longer than the timeout gets an empty answer,
                # whatever is waiting for it.
                ready = self._epoll.poll(0)
        except InterruptedError:
            return
        self._notice_nap(timeout)
        if any(fd == self._wake_read for fd, _ in ready):
            self._read_signals()
        for fd, mask in ready:
            self._signals_first()
            if mask & ~select.EPOLLOUT and (reader := self._readers.get(fd)):
                reader()
            if mask & ~select.EPOLLIN and (writer := self._writers.get(fd)):
                writer()
        now = self.now()
        while self._timers and self._timers[0].when <= now and self._running:
            self._signals_first()
            call = heapq.heappop(self._timers).call
            if call:
                call()

    def _notice_nap(self, timeout: float) -> None:
        turned_at, self._turned_at = self._turned_at, self.now()
        late_s = self._turned_at - turned_at - timeout
        if timeout >= 0 and late_s >= SHORTEST_NAP_S:
            self._naps = [*self._naps[-MOST_NAPS:], (self._turned_at, late_s)]
            self.on_nap(late_s)

    def _run_soon(self) -> None:
        while self._soon and self._running:
            calls, self._soon = self._soon, []
            for call in calls:
                self._signals_first()
                call()

    def _signal_arrived(self, _number: int, _frame: object) -> None:
        """Python has written the signal's number to the wake-up descriptor; only note that it is to be read."""
        self._has_signals = True

    def _signals_first(self) -> None:
        """A signal that arrives while the kernel answers is not in that answer,
        and neither is one of this very round.
        """
        if self._has_signals:
            self._read_signals()

    def _read_signals(self) -> None:
        self._has_signals = False
        try:
            numbers = os.read(self._wake_read, 256)
        except BlockingIOError:
            return  # they were read already
        for number in numbers:
            call = self._signal_handlers.get(number)
            if call:
                call(number)

    def _set(self, table: dict[int, Callable[[], None]], fd: int, call: Callable[[], None] | None) -> None:
        if call is None:
            table.pop(fd, None)
        else:
            table[fd] = call
        mask = (select.EPOLLIN if fd in self._readers else 0) | (select.EPOLLOUT if fd in self._writers else 0)
        known = self._masks.get(fd)
        if mask and known is None:
            self._epoll.register(fd, mask)
        elif mask and known != mask:
            self._epoll.modify(fd, mask)
        elif not mask and known is not None:
            self._epoll.unregister(fd)
        if mask:
            self._masks[fd] = mask
        else:
            self._masks.pop(fd, None)
