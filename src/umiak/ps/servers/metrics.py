"""How a server is, in the text format of Prometheus, and ``GET /metrics``: a small HTTP listener in a thread of its own. An adapter.

    text(json.loads(server.status()))      lines such as  umiak_ps_rows{server="0",table="ads"} 12
    endpoint = MetricsEndpoint("127.0.0.1", 9100, token=None, page=lambda: text(...))
    endpoint.port
    endpoint.close()

On loopback anybody may ask; elsewhere only who sends the job's token (``Authorization: Bearer ...``). One thread serves a
few connections at a time, each for a few seconds and a few kilobytes, so that strangers can't take much from a server.
"""

from __future__ import annotations

import hmac
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING

from umiak.core.names import is_loopback
from umiak.ps.servers import latencies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from umiak.core.json_types import JsonMapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

METRICS = {
    "umiak_ps_up_seconds": ("gauge", "Seconds since the server began."),
    "umiak_ps_step": ("gauge", "Steps that are applied, in a sync job."),
    "umiak_ps_requests_total": ("counter", "Requests of all kinds."),
    "umiak_ps_pull_requests_total": ("counter", "Requests to pull rows."),
    "umiak_ps_pulled_rows_total": ("counter", "Rows in them."),
    "umiak_ps_push_requests_total": ("counter", "Requests to push rows."),
    "umiak_ps_pushed_rows_total": ("counter", "Rows in them."),
    "umiak_ps_dense_pull_requests_total": ("counter", "Requests to pull dense parameters."),
    "umiak_ps_dense_push_requests_total": ("counter", "Requests to push dense gradients."),
    "umiak_ps_request_seconds": (
        "histogram",
        "Pulls and pushes by how long they took, from when they were read to when their answer was sent; with what they waited for other trainers.",
    ),
    "umiak_ps_connections": ("gauge", "Connections that are open."),
    "umiak_ps_rows": ("gauge", "Rows of an embedding table on this server."),
    "umiak_ps_elements": ("gauge", "Numbers of a dense table on this server."),
    "umiak_ps_table_bytes": ("gauge", "Memory of a table on this server."),
    "umiak_ps_learning_rate": ("gauge", "Learning rate of a table."),
    "umiak_ps_trainers": ("gauge", "Trainers in a state: expected, here, lost or done."),
    "umiak_ps_trainers_waiting": ("gauge", "Trainers that have waited for others for a second or more."),
    "umiak_ps_log_bytes": ("gauge", "Size of the log; absent without one."),
    "umiak_ps_log_failed": ("gauge", "1 if the log can't be written any more; absent without one."),
    "umiak_ps_snapshots_total": ("counter", "Snapshots that took the place of an older log; absent without one."),
}
"""Each metric: its kind and its meaning."""

REQUEST_SECONDS = "umiak_ps_request_seconds"
_COUNTS = {
    "umiak_ps_pull_requests_total": "pulls",
    "umiak_ps_pulled_rows_total": "pulled_rows",
    "umiak_ps_push_requests_total": "pushes",
    "umiak_ps_pushed_rows_total": "pushed_rows",
    "umiak_ps_dense_pull_requests_total": "dense_pulls",
    "umiak_ps_dense_push_requests_total": "dense_pushes",
}
_STATES = ("expected", "here", "lost", "done")

MOST_CONNECTIONS = 8
MOST_HEADER_BYTES = 8192
LIMIT_S = 5.0
"""How long one connection may take, from its first byte to the last."""
ROUND_S = 0.5


def text(status: JsonMapping) -> str:
    """Everything that `Server.status` says, as a page for a scraper."""
    samples: dict[str, list[str]] = {name: [] for name in METRICS}
    base = {"job": status["job"], "server": str(status["server"])}
    for name, number, labels in _samples(status):
        samples[name].append(_line(name, number, {**base, **labels}))
    samples[REQUEST_SECONDS] += [_line(name, number, {**base, **labels}) for name, number, labels in _spans(status)]
    lines = []
    for name, (kind, meaning) in METRICS.items():
        if samples[name]:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *samples[name]]
    return "\n".join(lines) + "\n"


