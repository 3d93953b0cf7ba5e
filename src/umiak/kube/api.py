"""A Kubernetes API over HTTP, as far as jobs need it: a few verbs, lists, watches and logs. An adapter; standard library only.

    api = KubeApi(access, environ, timeout_s=30)
    api.get("/api/v1/namespaces/training/pods", labelSelector="umiak/run=ctr")
    api.create(path, body)                KubeRefused with status 409: there is one of this name
    for line in api.stream(path, {"follow": "true"}): ...

Requests that got no answer, 429 and 5xx are sent again. Every object has a name of ours, so a creation that is sent twice creates
once. What went wrong is told without headers and bodies: they have tokens and secrets.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from urllib.parse import urlencode, urlsplit

from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import one_line, without_password
from umiak.kube.access import KubeCredentials
from umiak.kube.answers import KubeRefused, KubeSilent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from umiak.kube.kubeconfig import KubeAccess
    from umiak.kube.web_socket import WebSocket

ATTEMPTS = 6
FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 5.0
AGAIN = (408, 429, 500, 502, 503, 504)
MERGE = "application/merge-patch+json"
PAGE = 500
"""Objects in one answer to a list."""
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
        timeout_s: float,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access = access
        self._attempts = attempts
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

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return self._request("GET", path, query)

    def list(self, path: str, **query: str) -> tuple[list[dict[str, Any]], str]:
        """All objects of a collection, page by page, and the version of the list."""
        found: list[dict[str, Any]] = []
        more = ""
        while True:
            answer = self._request("GET", path, {**query, "limit": str(PAGE), **({"continue": more} if more else {})})
            found += answer.get("items") or []
            metadata = answer.get("metadata") or {}
            more = metadata.get("continue") or ""
            if not more:
                return found, str(metadata.get("resourceVersion") or "")

    def create(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        return self._request("POST", path, query, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._request("PATCH", path, {}, body, kind=MERGE)

    def delete(self, path: str, options: Mapping[str, Any] | None = None, **query: str) -> None:
        """Nothing if it is not there."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **(options or {})}
        try:
            self._request("DELETE", path, query, body)
        except KubeRefused as refused:
            if refused.status != 404:
                raise

    def stream(self, path: str, query: Mapping[str, str], *, quiet_s: float | None = None) -> Iterator[bytes]:
        """The lines of an answer as they come, until it ends or breaks off; with ``quiet_s``, until nothing came for so long."""
        connection = self._connect()
        try:
            response = self._send(connection, "GET", path, query, None, "")
            if response.status >= 400:
                raise _refused(response, f"GET {path}")
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
            raise KubeSilent(_named(error), f"GET {path}") from error
        finally:
            connection.close()

    def web_socket(self, path: str, query: Sequence[tuple[str, str]], protocol: str) -> WebSocket:
        """A connection in both directions, as ``pods/exec`` has it. KubeRefused if the API does not want it; OSError, HTTPException."""
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
            refused = _refused(opened, f"GET {path}")
            connection.close()
            raise refused
        if connection.sock is not None:
            connection.sock.settimeout(None)
        return opened

    # ---- requests

    def _request(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        kind: str = "application/json",
    ) -> dict[str, Any]:
        request = f"{verb} {path}"
        data = None if body is None else json.dumps(body).encode()
        may_renew = True
        delay_s = FIRST_DELAY_S
        for attempt in range(self._attempts):
            wait_s = delay_s
            try:
                return self._once(verb, path, query, data, kind)
            except KubeRefused as refused:
                if refused.status == 401 and may_renew and self._credentials.renew():
                    may_renew = False
                    continue
                if refused.status not in AGAIN:
                    raise
                trouble = f"{refused.status} {refused.reason}: {refused.message}"
                wait_s = max(wait_s, refused.after_s)
            except (http.client.HTTPException, OSError) as error:
                self.close()
                tls = _tls_words(error)
                trouble = _named(error)
                if tls:
                    raise KubeSilent(trouble, request, tls=tls) from error
            if attempt < self._attempts - 1:
                self._sleep(min(wait_s, LONGEST_DELAY_S))
                delay_s *= 2
        raise KubeSilent(trouble, request)

    def _once(self, verb: str, path: str, query: Mapping[str, str], data: bytes | None, kind: str) -> dict[str, Any]:
        is_reused = self._kept is not None
        try:
            response = self._send(self._connection(), verb, path, query, data, kind)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()
            if not is_reused:
                raise
            response = self._send(self._connection(), verb, path, query, data, kind)  # it was idle for too long
        if response.status >= 400:
            refused = _refused(response, f"{verb} {path}")
            self.close()
            raise refused
        text = response.read()
        if response.will_close:
            self.close()
        try:
            found = json.loads(text) if text else {}
        except ValueError:
            raise KubeRefused(0, "NotKubernetes", "the answer is no JSON", f"{verb} {path}") from None
        return found if isinstance(found, dict) else {}

    def _send(
        self,
        connection: http.client.HTTPConnection,
        verb: str,
        path: str,
        query: Mapping[str, str],
        data: bytes | None,
        kind: str,
    ) -> http.client.HTTPResponse:
        headers = {"Accept": "application/json, */*", "User-Agent": "umiak", **self._credentials.headers()}
        if data is not None:
            headers["Content-Type"] = kind
        base = urlsplit(self.access.server).path.rstrip("/")
        target = f"{base}{path}?{urlencode(query)}" if query else f"{base}{path}"
        connection.request(verb, target, body=data, headers=headers)
        return connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        if self._kept is None:
            self._kept = self._connect()
        return self._kept

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.access.server)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        proxy = self.access.proxy or self._proxy(parts.scheme, host)
        through = urlsplit(proxy) if proxy else None
        context = self._credentials.tls()
        if through is not None and through.scheme not in ("http", ""):
            problem = Problem(
                code="UM-SUBMIT-182",
                what=f"proxies of this kind are not supported: {without_password(proxy)}",
                hint="use an http:// proxy",
            )
            raise UmiakError(problem)
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

    def _proxy(self, scheme: str, host: str) -> str:
        """As the environment says it, unless it makes an exception for this host."""
        names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
        said = next((self._environ[name] for name in names if self._environ.get(name)), "")
        if not said:
            return ""
        from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

        spared = self._environ.get("no_proxy") or self._environ.get("NO_PROXY") or ""
        return "" if proxy_bypass_environment(host, {"no": spared}) else said


