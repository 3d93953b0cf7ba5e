"""The dashboard of a cluster from its start to its end. A program.

    run(ClusterOptions(access=..., port=8200), environ, on_ready=print)

Beside the page it answers ``/healthz`` at a port of its own, which kubelets ask: the page itself may listen at loopback alone.
"""

from __future__ import annotations

import asyncio
import signal

from umiak.core.problem import UmiakError
from umiak.core.shown import Secrets
from umiak.core.value import value
from umiak.dashboard.cluster.cluster_app import ClusterApp, keep_up
from umiak.dashboard.cluster.source import ClusterSource
from umiak.dashboard.cluster.viewers import ViewerGate, Viewers
from umiak.dashboard.http.gate import GateSettings
from umiak.kube.kubeconfig import KubeAccess
from umiak.web.guard import LOOPBACK
from umiak.web.messages import HttpAnswer, HttpRefusal
from umiak.web.safety import tls_context
from umiak.web.server import HttpServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from umiak.web.messages import RequestHead

EVERYWHERE = ("0.0.0.0", "::")


@value
class ClusterOptions:
    """What the command line says."""

    access: KubeAccess
    """Where the cluster's API is. Credentials in it are never used."""
    namespaces: tuple[str, ...] = ()
    with_kubeflow: bool = False
    host: str = ""
    port: int = 0
    health_port: int | None = None
    allowed_hosts: tuple[str, ...] = ()
    tls_certificate: str = ""
    tls_key: str = ""


class ClusterDashboard:
    """One running dashboard of a cluster."""

    def __init__(self, options: ClusterOptions, environ: Mapping[str, str], *, version: str = "") -> None:
        self.options, self._environ, self._version = options, environ, version
        self.viewers = Viewers(self._source)
        self.server: HttpServer | None = None
        self.health: HttpServer | None = None
        self.port = self.health_port = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def origin(self) -> str:
        host = self.options.host if self.options.host and self.options.host not in EVERYWHERE else "127.0.0.1"
        scheme = "https" if self.options.tls_certificate else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        """Listen. UmiakError if that can't be."""
        options = self.options
        tls = tls_context(options.tls_certificate, options.tls_key) if options.tls_certificate else None
        gate = ViewerGate(GateSettings(is_tls=tls is not None))
        app = ClusterApp(gate, self.viewers, version=self._version)
        self.server = HttpServer(gate, app.handle)
        host = options.host or "127.0.0.1"
        try:
            self.port = await self.server.start([host], options.port, tls)
            if options.health_port is not None:
                self.health = HttpServer(_Open(), _healthy)
                self.health_port = await self.health.start(["0.0.0.0"], options.health_port)
        except OSError as error:
            raise UmiakError.refused(
                "UM-DASH-001",
                f"the dashboard can't listen at {host}:{options.port}",
                why=error.strerror or str(error),
                hint="choose another with --port, or let it find a free one with --port 0",
            ) from None
        hosts = LOOPBACK | {each.lower() for each in options.allowed_hosts}
        if options.host and options.host not in EVERYWHERE:
            hosts |= {f"[{host}]" if ":" in host else host.lower()}
        gate.settings = GateSettings(hosts=hosts, port=self.port, is_tls=tls is not None)
        self._task = asyncio.create_task(keep_up(self.viewers))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.viewers.close()
        for server in (self.server, self.health):
            if server is not None:
                await server.close()

    def _source(self, token: str, namespaces: tuple[str, ...]) -> ClusterSource:
        """The cluster as the owner of a token sees it: nothing that this process knows of itself goes with it."""
        known = self.options.access
        access = KubeAccess(
            server=known.server,
            ca_file=known.ca_file,
            ca_data=known.ca_data,
            is_unverified=known.is_unverified,
            server_name=known.server_name,
            proxy=known.proxy,
            secrets=Secrets({"token": token}),
        )
        allowed = self.options.namespaces
        if allowed and namespaces:
            namespaces = tuple([each for each in namespaces if each in allowed]) or allowed
        return ClusterSource(
            access,
            self._environ,
            namespaces=namespaces or allowed,
            with_kubeflow=self.options.with_kubeflow,
        )


class _Open:
    """Anyone may know whether it is alive."""

    def check(self, head: RequestHead, now_s: float) -> None:  # noqa: ARG002 - it limits nobody
        if head.method not in ("GET", "HEAD") or head.path != "/healthz":
            raise HttpRefusal(404, "there is nothing at this address")


async def _healthy(_head: RequestHead) -> HttpAnswer:
    return HttpAnswer(body=b"ok\n", kind="text/plain; charset=utf-8")


def run(
    options: ClusterOptions,
    environ: Mapping[str, str],
    on_ready: Callable[[ClusterDashboard], None],
    *,
    version: str = "",
) -> None:
    """Until SIGINT or SIGTERM. UmiakError if it can't listen."""
    asyncio.run(_run(ClusterDashboard(options, environ, version=version), on_ready))


async def _run(dashboard: ClusterDashboard, on_ready: Callable[[ClusterDashboard], None]) -> None:
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