def _line(name: str, number: float, labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
    return f"{name}{{{pairs}}} {number:.9g}" if isinstance(number, float) else f"{name}{{{pairs}}} {number}"


def _spans(status: JsonMapping) -> Iterable[tuple[str, float, dict[str, str]]]:
    told: JsonMapping = status.get("latencies") or {}
    for kind in latencies.KINDS if told else ():
        labels = {"kind": kind}
        count = 0
        for end, count in latencies.octaves(told, kind):
            yield f"{REQUEST_SECONDS}_bucket", count, {**labels, "le": end}
        yield f"{REQUEST_SECONDS}_sum", float(told[kind]["seconds"]), labels
        yield f"{REQUEST_SECONDS}_count", count, labels


def _samples(status: JsonMapping) -> Iterable[tuple[str, float, dict[str, str]]]:
    yield "umiak_ps_up_seconds", float(status["up_s"]), {}
    yield "umiak_ps_step", status["step"], {}
    yield "umiak_ps_requests_total", status["requests"], {}
    for name, count in _COUNTS.items():
        yield name, status["traffic"][count], {}
    yield "umiak_ps_connections", status.get("connections", 0), {}
    for table, about in sorted(status["tables"].items()):
        labels = {"table": table}
        if about["kind"] == "sparse":
            yield "umiak_ps_rows", about["rows"], labels
        else:
            yield "umiak_ps_elements", about["elements"], labels
        yield "umiak_ps_table_bytes", about["bytes"], labels
        yield "umiak_ps_learning_rate", float(about["learning_rate"]), labels
    states = [trainer["state"] for trainer in status["trainers"]]
    for state in _STATES:
        yield "umiak_ps_trainers", states.count(state), {"state": state}
    yield "umiak_ps_trainers_waiting", sum(trainer["waits"] is not None for trainer in status["trainers"]), {}
    log = status["log"]
    if log is not None:
        yield "umiak_ps_log_bytes", log["bytes"], {}
        yield "umiak_ps_log_failed", int(log["failure"] is not None), {}
        yield "umiak_ps_snapshots_total", log["snapshots"], {}


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# ---- asked over HTTP


class MetricsEndpoint:
    """Listens until it is closed. OSError if it can't."""

    def __init__(self, host: str, port: int, *, token: str | None, page: Callable[[], str]) -> None:
        self._needs = None if is_loopback(host) else token
        self._is_open = is_loopback(host)
        self._page = page
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._callers: dict[socket.socket, _Caller] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="umiak-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and end the thread."""
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._closing.is_set():
            for key, _ in self._selector.select(ROUND_S):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._callers:  # else it has just made room for another one
                    self._go_on(key.data)
            now = time.monotonic()
            for caller in [each for each in self._callers.values() if now > each.until]:
                self._drop(caller)
        for caller in [*self._callers.values()]:
            self._drop(caller)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._callers) >= MOST_CONNECTIONS:
            # The one that has had the most time: who asks in one go is through before its turn comes.
            self._drop(next(iter(self._callers.values())))
        connection.setblocking(False)
        caller = self._callers[connection] = _Caller(connection, time.monotonic() + LIMIT_S)
        self._selector.register(connection, selectors.EVENT_READ, caller)

    def _go_on(self, caller: _Caller) -> None:
        try:
            if caller.answer:
                sent = caller.connection.send(caller.answer)
                caller.answer = caller.answer[sent:]
                if not caller.answer:
                    self._drop(caller)
                return
            received = caller.connection.recv(MOST_HEADER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._drop(caller)
            return
        caller.heard += received
        ended = b"\r\n\r\n" in caller.heard
        if not received or (not ended and len(caller.heard) > MOST_HEADER_BYTES):
            self._drop(caller)
        elif ended:
            caller.answer = self._answer(caller.heard)
            self._selector.modify(caller.connection, selectors.EVENT_WRITE, caller)

    def _answer(self, heard: bytes) -> bytes:
        first, *lines = heard.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        if not self._may_ask(lines):
            return _response("401 Unauthorized", "the job's token is required\n", "WWW-Authenticate: Bearer\r\n")
        if rest.partition(" ")[0].partition("?")[0] != "/metrics":
            return _response("404 Not Found", "there is only /metrics\n")
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "GET only\n", "Allow: GET, HEAD\r\n")
        try:
            page = self._page()
        except Exception as error:  # noqa: BLE001 - the server may be ending; its metrics must not be what says so
            return _response("503 Service Unavailable", f"{type(error).__name__}\n")
        return _response("200 OK", page, has_content=method == "GET")

    def _may_ask(self, lines: list[str]) -> bool:
        if self._is_open:
            return True
        said = ""
        for line in lines:
            name, _, text = line.partition(":")
            if name.strip().lower() == "authorization":
                said = text.strip()
        kind, _, secret = said.partition(" ")
        # Compared whole, whatever is wrong, in a time that does not depend on where.
        fits = hmac.compare_digest(
            secret.strip().encode("latin-1"), (self._needs or "").encode("utf-8", "surrogateescape")
        )
        return fits and kind.lower() == "bearer" and self._needs is not None

    def _drop(self, caller: _Caller) -> None:
        self._callers.pop(caller.connection, None)
        self._selector.unregister(caller.connection)
        caller.connection.close()


class _Caller:
    """One connection: what it has said, and what it is still to be told."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self.connection = connection
        self.until = until
        self.heard = b""
        self.answer = b""


def _response(status: str, text: str, more: str = "", *, has_content: bool = True) -> bytes:
    content = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(content)}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + (content if has_content else b"")
