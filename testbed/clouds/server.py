"""Adapter: what all stand-ins of clouds share, an HTTP server on loopback that verifies, obeys, and fails on demand.

    with serving(PaiStandIn()) as cloud:
        cloud.url
        cloud.faults += ["create:429", "create:lost", "log:500"]     each for the next request of that action

Faults: a status is answered instead of obeying; `lost` obeys and closes the connection without an answer; `hang` answers nothing until
the client gives up; `late` is that, and obeys when `release` is called.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

ACCESS, SECRET = "AKIDTESTKEY0001", "SECRET-KEY-a8f2c1"
SECONDS_AGO = 30.0
"""When the jobs of stand-ins were made: what they have logged since is in the past."""


@dataclass
class CloudRequest:
    """One request."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body or b"{}")
        return found

    def asked(self, name: str) -> str:
        return dict(self.query).get(name, "")


@dataclass
class StandInJob:
    """A job that a stand-in keeps."""

    id: str
    name: str
    body: dict[str, Any]
    word: str
    made_s: float
    logs: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    exit_codes: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    is_stopped: bool = False

    def log(self, pod: str, *lines: str, at_s: float | None = None) -> None:
        seconds = self.made_s + 1 if at_s is None else at_s
        self.logs.setdefault(pod, []).extend((seconds, line) for line in lines)


class StandIn:
    """One cloud."""

    FIRST_WORD = ""

    def __init__(self) -> None:
        self.url = ""
        self.faults: list[str] = []
        self.requests: list[tuple[str, CloudRequest]] = []
        self.jobs: dict[str, StandInJob] = {}
        self._waiting: list[CloudRequest] = []
        self._lock = threading.Lock()

    # What a cloud says.

    def action(self, request: CloudRequest) -> str:
        raise NotImplementedError

    def verify(self, request: CloudRequest) -> bool:
        raise NotImplementedError

    def obey(self, action: str, request: CloudRequest) -> tuple[int, dict[str, Any]]:
        raise NotImplementedError

    def error(self, status: int, code: str, message: str) -> dict[str, Any]:
        raise NotImplementedError

    # What all do.

    def new_job(self, job_id: str, name: str, body: dict[str, Any]) -> StandInJob:
        made = StandInJob(job_id, name, body, self.FIRST_WORD, time.time() - SECONDS_AGO + len(self.jobs))
        self.jobs[job_id] = made
        return made

    def only_job(self) -> StandInJob:
        (found,) = self.jobs.values()
        return found

    def release(self) -> None:
        """Obey what was `late`."""
        for request in self._waiting:
            self.obey(self.action(request), request)
        self._waiting.clear()

    def count(self, action: str) -> int:
        return sum(each == action for each, _ in self.requests)

    def handle(self, request: CloudRequest) -> tuple[int, dict[str, Any]] | None:
        """The answer; None: the connection is closed without one."""
        with self._lock:
            action = self.action(request)
            self.requests.append((action, request))
            if not self.verify(request):
                return 401, self.error(401, "SignatureDoesNotMatch", f"the signature of {ACCESS} is wrong")
            fault = self._fault(action)
            if fault == "late":
                self._waiting.append(request)
            if fault in ("hang", "late"):
                return None
            if fault.isdigit():
                return int(fault), self.error(int(fault), "Injected", "an injected fault")
            answer = self.obey(action, request)
            return None if fault == "lost" else answer

    def _fault(self, action: str) -> str:
        for each in self.faults:
            name, _, fault = each.partition(":")
            if name == action:
                self.faults.remove(each)
                return fault
        return ""


@contextlib.contextmanager
def serving(cloud: StandIn) -> Iterator[Any]:
    """Run a stand-in."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            request = CloudRequest(
                method=self.command,
                path=parts.path,
                query=parse_qsl(parts.query, keep_blank_values=True),
                headers={name.lower(): text for name, text in self.headers.items()},
                body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
            )
            is_hanging = f"{cloud.action(request)}:hang" in cloud.faults or (
                f"{cloud.action(request)}:late" in cloud.faults
            )
            answer = cloud.handle(request)
            if answer is None:
                self.close_connection = True
                if is_hanging:
                    with contextlib.suppress(OSError):
                        self.rfile.read(1)  # until the client gives up
                return
            status, said = answer
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    cloud.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield cloud
    finally:
        server.shutdown()
        server.server_close()
