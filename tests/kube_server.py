"""A small API server of the tests: objects with versions, lists in pages, watches, conflicts, and whatever goes wrong with them.

It is there for what a real API server does once in a year: stale lists, versions that are forgotten, answers that are lost, 429, 500.
Everything else is tested with a real one (tests/integration/test_operator_*.py).
"""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import json
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

from aiohttp import web

PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/(?P<version>v[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<part>status|log))?$"
)
Key = tuple[str, str, str, str]
Hook = Callable[[str, str, web.Request], Awaitable[web.StreamResponse | None]]


class KubeServer:
    """One API server. ``async with KubeServer() as server: server.url``."""

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.version = 100
        self.log: list[tuple[int, str, str, str, dict[str, Any]]] = []
        """Version, type, group, plural, object: what watches replay."""
        self.forgotten_up_to = 0
        self.requests: list[tuple[str, str]] = []
        """Verb and path of every request that was answered or refused."""
        self.hook: Hook | None = None
        self.logs: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._cut = asyncio.Event()
        self.holds_watches = False
        """While it is set no watch tells anything: their watchers have an old picture."""
        self.groups = {"batch.paddlepaddle.org", "coordination.k8s.io"}
        self.clock_ahead_s = 0.0
        """How wrong its clock is."""
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> KubeServer:
        app = web.Application(client_max_size=1 << 24)
        app.on_response_prepare.append(self._dated)
        app.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches()
        assert self._runner
        await self._runner.cleanup()

    # ---- what tests do

    def writes(self, verbs: tuple[str, ...] = ("POST", "PUT", "PATCH", "DELETE")) -> list[tuple[str, str]]:
        return [each for each in self.requests if each[0] in verbs]

    def all(self, plural: str) -> list[dict[str, Any]]:
        return [body for key, body in sorted(self.objects.items()) if key[1] == plural]

    def get(self, plural: str, name: str) -> dict[str, Any] | None:
        return next((each for each in self.all(plural) if each["metadata"]["name"] == name), None)

    def put(self, group: str, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        """As if somebody had created it."""
        metadata = body.setdefault("metadata", {})
        metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", stamp())
        if plural == "pods":
            body.setdefault("status", {"phase": "Pending"})
        key = (group, plural, metadata["namespace"], metadata["name"])
        self._store(key, body, "ADDED")
        return body

    def change(self, plural: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        key = next(key for key in self.objects if key[1] == plural and key[3] == name)
        body = copy.deepcopy(self.objects[key])
        change(body)
        self._store(key, body, "MODIFIED")

    def remove(self, plural: str, name: str) -> None:
        """At once, and its children as well: the garbage collector."""
        key = next(key for key in self.objects if key[1] == plural and key[3] == name)
        body = self.objects.pop(key)
        self.version += 1
        body = copy.deepcopy(body)
        body["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", key, body)
        uid = body["metadata"]["uid"]
        for other in [
            other
            for other, child in self.objects.items()
            if any(each.get("uid") == uid for each in child["metadata"].get("ownerReferences") or ())
        ]:
            if other in self.objects:
                self.remove(other[1], other[3])

    def set_pod(self, name: str, phase: str, **status: Any) -> None:
        number = 1 + int(uuid.uuid5(uuid.NAMESPACE_DNS, name).int % 250)

        def change(body: dict[str, Any]) -> None:
            body["spec"]["nodeName"] = "node-1"
            ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
            address = f"10.1.0.{number}"
            body["status"] = {
                "phase": phase,
                "podIP": address,
                "podIPs": [{"ip": address}],
                "hostIP": "10.0.0.1",
                "startTime": stamp(),
                "conditions": [ready],
                **status,
            }

        self.change("pods", name, change)

    def cut_watches(self) -> None:
        """All connections of watches are lost."""
        self._cut.set()
        self._cut = asyncio.Event()

    def forget(self) -> None:
        """As after a compaction: watches can't go on from where they were."""
        self.forgotten_up_to = self.version
        self.cut_watches()

    # ---- answering

    async def _dated(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = formatdate(time.time() + self.clock_ahead_s, usegmt=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb, path = request.method, request.path
        self.requests.append(("WATCH" if "watch" in request.query else verb, path))
        if self.hook is not None:
            refused = await self.hook(verb, path, request)
            if refused is not None:
                return refused
        if path == "/version":
            return web.json_response({"gitVersion": "v1.37.0"})
        found = PATH.match(path)
        if not found or (found["group"] and not found["name"] and found["group"] not in self.groups):
            return status(404, "NotFound", f"no such path: {path}")
        group, plural, namespace, name = (found[each] or "" for each in ("group", "plural", "namespace", "name"))
        if verb == "GET" and found["part"] == "log":
            return web.Response(text=self.logs.get(name, ""))
        if verb == "GET" and not name:
            return (
                await self._watch(request, group, plural)
                if "watch" in request.query
                else self._list(request, group, plural)
            )
        body = json.loads(await request.read()) if request.can_read_body else None
        if verb == "POST":
            return self._create(request, group, plural, namespace, body)
        return self._one(request, (group, plural, namespace, name), body)

    def _one(self, request: web.Request, key: Key, body: Any) -> web.Response:
        verb, plural, name = request.method, key[1], key[3]
        known = self.objects.get(key)
        if known is None:
            return status(404, "NotFound", f"{plural} {name} not found")
        if verb == "GET":
            return web.json_response(known)
        if verb == "DELETE":
            return self._delete(key, known, body or {})
        changed = self._changed_by(request, known, body)
        if isinstance(changed, web.Response):
            return changed
        if (
            not changed["metadata"].get("finalizers")
            and changed["metadata"].get("deletionTimestamp")
            and plural != "pods"
        ):
            self.remove(plural, name)
            return web.json_response(changed)
        self._store(key, changed, "MODIFIED")
        return web.json_response(self.objects[key])

    def _changed_by(self, request: web.Request, known: dict[str, Any], body: Any) -> dict[str, Any] | web.Response:
        made: dict[str, Any] = copy.deepcopy(known)
        kind = request.content_type
        if request.method == "PUT":
            made = body
        elif kind == "application/json-patch+json":
            for step in body:
                parts = step["path"].strip("/").split("/")
                place = made
                for part in parts[:-1]:
                    place = place.setdefault(part, {})
                if step["op"] == "test":
                    if place.get(parts[-1]) != step["value"]:
                        return status(422, "Invalid", "the test of a patch has failed")
                else:
                    place[parts[-1]] = step["value"]
        else:
            merge(made, body)
        wanted = made["metadata"].get("resourceVersion")
        if wanted and wanted != known["metadata"]["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        if made["metadata"].get("uid") != known["metadata"]["uid"]:
            return status(409, "Conflict", "Precondition failed: UID in precondition")
        if "spec" in known and made.get("spec") != known.get("spec"):
            made["metadata"]["generation"] = known["metadata"].get("generation", 1) + 1
        return made

    def _create(self, request: web.Request, group: str, plural: str, namespace: str, body: Any) -> web.Response:
        metadata = body.setdefault("metadata", {})
        metadata["namespace"] = namespace
        key = (group, plural, namespace, metadata["name"])
        if key in self.objects:
            return status(409, "AlreadyExists", f"{plural} {metadata['name']} already exists")
        if request.query.get("dryRun"):
            return web.json_response(body, status=201)
        self.put(group, plural, body)
        return web.json_response(self.objects[key], status=201)

    def _delete(self, key: Key, known: dict[str, Any], options: dict[str, Any]) -> web.Response:
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != known["metadata"]["uid"]:
            return status(409, "Conflict", "Precondition failed: UID in precondition")
        is_slow = (
            key[1] == "pods" and options.get("gracePeriodSeconds") != 0 and known["spec"].get("nodeName")
        ) or known["metadata"].get("finalizers")
        if is_slow:
            made = copy.deepcopy(known)
            made["metadata"].setdefault("deletionTimestamp", stamp())
            self._store(key, made, "MODIFIED")
            return web.json_response(self.objects[key])
        self.remove(key[1], key[3])
        return web.json_response({"kind": "Status", "status": "Success", "details": {"uid": known["metadata"]["uid"]}})

    def _list(self, request: web.Request, group: str, plural: str) -> web.Response:
        matching = [
            body for key, body in sorted(self.objects.items()) if key[:2] == (group, plural) and selected(body, request)
        ]
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 10**6)
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(matching):
            metadata["continue"] = str(start + limit)
        return web.json_response({"metadata": metadata, "items": matching[start : start + limit]})

    async def _watch(self, request: web.Request, group: str, plural: str) -> web.StreamResponse:
        seen = int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse()
        await response.prepare(request)
        cut = self._cut
        if seen < self.forgotten_up_to:
            gone = {
                "type": "ERROR",
                "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
            }
            await response.write(json.dumps(gone).encode() + b"\n")
            return response
        while not cut.is_set():
            changed = self._changed
            for version, kind, its_group, its_plural, body in [] if self.holds_watches else list(self.log):
                if version > seen:
                    seen = version
                    if (its_group, its_plural) == (group, plural) and selected(body, request):
                        await response.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")
            waits = [asyncio.ensure_future(each.wait()) for each in (changed, cut)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()
        if request.transport is not None:
            request.transport.abort()
        return response

    def _store(self, key: Key, body: dict[str, Any], kind: str) -> None:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = body
        self._tell(kind, key, body)

    def _tell(self, kind: str, key: Key, body: dict[str, Any]) -> None:
        self.log.append((self.version, kind, key[0], key[1], copy.deepcopy(body)))
        self.wake()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def selected(body: dict[str, Any], request: web.Request) -> bool:
    labels = body["metadata"].get("labels") or {}
    for part in filter(None, (request.query.get("labelSelector") or "").split(",")):
        name, is_equal, text = part.partition("=")
        if part.startswith("!"):
            if part[1:] in labels:
                return False
        elif name not in labels or (is_equal and labels[name] != text):
            return False
    return True


def merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for name, item in patch.items():
        if item is None:
            into.pop(name, None)
        elif isinstance(item, dict) and isinstance(into.get(name), dict):
            merge(into[name], item)
        else:
            into[name] = item


def status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code, headers=headers)


def stamp() -> str:
    return dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
