"""What running jobs say about themselves, from the end of their first workers' logs. An adapter; asyncio.

Only jobs that ask for it are read (`paddlejob.progress`), each at most once in 30 seconds and few at a time;
a log that can't be read is tried again as late. Pods need no rights of their own for it, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
import time

from umiak.paddlejob.names import pod_name
from umiak.paddlejob.progress import is_asked_for, read
from umiak.paddlejob.resource import JobPhase, PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from umiak.operator.controller.cache import JobKey
    from umiak.paddlejob.resource import PaddleJob

EVERY_S = 30.0
AT_A_TIME = 4
LINES = 60

Progress = tuple[tuple[str, str], ...]


class ProgressReader:
    """Reads logs in the background."""

    def __init__(
        self, tail: Callable[[PaddleJob, str, int], Awaitable[str | None]], changed: Callable[[JobKey], None]
    ) -> None:
        self._tail = tail
        self._changed = changed
        self._places = asyncio.Semaphore(AT_A_TIME)
        self._next: dict[JobKey, float] = {}
        self._said: dict[JobKey, tuple[str, int, Progress]] = {}
        """By job: its UID and attempt, and what it said then."""
        self._tasks: set[asyncio.Task[None]] = set()

    def said(self, key: JobKey, job: PaddleJob) -> Progress:
        """What it said last in this attempt."""
        uid, attempt, found = self._said.get(key, ("", 0, ()))
        return found if (uid, attempt) == (job.uid, job.report.attempt) else ()

    def look(self, key: JobKey, job: PaddleJob) -> float | None:
        """Begin to read if it is time to. The result is when to ask again; None: not of this job."""
        if job.report.phase is not JobPhase.RUNNING or not is_asked_for(job):
            return None
        left_s = self._next.get(key, 0.0) - time.monotonic()
        if left_s > 0:
            return left_s
        self._next[key] = time.monotonic() + EVERY_S
        task = asyncio.ensure_future(self._read(key, job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return EVERY_S

    def forget(self, key: JobKey) -> None:
        self._next.pop(key, None)
        self._said.pop(key, None)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _read(self, key: JobKey, job: PaddleJob) -> None:
        async with self._places:
            text = await self._tail(job, pod_name(job.name, PodRole.WORKER, 0, job.api), LINES)
        progress = read(text or "")
        if progress and progress != self.said(key, job):
            self._said[key] = (job.uid, job.report.attempt, progress)
            self._changed(key)
