"""A Kubernetes API over HTTP, as far as jobs need it: a few verbs, lists, watches and logs.
An adapter; standard library only.

    api = KubeApi(access, environ, timeout_s=30)
    api.get("/api/v1/namespaces/training/pods", labelSelector="umiak/run=ctr")
    api.create(path, body)                KubeRefused with status 409: there is one of this name
    for line in api.stream(path, {"follow": "true"}): ...

`kube.requests` says which requests are sent again, and when.
"""

from __future__ import annotations

import http.client
import ssl
import time
from urllib.parse import urlencode, urlsplit

from umiak.adapters.stores.http_retry import chance
from umiak.core.value import replace
from umiak.kube import requests
from umiak.kube.access import KubeCredentials
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.kube.requests import KubeRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.kube.kubeconfig import KubeAccess
    from umiak.kube.web_socket import WebSocket

BLOCK_BYTES = 1 << 16
LONGEST_LINE = 1 << 20
"""A longer line of a log is given in pieces."""


class KubeApi:
    """One cluster's API."""

    def __init__(
        self,
        access: KubeAccess,
        environ: Mapping[str, str],
        *,
        timeout_s: float | None,
        attempts: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access = access
        self._policy = requests.POLICY if attempts is None else replace(requests.POLICY, attempts=attempts)
        self._environ = environ
        self._credentials = KubeCredentials(access, environ)
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._kept: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    # ---- verbs

    def get(self, path: str, **query: str) -> JsonObject:
        return self._answer(KubeRequest("GET", path, query))

    def list(self, path: str, **query: str) -> tuple[list[JsonObject], str]:
        """All objects of a collection, page by page, and the version of the list."""
        objects: list[JsonObject] = []
        token = ""
        while True:
            items, version, token = requests.page(
                self._answer(KubeRequest("GET", path, requests.page_query(query, token)))
            )
            objects += items
            if not token:
                return objects, version

    def create(self, path: str, body: JsonMapping, **query: str) -> JsonObject:
        return self._answer(KubeRequest("POST", path, query, body))

    def patch(self, path: str, body: JsonMapping) -> JsonObject:
        return self._answer(KubeRequest("PATCH", path, {}, body, requests.MERGE))

    def delete(self, path: str, options: JsonMapping | None = None, **query: str) -> None:
        """Nothing if it is not there."""
        try:
            self._answer(KubeRequest("DELETE", path, query, requests.delete_body(options)))
        except KubeRefused as refused:
            if refused.status != 404:
                raise

    def stream(self, path: str, query: Mapping[str, str], *, quiet_s: float | None = None) -> Iterator[bytes]:
        """The lines of an answer as they come, until it ends or breaks off;
        with ``quiet_s``, until nothing came for so long.
        """
        request = KubeRequest("GET", path, query)
        connection = self._connect()
        try:
            response = self._send(connection, request)
            if response.status >= 400:
                raise _refused(response, request)
            if connection.sock is not None:
                connection.sock.settimeout(quiet_s)
            waiting = b""
            # Not readline: it takes a connection that broke for the end of the answer.
            while block := response.read1(BLOCK_BYTES):
                *lines, waiting = (waiting + block).split(b"\n")
                yield from (line + b"\n" for line in lines)
                if len(waiting) > LONGEST_LINE:
                    yield waiting
                    waiting = b""
            if waiting:
                yield waiting
        except (http.client.HTTPException, OSError) as error:
            raise requests.no_answer(error, request.name) from error
        finally:
            connection.close()

    def web_socket(self, path: str, query: Sequence[tuple[str, str]], protocol: str) -> WebSocket:
        """A connection in both directions, as ``pods/exec`` has it.
        KubeRefused if the API does not want it; OSError, HTTPException.
        """
        from umiak.kube import web_socket

        connection = self._connect()
        headers = {"User-Agent": "umiak", **self._credentials.headers()}
        base = urlsplit(self.access.server).path.rstrip("/")
        try:
            opened = web_socket.opened(connection, f"{base}{path}?{urlencode(query)}", headers, protocol)
        except BaseException:
            connection.close()
            raise
        if not isinstance(opened, web_socket.WebSocket):
            refused = _refused(opened, KubeRequest("GET", path))
            connection.close()
            raise refused
        if connection.sock is not None:
            connection.sock.settimeout(None)
        return opened

    # ---- requests

    def _answer(self, request: KubeRequest) -> JsonObject:
        attempts = requests.Attempts(policy=self._policy)
        while True:
            try:
                return self._once(request)
            except (KubeRefused, KubeSilent) as error:
                step = requests.next_step(attempts, error, chance())
                if isinstance(step, requests.GiveUp):
                    raise step.error from error.__cause__
                if isinstance(step, requests.SendAgain):
                    self._sleep(step.seconds)
                elif not self._credentials.renew():
                    raise
                attempts = step.attempts

    def _once(self, request: KubeRequest) -> JsonObject:
        try:
            response = self._response(request)
            if response.status >= 400:
                refused = _refused(response, request)
                self.close()
                raise refused
            text = response.read()
        except (http.client.HTTPException, OSError) as error:
            self.close()
            raise requests.no_answer(error, request.name) from error
        if response.will_close:
            self.close()
        return requests.parsed(text, request.name)

    def _response(self, request: KubeRequest) -> http.client.HTTPResponse:
        is_reused = self._kept is not None
        try:
            return self._send(self._connection(), request)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()
            if not is_reused:
                raise
            return self._send(self._connection(), request)  # it was idle for too long

    def _send(self, connection: http.client.HTTPConnection, request: KubeRequest) -> http.client.HTTPResponse:
        headers = {"Accept": "application/json, */*", "User-Agent": "umiak", **self._credentials.headers()}
        if request.body is not None:
            headers["Content-Type"] = request.kind
        connection.request(request.verb, request.target(self.access), body=request.data, headers=headers)
        return connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        if self._kept is None:
            self._kept = self._connect()
        return self._kept

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.access.server)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        through = requests.proxy(self.access, self._environ)
        context = self._credentials.tls()
        at = (through.hostname or "", through.port or 3128) if through else (host, port)
        connection: http.client.HTTPConnection
        if context is None:
            connection = http.client.HTTPConnection(*at, timeout=self._timeout_s)
        else:
            connection = _NamedHttps(*at, timeout=self._timeout_s, context=context, name=self.access.server_name)
        if through:
            headers = {}
            if through.username:
                import base64

                pair = f"{through.username}:{through.password or ''}".encode()
                headers["Proxy-Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
            connection.set_tunnel(host, port, headers)
        return connection


class _NamedHttps(http.client.HTTPSConnection):
    """HTTPS to a server whose certificate may have another name than its address."""

    def __init__(self, host: str, port: int, *, timeout: float | None, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._umiak_context, self._umiak_name = context, name

    def connect(self) -> None:
        if not self._umiak_name:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        self.sock = self._umiak_context.wrap_socket(self.sock, server_hostname=self._umiak_name)


def _refused(response: http.client.HTTPResponse, request: KubeRequest) -> KubeRefused:
    text = response.read(requests.LONGEST_REFUSAL)
    after = response.headers.get("Retry-After", "")
    return requests.refusal(response.status, response.reason or "", text, after, request.name, time.time())
