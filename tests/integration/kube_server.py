"""A stand-in for a Kubernetes API over a real socket: keeps objects, checks tokens and schemas, and has troubles when it is told to.

    with KubeServer() as server:
        server.trouble("POST", "/jobs$", "lost")      done, and the answer never sent
        server.cluster.pods()                         what a controller would have created

Pods are as a test says (`set_pod`), or real: `Kubelet` starts what their containers would run, with mounts and environment.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.integration.kube_schemas import SCHEMAS, complaints

TOKEN = "token-of-a-person"
GROUPS = ("batch", "apps", "jobset.x-k8s.io", "batch.paddlepaddle.org", "scheduling.volcano.sh")
MOST_OBJECT = 1024 * 1024


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp() -> str:
    seconds, rest = divmod(time.time_ns(), 10**9)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime(f"%Y-%m-%dT%H:%M:%S.{rest:09d}Z")


class Refusal(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Cluster:
    """The objects of a cluster, and what its controllers would do with them."""

    def __init__(self, groups: tuple[str, ...] = GROUPS) -> None:
        self.groups = groups
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.events: list[tuple[int, str, str, dict[str, Any]]] = []
        self.version = 0
        self.oldest = 0
        self.logs: dict[str, list[tuple[str, str]]] = {}
        self.log_queries: list[dict[str, str]] = []
        """What was asked of logs."""
        self.log_cuts: list[int] = []
        """After so many lines a log connection breaks."""
        self.rights: Callable[[dict[str, Any]], bool] = lambda _: True
        self.created: list[str] = []

    # ---- objects

    def create(self, path: str, body: dict[str, Any], *, is_dry: bool = False) -> dict[str, Any]:
        plural = path.rpartition("/")[2]
        with self.lock:
            self.known(path)
            name = body["metadata"]["name"]
            if found := complaints(SCHEMAS[plural], body, body["kind"]):
                raise Refusal(400, "BadRequest", f"strict decoding error: {'; '.join(found)}")
            if plural in ("secrets", "configmaps") and size_of(body) > MOST_OBJECT:
                raise Refusal(422, "Invalid", f"{name}: Too long: may not be more than {MOST_OBJECT} bytes")
            if name in self.objects.setdefault(path, {}):
                raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
            made = copy.deepcopy(body)
            made["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
            if is_dry:
                return made
            self.created.append(f"{plural}/{name}")
            return self.put(path, made, "ADDED")

    def put(self, path: str, thing: dict[str, Any], kind: str = "MODIFIED") -> dict[str, Any]:
        with self.changed:
            self.version += 1
            thing["metadata"]["resourceVersion"] = str(self.version)
            store = self.objects.setdefault(path, {})
            if kind == "DELETED":
                store.pop(thing["metadata"]["name"], None)
            else:
                store[thing["metadata"]["name"]] = thing
            self.events.append((self.version, kind, path, copy.deepcopy(thing)))
            self.changed.notify_all()
            return copy.deepcopy(thing)

    def get(self, path: str) -> dict[str, Any]:
        collection, _, name = path.rpartition("/")
        with self.lock:
            self.known(collection)
            found = self.objects.get(collection, {}).get(name)
            if found is None:
                raise Refusal(404, "NotFound", f'"{name}" not found')
            return copy.deepcopy(found)

    def known(self, path: str) -> None:
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        if (group and group not in self.groups) or path.rpartition("/")[2] not in SCHEMAS:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")

    def list(self, path: str, selector: str = "") -> list[dict[str, Any]]:
        with self.lock:
            self.known(path)
            wanted = dict(each.split("=", 1) for each in selector.split(",") if each)
            return [
                copy.deepcopy(each)
                for each in self.objects.get(path, {}).values()
                if wanted.items() <= (each["metadata"].get("labels") or {}).items()
            ]

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            thing = self.get(path)
            return self.put(path.rpartition("/")[0], merged(thing, body))

    def delete(self, path: str, options: dict[str, Any]) -> dict[str, Any]:
        collection = path.rpartition("/")[0]
        with self.lock:
            thing = self.get(path)
            if collection.endswith("/pods") and not is_over(thing):
                grace = options.get("gracePeriodSeconds", thing["spec"].get("terminationGracePeriodSeconds", 30))
                thing["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": grace}
                return self.put(collection, thing)
            self.put(collection, thing, "DELETED")
            self._collect(thing)
            return thing

    def _collect(self, owner: dict[str, Any]) -> None:
        """What the garbage collector does when an owner is gone."""
        uids = {each["metadata"]["uid"] for store in self.objects.values() for each in store.values()}
        for path, store in list(self.objects.items()):
            for thing in list(store.values()):
                owners = thing["metadata"].get("ownerReferences") or []
                if owners and not {each["uid"] for each in owners} & uids:
                    self.delete(f"{path}/{thing['metadata']['name']}", {})

    # ---- what tests and controllers do

    def find(self, plural: str) -> list[dict[str, Any]]:
        with self.lock:
            return [
                copy.deepcopy(thing)
                for path, store in self.objects.items()
                if path.endswith(f"/{plural}")
                for thing in store.values()
            ]

    def pods(self) -> list[dict[str, Any]]:
        """Create the pods of every workload, as its controller would, and return them all."""
        for plural in ("jobs", "jobsets", "paddlejobs"):
            for workload in self.find(plural):
                for role, template, count, names in templates(workload):
                    for index in range(count):
                        self._pod(workload, role, template, index, names(index))
        return self.find("pods")

    def _pod(self, owner: dict[str, Any], role: str, template: dict[str, Any], index: int, name: str) -> None:
        path = f"/api/v1/namespaces/{owner['metadata']['namespace']}/pods"
        if name in self.objects.get(path, {}):
            return
        metadata = copy.deepcopy(template["metadata"])
        metadata |= {"name": name, "namespace": owner["metadata"]["namespace"]}
        if owner["kind"] != "PaddleJob":
            metadata.setdefault("annotations", {})["batch.kubernetes.io/job-completion-index"] = str(index)
        reference = {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [{**reference, "kind": owner["kind"], "apiVersion": owner["apiVersion"]}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}
        self.create(path, pod)
        self.set_pod(name, "Pending")

    def set_pod(self, name: str, phase: str, state: dict[str, Any] | None = None, **status: Any) -> None:
        with self.lock:
            pod = next(each for each in self.find("pods") if each["metadata"]["name"] == name)
            if phase != "Pending" or state:
                pod["spec"]["nodeName"] = "node-1"
            rows = [
                {"name": "umiak", "image": pod["spec"]["containers"][0]["image"], "state": state or {"waiting": {}}}
            ]
            pod["status"] = {"phase": phase, "containerStatuses": rows, **status}
            self.put(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)

    def set_status(self, plural: str, status: dict[str, Any]) -> None:
        with self.lock:
            for thing in self.find(plural):
                version = (
                    f"/apis/{thing['apiVersion']}" if "/" in thing["apiVersion"] else f"/api/{thing['apiVersion']}"
                )
                path = f"{version}/namespaces/{thing['metadata']['namespace']}/{plural}"
                self.put(path, {**thing, "status": status})

    def say(self, pod: str, *lines: str) -> None:
        with self.changed:
            self.logs.setdefault(pod, []).extend((stamp(), line) for line in lines)
            self.changed.notify_all()

    def is_pod_over(self, name: str) -> bool:
        pod = next((each for each in self.find("pods") if each["metadata"]["name"] == name), None)
        return pod is None or is_over(pod)


def templates(workload: dict[str, Any]) -> list[tuple[str, dict[str, Any], int, Callable[[int], str]]]:
    """Role, template, number and names of a workload's pods."""
    spec, name = workload["spec"], workload["metadata"]["name"]
    if workload["kind"] == "PaddleJob":
        roles = [(role, spec[role]) for role in ("ps", "worker", "heter") if role in spec]
        return [(r, each["template"], each["replicas"], lambda i, r=r: f"{name}-{r}-{i}") for r, each in roles]  # type: ignore[misc]
    if workload["kind"] == "JobSet":
        rows = [(f"{name}-{each['name']}-0", each["template"]["spec"]) for each in spec["replicatedJobs"]]
    else:
        rows = [(name, spec)]
    return [("", job["template"], job["completions"], lambda i, n=n: f"{n}-{i}-x7k2p") for n, job in rows]  # type: ignore[misc]


