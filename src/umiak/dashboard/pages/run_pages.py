"""The addresses of one run: how it is, its curves, files, logs, servers and stacks; and what may be done to it. A program.

pages = RunPages(index, fresh, first_look, servers)
await pages.data("ctr-3f", ["log"], {"find": "error"})
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import quote

from umiak.dashboard import log_pages, run_files
from umiak.dashboard.details import RunDetails, WatchedRun
from umiak.dashboard.files import RunFile
from umiak.dashboard.log_pages import LineFilter
from umiak.dashboard.outside import cancelling
from umiak.dashboard.outside.remote_runs import PlaceTurns, RemoteRuns
from umiak.dashboard.outside.remote_view import node_look, remote_log
from umiak.dashboard.outside.servers import ServerWatch
from umiak.dashboard.rows import as_data
from umiak.dashboard.trained.configs import EarlierRuns
from umiak.dashboard.workers import processes
from umiak.schema.metric_names import is_less_better
from umiak.web.messages import HttpAnswer, HttpRefusal, RequestHead, byte_range, number_in
from umiak.web.server import FilePiece

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.index import RunIndex
    from umiak.dashboard.rows import RunRow
    from umiak.dashboard.run_files import ListedFile


class RunPages:
    """Answers what is asked about one run."""

    def __init__(
        self,
        index: RunIndex,
        fresh: Callable[[], Awaitable[None]],
        first_look: Callable[[], Awaitable[None]],
        servers: ServerWatch,
        cancel_command: Callable[[str], Sequence[str]] | None = None,
        remote: RemoteRuns | None = None,
    ) -> None:
        self.servers = servers
        self.remote = remote or RemoteRuns(None, PlaceTurns())
        self._index, self._cancel_command = index, cancel_command
        self._fresh, self._first_look = fresh, first_look
        self._details = RunDetails()
        self._earlier_runs = EarlierRuns()
        self._stack_lock = asyncio.Lock()

    async def data(self, run_id: str, part: list[str], query: dict[str, str]) -> JsonObject:
        match part:
            case []:
                return await self._run(run_id)
            case ["curves"]:
                watched = await self.updated(run_id)
                return watched.curves_data()
            case ["earlier"]:
                return await self._earlier(run_id)
            case ["files"]:
                return {"files": _shown(await self._files(run_id))}
            case ["servers"]:
                return await self._servers(run_id)
            case ["stack"]:
                return await self._stack(run_id, query.get("launcher", ""), query.get("worker", ""))
            case ["log"]:
                return await self._log(run_id, query)
        raise HttpRefusal(404, "there is nothing at this address")

    async def row(self, run_id: str) -> RunRow:
        await self._fresh()
        row = self._index.row(run_id)
        if row is None:
            await self._first_look()
            row = self._index.row(run_id)
        if row is None:
            raise HttpRefusal(404, "there is no such run")
        return row

    async def updated(self, run_id: str) -> WatchedRun:
        await self.row(run_id)
        watched = self.watched(run_id)
        if watched is None:
            raise HttpRefusal(404, "there is no such run")
        await asyncio.to_thread(watched.update)
        return watched

    def watched(self, run_id: str) -> WatchedRun | None:
        """What is kept of a run that somebody looks at."""
        source = self._index.source(run_id)
        return None if source is None else self._details.of(run_id, source)

    async def _run(self, run_id: str) -> JsonObject:
        watched = await self.updated(run_id)
        row, listed, now_s = await self.row(run_id), await self._files(run_id), time.time()
        waits = self.servers.history(run_id).waits_at(now_s) if watched.has_servers else {}
        is_over = row.ended_s is not None
        looks = await asyncio.to_thread(watched.looks, listed.values(), waits, now_s, is_over=is_over)
        data = {**watched.data(row, now_s, looks), "files": _shown(listed), "now_s": now_s}
        return data if not self.remote.knows(run_id) else self._elsewhere(run_id, data)

    def _elsewhere(self, run_id: str, data: JsonObject) -> JsonObject:
        """With what its place has said; nobody waits for that."""
        if data["row"]["ended_s"] is None:
            self.remote.begin_run(run_id)
        told = self.remote.told(run_id, data["now_s"])
        nodes = [node_look(each, number, data["row"]) for number, each in enumerate(told.pop("nodes"))]
        workers = data["workers"] or [{"launcher": "", "workers": nodes}]
        return {**data, "workers": workers, "remote": told}

    async def _earlier(self, run_id: str) -> JsonObject:
        """The best earlier run of the same config: its curves, and which of its settings were others."""
        watched, row = await self.updated(run_id), await self.row(run_id)
        best, count = await asyncio.to_thread(self._earlier_runs.best, self._index.rows, self._index.source, row)
        found: JsonObject = {"count": count, "metric": row.metric, "is_less_better": is_less_better(row.metric)}
        if best is None:
            return {**found, "row": None, "curves": {}, "different": {}}
        other = await self.updated(best.id)
        ours, theirs = [(await asyncio.to_thread(each.config) or {}).get("settings", {}) for each in (watched, other)]
        names = sorted({*ours, *theirs})
        different = {name: [theirs.get(name), ours.get(name)] for name in names if ours.get(name) != theirs.get(name)}
        return {**found, "row": as_data(best), "curves": other.curves_data()["curves"], "different": different}

    async def cancel(self, run_id: str) -> JsonObject:
        """The gate has seen to it that this may be asked."""
        row, source = await self.row(run_id), self._index.source(run_id)
        if row.ended_s is not None or source is None:
            raise HttpRefusal(409, f"{row.name} is over: {row.state}")
        try:
            if source.submitted is not None:
                return {"text": await cancelling.cancel_submitted(self._cancel_command, run_id)}
            return {"text": await asyncio.to_thread(cancelling.stop, source)}
        except cancelling.CannotCancel as error:
            raise HttpRefusal(409, str(error)) from None

    async def _servers(self, run_id: str) -> JsonObject:
        """As `umiak ps status` has them, and what the rates have been since somebody looks."""
        watched = await self.updated(run_id)
        if not watched.has_servers:
            return {"has_servers": False}
        history = await self.servers.look(run_id, await asyncio.to_thread(watched.pids))
        saved = await asyncio.to_thread(watched.saved)
        return {"has_servers": True, **history.data(time.time()), **saved, "now_s": time.time()}

    async def _stack(self, run_id: str, launcher: str, worker: str) -> JsonObject:
        """Where a worker is in its program. One is looked at at a time."""
        watched = await self.updated(run_id)
        looks = await asyncio.to_thread(watched.looks, (), {}, time.time())
        found = [each for name, workers in looks for each in workers if (name, each.key) == (launcher, worker)]
        if not found:
            raise HttpRefusal(404, "the run has no such worker")
        running = found[0].process
        if running is None:
            return {"text": "", "why": "it does not run on this machine", "at_s": time.time()}
        async with self._stack_lock:
            stack = await asyncio.to_thread(processes.stack_of, running)
        return {"text": stack.text, "why": stack.why, "at_s": time.time(), "process": running.data}

    async def _files(self, run_id: str) -> dict[str, ListedFile]:
        await self.row(run_id)
        source = self._index.source(run_id)
        return {} if source is None else await asyncio.to_thread(run_files.files_of, source)

    async def log_size(self, run_id: str, key: str) -> int | None:
        """How long a log is, or all of a run; None: there is no such file."""
        source = self._index.source(run_id)
        if source is None:
            return None
        listed = await asyncio.to_thread(run_files.files_of, source)
        if key:
            return listed[key].size_bytes if key in listed else None
        return sum(each.size_bytes for each in listed.values() if each.is_current_log)

    async def _log(self, run_id: str, query: dict[str, str]) -> JsonObject:
        listed = await self._files(run_id)
        words = tuple(word for word in query.get("find", "")[:500].split("|") if word.strip())
        wanted = LineFilter(words=words, level=query.get("level", ""))
        key = query.get("file", "")
        try:
            if not key and self.remote.knows(run_id) and not any(each.is_current_log for each in listed.values()):
                self.remote.begin_run(run_id)
                return remote_log(self.remote.lines(run_id), wanted, query)
            if not key:
                logs = [each for each in listed.values() if each.is_current_log and _is_of(each, query)]
                sources = [(each.name, each.path) for each in logs]
                lines = await asyncio.to_thread(log_pages.merged, sources, wanted)
                left_out = max(0, len(sources) - log_pages.MOST_MERGED)
                return {"lines": [line.data for line in lines], "files": len(sources), "left_out": left_out}
            file = listed.get(key)
            if file is None:
                raise HttpRefusal(404, "the run has no such file")
            if query.get("error"):
                page = await asyncio.to_thread(log_pages.first_error, file.path, after=number_in(query, "after", 0))
            elif "after" in query:
                page = await asyncio.to_thread(log_pages.page, file.path, after=number_in(query, "after", 0))
            else:
                before = number_in(query, "before", 0) if "before" in query else None
                page = await asyncio.to_thread(log_pages.matching, file.path, wanted, before=before)
        except OSError as error:
            raise HttpRefusal(404, f"the file can't be read: {error.strerror}") from None
        return {"name": file.name, **page.data}

    async def file(self, head: RequestHead, run_id: str, key: str) -> FilePiece:
        file = (await self._files(run_id)).get(key)
        if file is None:
            raise HttpRefusal(404, "the run has no such file")
        try:
            opened = await asyncio.to_thread(RunFile.open, file.path)
        except OSError as error:
            raise HttpRefusal(404, f"the file can't be read: {error.strerror}") from None
        try:
            wanted = byte_range(head.headers.get("range", ""), opened.size)
        except HttpRefusal:
            opened.close()
            raise
        begin, end = wanted or (0, opened.size)
        name = quote(file.name.replace("/", "-"), safe="")
        headers = {"Accept-Ranges": "bytes", "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        if wanted:
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{opened.size}"
        # As an image in a page it runs nothing and loads nothing; by itself it is only ever saved.
        kind = "image/svg+xml" if file.kind == "plot" else "application/octet-stream"
        answer = HttpAnswer(status=206 if wanted else 200, kind=kind, headers=headers)
        return FilePiece(answer=answer, file=opened, begin=begin, end=end)


def _shown(listed: dict[str, ListedFile]) -> list[JsonObject]:
    return [each.data for each in listed.values() if not each.is_empty_mark]


def _is_of(file: ListedFile, query: dict[str, str]) -> bool:
    """Whether a merged log is to have this one."""
    role, number, launcher = query.get("role", ""), query.get("number", ""), query.get("launcher", "")
    return (
        (not role or file.role == role)
        and (not number or str(file.number) == number)
        and (not launcher or file.launcher == launcher)
    )
