"""The PaddleJobs that one person may see, kept as rows for as long as somebody looks. A program.

    runs = ClusterRuns(source, publish)
    await runs.fresh()                    asks if what is known is old; waits for a moment
    runs.rows, runs.problems(now_s)       at once, also while the cluster hangs
    await runs.data("training.ctr", ["log"], query)

A cluster is asked for its list once at a time, in a thread of its own; while it does not answer, what was known is shown, with since when.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from umiak.dashboard import filters
from umiak.dashboard.cluster import job_view
from umiak.dashboard.cluster.source import Stranger
from umiak.dashboard.log_pages import LineFilter, LogLineAt, shown
from umiak.dashboard.rows import as_data
from umiak.kube import times
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.paddlejob.resource import JobApi
from umiak.web.messages import HttpRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.cluster.job_view import ClusterReader, ContainerLog
    from umiak.dashboard.rows import RunRow

    T = TypeVar("T")

STALE_S = 3.0
WAIT_S = 2.0
SLOW_S = 2.0
"""A cluster that has not answered for so long is said to hang."""
MOST_MERGED = 16
MERGED_LINES = 200
MOST_LINES = 500
MOST_IN_EVENT = 50
THREADS = 16
_POOL = ThreadPoolExecutor(THREADS, thread_name_prefix="umiak-cluster")


class ClusterRuns:
    """Of one person and one event loop."""

    def __init__(
        self,
        source: ClusterReader,
        publish: Callable[[str, JsonObject], None] = lambda _topic, _data: None,
        *,
        place: str = "cluster",
    ) -> None:
        self._source, self._publish, self._place = source, publish, place
        self._known: dict[str, tuple[str, RunRow, JobApi, str]] = {}
        """By id: the version, the row, and where it is."""
        self._refusals: list[str] = []
        self._task: asyncio.Task[None] | None = None
        self._asking_since_s: float | None = None
        self._done_at = -1e9
        self.version = 0
        self.is_complete = False
        self.is_stranger = False
        """The cluster does not know this person, or not any more."""

    @property
    def rows(self) -> list[RunRow]:
        return [row for _, row, _, _ in self._known.values()]

    def row(self, run_id: str) -> RunRow | None:
        known = self._known.get(run_id)
        return known[1] if known else None

    def problems(self, now_s: float) -> list[str]:
        """What keeps the list from being whole, or new."""
        found = list(self._refusals)
        if self._asking_since_s is not None and now_s - self._asking_since_s > SLOW_S:
            found.append(f"the cluster has not answered for {now_s - self._asking_since_s:.0f} s")
        return found

    async def check(self, call: Callable[[], None]) -> None:
        """Something to be asked first, in a thread of this one's."""
        await _in_thread(call)

    # ---- the list

    def begin(self) -> asyncio.Task[None] | None:
        """Ask, without waiting. None: it was asked a moment ago."""
        if self._task is not None and not self._task.done():
            return self._task
        if time.monotonic() - self._done_at < STALE_S:
            return None
        self._asking_since_s = time.time()
        self._task = asyncio.create_task(self._refresh())
        return self._task

    async def fresh(self) -> None:
        task = self.begin()
        if task is not None:
            await asyncio.wait({task}, timeout=WAIT_S)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._source.close()

    async def _refresh(self) -> None:
        try:
            bodies, refused = await _in_thread(self._source.bodies)
            self.is_complete, self._refusals = True, refused
            self._take(bodies)
        except Stranger as error:
            self.is_stranger, self._refusals = True, [str(error)]
        except (KubeRefused, KubeSilent) as error:
            self._refusals = [_told(error)]
        finally:
            self._asking_since_s, self._done_at = None, time.monotonic()

    def _take(self, bodies: Sequence[tuple[JobApi, JsonObject]]) -> None:
        known: dict[str, tuple[str, RunRow, JobApi, str]] = {}
        for api, body in bodies:
            metadata = body.get("metadata") or {}
            namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
            run_id, version = job_view.id_of(namespace, name, api), str(metadata.get("resourceVersion") or "")
            before = self._known.get(run_id)
            is_same = before is not None and before[0] == version != ""
            known[run_id] = (
                before
                if is_same and before is not None
                else (version, job_view.row_of(body, api, self._place), api, namespace)
            )
        changed = [run_id for run_id, each in known.items() if self._known.get(run_id) != each]
        gone = set(self._known) - set(known)
        self._known = known
        if changed or gone:
            self._tell(changed, gone)

    def _tell(self, changed: list[str], gone: set[str]) -> None:
        self.version += 1
        data: JsonObject = {"version": self.version, "count": len(changed) + len(gone)}
        if len(changed) <= MOST_IN_EVENT:
            data["rows"] = [as_data(self._known[each][1]) for each in changed]
        self._publish("runs", data)
        for run_id in changed:
            self._publish(f"run:{run_id}", {"what": "row"})

    def page(self, query: dict[str, str], offset: int, limit: int) -> JsonObject:
        """The list as `/runs` has it, of these jobs alone."""
        rows = filters.chosen(self.rows, query.get("q", "")[:1000], query.get("sort", filters.DEFAULT_SORT))
        now_s = time.time()
        return {
            "version": self.version,
            "total": len(rows),
            "all": len(self._known),
            "expected": len(self._known),
            "is_complete": self.is_complete,
            "offset": offset,
            "now_s": now_s,
            "problems": self.problems(now_s),
            "runs": [as_data(row) for row in rows[offset : offset + limit]],
        }

    # ---- one job

    async def data(self, run_id: str, part: list[str], query: dict[str, str]) -> JsonObject:
        """HttpRefusal if there is no such job, or this person may not see it."""
        known = self._known.get(run_id)
        if known is None:
            raise HttpRefusal(404, "there is no such run")
        _, row, api, namespace = known
        if part not in ([], ["curves"], ["files"], ["log"]):
            raise HttpRefusal(404, "a PaddleJob has none of these")
        if part == ["curves"]:
            return {"position": "", "curves": {}, "events": [], "latest": {}, "bad_lines": 0, "left_out": 0}
        try:
            body, pods, refused = await _in_thread(lambda: self._source.job(namespace, row.name, api))
            if part == ["log"]:
                return await self._log(namespace, job_view.log_files(pods), query)
        except Stranger:
            self.is_stranger = True
            raise HttpRefusal(401, "the cluster does not know you any more") from None
        except KubeRefused as error:
            raise HttpRefusal(error.status if error.status in (403, 404) else 503, _told(error)) from None
        except KubeSilent as error:
            raise HttpRefusal(503, _told(error)) from None
        row = job_view.row_of(body, api, self._place)
        found = job_view.run_of(row, body, pods, api, time.time())
        if refused:
            found["hint"] = f"Its pods can't be seen: {refused}"
        return {"files": found["files"]} if part == ["files"] else found

    async def settings(self, run_id: str) -> JsonObject:
        """What a job was told."""
        return dict((await self.data(run_id, [], {}))["settings"])

    async def _log(self, namespace: str, files: list[ContainerLog], query: dict[str, str]) -> JsonObject:
        words = tuple(word for word in query.get("find", "")[:500].split("|") if word.strip())
        wanted = LineFilter(words=words, level="error" if query.get("error") else query.get("level", ""))
        key = query.get("file", "")
        if key:
            log = next((each for each in files if each.key == key), None)
            if log is None:
                raise HttpRefusal(404, "the job has no such log")
            lines = await self._lines(namespace, log, wanted)
            if query.get("error"):
                lines = lines[:1]
            end = int(lines[-1]["at"]) if lines else 0
            return {"name": log.name, "lines": lines, "begin": 0, "end": end, "size": end, "more": False}
        current = [each for each in files if not each.is_previous]
        merged: list[JsonObject] = []
        for log in current[:MOST_MERGED]:
            lines = await self._lines(namespace, log, wanted, MERGED_LINES)
            merged += [{**line, "source": log.name} for line in lines]
        merged.sort(key=lambda line: float(line["time_s"] or 0.0))
        left_out = max(0, len(current) - MOST_MERGED)
        return {"lines": merged[-MOST_LINES:], "files": len(current), "left_out": left_out}

    async def _lines(
        self, namespace: str, log: ContainerLog, wanted: LineFilter, most: int | None = None
    ) -> list[JsonObject]:
        """With the time of each as its place: that is the same however much is asked for."""
        raw = await _in_thread(lambda: self._source.lines(namespace, log, *([most] if most else [])))
        found: list[JsonObject] = []
        at = 0
        for each in raw:
            stamp, _, text = each.rstrip(b"\r\n").partition(b" ")
            try:
                time_ns = times.nanoseconds_of(stamp.decode())
            except ValueError:
                time_ns, text = at * 1000, each.rstrip(b"\r\n")
            at = max(at + 1, time_ns // 1000)
            if wanted.is_all or next(wanted.lines_in(text), None) is not None:
                found.append(LogLineAt(offset=at, text=shown(text), time_s=time_ns / 1e9 or None).data)
        return found


async def _in_thread(call: Callable[[], T]) -> T:
    """In threads of their own: a cluster that hangs takes none from those who read files."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, call)


def _told(error: KubeRefused | KubeSilent) -> str:
    if isinstance(error, KubeSilent):
        return f"the cluster does not answer: {error.why}"
    return f"the cluster has refused: {error.message or error.reason} ({error.status})"
