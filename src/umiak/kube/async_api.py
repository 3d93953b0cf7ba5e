"""A Kubernetes API over HTTP for programs that do many things at once: verbs, lists in pages, watches, logs. An adapter; asyncio.

    async with AsyncKubeApi(access, environ) as api:
        made = await api.create("/api/v1/namespaces/training/pods", body)      KubeRefused with status 409: there is one of this name
        async for line in api.watch("/api/v1/pods", {"resourceVersion": "17"}): ...

Requests that got no answer, 429 and 5xx are sent again, with jitter, and no sooner than the API asks for. Every object has a name
of ours, so a creation that is sent twice creates once. What went wrong is told without headers and bodies: they have tokens.
Only this module imports aiohttp.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlencode, urlsplit

import aiohttp

from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import one_line, without_password
from umiak.kube.access import KubeCredentials
from umiak.kube.answers import KubeRefused, KubeSilent

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from typing import Any

    from umiak.kube.kubeconfig import KubeAccess

ATTEMPTS = 5
FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 10.0
AGAIN = (408, 429, 500, 502, 503, 504)
JSON, MERGE, JSON_PATCH = "application/json", "application/merge-patch+json", "application/json-patch+json"
PAGE = 500
"""Objects in one answer to a list: a larger one would hold up everything else while it is read."""
LONGEST_LOG_BYTES = 1 << 20
CLOCK_EVERY_S = 30.0
CLOCKS_S = 5.0
"""Clocks that differ by less are taken for equal: answers take a while, and name whole seconds."""


class AsyncKubeApi:
    """One cluster's API, with a pool of connections."""

    def __init__(
        self,
        access: KubeAccess,
        environ: Mapping[str, str],
        *,
        timeout_s: float = 30.0,
        connections: int = 64,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        answered: Callable[[str, int, float], None] = lambda _verb, _status, _seconds: None,
    ) -> None:
        self.access = access
        self._environ = environ
        self._credentials = KubeCredentials(access, environ)
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._connections = connections
        self._sleep = sleep
        self._answered = answered
        """Called with verb, status (0: none) and seconds of every request, for metrics."""
        self.clock_ahead_s = 0.0
        """How far the server's clock is ahead of ours."""
        self._clock_seen_s = 0.0
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None
        self._base = urlsplit(access.server).path.rstrip("/")
        parts = urlsplit(access.server)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._proxy = access.proxy or self._proxy_of_environ(parts.scheme, parts.hostname or "")
        if self._proxy and urlsplit(self._proxy).scheme != "http":
            problem = Problem(
                code="UM-SUBMIT-182",
                what=f"proxies of this kind are not supported: {without_password(self._proxy)}",
                hint="use an http:// proxy",
            )
            raise UmiakError(problem)

    async def __aenter__(self) -> AsyncKubeApi:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=self._connections, keepalive_timeout=60),
            auto_decompress=True,
            headers={"User-Agent": "umiak-operator", "Accept": "application/json", "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # ---- verbs

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        return await self._request("GET", path, query)

    async def pages(self, path: str, **query: str) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        """All objects of a collection, page by page, each with the version of the list."""
        more = ""
        while True:
            answer = await self._request(
                "GET", path, {**query, "limit": str(PAGE), **({"continue": more} if more else {})}
            )
            metadata = answer.get("metadata") or {}
            more = metadata.get("continue") or ""
            yield answer.get("items") or [], str(metadata.get("resourceVersion") or "")
            if not more:
                return

    async def create(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        return await self._request("POST", path, query, body)

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._request("PUT", path, {}, body)

    async def patch(self, path: str, body: object, kind: str = MERGE) -> dict[str, Any]:
        return await self._request("PATCH", path, {}, body, kind=kind)

    async def delete(self, path: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """KubeRefused with status 404 if it is not there, 409 if it is another one than the options say."""
        return await self._request("DELETE", path, {}, {"kind": "DeleteOptions", "apiVersion": "v1", **(options or {})})

    async def text(self, path: str, **query: str) -> str:
        """An answer that is no JSON: the log of a pod. One attempt."""
        response = await self._send("GET", path, query, None, JSON, self._timeout)
        async with response:
            if response.status >= 400:
                raise await _refused(response, f"GET {path}")
            return (await response.content.read(LONGEST_LOG_BYTES)).decode(errors="replace")

    async def watch(self, path: str, query: Mapping[str, str], *, quiet_s: float) -> AsyncIterator[bytes]:
        """The lines of a watch as they come. It ends when the API ends it; KubeSilent if it breaks off, or is quiet for too long."""
        request = f"WATCH {path}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.total, sock_read=quiet_s)
        try:
            response = await self._send("GET", path, {**query, "watch": "1"}, None, JSON, timeout)
            async with response:
                if response.status >= 400:
                    raise await _refused(response, request)
                waiting = b""
                async for block in response.content.iter_any():
                    *lines, waiting = (waiting + block).split(b"\n")
                    for line in lines:
                        yield line
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise KubeSilent(_named(error), request) from error

    # ---- requests

    async def _request(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        body: object = None,
        kind: str = JSON,
    ) -> dict[str, Any]:
        request = f"{verb} {path}"
        data = None if body is None else json.dumps(body).encode()
        may_renew = True
        delay_s = FIRST_DELAY_S
        trouble = ""
        for attempt in range(ATTEMPTS):
            wait_s = delay_s
            try:
                return await self._once(verb, path, query, data, kind)
            except KubeRefused as refused:
                if refused.status == 401 and may_renew and self._credentials.renew():
                    may_renew = False
                    continue
                if refused.status not in AGAIN:
                    raise
                trouble = f"{refused.status} {refused.reason}: {refused.message}"
                wait_s = max(wait_s, refused.after_s)
            except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
                raise KubeSilent(
                    _named(error), request, tls="is the authority of the cluster's certificate right?"
                ) from error
            except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
                trouble = _named(error)
            if attempt < ATTEMPTS - 1:
                await self._sleep(min(wait_s, LONGEST_DELAY_S) * random.uniform(1.0, 1.5))  # noqa: S311 - jitter
                delay_s *= 2
        raise KubeSilent(trouble, request)

    async def _once(
        self, verb: str, path: str, query: Mapping[str, str], data: bytes | None, kind: str
    ) -> dict[str, Any]:
        response = await self._send(verb, path, query, data, kind, self._timeout)
        async with response:
            if response.status >= 400:
                raise await _refused(response, f"{verb} {path}")
            text = await response.read()
        try:
            found = json.loads(text) if text else {}
        except ValueError:
            raise KubeRefused(0, "NotKubernetes", "the answer is no JSON", f"{verb} {path}") from None
        return found if isinstance(found, dict) else {}

    async def _send(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        data: bytes | None,
        kind: str,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        session = self._session
        assert session is not None, "the client is not open"
        headers = await self._headers()
        if data is not None:
            headers["Content-Type"] = kind
        target = f"{self._origin}{self._base}{path}{f'?{urlencode(query)}' if query else ''}"
        began = time.monotonic()
        status = 0
        try:
            response = await session.request(
                verb,
                target,
                data=data,
                headers=headers,
                timeout=timeout,
                ssl=self._tls or True,
                server_hostname=self.access.server_name or None,
                proxy=self._proxy or None,
                allow_redirects=False,
            )
            status = response.status
            self._look_at_clock(response.headers.get("Date", ""))
        finally:
            self._answered("WATCH" if "watch" in query else verb, status, time.monotonic() - began)
        return response

    def _look_at_clock(self, said: str) -> None:
        """How far the server's clock is ahead of ours. What it writes into objects is compared with the time of now."""
        now_s = time.time()
        if not said or abs(now_s - self._clock_seen_s) < CLOCK_EVERY_S:
            return
        try:
            ahead_s = parsedate_to_datetime(said).timestamp() - now_s
        except (TypeError, ValueError):
            return
        self._clock_seen_s = now_s
        self.clock_ahead_s = ahead_s if abs(ahead_s) > CLOCKS_S else 0.0

    async def _headers(self) -> dict[str, str]:
        """Credentials of this moment: a pod's token is renewed in its file; plug-ins are processes, and not waited for here."""
        credentials = self._credentials
        if self.access.plugin:
            found, self._tls = await asyncio.to_thread(lambda: (credentials.headers(), credentials.tls()))
            return dict(found)
        if self._tls is None:
            self._tls = credentials.tls()
        return credentials.headers()

    def _proxy_of_environ(self, scheme: str, host: str) -> str:
        names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
        said = next((self._environ[name] for name in names if self._environ.get(name)), "")
        if not said:
            return ""
        from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

        spared = self._environ.get("no_proxy") or self._environ.get("NO_PROXY") or ""
        return "" if proxy_bypass_environment(host, {"no": spared}) else said


async def _refused(response: aiohttp.ClientResponse, request: str) -> KubeRefused:
    text = (await response.content.read(1 << 16)).decode(errors="replace")
    try:
        status = json.loads(text)
        reason, message = str(status["reason"]), str(status["message"])
    except (ValueError, KeyError, TypeError):
        reason, message = response.reason or "", one_line(text.strip(), 200)
    after = response.headers.get("Retry-After", "")
    after_s = float(after) if after.isdecimal() and len(after) < 4 else 0.0
    return KubeRefused(response.status, one_line(reason, 60), one_line(message, 600), request, after_s=after_s)


def _named(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__, 300)
