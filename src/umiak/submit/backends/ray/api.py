"""Talks to the dashboard of a Ray cluster: packages, jobs, logs, states. An adapter; standard library only.

Requests that change nothing are tried again. What went wrong is told without headers: those have tokens.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from urllib.parse import quote, urlencode, urlsplit

from umiak.adapters.stores.http_retry import Unanswered, named, refused, repeat
from umiak.submit.backends.ray.plan import status_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject

TIMEOUT_S = 60.0
BLOCK_BYTES = 1 << 16
NOT_FOUND = 404


class NeverSent(Unanswered):
    """There was no connection: the cluster has seen nothing."""


class RayApi:
    """One dashboard."""

    def __init__(self, address: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(address)
        self._is_tls = parts.scheme == "https"
        self._netloc = parts.netloc
        self._base = parts.path
        self._headers = dict(headers)
        self._tls = tls

    # ---- packages

    def has_package(self, name: str) -> bool:
        """Whether the cluster has it. Ray keeps it for ten minutes from now on,
        or puts it aside for the one that comes.
        """
        return self._maybe(f"/api/packages/gcs/{quote(name)}") is not None

    def send_package(self, name: str, data: bytes) -> None:
        repeat(lambda: self._answer("PUT", f"/api/packages/gcs/{quote(name)}", data))

    # ---- jobs

    def start(self, body: JsonMapping) -> None:
        """Once: `Unanswered` if it was refused or nobody knows."""
        self._answer("POST", "/api/jobs/", json.dumps(body).encode(), kind="application/json")

    def job(self, run_id: str) -> JsonObject | None:
        """What the cluster knows of a job; None: nothing."""
        data = self._maybe(f"/api/jobs/{quote(run_id)}")
        return None if data is None else _object(data)

    def jobs(self) -> list[JsonObject]:
        jobs = _parsed(repeat(lambda: self._answer("GET", "/api/jobs/")))
        if not isinstance(jobs, list):
            raise Unanswered("the answer is no list", again=False)
        return [each for each in jobs if isinstance(each, dict)]

    def stop(self, run_id: str) -> None:
        repeat(lambda: self._answer("POST", f"/api/jobs/{quote(run_id)}/stop", b""))

    def remove(self, run_id: str) -> None:
        """Let the cluster forget a job that is over."""
        repeat(lambda: self._answer("DELETE", f"/api/jobs/{quote(run_id)}"))

    def states(self, kind: str, name: str, text: str) -> list[JsonObject]:
        """Rows of Ray's state: ``placement_groups`` or ``actors`` of which a column is this text."""
        asked = {"detail": "1", "limit": "10000", "filter_keys": name, "filter_predicates": "=", "filter_values": text}
        answer = _object(repeat(lambda: self._answer("GET", f"/api/v0/{kind}?{urlencode(asked)}")))
        rows = (((answer.get("data") or {}).get("result")) or {}).get("result")
        return [each for each in rows or () if isinstance(each, dict)]

    # ---- logs

    def log(self, run_id: str, node_id: str) -> Iterator[bytes]:
        """All that a driver has printed until now."""
        connection, response = self._open("GET", _file_path("file", _driver_log(run_id), node_id))
        try:
            yield from _pieces(response)
        finally:
            response.close()
            connection.close()

    def status_lines(self, run_id: str, node_id: str) -> str:
        """What a driver has written about the nodes of its run;
        empty if that can't be had, as of a node that is gone.
        """
        try:
            return self._answer("GET", _file_path("file", status_file(run_id), node_id)).decode(errors="replace")
        except Unanswered:
            return ""

    def growing_log(self, run_id: str, node_id: str, silence_s: float) -> Iterator[bytes]:
        """All that it has printed and prints; an empty piece whenever nothing came for so long."""
        return self.growing_file(_driver_log(run_id), node_id, silence_s)

    def growing_file(self, name: str, node_id: str, silence_s: float) -> Iterator[bytes]:
        """The same of any file beside the logs of a node."""
        import queue
        import socket
        import threading

        connection, response = self._open("GET", _file_path("stream", name, node_id) + "&interval=0.1")
        if connection.sock:
            connection.sock.settimeout(None)
        came: queue.Queue[bytes | Unanswered | None] = queue.Queue(1000)

        def pump() -> None:
            try:
                for piece in _pieces(response):
                    came.put(piece)
                came.put(None)
            except Unanswered as error:
                came.put(error)

        threading.Thread(target=pump, daemon=True).start()
        try:
            while True:
                try:
                    piece = came.get(timeout=silence_s)
                except queue.Empty:
                    yield b""
                    continue
                if piece is None:
                    return
                if isinstance(piece, Unanswered):
                    raise piece
                yield piece
        finally:
            if connection.sock:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)  # the thread's reading ends, and with it the thread

    # ---- requests

    def _maybe(self, path: str) -> bytes | None:
        try:
            return repeat(lambda: self._answer("GET", path))
        except Unanswered as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _answer(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/octet-stream"
    ) -> bytes:
        connection, response = self._open(method, path, body, kind)
        try:
            return response.read()
        except (http.client.HTTPException, OSError) as error:
            raise Unanswered(named(error), again=True) from error
        finally:
            response.close()
            connection.close()

    def _open(
        self, method: str, path: str, body: bytes | None = None, kind: str = ""
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection: http.client.HTTPConnection
        if self._is_tls:
            connection = http.client.HTTPSConnection(self._netloc, timeout=TIMEOUT_S, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._netloc, timeout=TIMEOUT_S)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise NeverSent(named(error), again=True) from error
        try:
            headers = {**self._headers, **({"Content-Type": kind} if body is not None else {})}
            connection.request(method, f"{self._base}{path}", body=body, headers=headers)
            response = connection.getresponse()
            if response.status >= 300:
                text = response.read(1 << 16).decode(errors="replace")
                response.close()
                raise _refused(response, text)
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            raise Unanswered(named(error), again=True) from error
        except Unanswered:
            connection.close()
            raise
        return connection, response


def _driver_log(run_id: str) -> str:
    return f"job-driver-{run_id}.log"


def _file_path(way: str, name: str, node_id: str) -> str:
    asked = {"node_id": node_id, "filename": name, "lines": "-1"}
    return f"/api/v0/logs/{way}?{urlencode(asked)}"


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            data = response.read1(BLOCK_BYTES)
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise Unanswered(named(error), again=True) from error
        if not data:
            return
        yield data


def _refused(response: http.client.HTTPResponse, text: str) -> Unanswered:
    """Ray answers errors with a traceback: its last line says what it is about."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" .")]
    return refused(response, lines[-1][:200] if lines and not lines[-1].startswith("<") else "")


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise Unanswered("the answer is no JSON: is this the address of Ray's dashboard?", again=False) from None


def _object(data: bytes) -> JsonObject:
    parsed = _parsed(data)
    if not isinstance(parsed, dict):
        raise Unanswered("the answer is no JSON object", again=False)
    return parsed
