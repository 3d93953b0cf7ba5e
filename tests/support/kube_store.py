"""The objects of a stand-in Kubernetes: versions, conflicts, the garbage collector, and what watches are told. No socket: `kube_server` has one.

store = Store()
store.put("", "pods", {"metadata": {"name": "wide-0"}, "spec": {"containers": []}})     as if somebody had created it
store.create("/api/v1/namespaces/default/pods", body)                                  as a request does it, or a Refusal
"""

from __future__ import annotations

import base64
import copy
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from tests.support.kube_schemas import complaints

GROUPS = (
    "batch",
    "apps",
    "jobset.x-k8s.io",
    "batch.paddlepaddle.org",
    "scheduling.volcano.sh",
    "coordination.k8s.io",
)
MOST_OBJECT = 1024 * 1024
_PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/(?P<version>v[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<part>status|log))?$"
)
Object = dict[str, Any]


class Refusal(Exception):
    """An answer that is an error; further headers go with it."""

    def __init__(self, status: int, reason: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.headers = status, reason, message, headers


class Key(NamedTuple):
    group: str
    plural: str
    namespace: str
    name: str


class Target(NamedTuple):
    """What a path means: an object, or all of a kind where it has no name."""

    key: Key
    part: str


class Change(NamedTuple):
    """What watches replay."""

    version: int
    kind: str
    key: Key
    body: Object


class Store:
    """Objects by group, plural, namespace and name. Threads may use it."""

    def __init__(self, schemas: Mapping[str, Any] | None = None, groups: tuple[str, ...] = GROUPS) -> None:
        self.schemas = schemas
        """With schemas, what has none is unknown, and fields that a schema does not have are refused."""
        self.groups = groups
        self.objects: dict[Key, Object] = {}
        self.version = 100
        self.changes: list[Change] = []
        self.forgotten_up_to = 0
        self.created: list[str] = []
        self.listeners: list[Callable[[], None]] = []
        """Called after each change, in the thread that has made it."""
        self.lock = threading.RLock()

    # ---- what requests do

    def target(self, path: str) -> Target:
        match = _PATH.match(path)
        group = (match and match["group"]) or ""
        if not match or (group and not match["name"] and group not in self.groups):
            raise Refusal(404, "NotFound", f"no such path: {path}")
        if self.schemas is not None and match["plural"] not in self.schemas:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        return Target(Key(group, match["plural"], match["namespace"] or "", match["name"] or ""), match["part"] or "")

    def create(self, path: str, body: Object, *, is_dry: bool = False) -> Object:
        key = self.target(path).key
        key = key._replace(name=body["metadata"]["name"])
        with self.lock:
            self._check(key.plural, key.name, body)
            if key in self.objects:
                raise Refusal(409, "AlreadyExists", f'{key.plural} "{key.name}" already exists')
            body = copy.deepcopy(body)
            body["metadata"]["namespace"] = key.namespace
            if is_dry:
                return body
            self.created.append(f"{key.plural}/{key.name}")
            return copy.deepcopy(self.put(key.group, key.plural, body))

    def _check(self, plural: str, name: str, body: Object) -> None:
        wrong = complaints(self.schemas[plural], body, body["kind"]) if self.schemas is not None else []
        if wrong:
            raise Refusal(400, "BadRequest", f"strict decoding error: {'; '.join(wrong)}")
        if plural in ("secrets", "configmaps") and _size_of(body) > MOST_OBJECT:
            raise Refusal(422, "Invalid", f"{name}: Too long: may not be more than {MOST_OBJECT} bytes")

    def read(self, key: Key) -> Object:
        with self.lock:
            if key not in self.objects:
                raise Refusal(404, "NotFound", f'{key.plural} "{key.name}" not found')
            return copy.deepcopy(self.objects[key])

    def list(self, key: Key, selector: str = "") -> list[Object]:
        """All of a kind, in one namespace if the key has one."""
        with self.lock:
            return [
                copy.deepcopy(body)
                for known, body in sorted(self.objects.items())
                if known[:2] == key[:2] and key.namespace in ("", known.namespace) and is_selected(body, selector)
            ]

    def patch(self, key: Key, content_type: str, patch: Any) -> Object:
        """A merge patch or a JSON patch, or with another content type the whole object in place of the old one."""
        with self.lock:
            known = self.read(key)
            body = _patched(known, content_type, patch)
            wanted = body["metadata"].get("resourceVersion")
            if wanted and wanted != known["metadata"]["resourceVersion"]:
                raise Refusal(409, "Conflict", "the object has been modified")
            if body["metadata"].get("uid") != known["metadata"]["uid"]:
                raise Refusal(409, "Conflict", "Precondition failed: UID in precondition")
            if "spec" in known and body.get("spec") != known.get("spec"):
                body["metadata"]["generation"] = known["metadata"].get("generation", 1) + 1
            metadata = body["metadata"]
            if metadata.get("deletionTimestamp") and not metadata.get("finalizers") and key.plural != "pods":
                self.remove(key.plural, key.name)
                return body
            return copy.deepcopy(self._store(key, body, "MODIFIED"))

    def delete(self, path: str, options: Object) -> Object:
        """A pod that runs on a node stays until its containers have ended (`remove`), and so does what has finalizers."""
        return self._delete(self.target(path).key, options)

    def _delete(self, key: Key, options: Object) -> Object:
        with self.lock:
            body = self.read(key)
            wanted = (options.get("preconditions") or {}).get("uid")
            if wanted and wanted != body["metadata"]["uid"]:
                raise Refusal(409, "Conflict", "Precondition failed: UID in precondition")
            spec = body.get("spec") or {}
            grace = options.get("gracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30))
            is_running = key.plural == "pods" and grace and spec.get("nodeName") and not is_over(body)
            if is_running or body["metadata"].get("finalizers"):
                body["metadata"].setdefault("deletionTimestamp", now())
                body["metadata"]["deletionGracePeriodSeconds"] = grace
                return copy.deepcopy(self._store(key, body, "MODIFIED"))
            self.remove(key.plural, key.name)
            return {"kind": "Status", "status": "Success", "details": {"uid": body["metadata"]["uid"]}}

    # ---- what tests do

    def all(self, plural: str) -> list[Object]:
        with self.lock:
            return [copy.deepcopy(body) for key, body in sorted(self.objects.items()) if key.plural == plural]

    def get(self, plural: str, name: str) -> Object | None:
        return next((body for body in self.all(plural) if body["metadata"]["name"] == name), None)

    def put(self, group: str, plural: str, body: Object) -> Object:
        metadata = body.setdefault("metadata", {})
        metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", now())
        if plural == "pods":
            body.setdefault("status", {"phase": "Pending"})
        with self.lock:
            return self._store(Key(group, plural, metadata["namespace"], metadata["name"]), body, "ADDED")

    def change(self, plural: str, name: str, change: Callable[[Object], object]) -> None:
        with self.lock:
            key = self._key(plural, name)
            body = copy.deepcopy(self.objects[key])
            change(body)
            self._store(key, body, "MODIFIED")

    def remove(self, plural: str, name: str, *, is_collected: bool = True) -> None:
        """At once. What it owns goes the same way as if somebody deleted it, unless the garbage collector has not come by yet."""
        with self.lock:
            key = self._key(plural, name)
            body = copy.deepcopy(self.objects.pop(key))
            self.version += 1
            body["metadata"]["resourceVersion"] = str(self.version)
            self._tell(Change(self.version, "DELETED", key, body))
            if is_collected:
                self._collect()

    def forget(self) -> None:
        """As after a compaction: watches can't go on from where they were."""
        self.forgotten_up_to = self.version

    def _collect(self) -> None:
        uids = {body["metadata"]["uid"] for body in self.objects.values()}
        for key, body in list(self.objects.items()):
            owners = {each["uid"] for each in body["metadata"].get("ownerReferences") or ()}
            is_left = owners and not owners & uids and "deletionTimestamp" not in body["metadata"]
            if is_left and key in self.objects:
                self._delete(key, {})

    def _key(self, plural: str, name: str) -> Key:
        return next(key for key in self.objects if (key.plural, key.name) == (plural, name))

    def _store(self, key: Key, body: Object, kind: str) -> Object:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = body
        self._tell(Change(self.version, kind, key, copy.deepcopy(body)))
        return body

    def _tell(self, change: Change) -> None:
        self.changes.append(change)
        for listener in self.listeners:
            listener()


def is_selected(body: Object, selector: str) -> bool:
    labels = body["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        name, is_equal, text = part.partition("=")
        if part.startswith("!"):
            if part[1:] in labels:
                return False
        elif name not in labels or (is_equal and labels[name] != text):
            return False
    return True


def is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp() -> str:
    """As lines of logs have it."""
    seconds, rest = divmod(time.time_ns(), 10**9)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime(f"%Y-%m-%dT%H:%M:%S.{rest:09d}Z")


def _patched(known: Object, content_type: str, patch: Any) -> Object:
    if content_type == "application/json-patch+json":
        return _stepped(known, patch)
    if content_type == "application/merge-patch+json":
        merged: Object = _merged(known, patch)
        return merged
    assert content_type == "application/json", content_type
    return dict(patch)


def _stepped(body: Object, steps: list[Object]) -> Object:
    for step in steps:
        *parts, last = step["path"].strip("/").split("/")
        place = body
        for part in parts:
            place = place.setdefault(part, {})
        if step["op"] == "test":
            if place.get(last) != step["value"]:
                raise Refusal(422, "Invalid", "the test of a patch has failed")
        else:
            place[last] = step["value"]
    return body


def _merged(thing: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(thing) if isinstance(thing, dict) else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), item)
    return merged


def _size_of(body: Object) -> int:
    texts = [len(key) + len(text.encode()) for key, text in (body.get("data") or {}).items()]
    return sum(texts) + sum(
        len(key) + len(base64.b64decode(text)) for key, text in (body.get("binaryData") or {}).items()
    )
