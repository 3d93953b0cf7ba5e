"""The dashboard from its start to its end: the index, the server, and looking again while somebody watches. A program.

    run(DashboardOptions(directories=(".",)), GivenSources(submitted=...), on_ready=print)

While no page is open, nothing is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import signal
import time

from umiak.core.problem import UmiakError
from umiak.dashboard.app import DashboardApp
from umiak.dashboard.http.feed import Feed
from umiak.dashboard.http.gate import Gate, GateSettings
from umiak.dashboard.index import RunIndex
from umiak.dashboard.outside.given import GivenSources
from umiak.dashboard.outside.places import PlaceWatch
from umiak.dashboard.outside.remote_runs import PlaceTurns, RemoteRuns
from umiak.dashboard.outside.servers import ServerWatch
from umiak.dashboard.rows import as_data
from umiak.web.guard import LOOPBACK
from umiak.web.safety import tls_context
from umiak.web.server import HttpServer, end_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from umiak.dashboard.cluster.cluster_runs import ClusterRuns
    from umiak.dashboard.options import DashboardOptions
    from umiak.dashboard.rows import RunRow

LIVE_EVERY_S = 1.0
WATCHED_EVERY_S = 0.25
SERVERS_EVERY_S = 2.0
TOLD_AGAIN_S = 5.0
"""What a page says of a run has times in it, and a worker that does nothing is silent some day, without any event."""
OVER_AGAIN_S = 60.0
JUST_OVER_S = 120.0
IDLE_EVERY_S = 0.5
MOST_ROWS_IN_EVENT = 50
EVERYWHERE = ("0.0.0.0", "::")
TOKEN_BYTES = 32
OPEN_FILES = 8192
NOTHING = GivenSources()


class _Told:
    """What those who watch a run were told of it."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.position = ""
        self.version = 0


