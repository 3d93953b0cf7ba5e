"""What each address answers: the page for browsers, the same as JSON for programs. A program.

    app = DashboardApp(index, gate)
    answer = await app.handle(head)

    /runs?q=&sort=&offset=&limit=   the list           /runs/ID           one run
    /runs/ID/curves  files  log     parts of it        /files/ID/KEY      a file, with ranges
    /runs/ID/earlier                the best earlier run of the same config
    /runs/ID/stack?worker=          where it is now    /runs/ID/servers   its parameter servers
    /compare?runs=ID,ID             several            /events?topics=    what changes, as it does
    /places                         where jobs run     /about             this dashboard
    /runs/ID/cancel                 by POST, where the gate lets it in

A browser that asks for something to show gets the page at each of them; with ``.json`` at the end of the path, or without asking for HTML, it is data.
"""

from __future__ import annotations

import asyncio
import time

from umiak.dashboard import filters
from umiak.dashboard.http import gate as gates
from umiak.dashboard.http import statics
from umiak.dashboard.http.answers import SharedAnswers, StaticPages, events_answer, json_answer
from umiak.dashboard.outside.places import PlaceWatch
from umiak.dashboard.outside.servers import ServerWatch
from umiak.dashboard.pages.run_pages import RunPages
from umiak.dashboard.rows import as_data
from umiak.web.messages import HttpAnswer, HttpRefusal, RequestHead, number_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.cluster.cluster_runs import ClusterRuns
    from umiak.dashboard.http.feed import Feed
    from umiak.dashboard.http.gate import Gate
    from umiak.dashboard.index import RunIndex
    from umiak.dashboard.outside.remote_runs import RemoteRuns
    from umiak.dashboard.rows import RunRow
    from umiak.web.server import FilePiece, Stream

MOST_ROWS = 500
MOST_COMPARED = 10
STALE_S = 5.0
"""Rows that are older are looked at again before they are given to somebody who asks."""
WAIT_S = 0.15
"""So long a request waits for the first look at many runs; then it gets what there is."""
FIRST_LOOK_S = 10.0
"""Who asks for one run waits so long for the first look at all directories, before it is said that there is none."""
PAGES = ("", "runs", "compare", "places")


