"""Follows the logs of all pods of a run at once, each over a connection of its own
that is taken up again when it breaks. An adapter.

with LogStreams(connect, collection, wanted) as streams:
    streams.look(pods)                  begins with pods that were not there before
    for line in streams.lines(wait_s=1): ...
    streams.is_done                     every pod that was seen is over, and every line was given
"""

from __future__ import annotations

import queue
import threading

from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.submit.backend import OURSELVES, LogLine
from umiak.submit.backends.kubernetes import state
from umiak.submit.backends.kubernetes.log_lines import PodSource, Resumed, SeenLines, stamped
from umiak.submit.backends.kubernetes.names import CONTAINER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umiak.core.json_types import JsonMapping
    from umiak.kube.api import KubeApi
    from umiak.submit.backend import LogsWanted

AGAIN_S = 0.2
"""Before a stream that broke is taken up again."""
LEAST_TAIL, TAIL_FACTOR = 1_000, 100
"""Of a tail of so many lines of each worker, so many of a pod are read: at least, and for each line."""
MOST_WAITING = 10_000
"""Lines that wait for a slow reader: then the streams wait as well."""


class LogStreams:
    """The logs of one run."""

    def __init__(self, connect: Callable[[], KubeApi], collection: str, wanted: LogsWanted) -> None:
        self._connect = connect
        self._collection = collection
        self._wanted = wanted
        self._given: queue.Queue[LogLine | BaseException | None] = queue.Queue(MOST_WAITING)
        self._known: set[str] = set()
        self._running = 0
        self._stop = threading.Event()

    def __enter__(self) -> LogStreams:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    @property
    def is_done(self) -> bool:
        return self._running == 0 and self._given.empty()

    def look(self, pods: tuple[JsonMapping, ...]) -> None:
        """Begin with what is new and has a log."""
        for pod in pods:
            metadata = pod["metadata"]
            if metadata["uid"] in self._known or not state.has_begun(pod):
                continue
            self._known.add(metadata["uid"])
            self._running += 1
            source = source_of(pod)
            reader = PodLog(self._connect(), f"{self._collection}/{source.pod}", source, self._wanted)
            threading.Thread(target=self._run, args=(reader,), daemon=True).start()

    def lines(self, wait_s: float) -> Iterator[LogLine]:
        """What came, waiting for it at most so long."""
        try:
            entry = self._given.get(timeout=wait_s)
            while True:
                if entry is None:
                    self._running -= 1
                elif isinstance(entry, BaseException):
                    raise entry
                else:
                    yield entry
                entry = self._given.get_nowait()
        except queue.Empty:
            return

    def _run(self, reader: PodLog) -> None:
        try:
            for line in reader.follow(self._stop):
                if not self._put(line):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - told where the lines are read
            self._put(error)
        finally:
            reader.close()

    def _put(self, item: LogLine | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._given.put(item, timeout=1.0)
            except queue.Full:
                continue
            return True
        return False


def source_of(pod: JsonMapping) -> PodSource:
    """Who writes the log of a pod."""
    own = state.node_of(pod)
    return PodSource(
        pod=own.name,
        made=str(pod["metadata"].get("creationTimestamp")),
        role=own.role,
        rank=own.rank,
        began_at=state.began_at(pod),
    )


class PodLog:
    """The log of one pod, every line once."""

    def __init__(self, api: KubeApi, path: str, source: PodSource, wanted: LogsWanted) -> None:
        self._api, self._path = api, path
        self._seen = SeenLines()
        self._source, self._wanted = source, wanted
        self._resumed = Resumed(source, wanted)

    def close(self) -> None:
        self._api.close()

    def follow(self, stop: threading.Event) -> Iterator[LogLine]:
        """Until the container is over and everything it wrote was read."""
        while not stop.is_set():
            is_over = False
            try:
                # Asked before the log is read: what was written before the end is then read as well.
                is_over = self._is_over()
                yield from self._once(follow=not is_over)
            except KubeSilent:
                is_over = False
            except KubeRefused as refused:
                if refused.status == 404:
                    return
                is_over = False
            if is_over:
                return
            stop.wait(AGAIN_S)

    def read(self) -> Iterator[LogLine]:
        """What there is now. Of a tail, so much of the pod's log that its workers have their last lines in it;
        if few are asked for, and have written less than the others, all of it.
        """
        try:
            if self._wanted.tail is None:
                yield from self._once(follow=False)
                return
            most = max(LEAST_TAIL, TAIL_FACTOR * self._wanted.tail)
            lines = list(self._once(follow=False, most=most))
            has_asked = self._wanted.role is not None or self._wanted.rank is not None
            is_short = self._count >= most and len(lines) < self._wanted.tail
            if has_asked and is_short and (lines or self._resumed.may_have_asked):
                self._seen, self._resumed = SeenLines(), Resumed(self._source, self._wanted)
                lines = list(self._once(follow=False))
            yield from lines
        except KubeRefused as refused:
            # A pod that has not begun, or is gone meanwhile, has no log.
            if refused.status not in (400, 404):
                raise

    def _once(self, *, follow: bool, most: int | None = None) -> Iterator[LogLine]:
        query = {"container": CONTAINER, "timestamps": "true"}
        if since := self._seen.since() or self._resumed.start():
            query["sinceTime"] = since
        if follow:
            query["follow"] = "true"
        if most is not None:
            query["tailLines"] = str(most)
        is_whole = not since and most is None
        self._count = 0
        for raw in self._api.stream(f"{self._path}/log", query):
            line = stamped(raw)
            self._count += 1
            if self._count == 1 and is_whole and (note := self._source.dropped_before(line)):
                yield LogLine(source=OURSELVES, text=note, role=self._source.role, rank=self._source.rank)
            if self._seen.is_new(line) and (resumed := self._resumed.line(line)) is not None:
                yield resumed

    def _is_over(self) -> bool:
        try:
            return state.is_over(self._api.get(self._path))
        except KubeRefused as refused:
            if refused.status == 404:
                return True
            raise
