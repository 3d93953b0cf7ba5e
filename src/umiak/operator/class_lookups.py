"""Objects of the whole cluster that jobs in queues refer to: flavors, classes of priority. An adapter; asyncio.

They are read one by one when a decision needs them, and again after a while:
an operator needs no right to list or watch them. A job is looked at again when what it waits for was read.
"""

from __future__ import annotations

import asyncio
import time

from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.operator.objects.workloads import found_in
from umiak.operator.values import FLAVOR, KUEUE_GROUP, POD_PRIORITY, WORKLOAD_PRIORITY, FoundClass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from umiak.kube.async_api import AsyncKubeApi
    from umiak.operator.values import ClassLookup

JobKey = tuple[str, str, str]
"""Group of its API, namespace, name: as the cache has it."""
FRESH_S = 60.0
"""How long what was found counts."""
AGAIN_S = 5.0
"""How soon something is asked for again that was not there."""
PLURALS = {FLAVOR: "resourceflavors", WORKLOAD_PRIORITY: "workloadpriorityclasses"}


class ClusterLookups:
    """Reads in the background what is asked for."""

    def __init__(self, api: AsyncKubeApi, version: Callable[[], str | None], changed: Callable[[JobKey], None]) -> None:
        self._api = api
        self._version = version
        """Of Kueue's API, as this cluster serves it."""
        self._changed = changed
        self._known: dict[ClassLookup, tuple[float, FoundClass]] = {}
        self._waiting: dict[ClassLookup, set[JobKey]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def known(self, key: JobKey, wanted: Iterable[ClassLookup]) -> tuple[FoundClass, ...]:
        """What is known of it, and begin to read what is not, or not any more."""
        found = []
        now = time.monotonic()
        for lookup in wanted:
            until, known = self._known.get(lookup, (0.0, None))
            if known is not None:
                found.append(known)
            if now >= until:
                self._read_for(key, lookup)
        return tuple(found)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _read_for(self, key: JobKey, lookup: ClassLookup) -> None:
        if lookup in self._waiting:
            self._waiting[lookup].add(key)
            return
        self._waiting[lookup] = {key}
        task = asyncio.ensure_future(self._read(lookup))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, lookup: ClassLookup) -> None:
        fresh_s = FRESH_S
        try:
            name = found_in(lookup, await self._api.get(self._path(lookup)))
        except (KubeRefused, KubeSilent) as error:
            is_missing = isinstance(error, KubeRefused) and error.status == 404
            name = FoundClass(lookup=lookup, trouble="there is none of this name" if is_missing else str(error))
            fresh_s = AGAIN_S
        before = self._known.get(lookup)
        self._known[lookup] = (time.monotonic() + fresh_s, name)
        keys = self._waiting.pop(lookup)
        if before is None or before[1] != name:
            for key in keys:
                self._changed(key)

    def _path(self, lookup: ClassLookup) -> str:
        if lookup.kind == POD_PRIORITY:
            return f"/apis/scheduling.k8s.io/v1/priorityclasses/{lookup.name}"
        return f"/apis/{KUEUE_GROUP}/{self._version()}/{PLURALS[lookup.kind]}/{lookup.name}"