class Dashboard:
    """One running dashboard."""

    def __init__(
        self,
        options: DashboardOptions,
        given: GivenSources = NOTHING,
        *,
        version: str = "",
    ) -> None:
        self.options = options
        self.token = options.token or secrets.token_urlsafe(TOKEN_BYTES)
        self.feed = Feed()
        self.turns = PlaceTurns()
        self.remote = RemoteRuns(given.remote, self.turns, self._heard)
        self.index = RunIndex(
            options.directories, lambda: self.remote.overlaid(given.submitted()), on_change=self._changed
        )
        self._given = given
        self._version = version
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._sizes: dict[str, int] = {}
        self._told: dict[str, _Told] = {}
        self.server: HttpServer | None = None
        self.app: DashboardApp | None = None
        self.cluster: ClusterRuns | None = None
        self.places: PlaceWatch | None = None
        self.port = 0

    @property
    def origin(self) -> str:
        host = self.options.host if self.options.host and self.options.host not in EVERYWHERE else "127.0.0.1"
        scheme = "https" if self.options.tls_certificate else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def address(self) -> str:
        """What a person opens. What is behind the # is never sent: no log and no Referer has it."""
        return f"{self.origin}/#t={self.token}"

    async def start(self) -> None:
        """Listen. UmiakError if that can't be."""
        self._loop = asyncio.get_running_loop()
        options = self.options
        tls = tls_context(options.tls_certificate, options.tls_key) if options.tls_certificate else None
        # The port is known only after listening, and the gate is asked only after that.
        session, action_key = secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES)
        gate = Gate(GateSettings(is_tls=tls is not None), self.token, session, action_key)
        servers = ServerWatch(self._given.servers, lambda run_id: self.feed.publish(f"run:{run_id}", {"what": "waits"}))
        self.places = PlaceWatch(self._given.places, lambda: self.feed.publish("places", {}), turns=self.turns)
        if self._given.cluster is not None:
            from umiak.dashboard.cluster.cluster_runs import ClusterRuns

            self.cluster = ClusterRuns(self._given.cluster, self.feed.publish)
        self.app = app = DashboardApp(
            self.index,
            gate,
            self.feed,
            version=self._version,
            servers=servers,
            places=self.places,
            cancel=self._given.cancel,
            cluster=self.cluster,
            remote=self.remote,
        )
        self.server = HttpServer(gate, app.handle)
        try:
            self.port = await self.server.start(self._listen_at(), self.options.port, tls)
        except OSError as error:
            host = self.options.host or "127.0.0.1"
            raise UmiakError.refused(
                "UM-DASH-001",
                f"the dashboard can't listen at {host}:{self.options.port}",
                why=error.strerror or str(error),
                hint="choose another with --port, or let it find a free one with --port 0",
            ) from None
        gate.settings = GateSettings(
            hosts=self._hosts(), port=self.port, is_tls=tls is not None, actions=self.options.allowed
        )
        app.refresh()
        loops = (self._look, self._watch, self._watch_others)
        self._tasks = [asyncio.create_task(_forever(each, app)) for each in loops]

    async def close(self) -> None:
        await end_tasks(self._tasks)
        if self.places is not None:
            await self.places.close()
        if self.cluster is not None:
            await self.cluster.close()
        await self.remote.close()
        if self.server is not None:
            await self.server.close()

    def _heard(self, run_id: str) -> None:
        """A place has said something of a run."""
        self.feed.publish(f"run:{run_id}", {"what": "place"})
        self.feed.publish(f"log:{run_id}:", {})

    def _listen_at(self) -> list[str]:
        return [self.options.host] if self.options.host else ["127.0.0.1"]

    def _hosts(self) -> frozenset[str]:
        named = {each.lower() for each in self.options.allowed_hosts}
        host = self.options.host.lower()
        if host and host not in EVERYWHERE:
            named.add(f"[{host}]" if ":" in host else host)
        return LOOPBACK | named

    def _changed(self, ids: frozenset[str]) -> None:
        """Called in the thread that looks."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it has just ended
                self._loop.call_soon_threadsafe(self._publish_rows, ids)

    def _publish_rows(self, ids: frozenset[str]) -> None:
        data: dict[str, object] = {"version": self.index.version, "count": len(ids)}
        if len(ids) <= MOST_ROWS_IN_EVENT:
            data["rows"] = [as_data(row) for each in sorted(ids) if (row := self.index.row(each)) is not None]
        self.feed.publish("runs", data)
        for each in ids & self.feed.watched("run:"):
            self.feed.publish(f"run:{each}", {"what": "row"})

    async def _look(self, app: DashboardApp) -> None:
        """All directories now and then, runs that go on every second, while a page is open."""
        await asyncio.sleep(LIVE_EVERY_S if self.feed.watchers else IDLE_EVERY_S)
        if not self.feed.watchers:
            return
        if time.monotonic() - app.refreshed_at > self.index.pause_s:
            await app.refresh()
        else:
            await asyncio.to_thread(self.index.refresh_live)

    async def _watch_others(self, app: DashboardApp) -> None:
        """Servers of the runs whose pages are open, every other second: they tell who waits for whom. And places."""
        await asyncio.sleep(SERVERS_EVERY_S)
        if self.cluster is not None and self.feed.watchers:
            self.cluster.begin()
            for name in self.feed.watched("log:"):
                if self.cluster.row(name.partition(":")[0]) is not None:
                    self.feed.publish(f"log:{name}", {})
        if "" in self.feed.watched("runs"):
            self.remote.begin()
        if "" in self.feed.watched("places"):
            app.places.ask_stale()
        for run_id in self.feed.watched("run:"):
            self.remote.begin_run(run_id)
            watched = app.runs.watched(run_id)
            if watched is None or not watched.has_servers:
                continue
            task = app.runs.servers.begin(run_id, await asyncio.to_thread(watched.pids))
            if task is not None:
                task.add_done_callback(functools.partial(self._publish_servers, run_id))

    def _publish_servers(self, run_id: str, _: asyncio.Task[None]) -> None:
        self.feed.publish(f"servers:{run_id}", {})

    def _is_old(self, run_id: str, told: _Told) -> bool:
        row = self.index.row(run_id) or (self.cluster.row(run_id) if self.cluster is not None else None)
        return time.monotonic() - told.at >= again_after_s(row, time.time())

    async def _watch(self, app: DashboardApp) -> None:
        """The runs whose pages are open, four times a second."""
        await asyncio.sleep(WATCHED_EVERY_S if self.feed.watchers else IDLE_EVERY_S)
        open_pages = self.feed.watched("run:")
        self._told = {each: self._told.get(each) or _Told() for each in open_pages}
        for run_id, told in self._told.items():
            watched = app.runs.watched(run_id)
            curves = None if watched is None else await asyncio.to_thread(watched.update)
            # What is new may have been read for an answer, a moment ago: those who watch must hear of it all the same.
            if watched is not None and told.position != watched.position:
                self.feed.publish(f"curves:{run_id}", curves or {"from": told.position, "to": watched.position})
                told.position = watched.position
            has_grown = watched is not None and told.version != watched.version
            if has_grown or self._is_old(run_id, told):
                self.feed.publish(f"run:{run_id}", {"what": "journal" if has_grown else "time"})
                told.at, told.version = time.monotonic(), watched.version if watched is not None else 0
        for name in self.feed.watched("log:"):
            size = await app.runs.log_size(*name.partition(":")[::2])
            if size is not None and self._sizes.get(name) != size:
                self._sizes[name] = size
                self.feed.publish(f"log:{name}", {"size": size})


def again_after_s(row: RunRow | None, now_s: float) -> float:
    """How long what was said of a run stays good. One that is over says how long ago, and needs it less and less."""
    is_old = row is not None and row.ended_s is not None and now_s - row.ended_s > JUST_OVER_S
    return OVER_AGAIN_S if is_old else TOLD_AGAIN_S


async def _forever(look: Callable[[DashboardApp], Awaitable[None]], app: DashboardApp) -> None:
    """Again and again. One look that fails is told on the page and does not end those that follow."""
    while True:
        try:
            await look(app)
            app.troubles.pop(look.__name__, None)
        except Exception as error:  # noqa: BLE001 - a page that shows nothing new, and does not say so, is worse
            app.troubles[look.__name__] = f"looking again has failed: {type(error).__name__}: {error}"
            await asyncio.sleep(IDLE_EVERY_S)


def run(
    options: DashboardOptions,
    given: GivenSources,
    on_ready: Callable[[Dashboard], None],
    *,
    version: str = "",
) -> None:
    """Until SIGINT or SIGTERM. UmiakError if it can't listen."""
    _raise_file_limit()
    asyncio.run(_run(Dashboard(options, given, version=version), on_ready))


async def _run(dashboard: Dashboard, on_ready: Callable[[Dashboard], None]) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    await dashboard.start()
    try:
        on_ready(dashboard)
        await ended.wait()
    finally:
        await dashboard.close()


def _raise_file_limit() -> None:
    """Each page that is open is a file."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