def is_over(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def merged(thing: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(thing) if isinstance(thing, dict) else {}
    for key, item in patch.items():
        if item is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), item)
    return found


def size_of(body: dict[str, Any]) -> int:
    texts = [len(key) + len(text.encode()) for key, text in (body.get("data") or {}).items()]
    return sum(texts) + sum(
        len(key) + len(base64.b64decode(text)) for key, text in (body.get("binaryData") or {}).items()
    )


class KubeServer:
    """The API of a cluster on loopback."""

    def __init__(
        self, cluster: Cluster | None = None, context: ssl.SSLContext | None = None, token: str = TOKEN
    ) -> None:
        self.cluster = cluster or Cluster()
        self.tokens = {token}
        self.requests: list[str] = []
        self.troubles: list[tuple[str, str, str]] = []
        self.released = threading.Event()
        owner = self

        class Handler(_Handler):
            server_of = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if context:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "https" if context else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"

    def trouble(self, verb: str, part: str, what: str, times: int = 1) -> None:
        """409, 429, 500, ``hang``, ``drop`` (not done) or ``lost`` (done) for the next requests whose address has this pattern."""
        self.troubles += [(verb, part, what)] * times

    def __enter__(self) -> KubeServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        with self.cluster.changed:
            self.cluster.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

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