class DashboardApp:
    """Answers requests that the gate has let in."""

    def __init__(
        self,
        index: RunIndex,
        gate: Gate,
        feed: Feed,
        *,
        version: str,
        servers: ServerWatch | None = None,
        places: PlaceWatch | None = None,
        cancel: Callable[[str], Sequence[str]] | None = None,
        cluster: ClusterRuns | None = None,
        remote: RemoteRuns | None = None,
    ) -> None:
        self.index, self.gate, self.feed, self.cluster = index, gate, feed, cluster
        self.places = places or PlaceWatch(None)
        self.runs = RunPages(index, self.fresh, self.first_look, servers or ServerWatch(), cancel, remote)
        self.version = version
        self._statics, self._shared = StaticPages(), SharedAnswers(feed)
        self._refreshing: asyncio.Task[bool] | None = None
        self.refreshed_at = -1e9
        self.troubles: dict[str, str] = {}
        """What has failed while looking again, by which look it was."""

    # ---- addresses

    async def handle(self, head: RequestHead) -> HttpAnswer | FilePiece | Stream:
        """HttpRefusal if there is no such address."""
        if head.path == gates.SESSION:
            return HttpAnswer(status=204, headers={"Set-Cookie": self.gate.session_cookie()})
        if gates.action_of(head.path) and head.method == "POST":
            return json_answer(head, await self.runs.cancel(head.path.split("/")[2]))
        words = head.path.removesuffix(".json").strip("/").split("/")
        if words[0] == "static":
            return self._statics.answer(head, head.path.removeprefix("/static/"))
        if gates.wants_page(head) and words[0] in PAGES:
            return self._statics.answer(head, statics.PAGE)
        match words:
            case [""] | ["runs"]:
                return await self._shared.answer(head, lambda: self._list(head))
            case ["runs", run_id, *part]:
                found = self.cluster if self.cluster is not None and self.cluster.row(run_id) else self.runs
                return await self._shared.answer(head, lambda: found.data(run_id, part, head.query))
            case ["compare"]:
                return await self._shared.answer(head, lambda: self._compare(head.query.get("runs", "")))
            case ["files", run_id, key]:
                return await self.runs.file(head, run_id, key)
            case ["events"]:
                return events_answer(self.feed, head)
            case ["places"]:
                return json_answer(head, await self._places())
            case ["about"]:
                return json_answer(head, self._about())
        raise HttpRefusal(404, "there is nothing at this address")

    # ---- the list

    async def _list(self, head: RequestHead) -> JsonObject:
        await self.fresh()
        query, sort = head.query.get("q", ""), head.query.get("sort", filters.DEFAULT_SORT)
        offset, limit = number_in(head.query, "offset", 0), number_in(head.query, "limit", 100)
        known = self.rows
        rows = filters.chosen(known, query[:1000], sort)
        shown = rows[offset : offset + min(limit, MOST_ROWS)]
        return {
            "version": self.index.version,
            "total": len(rows),
            "all": len(known),
            "expected": self.index.expected + len(known) - len(self.index.rows),
            "is_complete": self.index.is_complete,
            "offset": offset,
            "now_s": time.time(),
            "problems": self.problems(),
            "runs": [as_data(row) for row in shown],
        }

    @property
    def rows(self) -> list[RunRow]:
        """Of this machine, and of the cluster of a kubeconfig."""
        return self.index.rows if self.cluster is None else [*self.index.rows, *self.cluster.rows]

    def problems(self) -> list[str]:
        """What keeps the list from being whole."""
        found = [f"{path}: {why}" for path, why in self.index.search.problems.items()]
        if self.index.search.is_cut:
            found.append("there are too many directories: name the ones with runs when you start it")
        found += [self.index.problem] if self.index.problem else []
        found += dict.fromkeys(self.troubles.values())
        return found if self.cluster is None else [*found, *self.cluster.problems(time.time())]

    def _about(self) -> JsonObject:
        return {
            "version": self.version,
            "directories": list(self.index.search.roots),
            "runs": len(self.index.rows),
            "is_complete": self.index.is_complete,
            "watchers": self.feed.watchers,
            "problems": self.problems(),
            "allowed": sorted(self.gate.settings.actions),
            "action_key": self.gate.action_key if self.gate.settings.actions else "",
        }

    async def fresh(self) -> None:
        """Rows that are old are read again first; the very first time nobody waits for all of them. Nobody ever waits for a cluster."""
        if self.cluster is not None:
            self.cluster.begin()
        if time.monotonic() - self.refreshed_at < STALE_S and self.index.is_complete:
            return
        task = self.refresh()
        try:
            await asyncio.wait_for(asyncio.shield(task), 2.0 if self.index.is_complete else WAIT_S)
        except (TimeoutError, asyncio.TimeoutError):
            pass

    async def first_look(self) -> None:
        """What is not known yet may come with the first look."""
        if not self.index.is_complete:
            await asyncio.wait({self.refresh()}, timeout=FIRST_LOOK_S)

    def refresh(self) -> asyncio.Task[bool]:
        """Look at all directories in a thread; who asks meanwhile waits for the same look."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())
        return self._refreshing

    async def _refresh(self) -> bool:
        try:
            return await asyncio.to_thread(self.index.refresh)
        finally:
            self.refreshed_at = time.monotonic()

    # ---- several runs, and places

    async def _compare(self, text: str) -> JsonObject:
        runs = []
        for run_id in dict.fromkeys(text.split(",")[:MOST_COMPARED]):
            if self.cluster is not None and self.cluster.row(run_id) is not None:
                found = await self.cluster.data(run_id, [], {})
                runs.append({"row": found["row"], "settings": found["settings"], "curves": {}, "events": []})
                continue
            if self.index.row(run_id) is None:
                continue
            watched = await self.runs.updated(run_id)
            row = await self.runs.row(run_id)
            settings = await asyncio.to_thread(watched.settings)
            runs.append({"row": as_data(row), "settings": settings, **watched.curves_data()})
        names = sorted({name for run in runs for name in run["settings"]})
        different = [name for name in names if len({repr(run["settings"].get(name)) for run in runs}) > 1]
        return {"runs": runs, "different": different}

    async def _places(self) -> JsonObject:
        """What is known of them; those of which it is old are asked now, and nobody waits for them."""
        found = self.places.data(time.time())
        self.places.ask_stale()
        return found
