"""The operator as a process: client, pages of health and metrics, election, and the controller while it is elected.
An adapter.

SIGTERM and SIGINT end it cleanly: nothing more is started,
and the lease is given up so that the next operator need not wait.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
import uuid

from umiak.core.problem import Exit, UmiakError
from umiak.kube import access
from umiak.kube.answers import KubeRefused, KubeSilent, told
from umiak.kube.async_api import AsyncKubeApi
from umiak.operator.cancellation import within
from umiak.operator.controller import http_pages
from umiak.operator.controller.cluster_watch import WATCHES
from umiak.operator.controller.controller import AT_ONCE, NEW_AT_ONCE, Controller
from umiak.operator.controller.election import LeaseElection
from umiak.operator.controller.metrics import OperatorMetrics
from umiak.operator.reconcile import reconcile
from umiak.paddlejob.reading import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from umiak.operator.controller.metrics import Labels
    from umiak.operator.options import OperatorOptions

LOG = logging.getLogger("umiak.operator")
STUCK_S = 60.0
"""A loop that did not come round for so long is not alive."""
ENDING_S = 5.0
NO_CLUSTER = "name one with --kubeconfig or KUBECONFIG, add one with `umiak kubeconfig FILE`, or run the operator in the cluster: `umiak deploy`"


def run(options: OperatorOptions, environ: Mapping[str, str]) -> int:
    """Run the operator until a signal ends it. The result is the exit status."""
    return asyncio.run(_Program(options, environ).run())


class _Program:
    def __init__(self, options: OperatorOptions, environ: Mapping[str, str]) -> None:
        self._options = options
        self._environ = environ
        self._access = access.find(
            environ, kubeconfig_file=options.kubeconfig, context=options.context, hint=NO_CLUSTER
        )
        self._metrics = OperatorMetrics(self._gauges)
        self._controller: Controller | None = None
        self._election: LeaseElection | None = None
        self._started_s = time.time()
        self._beat = time.monotonic()
        self._host = socket.gethostname()

    async def run(self) -> int:
        servers: list[asyncio.Server] = []
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        api = AsyncKubeApi(
            self._access,
            self._environ,
            connections=self._options.in_flight + AT_ONCE + NEW_AT_ONCE + WATCHES * len(self._options.namespaces[1:]),
            answered=self._answered,
        )
        async with api:
            try:
                servers = await self._serve()
                await self._hello(api)
                work = asyncio.ensure_future(self._act(api))
                ended = asyncio.ensure_future(stopping.wait())
                beat = asyncio.ensure_future(self._beating())
                await asyncio.wait({work, ended, beat}, return_when=asyncio.FIRST_COMPLETED)
                return await self._end(work, [ended, beat])
            finally:
                for server in servers:
                    server.close()

    async def _act(self, api: AsyncKubeApi) -> None:
        if not self._options.elects:
            await self._lead(api)
            return
        identity = f"{self._host}_{uuid.uuid4()}"
        self._election = LeaseElection(api, self._options.lease_namespace, identity)
        await self._election.run(lambda: self._lead(api))

    async def _lead(self, api: AsyncKubeApi) -> None:
        """Everything is read from the cluster when this operator begins to act: nothing old is acted on."""
        controller = Controller(
            api, self._options, decide=reconcile, read_job=read, metrics=self._metrics, host=self._host
        )
        self._controller = controller
        try:
            await controller.run()
        finally:
            self._controller = None

    async def _end(self, work: asyncio.Task[None], others: list[asyncio.Task[Any]]) -> int:
        controller = self._controller
        for task in (work, *others):
            task.cancel()
        results = await asyncio.gather(work, *others, return_exceptions=True)
        if self._election is not None:
            await self._election.give_up()
        if controller is not None:
            try:
                await within(controller.flush_events(), ENDING_S)
            except asyncio.TimeoutError:
                pass
        if isinstance(results[0], Exception) and not isinstance(results[0], asyncio.CancelledError):
            raise results[0]
        LOG.info("ended")
        return Exit.DONE

    async def _hello(self, api: AsyncKubeApi) -> None:
        """Whether there is an API at all: a wrong address must not look like a cluster without jobs."""
        try:
            version = await api.get("/version")
        except (KubeRefused, KubeSilent) as error:
            if isinstance(error, KubeRefused) and error.status in (401, 403):
                LOG.info("the API does not tell its version: %s", error)
                return
            raise told(error, "umiak operator", self._access) from None
        where = ", ".join(self._options.namespaces) or "all namespaces"
        LOG.info("Kubernetes %s, jobs in %s", version.get("gitVersion", "of unknown version"), where)

    async def _serve(self) -> list[asyncio.Server]:
        pages = {"/healthz": self._health, "/readyz": self._ready, "/metrics": lambda: (200, self._metrics.text())}
        wanted = [self._options.metrics_address, self._options.health_address]
        addresses = dict.fromkeys(each for each in map(http_pages.address_of, wanted) if each is not None)
        return [await http_pages.serve(address, pages) for address in addresses]

    async def _beating(self) -> None:
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(1.0)

    def _health(self) -> tuple[int, str]:
        late_s = time.monotonic() - self._beat
        return (200, "ok\n") if late_s < STUCK_S else (503, f"the loop is late: {late_s:.0f} s\n")

    def _ready(self) -> tuple[int, str]:
        if self._controller is None:
            is_waiting = self._election is not None and bool(self._election.holder)
            return (200, f"ok: {self._election.holder} acts\n") if is_waiting and self._election else (503, "not yet\n")
        if not self._controller.is_synced:
            return 503, "\n".join(["reading the cluster", *self._controller.troubles()]) + "\n"
        return 200, "\n".join(["ok", *self._controller.troubles()]) + "\n"

    def _answered(self, verb: str, status: int, seconds: float) -> None:
        self._metrics.count("umiak_operator_api_requests_total", verb=verb, status=str(status))
        if verb != "WATCH":
            self._metrics.observe("umiak_operator_api_request_seconds", seconds)

    def _gauges(self) -> Iterable[tuple[str, Labels, float]]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        yield "process_cpu_seconds_total", (), used.ru_utime + used.ru_stime
        yield "process_resident_memory_bytes", (), _memory_bytes()
        yield "process_start_time_seconds", (), self._started_s
        yield "umiak_operator_is_leader", (), float(self._controller is not None)
        if self._controller is not None:
            yield from self._controller.gauges()


def set_up_logging(*, as_json: bool, is_verbose: bool = False) -> None:
    """Lines to stderr: for people, or one JSON object each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.handlers[:] = [handler]
    LOG.setLevel(logging.DEBUG if is_verbose else logging.INFO)
    LOG.propagate = False


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": record.created, "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _memory_bytes() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return float(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return 0.0


__all__ = ["UmiakError", "run", "set_up_logging"]
