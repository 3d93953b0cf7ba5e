"""A real `umiak operator` beside a control plane of the testbed, and a proxy between the two that cuts, delays and kills."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from testbed.kubernetes.control_plane import ControlPlane
from testbed.ports import free_port
from tests.support import PATIENCE_S
from umiak.paddlejob import crd

JOBS = "/apis/batch.paddlepaddle.org/v1/namespaces/{}/paddlejobs"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


def install(plane: ControlPlane, *definitions: dict[str, Any]) -> None:
    """The CRDs, served."""
    for definition in definitions or (crd.resource(),):
        name = definition["metadata"]["name"]
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"

        def is_served(path: str = path) -> bool:
            found = plane.request("GET", path)
            return any(
                each["type"] == "Established" and each["status"] == "True"
                for each in found.get("status", {}).get("conditions") or ()
            )

        status, answer = plane.ask("GET", path)
        if status != 200 or json.loads(answer)["spec"]["versions"] != definition["spec"]["versions"]:
            plane.apply(definition)  # no earlier test has done it
        plane.until(is_served, f"{name} is served")


def uninstall(plane: ControlPlane, name: str) -> None:
    """A CRD that an earlier test may have installed is gone."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    plane.ask("DELETE", path)
    plane.until(lambda: plane.ask("GET", path)[0] == 404, f"{name} is gone")


def job(name: str, namespace: str, *, workers: int = 2, ps: int = 0, **spec: Any) -> dict[str, Any]:
    """A small PaddleJob."""
    template = {"spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "train:1"}]}}
    roles: dict[str, Any] = {"worker": {"replicas": workers, "template": template}}
    if ps:
        roles["ps"] = {"replicas": ps, "template": template}
    return {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**roles, **spec},
    }


class Jobs:
    """The jobs and pods of one namespace, as an administrator sees them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace

    def create(self, *bodies: dict[str, Any]) -> None:
        for body in bodies:
            self.plane.request("POST", JOBS.format(self.namespace), body)

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.request("GET", f"{JOBS.format(self.namespace)}/{name}")
        return found

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(name).get("status") or {}
        return found

    def pods(self) -> dict[str, dict[str, Any]]:
        found = self.plane.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")
        return {each["metadata"]["name"]: each for each in found["items"]}

    def until_phase(self, name: str, phase: str, within_s: float = PATIENCE_S) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            found = self.status(name)
            return found if found.get("phase") == phase else {}

        try:
            return self.plane.until(look, f"{name} is {phase}", within_s)
        except Exception as error:
            raise AssertionError(f"{self.get(name)} {sorted(self.pods())} {error}") from error


class OperatorProcess:
    """`umiak operator` as a process."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str) -> None:
        self.metrics_port = free_port()
        self.log = log
        self._command = [sys.executable, "-m", "umiak", "operator", "--kubeconfig", str(kubeconfig), *flags]
        self._command += [
            "--metrics-bind-address",
            f"127.0.0.1:{self.metrics_port}",
            "--health-probe-bind-address",
            "0",
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> OperatorProcess:
        self.starts += 1
        with self.log.open("ab") as log:
            environ = {name: text for name, text in os.environ.items() if "proxy" not in name.lower()}
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environ)
        return self

    def kill(self) -> None:
        """As an out-of-memory kill: no farewell."""
        assert self.process
        self.process.kill()
        self.process.wait()

    def end(self, within_s: float = PATIENCE_S) -> int:
        """With SIGTERM. The result is the exit status."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def page(self, path: str = "/metrics") -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def metric(self, name: str) -> float | None:
        for line in self.page().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        return None

    def until(self, condition: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}\n{self.log.read_text()[-3000:]}"
            time.sleep(0.05)


@contextlib.contextmanager
def operating(kubeconfig: Path, log: Path, *flags: str) -> Iterator[OperatorProcess]:
    """An operator that is gone at the end."""
    operator = OperatorProcess(kubeconfig, log, *flags).start()
    try:
        yield operator
    finally:
        if operator.is_alive:
            operator.kill()


class KubeProxy:
    """Stands between an operator and the API server, in a thread of its own."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.before: Callable[[str, str], str | None] = lambda _verb, _path: None
        """Called before a request is passed on; ``drop``: it is not, and gets no answer."""
        self.after: Callable[[str, str], str | None] = lambda _verb, _path: None
        """Called after it was passed on; ``drop``: its answer is lost."""
        self.writes: list[tuple[str, str]] = []
        self.forget_watches = 0
        """So many watches are answered with 410."""
        self._cut: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.port = 0
        self.watches = 0

    def __enter__(self) -> KubeProxy:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)
        # Connections that were being made when everything was stopped: else they are found unclosed in a later test.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def kubeconfig(self, path: Path, token: str = "") -> Path:
        """A kubeconfig for programs that go through it."""
        server = f"http://127.0.0.1:{self.port}"
        return self._plane.write_kubeconfig(path, token or self._plane.admin_token, server=server)

    def cut_watches(self) -> None:
        assert self._loop
        assert self._cut
        self._loop.call_soon_threadsafe(self._cut.set)

    async def _serve(self, ready: threading.Event) -> None:
        import ssl

        self._loop = asyncio.get_running_loop()
        self._stop, self._cut = asyncio.Event(), asyncio.Event()
        tls = ssl.create_default_context(cafile=str(self._plane.ca))
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            self._session = session
            app = web.Application(client_max_size=1 << 24)
            app.router.add_route("*", "/{rest:.*}", self._answer)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            ready.set()
            await self._stop.wait()
            self._cut.set()
            await runner.cleanup()
        await asyncio.sleep(0.25)  # TLS connections end in their own time

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb, path = request.method, request.path
        body = await request.read()
        if "watch" in request.query:
            return await self._watch(request)
        if await asyncio.to_thread(self.before, verb, path) == "drop":
            return self._drop(request)
        url = f"{self._plane.server}{request.path_qs}"
        headers = {
            name: request.headers[name]
            for name in ("Authorization", "Content-Type", "Accept")
            if name in request.headers
        }
        async with self._session.request(verb, url, data=body or None, headers=headers) as answer:
            text = await answer.read()
            if verb in WRITES:
                self.writes.append((verb, path))
            if await asyncio.to_thread(self.after, verb, path) == "drop":
                return self._drop(request)
            return web.Response(body=text, status=answer.status, content_type=answer.content_type)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        assert self._cut
        self.watches += 1
        response = web.StreamResponse()
        if self.forget_watches > 0:
            self.forget_watches -= 1
            await response.prepare(request)
            gone = {
                "type": "ERROR",
                "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
            }
            await response.write(json.dumps(gone).encode() + b"\n")
            return response
        url = f"{self._plane.server}{request.path_qs}"
        headers = {"Authorization": request.headers["Authorization"]}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(url, headers=headers, timeout=timeout) as answer:
            if answer.status != 200:
                return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)
            await response.prepare(request)

            async def pump() -> None:
                async for block in answer.content.iter_any():
                    await response.write(block)

            tasks = [asyncio.ensure_future(pump()), asyncio.ensure_future(self._cut.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._cut.is_set() and not self._stop.is_set():
                asyncio.get_running_loop().call_later(0.2, self._cut.clear)
            return self._drop(request)

    @staticmethod
    def _drop(request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
