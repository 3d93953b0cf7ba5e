"""Threads beside a script's own: what they make, and what goes wrong in them, comes out where it is waited for.
An adapter.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Item = TypeVar("Item")


class BackgroundTask:
    """Work in a thread of its own, whose exception is raised by `join`."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised by `join`
            self._error = error


class Prefetcher(Generic[Item]):
    """What `_items` gives, made by a thread ahead of its use: ``most`` items at a time, 0 is any number.
    One thread takes them.
    """

    def __init__(self, most: int, name: str) -> None:
        self._ready: queue.Queue[Item | BaseException | None] = queue.Queue(most)
        self._is_done = False
        self._is_stopped = False
        self._thread = threading.Thread(target=self._make, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def next(self) -> Item | None:
        """None: that was all of them, or `close` was called. Raises what `_items` raised."""
        if self._is_done or self._is_stopped:
            return None
        item = self._ready.get()
        if isinstance(item, BaseException):
            self._is_done = True
            raise item
        self._is_done = item is None
        return item

    def next_if_ready(self) -> Item | None:
        """The next item, if nobody need wait for it. None: nothing is there yet, or nothing more will come."""
        with self._ready.mutex:
            first = self._ready.queue[0] if self._ready.queue else None
        return None if first is None or isinstance(first, BaseException) else self.next()

    def close(self) -> None:
        """End the thread, however far it is. From any thread."""
        self._is_stopped = True
        try:
            self._ready.put_nowait(None)  # for who waits in `next`
        except queue.Full:
            pass  # then nobody does
        self._interrupt()
        self._thread.join()

    def _items(self) -> Iterable[Item]:
        raise NotImplementedError

    def _interrupt(self) -> None:
        """Let `_items` come to an end, wherever it waits."""

    def _ended(self) -> None:
        """In the thread, when the last item was taken over."""

    def _make(self) -> None:
        last: BaseException | None = None
        try:
            for item in self._items():
                if not self._put(item):
                    break
        except BaseException as error:  # noqa: BLE001 - raised by `next`
            last = error
        self._put(last)
        self._ended()

    def _put(self, item: Item | BaseException | None) -> bool:
        while not self._is_stopped:
            try:
                self._ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False
