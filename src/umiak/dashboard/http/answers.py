"""Answers that every kind of dashboard gives: data as JSON, the page and its files, events. An adapter.

json_answer(head, {"runs": []})
await SharedAnswers(feed).answer(head, make)
StaticPages().answer(head, "app.js")
events_answer(feed, head)
"""

from __future__ import annotations

import asyncio
import gzip
import time

from umiak.dashboard.http import statics
from umiak.dashboard.http.feed import FeedFull
from umiak.dashboard.http.json_text import json_text
from umiak.web.messages import HttpAnswer, HttpRefusal
from umiak.web.server import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.http.feed import Feed
    from umiak.web.messages import RequestHead

PACK_FROM_BYTES = 1400
SHARED_S = 0.2
CROWD = 4
"""Where fewer watch, each answer is made for its own request."""


def json_answer(head: RequestHead, data: JsonObject) -> HttpAnswer:
    """Compressed if that is worth it and wanted."""
    body = json_text(data).encode() + b"\n"
    is_packed = len(body) > PACK_FROM_BYTES and "gzip" in head.headers.get("accept-encoding", "")
    if is_packed:
        body = gzip.compress(body, 1, mtime=0)
    return HttpAnswer(body=body, headers={"Vary": "Accept, Accept-Encoding, Cookie"}, is_packed=is_packed)


def events_answer(feed: Feed, head: RequestHead) -> Stream:
    """What changes, as it does."""
    topics = [topic for topic in head.query.get("topics", "").split(",") if topic]
    last_id = head.headers.get("last-event-id", "") or head.query.get("last", "")
    try:
        pieces = feed.stream(topics, last_id)
    except FeedFull:
        raise HttpRefusal(503, "too many pages are open", {"Retry-After": "30"}) from None
    answer = HttpAnswer(kind="text/event-stream; charset=utf-8", headers={"X-Accel-Buffering": "no"})
    return Stream(answer=answer, pieces=pieces)


class SharedAnswers:
    """What many viewers ask for at the same time is made once, and for all of them: after each event every open page asks for the same.

    An answer is never older than the newest event, so a page that was told of something sees it.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._kept: dict[tuple[object, ...], tuple[float, asyncio.Task[HttpAnswer]]] = {}

    async def answer(self, head: RequestHead, make: Callable[[], Awaitable[JsonObject]]) -> HttpAnswer:
        """As `json_answer` of what ``make`` gives."""
        if self._feed.watchers < CROWD:
            return json_answer(head, await make())
        now_s, number = time.monotonic(), self._feed.number
        key = (number, head.path, tuple(sorted(head.query.items())), "gzip" in head.headers.get("accept-encoding", ""))
        kept = self._kept.get(key)
        if kept is None or now_s - kept[0] > SHARED_S:
            self._kept = {
                each: made for each, made in self._kept.items() if each[0] == number and now_s - made[0] < SHARED_S
            }
            task = asyncio.create_task(_made(head, make))
            task.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # nobody may be left to hear of it
            kept = self._kept[key] = now_s, task
        return await asyncio.shield(kept[1])


async def _made(head: RequestHead, make: Callable[[], Awaitable[JsonObject]]) -> HttpAnswer:
    return json_answer(head, await make())


class StaticPages:
    """The files of the page."""

    def __init__(self) -> None:
        self._files = statics.load()

    def answer(self, head: RequestHead, name: str) -> HttpAnswer:
        file = self._files.get(name)
        if file is None:
            raise HttpRefusal(404, "there is nothing at this address")
        headers = {"ETag": file.tag, "Vary": "Accept, Accept-Encoding"}
        if name != statics.PAGE:
            headers["Cache-Control"] = "no-cache"  # asked again, answered with nothing if it is the same
            if head.headers.get("if-none-match") == file.tag:
                return HttpAnswer(status=304, kind=file.kind, headers=headers)
        is_packed = "gzip" in head.headers.get("accept-encoding", "")
        body = file.packed if is_packed else file.body
        return HttpAnswer(body=body, kind=file.kind, headers=headers, is_packed=is_packed)
