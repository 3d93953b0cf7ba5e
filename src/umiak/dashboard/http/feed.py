"""Server-sent events: what changed, to everybody who watches it, each at its own speed. A program.

    feed = Feed()
    feed.publish("run:ctr-3f", {"state": "failed"})
    async for piece in feed.stream(("run:ctr-3f",), last_id=""): ...

Of each topic only the newest event is kept, and of a client only which topics it has not heard of yet: a slow one gets fewer events, never more
memory. Every event has an id; a client that comes back with the last one it saw gets what it missed of its topics, and one that comes from another
server, or is new, begins with ``hello``, upon which it asks for everything.
"""

from __future__ import annotations

import asyncio
import secrets

from umiak.dashboard.http.json_text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from umiak.core.json_types import JsonObject

HEARTBEAT_S = 15.0
RETRY_MS = 2000
MOST_TOPICS = 32
MOST_KEPT = 4096
"""Topics whose newest event is remembered."""


class FeedFull(Exception):
    """There are too many watchers."""


class _Watcher:
    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self.unseen: dict[str, None] = {}
        self.wake = asyncio.Event()


class Feed:
    """Topics and who watches them. Of one event loop."""

    def __init__(self, *, most_watchers: int = 1000, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.epoch = secrets.token_hex(4)
        self._most_watchers, self._heartbeat_s = most_watchers, heartbeat_s
        self._number = 0
        self._newest: dict[str, tuple[int, bytes]] = {}
        self._watchers: set[_Watcher] = set()

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    @property
    def number(self) -> int:
        """Of the newest event."""
        return self._number

    def watched(self, prefix: str) -> set[str]:
        """What follows the prefix in the topics that somebody watches."""
        names = (topic for each in self._watchers for topic in each.topics)
        return {topic[len(prefix) :] for topic in names if topic.startswith(prefix)}

    def publish(self, topic: str, data: JsonObject) -> None:
        """It is made into text once, for all."""
        self._number += 1
        text = json_text({"topic": topic, **data})
        event = f"id: {self.epoch}-{self._number}\ndata: {text}\n\n".encode()
        self._newest.pop(topic, None)
        self._newest[topic] = self._number, event
        while len(self._newest) > MOST_KEPT:
            del self._newest[next(iter(self._newest))]
        for watcher in self._watchers:
            if topic in watcher.topics:
                watcher.unseen[topic] = None
                watcher.wake.set()

    def stream(self, topics: Iterable[str], last_id: str) -> AsyncIterator[bytes]:
        """Events until the client goes. FeedFull if there are too many already."""
        if len(self._watchers) >= self._most_watchers:
            raise FeedFull
        return self._stream(_Watcher(frozenset(list(topics)[:MOST_TOPICS])), last_id)

    async def _stream(self, watcher: _Watcher, last_id: str) -> AsyncIterator[bytes]:
        self._watchers.add(watcher)
        try:
            yield f"retry: {RETRY_MS}\n\n".encode() + self._beginning(watcher, last_id)
            while True:
                try:
                    await asyncio.wait_for(watcher.wake.wait(), self._heartbeat_s)
                except (TimeoutError, asyncio.TimeoutError):
                    yield b": still here\n\n"
                    continue
                watcher.wake.clear()
                topics, watcher.unseen = list(watcher.unseen), {}
                events = sorted(self._newest[topic] for topic in topics if topic in self._newest)
                if events:
                    yield b"".join([event for _, event in events])
        finally:
            self._watchers.discard(watcher)

    def _beginning(self, watcher: _Watcher, last_id: str) -> bytes:
        epoch, _, text = last_id.rpartition("-")
        if epoch != self.epoch or not (text.isascii() and text.isdigit()):
            return f'id: {self.epoch}-{self._number}\nevent: hello\ndata: {{"topic":"hello"}}\n\n'.encode()
        seen = int(text[:18])
        missed = sorted(event for topic, event in self._newest.items() if topic in watcher.topics and event[0] > seen)
        return b"".join([event for _, event in missed])
