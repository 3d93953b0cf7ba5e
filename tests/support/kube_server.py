"""A stand-in for a Kubernetes API server on loopback: lists in pages, watches, logs, and whatever goes wrong with them.

    async with KubeServer() as server:                  in a test's own event loop
    with KubeServer(strict(), {TOKEN}) as server:       in a thread, for programs and for what waits
        server.trouble("POST", "/jobs$", "lost")        done, and the answer never sent
        server.cluster.pods()

It is there for what a real API server does once in a year: stale lists, versions that are forgotten, answers that are lost, 429, 500.
Everything else is tried with a real one as well (tests/integration/test_operator_*.py, test_submit_cluster.py).
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.kube_cluster import Cluster
from tests.support.kube_schemas import SCHEMAS
from tests.support.kube_store import Key, Refusal, is_selected

TOKEN = "token-of-a-person"
Hook = Callable[[str, str, web.Request], Awaitable[web.StreamResponse | None]]


def strict() -> Cluster:
    """A cluster that refuses fields it does not know."""
    return Cluster(SCHEMAS)


class KubeServer:
    """The API of a cluster. Without tokens it lets everybody in."""

    def __init__(
        self, cluster: Cluster | None = None, tokens: set[str] | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        self.cluster = cluster or Cluster()
        self.tokens = tokens
        self.requests: list[tuple[str, str]] = []
        """Verb and path of every request that was answered or refused."""
        self.addresses: list[str] = []
        """The same with queries."""
        self.log_queries: list[dict[str, str]] = []
        """What was asked of logs."""
        self.log_cuts: list[int] = []
        """After so many lines a log connection breaks."""
        self.troubles: list[tuple[str, str, str]] = []
        self.hook: Hook | None = None
        """Asked before everything else, in the loop of the server."""
        self.holds_watches = False
        """While it is set no watch tells anything: their watchers have an old picture."""
        self.clock_ahead_s = 0.0
        """How wrong its clock is."""
        self.url = ""
        self._context = context
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> KubeServer:
        self._loop = asyncio.get_running_loop()
        self._changed, self._cut, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.cluster.listeners.append(self._wake_from_any_thread)
        app = web.Application(client_max_size=1 << 24)
        app.on_response_prepare.append(self._dated)
        app.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context).start()
        scheme = "https" if self._context else "http"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cluster.listeners.remove(self._wake_from_any_thread)
        self._ended.set()
        self.cut_watches()
        await self._runner.cleanup()

    def __enter__(self) -> KubeServer:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.__aenter__())
        self._thread = threading.Thread(target=loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        asyncio.run_coroutine_threadsafe(self.__aexit__(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- what tests do

    def trouble(self, verb: str, part: str, what: str, times: int = 1) -> None:
        """409, 429, 500, ``hang``, ``drop`` (not done) or ``lost`` (done) for the next requests whose address has this pattern."""
        self.troubles += [(verb, part, what)] * times

    def writes(self, verbs: tuple[str, ...] = ("POST", "PUT", "PATCH", "DELETE")) -> list[tuple[str, str]]:
        return [each for each in self.requests if each[0] in verbs]

    def cut_watches(self) -> None:
        """All connections of watches are lost."""
        cut, self._cut = self._cut, asyncio.Event()
        cut.set()

    def forget(self) -> None:
        """As after a compaction: watches can't go on from where they were."""
        self.cluster.forget()
        self.cut_watches()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _wake_from_any_thread(self) -> None:
        self._loop.call_soon_threadsafe(self.wake)

    def kubeconfig(
        self, path: Path, *, namespace: str = "training", user: dict[str, Any] | None = None, **cluster: Any
    ) -> Path:
        """A kubeconfig for this server, as JSON: which is YAML as well."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "c", "cluster": {"server": self.url, **cluster}}],
            "users": [{"name": "u", "user": {"token": TOKEN} if user is None else user}],
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    # ---- answering

    async def _dated(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = formatdate(time.time() + self.clock_ahead_s, usegmt=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb, path = request.method, request.path
        self.requests.append(("WATCH" if "watch" in request.query else verb, path))
        self.addresses.append(f"{verb} {request.path_qs}")
        if self.hook is not None:
            response = await self.hook(verb, path, request)
            if response is not None:
                return response
        trouble = self._trouble(verb, request.path_qs)
        if trouble == "hang":
            await self._ended.wait()
        if trouble in ("hang", "drop"):
            return self._lost(request)
        if trouble.isdecimal():
            return status(int(trouble), "Trouble", "told to", **{"Retry-After": "0"})
        try:
            response = await self._done(request)
        except Refusal as refusal:
            return status(refusal.status, refusal.reason, refusal.message, **refusal.headers)
        return self._lost(request) if trouble == "lost" else response

    def _trouble(self, verb: str, address: str) -> str:
        for number, (its_verb, part, what) in enumerate(self.troubles):
            if its_verb == verb and re.search(part, address):
                del self.troubles[number]
                return what
        return ""

    def _lost(self, request: web.Request) -> web.StreamResponse:
        self._end_connection(request)
        return web.Response()

    @staticmethod
    def _end_connection(request: web.Request) -> None:
        """What was written still arrives."""
        if request.transport is not None:
            request.transport.close()

    async def _done(self, request: web.Request) -> web.StreamResponse:
        verb, path, cluster = request.method, request.path, self.cluster
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.tokens is not None and given not in self.tokens:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        body = json.loads(await request.read()) if request.can_read_body else {}
        if path == "/version":
            return web.json_response({"gitVersion": "v1.37.0"})
        if path == "/apis":
            groups = [{"name": name} for name in cluster.groups]
            return web.json_response({"kind": "APIGroupList", "groups": groups})
        if path.endswith("/selfsubjectaccessreviews"):
            allowed = cluster.rights(body["spec"]["resourceAttributes"])
            return web.json_response({**body, "status": {"allowed": allowed}}, status=201)
        if re.fullmatch("/api/v1/namespaces/[^/]+", path):
            return web.json_response({"metadata": {"name": path.rpartition("/")[2]}})
        key, part = cluster.target(path)
        if verb == "GET" and part == "log":
            return await self._log(request, key)
        if verb == "GET" and not key.name:
            return await self._watch(request, key) if "watch" in request.query else self._list(request, key)
        if verb == "POST":
            made = cluster.create(path, body, is_dry="dryRun" in request.query)
            return web.json_response(made, status=201)
        if verb == "DELETE":
            return web.json_response(cluster.delete(path, body))
        if verb == "GET":
            return web.json_response(cluster.read(key))
        return web.json_response(cluster.patch(key, request.content_type, body))

    def _list(self, request: web.Request, key: Key) -> web.Response:
        with self.cluster.lock:
            bodies = self.cluster.list(key, request.query.get("labelSelector") or "")
            metadata = {"resourceVersion": str(self.cluster.version)}
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 10**6)
        if start + limit < len(bodies):
            metadata["continue"] = str(start + limit)
        items = [
            {name: item for name, item in body.items() if name not in ("kind", "apiVersion")}
            for body in bodies[start : start + limit]
        ]
        return web.json_response({"metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, key: Key) -> web.StreamResponse:
        seen, selector = int(request.query.get("resourceVersion") or 0), request.query.get("labelSelector") or ""
        response = web.StreamResponse()
        await response.prepare(request)
        cut = self._cut
        if seen < self.cluster.forgotten_up_to:
            body = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            await response.write(json.dumps({"type": "ERROR", "object": body}).encode() + b"\n")
            return response
        while not cut.is_set():
            changed = self._changed
            for change in [] if self.holds_watches else list(self.cluster.changes):
                if change.version <= seen:
                    continue
                seen = change.version
                is_meant = change.key[:2] == key[:2] and key.namespace in ("", change.key.namespace)
                if is_meant and is_selected(change.body, selector):
                    await response.write(json.dumps({"type": change.kind, "object": change.body}).encode() + b"\n")
            await _first_of(changed, cut)
        if request.transport is not None:
            request.transport.abort()
        return response

    async def _log(self, request: web.Request, key: Key) -> web.StreamResponse:
        pod = self.cluster.read(key)
        query = dict(request.query)
        self.log_queries.append(query)
        containers = [each["name"] for each in pod["spec"]["containers"]]
        if query.get("container", containers[0]) not in containers:
            raise Refusal(400, "BadRequest", f"container {query['container']} is not valid for pod {key.name}")
        cut_after = self.log_cuts.pop(0) if self.log_cuts else -1
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        since, given = query.get("sinceTime", "").removesuffix("Z"), 0
        next_line = (
            max(0, len(self.cluster.logs.get(key.name, ())) - int(query["tailLines"])) if "tailLines" in query else 0
        )
        while not self._ended.is_set():
            changed, is_over = self._changed, self.cluster.is_pod_over(key.name)
            lines = self.cluster.logs.get(key.name, [])[next_line:]
            next_line += len(lines)
            for at, line in lines:
                if since and at < since:
                    continue
                text = f"{at} {line}\n" if query.get("timestamps") == "true" else f"{line}\n"
                if given == cut_after:
                    await response.write(text[:20].encode())
                    self._end_connection(request)
                    return response
                await response.write(text.encode())
                given += 1
            if not query.get("follow") or is_over:
                break
            await _first_of(changed, self._ended)
        return response


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(each.wait()) for each in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in waits:
        task.cancel()


def status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    """A refusal, as the API server words it."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code, headers=headers)