class _Handler(BaseHTTPRequestHandler):
    server_of: KubeServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError, TimeoutError):
            pass

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names of http.server

    def _serve(self) -> None:
        owner = self.server_of
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        owner.requests.append(f"{self.command} {self.path}")
        trouble = self._trouble(self.path)
        if trouble in ("hang", "drop"):
            if trouble == "hang":
                owner.released.wait(60)
            self.close_connection = True
            return
        if trouble.isdecimal():
            self._answer(int(trouble), {"reason": "Trouble", "message": "told to"}, {"Retry-After": "0"})
            return
        try:
            self._check_token()
            if self.command == "GET" and (parts.path.endswith("/log") or query.get("watch")):
                (self._log if parts.path.endswith("/log") else self._watch)(parts.path, query)
                return
            answer = self._done(parts.path, query, body)
        except Refusal as refusal:
            body = {"kind": "Status", "reason": refusal.reason, "message": refusal.message, "code": refusal.status}
            self._answer(refusal.status, body)
            return
        if trouble == "lost":
            self.close_connection = True
            return
        self._answer(200, answer)

    def _check_token(self) -> None:
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in self.server_of.tokens:
            raise Refusal(401, "Unauthorized", "Unauthorized")

    def _trouble(self, path: str) -> str:
        owner = self.server_of
        for number, (verb, part, what) in enumerate(owner.troubles):
            if verb == self.command and re.search(part, path):
                del owner.troubles[number]
                return what
        return ""

    def _done(self, path: str, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        cluster = self.server_of.cluster
        if path == "/version":
            return {"gitVersion": "v1.37.0"}
        if path == "/apis":
            return {"kind": "APIGroupList", "groups": [{"name": name} for name in cluster.groups]}
        if path.endswith("/selfsubjectaccessreviews"):
            return {**body, "status": {"allowed": cluster.rights(body["spec"]["resourceAttributes"])}}
        if path.count("/") == 4 and path.startswith("/api/v1/namespaces/"):
            return {"metadata": {"name": path.rpartition("/")[2]}}
        if self.command == "POST":
            return cluster.create(path, body, is_dry="dryRun" in query)
        if self.command == "PATCH":
            assert self.headers["Content-Type"] == "application/merge-patch+json"
            return cluster.patch(path, body)
        if self.command == "DELETE":
            return cluster.delete(path, body)
        if path.rpartition("/")[2] not in SCHEMAS:
            return cluster.get(path)
        with cluster.lock:
            found = cluster.list(path, query.get("labelSelector", ""))
            first, size = int(query.get("continue", "0")), int(query.get("limit", "500"))
            more = {"continue": str(first + size)} if first + size < len(found) else {}
            metadata = {"resourceVersion": str(cluster.version), **more}
            items = [{key: item for key, item in each.items() if key not in ("kind", "apiVersion")} for each in found]
            return {"metadata": metadata, "items": items[first : first + size]}

    def _watch(self, path: str, query: dict[str, str]) -> None:
        cluster, owner = self.server_of.cluster, self.server_of
        seen = int(query["resourceVersion"])
        if seen < cluster.oldest:
            raise Refusal(410, "Expired", "too old resource version")
        self._begin_stream("application/json")
        wanted = dict(each.split("=", 1) for each in query.get("labelSelector", "").split(",") if each)
        while not owner.released.is_set():
            with cluster.changed:
                news = [each for each in cluster.events if each[0] > seen and each[2] == path]
                if not news:
                    cluster.changed.wait(0.2)
                    continue
            for version, kind, _, thing in news:
                seen = version
                if wanted.items() <= (thing["metadata"].get("labels") or {}).items():
                    self._chunk(json.dumps({"type": kind, "object": thing}).encode() + b"\n")

    def _log(self, path: str, query: dict[str, str]) -> None:
        cluster, owner = self.server_of.cluster, self.server_of
        cluster.get(path.removesuffix("/log"))
        name = path.split("/")[-2]
        assert query["container"] == "umiak"
        assert query["timestamps"] == "true"
        self._begin_stream("text/plain")
        cut = cluster.log_cuts.pop(0) if cluster.log_cuts else -1
        since, sent = query.get("sinceTime", ""), 0
        given = 0
        cluster.log_queries.append(query)
        if "tailLines" in query:
            sent = max(0, len(cluster.logs.get(name, [])) - int(query["tailLines"]))
        while not owner.released.is_set():
            is_over = cluster.is_pod_over(name)
            with cluster.changed:
                lines = cluster.logs.get(name, [])[sent:]
            for at, line in lines:
                sent += 1
                if since and at < since.removesuffix("Z"):
                    continue
                if given == cut:
                    self.wfile.write(b"40\r\n" + f"{at} {line}"[:20].encode())  # breaks in the middle of a line
                    self.wfile.flush()
                    self.close_connection = True
                    return
                self._chunk(f"{at} {line}\n".encode())
                given += 1
            if not query.get("follow") or is_over:
                break
            with cluster.changed:
                if len(cluster.logs.get(name, [])) == sent:
                    cluster.changed.wait(0.1)
        self.wfile.write(b"0\r\n\r\n")

    def _begin_stream(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _answer(self, status: int, data: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)


class Kubelet:
    """Starts the containers of pods as processes of this machine: mounts, environment, logs and exit codes are real."""

    def __init__(
        self, cluster: Cluster, directory: Path, environment: Callable[[dict[str, Any]], dict[str, str]]
    ) -> None:
        self.cluster, self.directory, self.environment = cluster, directory, environment
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.environs: dict[str, dict[str, str]] = {}
        self.threads: list[threading.Thread] = []
        self.entry: list[str] = []
        """Words before each container's command, such as those that enter a network namespace."""

    def start(self) -> None:
        for pod in self.cluster.pods():
            name = pod["metadata"]["name"]
            if name not in self.processes:
                self._start(name, pod)

    def _start(self, name: str, pod: dict[str, Any]) -> None:
        root = self.directory / name
        container = pod["spec"]["containers"][0]
        sources = {each["name"]: each for each in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            where = root / mount["mountPath"].lstrip("/")
            where.mkdir(parents=True)
            if config := sources[mount["name"]].get("configMap"):
                self._mount(where, config)
        environ = {"PATH": os.environ["PATH"], "HOME": str(root), "HOSTNAME": name}
        for source in container["envFrom"]:
            secret = self._of("secrets", source["secretRef"]["name"])
            environ |= {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}
        environ |= {each["name"]: each["value"] for each in container["env"]} | self.environment(pod)
        self.environs[name] = environ
        words = [word.replace("/umiak/", f"{root}/umiak/") for word in container["command"]]
        words[0] = sys.executable
        process = subprocess.Popen(
            [*self.entry, *words],
            env=environ,
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes[name] = process
        self.cluster.set_pod(name, "Running", {"running": {"startedAt": now()}})
        for work in (self._watch, self._end):
            self.threads.append(threading.Thread(target=work, args=(name, process), daemon=True))
            self.threads[-1].start()

    def _mount(self, where: Path, config: dict[str, Any]) -> None:
        """As a kubelet does: a file is a link into a directory of data."""
        found = self._of("configmaps", config["name"])
        content = {key: text.encode() for key, text in (found.get("data") or {}).items()}
        content |= {key: base64.b64decode(text) for key, text in (found.get("binaryData") or {}).items()}
        items = config.get("items") or [{"key": key, "path": key} for key in content]
        (where / "..data").mkdir()
        for item in items:
            (where / "..data" / item["path"]).write_bytes(content[item["key"]])
            (where / item["path"]).symlink_to(Path("..data") / item["path"])

    def _of(self, plural: str, name: str) -> dict[str, Any]:
        return next(each for each in self.cluster.find(plural) if each["metadata"]["name"] == name)

    def _watch(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.cluster.say(name, line.rstrip("\n"))
        code = process.wait()
        code = 128 - code if code < 0 else code
        ended = {"exitCode": code, "finishedAt": now(), "startedAt": now(), "reason": "Error" if code else "Completed"}
        if name in {each["metadata"]["name"] for each in self.cluster.find("pods")}:
            self.cluster.set_pod(name, "Failed" if code else "Succeeded", {"terminated": ended})
            pod = next(each for each in self.cluster.find("pods") if each["metadata"]["name"] == name)
            if pod["metadata"].get("deletionTimestamp"):
                self.cluster.delete(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}", {})

    def _end(self, name: str, process: subprocess.Popen[str]) -> None:
        """Signals as a kubelet sends them to a pod that is being deleted."""
        signalled_at = 0.0
        while process.poll() is None:
            pod = next((each for each in self.cluster.find("pods") if each["metadata"]["name"] == name), None)
            is_ending = pod is None or pod["metadata"].get("deletionTimestamp")
            if is_ending and not signalled_at:
                signalled_at = time.monotonic()
                process.send_signal(signal.SIGTERM)
            grace = 0 if pod is None else pod["metadata"].get("deletionGracePeriodSeconds", 30)
            if signalled_at and time.monotonic() > signalled_at + max(grace, 5):
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.05)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for each in self.threads:
            each.join(10)
