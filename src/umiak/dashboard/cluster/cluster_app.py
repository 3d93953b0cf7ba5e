"""What the addresses of a cluster's page answer: those of `umiak.dashboard.app`, to each viewer what that one's own token may see. A program.

app = ClusterApp(gate, viewers, version="1.2.3")
answer = await app.handle(head)
"""

from __future__ import annotations

import asyncio
import time

from umiak.dashboard.cluster.viewers import bearer_of
from umiak.dashboard.http import gate as gates
from umiak.dashboard.http import statics
from umiak.dashboard.http.answers import StaticPages, events_answer, json_answer
from umiak.paddlejob.names import is_host_label
from umiak.web.messages import HttpAnswer, HttpRefusal, number_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.dashboard.cluster.viewers import Viewer, ViewerGate, Viewers
    from umiak.web.messages import RequestHead
    from umiak.web.server import Stream

MOST_ROWS = 500
MOST_COMPARED = 10
MOST_NAMESPACES = 50
PAGES = ("", "runs", "compare", "places")
NAMESPACES_HEADER = "x-umiak-dashboard-namespaces"
READ_EVERY_S = 2.0
TOLD_AGAIN_S = 10.0
"""Why a pod waits may change without its job, and how long a job runs does."""


class ClusterApp:
    """Answers requests that the gate has let in."""

    def __init__(self, gate: ViewerGate, viewers: Viewers, *, version: str) -> None:
        self.gate, self.viewers, self.version = gate, viewers, version
        self._statics = StaticPages()

    async def handle(self, head: RequestHead) -> HttpAnswer | Stream:
        """HttpRefusal if there is no such address, or the cluster does not know the viewer."""
        if head.path == gates.SESSION and head.method == "POST":
            return await self._enter(head)
        words = head.path.removesuffix(".json").strip("/").split("/")
        if words[0] == "static":
            return self._statics.answer(head, head.path.removeprefix("/static/"))
        if gates.wants_page(head) and words[0] in PAGES:
            return self._statics.answer(head, statics.PAGE)
        viewer = await self.viewers.of(head, self.gate.cookie_name)
        if words == ["events"]:
            return events_answer(viewer.feed, head)
        return json_answer(head, await self._data(viewer, words, head.query))

    async def _enter(self, head: RequestHead) -> HttpAnswer:
        namespaces = [each.strip() for each in head.headers.get(NAMESPACES_HEADER, "").split(",") if each.strip()]
        if len(namespaces) > MOST_NAMESPACES or not all(is_host_label(each) for each in namespaces):
            raise HttpRefusal(400, "not names of namespaces")
        token = head.headers.get(gates.TOKEN_HEADER, "") or bearer_of(head)
        session = await self.viewers.enter(token, tuple(namespaces))
        return HttpAnswer(status=204, headers={"Set-Cookie": self.gate.session_cookie(session)})

    async def _data(self, viewer: Viewer, words: list[str], query: dict[str, str]) -> JsonObject:
        match words:
            case [""] | ["runs"]:
                await viewer.runs.fresh()
                _check(viewer)
                limit = min(number_in(query, "limit", 100), MOST_ROWS)
                return viewer.runs.page(query, number_in(query, "offset", 0), limit)
            case ["runs", run_id, *part]:
                if viewer.runs.row(run_id) is None:
                    await viewer.runs.fresh()
                _check(viewer)
                return await viewer.runs.data(run_id, part, query)
            case ["compare"]:
                await viewer.runs.fresh()
                _check(viewer)
                return await self._compare(viewer, query.get("runs", ""))
            case ["places"]:
                return {"places": [], "problems": [], "now_s": 0.0}
            case ["about"]:
                return {"version": self.version, "allowed": [], "action_key": "", "is_cluster": True}
        raise HttpRefusal(404, "there is nothing at this address")

    async def _compare(self, viewer: Viewer, text: str) -> JsonObject:
        runs = []
        for run_id in dict.fromkeys(text.split(",")[:MOST_COMPARED]):
            if viewer.runs.row(run_id) is None:
                continue
            found = await viewer.runs.data(run_id, [], {})
            runs.append({"row": found["row"], "settings": found["settings"], "curves": {}, "events": []})
        names = sorted({name for run in runs for name in run["settings"]})
        different = [name for name in names if len({repr(run["settings"].get(name)) for run in runs}) > 1]
        return {"runs": runs, "different": different}


def _check(viewer: Viewer) -> None:
    if viewer.runs.is_stranger:
        raise HttpRefusal(401, "the cluster does not know this token any more: enter another one")


async def keep_up(viewers: Viewers) -> None:
    """For those who have a page open, ask the cluster again and again: jobs, and whether logs have grown."""
    told_at = time.monotonic()
    while True:
        await asyncio.sleep(READ_EVERY_S)
        is_old = time.monotonic() - told_at >= TOLD_AGAIN_S
        if is_old:
            told_at = time.monotonic()
        for viewer in viewers.all:
            if not viewer.feed.watchers:
                continue
            viewer.runs.begin()
            for run_id in viewer.feed.watched("run:") if is_old else ():
                viewer.feed.publish(f"run:{run_id}", {"what": "time"})
            for name in viewer.feed.watched("log:"):
                viewer.feed.publish(f"log:{name}", {})
