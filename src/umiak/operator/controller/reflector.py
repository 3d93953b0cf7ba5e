"""Keeps one collection of the API in the cache: a list in pages, then a watch that goes on where the last one ended.
An adapter.

Watches end, break off and are forgotten by the server; each is begun again at the last version that was seen, and
bookmarks keep that one fresh. Only if the server has forgotten it as well (410) is the collection listed again, after a
random pause, since all watchers of a server that was restarted do so at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time

from umiak.adapters.stores.http_retry import chance
from umiak.core.backoff import RetryPolicy
from umiak.core.value import value
from umiak.kube.answers import KubeRefused, KubeSilent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.core.json_types import JsonMapping
    from umiak.kube.async_api import AsyncKubeApi

LOG = logging.getLogger("umiak.operator")
WATCH_S = 300
"""How long the server is asked to keep a watch open; a random part is added."""
QUIET_S = 150.0
"""Bookmarks come every minute, so a connection that is silent for this long is broken."""
POLICY = RetryPolicy(first_s=0.2, attempts=None)
RELIST_JITTER_S = 1.0
SHORTEST_WATCH_S = 0.1


class _Forgotten(Exception):
    """The server does not know the version any more from which a watch should go on."""


@value
class Sink:
    """Where the objects go."""

    put: Callable[[JsonMapping], object]
    remove: Callable[[JsonMapping], object]
    listed: Callable[[set[str], int], object]
    """After a whole list: the UIDs in it, and its version."""


class Reflector:
    """One collection."""

    def __init__(
        self,
        api: AsyncKubeApi,
        path: str,
        sink: Sink,
        *,
        selector: str = "",
        is_optional: bool = False,
        restarted: Callable[[str], None] = lambda _why: None,
        quiet_s: float = QUIET_S,
        watch_s: int = WATCH_S,
    ) -> None:
        self._api = api
        self.path = path
        self._sink = sink
        self._query = {"labelSelector": selector} if selector else {}
        self._is_optional = is_optional
        """Whether the operator can do without it: what can't be read then counts as empty."""
        self._restarted = restarted
        self._quiet_s = quiet_s
        self._watch_s = watch_s
        self.synced = asyncio.Event()
        self.heard_at = time.monotonic()
        self.trouble = ""
        """Why it can't be read at the moment, in words."""
        self._version = ""
        """Up to here everything was seen."""

    async def run(self) -> None:
        """For ever."""
        failures = 0
        while True:
            error = await self._follow()
            if error is None:
                failures = 0
                continue
            failures += 1
            after_s = error.after_s if isinstance(error, KubeRefused) else 0.0
            await asyncio.sleep(POLICY.wait_s(failures, chance(), retry_after_s=after_s) or 0.0)

    async def _follow(self) -> KubeRefused | KubeSilent | None:
        """List if need be, then watch until that ends. The result is what went wrong."""
        try:
            if not self._version:
                await self._list()
                self.synced.set()
            began = time.monotonic()
            await self._watch()
            self.trouble = ""
            if time.monotonic() - began < SHORTEST_WATCH_S:
                await asyncio.sleep(
                    SHORTEST_WATCH_S
                )  # the server ends watches that are too slow for it, or all of them
        except _Forgotten as gone:
            self._restarted("forgotten")
            self._version = ""
            LOG.info("%s: listing again: %s", self.path, gone)
            await asyncio.sleep(RELIST_JITTER_S * chance())
        except (KubeRefused, KubeSilent) as error:
            self._restarted("broken")
            if self._is_optional and isinstance(error, KubeRefused) and error.status in (403, 404):
                self.synced.set()
            self._say(error)
            return error
        return None

    async def _list(self) -> None:
        names: set[str] = set()
        version = ""
        async for items, page_version in self._api.pages(self.path, **self._query):
            version = page_version  # that of the last page counts
            for body in items:
                names.add(str(body["metadata"].get("uid") or ""))
                self._put(body)
            await asyncio.sleep(0)
        self._sink.listed(names, int(version) if version.isdigit() else 0)
        self.heard_at = time.monotonic()
        self.trouble = ""
        self._version = version

    async def _watch(self) -> None:
        seconds = int(self._watch_s * (1.0 + 0.3 * chance()))
        query = {
            **self._query,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        try:
            async for line in self._api.watch(self.path, query, quiet_s=self._quiet_s):
                if line:
                    self._take(json.loads(line))
        except KubeRefused as refused:
            if refused.status == 410:
                raise _Forgotten(refused.message) from None
            raise
        except ValueError as error:
            raise KubeSilent("a line of the watch is no JSON", self.path) from error

    def _take(self, event: JsonMapping) -> None:
        kind, body = event.get("type"), event.get("object") or {}
        self.heard_at = time.monotonic()
        if kind == "ERROR":
            if body.get("code") == 410 or body.get("reason") == "Expired":
                raise _Forgotten(str(body.get("message") or "the version is too old"))
            raise KubeSilent(str(body.get("message") or "the watch has ended with an error"), self.path)
        if kind in ("ADDED", "MODIFIED"):
            self._put(body)
        elif kind == "DELETED":
            self._sink.remove(body)
        self._version = str((body.get("metadata") or {}).get("resourceVersion") or self._version)

    def _put(self, body: JsonMapping) -> None:
        try:
            self._sink.put(body)
        except Exception:  # one object that can't be read must not hide all others
            name = (body.get("metadata") or {}).get("name")
            LOG.exception("%s: an object can't be read: %s", self.path, name)

    def _say(self, error: KubeRefused | KubeSilent) -> None:
        text = str(error)
        if text != self.trouble:
            LOG.warning("%s can't be read: %s", self.path, text)
        self.trouble = text
