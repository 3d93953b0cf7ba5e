"""A model server from its start to its end: loads, listens, looks for newer versions, finishes what it has. A program.

run(ServeOptions(models="served", name="ctr", port=8000), say=print, ready=print)
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.serving.app import ServingApp, ServingGate, ServingLimits, refused
from umiak.serving.batching import Batcher
from umiak.serving.models import ServedModel, Version, newest
from umiak.web.safety import tls_context
from umiak.web.server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_EVERY_S = 1.0
FINISH_WITHIN_S = 60.0


@value
class ServeOptions:
    """What was asked for."""

    models: str
    """An inference model, or a directory of them."""
    name: str
    host: str = ""
    port: int = 8000
    token: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    threads: int = 1
    most_rows: int = 1024
    most_waiting: int = 16384
    most_body_bytes: int = 16 << 20
    version: str = ""


class ModelServer:
    """One running server."""

    def __init__(self, options: ServeOptions, say: Callable[[str], None]) -> None:
        self.options, self._say = options, say
        self._batcher = Batcher(
            most_rows=options.most_rows, most_waiting=options.most_waiting, on_batch=lambda *_: self._count()
        )
        self.app = ServingApp(options.name, self._batcher, version=options.version)
        limits = ServingLimits(body_bytes=options.most_body_bytes)
        self._server = HttpServer(
            ServingGate(options.token, limits),
            self.app.handle,
            most_body_bytes=options.most_body_bytes,
            refused=refused,
        )
        self._looking: asyncio.Task[None] | None = None
        self._failed: Version | None = None
        self.port = 0

    @property
    def address(self) -> str:
        host = self.options.host or "127.0.0.1"
        scheme = "https" if self.options.tls_certificate else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        """Load the newest version, then listen. UmiakError if either can't be."""
        version = newest(self.options.models)
        if version is None:
            raise UmiakError.of(
                "UM-SERVE-002",
                f"no inference model is there: {self.options.models}",
                hint="write `save_inference_path:` in the config and train; or name a directory with --models",
            )
        self.app.model = await asyncio.to_thread(ServedModel, version, self.options.threads)
        self._say(f"serves version {version.name} of {self.options.name}: {version.path}")
        options = self.options
        tls = tls_context(options.tls_certificate, options.tls_key) if options.tls_certificate else None
        try:
            self.port = await self._server.start([options.host or "127.0.0.1"], options.port, tls)
        except OSError as error:
            raise UmiakError.refused(
                "UM-SERVE-001",
                f"the server can't listen at {options.host or '127.0.0.1'}:{options.port}",
                why=error.strerror or str(error),
                hint="choose another with --port, or let it find a free one with --port 0",
            ) from None
        self._batcher.start()
        self._looking = asyncio.create_task(self._look())

    async def finish(self) -> None:
        """Take no more connections, answer what is there, end."""
        self.app.is_ending = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._server.finish(FINISH_WITHIN_S)
        await self._batcher.close()

    async def _look(self) -> None:
        """A newer version, or the same one written again, takes the place of the one that is served; requests that are there keep theirs."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            version = await asyncio.to_thread(newest, self.options.models)
            served = self.app.model.version if self.app.model else None
            if version is None or version in (served, self._failed):
                continue
            try:
                model = await asyncio.to_thread(ServedModel, version, self.options.threads)
            except UmiakError as error:
                self._failed = version
                self.app.counts.failed_loads += 1
                self._say(
                    f"version {version.name} is passed over, version {served.name if served else '-'} stays: {error.problems[0].why}"
                )
                continue
            self.app.model = model
            self.app.counts.swaps += 1
            self._say(f"serves version {version.name} of {self.options.name} now: {version.path}")

    def _count(self) -> None:
        self.app.counts.batches += 1


def run(options: ServeOptions, say: Callable[[str], None], ready: Callable[[ModelServer], None]) -> None:
    """Until SIGINT or SIGTERM. UmiakError if it can't begin."""
    asyncio.run(_run(ModelServer(options, say), ready))


async def _run(server: ModelServer, ready: Callable[[ModelServer], None]) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    await server.start()
    # Importing Paddle has put handlers of its own.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    ready(server)
    await ended.wait()
    await server.finish()
