"""Events about jobs, as `kubectl describe` shows them:
equal ones are counted, and a job that fails all the time writes few. An adapter.

Recording never waits and never fails: an event that could not be written is not worth a job.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict

from umiak.core.shown import one_line
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.kube.times import text_of
from umiak.operator.controller.kinds import EVENTS, JOB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.kube.async_api import AsyncKubeApi
    from umiak.operator.values import RecordEvent
    from umiak.paddlejob.resource import PaddleJob

LOG = logging.getLogger("umiak.operator")
COMPONENT = "paddlejob-controller"
LONGEST_MESSAGE = 900
REPEAT_S = 30.0
"""The count of an event is written again no sooner than this."""
MOST_WAITING = 2000
MOST_KNOWN = 4000
BURST, REFILL_S = 25, 60.0
"""Events of one job: this many at once, then one in so many seconds."""


class _Known:
    def __init__(self, job: PaddleJob, event: RecordEvent, name: str) -> None:
        self.job, self.event, self.name = job, event, name
        self.first_s = self.last_s = int(time.time())
        self.count = 0
        self.written = 0
        self.written_at = 0.0
        self.is_queued = False


class EventRecorder:
    """Writes events in the background."""

    def __init__(self, api: AsyncKubeApi, host: str) -> None:
        self._api = api
        self._host = host
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._queue: asyncio.Queue[_Known] = asyncio.Queue()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def record(self, job: PaddleJob, event: RecordEvent) -> None:
        text = f"{job.uid}\0{event.reason}\0{event.message}"
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(job, event, f"{job.name}.{key}")
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        known.count += 1
        known.last_s = int(time.time())
        if known.is_queued or self._queue.qsize() >= MOST_WAITING:
            return
        is_soon = known.written and time.monotonic() - known.written_at < REPEAT_S
        if not is_soon and self._may(job.uid):
            known.is_queued = True
            self._queue.put_nowait(known)

    async def run(self) -> None:
        """For ever."""
        while True:
            known = await self._queue.get()
            known.is_queued = False
            try:
                await self._write(known)
            except (KubeRefused, KubeSilent) as error:
                LOG.debug("an event was not written: %s", error)

    async def flush(self) -> None:
        """At the end: what waits is written."""
        try:
            while not self._queue.empty():
                await self._write(self._queue.get_nowait())
        except (KubeRefused, KubeSilent):
            pass

    async def _write(self, known: _Known) -> None:
        namespace = known.job.namespace
        count, known.written_at = known.count, time.monotonic()
        if known.written:
            body = {"count": count, "lastTimestamp": text_of(known.last_s)}
            try:
                await self._api.patch(EVENTS.path(namespace, known.name), body)
                known.written = count
            except KubeRefused as refused:
                if refused.status != 404:  # events are deleted after an hour
                    raise
                known.written = 0
            else:
                return
        try:
            await self._api.create(EVENTS.collection(namespace), self._body(known, count))
        except KubeRefused as refused:
            if refused.status != 409:  # written before this process was started
                raise
            known.written = count
            await self._api.patch(EVENTS.path(namespace, known.name), {"lastTimestamp": text_of(known.last_s)})
        known.written = count

    def _body(self, known: _Known, count: int) -> dict[str, object]:
        job, event = known.job, known.event
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": known.name, "namespace": job.namespace},
            "involvedObject": {
                "apiVersion": job.api.value,
                "kind": JOB,
                "name": job.name,
                "namespace": job.namespace,
                "uid": job.uid,
                "resourceVersion": job.resource_version,
            },
            "reason": event.reason,
            "message": one_line(event.message, LONGEST_MESSAGE),
            "type": "Warning" if event.is_warning else "Normal",
            "source": {"component": COMPONENT, "host": self._host},
            "firstTimestamp": text_of(known.first_s),
            "lastTimestamp": text_of(known.last_s),
            "count": count,
        }

    def _may(self, uid: str) -> bool:
        now = time.monotonic()
        left, at = self._tokens.pop(uid, (float(BURST), now))
        left = min(float(BURST), left + (now - at) / REFILL_S)
        is_allowed = left >= 1.0
        self._tokens[uid] = (left - 1.0 if is_allowed else left, now)
        while len(self._tokens) > MOST_KNOWN:
            self._tokens.popitem(last=False)
        return is_allowed