class _NamedHttps(http.client.HTTPSConnection):
    """HTTPS to a server whose certificate may have another name than its address."""

    def __init__(self, host: str, port: int, *, timeout: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._umiak_context, self._umiak_name = context, name

    def connect(self) -> None:
        if not self._umiak_name:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        self.sock = self._umiak_context.wrap_socket(self.sock, server_hostname=self._umiak_name)


def _refused(response: http.client.HTTPResponse, request: str) -> KubeRefused:
    text = response.read(1 << 16).decode(errors="replace")
    try:
        status = json.loads(text)
        reason, message = str(status["reason"]), str(status["message"])
    except (ValueError, KeyError, TypeError):
        reason, message = response.reason or "", one_line(text.strip(), 200)
    after = response.headers.get("Retry-After", "")
    after_s = float(after) if after.isdecimal() and len(after) < 4 else 0.0
    return KubeRefused(response.status, one_line(reason, 60), one_line(message, 600), request, after_s=after_s)


def _tls_words(error: Exception) -> str:
    """A hint where TLS itself is the trouble: sending it again does not help."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if "expired" in str(error):
            return "the server's certificate has expired, or this machine's clock is wrong"
        if "mismatch" in str(error).lower() or "doesn't match" in str(error):
            return "the certificate is for another name: use the address that is in it, or set tls-server-name in the kubeconfig"
        return (
            "the server's certificate is not signed by the authority in the kubeconfig: download the kubeconfig again"
        )
    if isinstance(error, ssl.SSLError) and ("ALERT" in str(error) or "WRONG_VERSION" in str(error)):
        return "is this a TLS port, and is the client certificate of the kubeconfig still accepted?"
    return ""


def _named(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or os.strerror(getattr(error, "errno", 0) or 0)
    return one_line(f"{type(error).__name__}: {text}", 300)
