"""A Kubernetes API over HTTP for programs that do many things at once: verbs, lists in pages, watches, logs.
An adapter; asyncio.

    async with AsyncKubeApi(access, environ) as api:
        made = await api.create("/api/v1/namespaces/training/pods", body)      KubeRefused with status 409: there is one of this name
        async for line in api.watch("/api/v1/pods", {"resourceVersion": "17"}): ...

`kube.requests` says which requests are sent again, and when. Only this module and the operator's pages import aiohttp.
"""

from __future__ import annotations

import asyncio
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp

from umiak.adapters.stores.http_retry import chance
from umiak.kube import requests
from umiak.kube.access import KubeCredentials
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.kube.requests import MERGE, KubeRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.kube.kubeconfig import KubeAccess

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
        parts = urlsplit(access.server)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        proxy = requests.proxy(access, environ)
        self._proxy = proxy.geturl() if proxy else None

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

    async def get(self, path: str, **query: str) -> JsonObject:
        return await self._answer(KubeRequest("GET", path, query))

    async def pages(self, path: str, **query: str) -> AsyncIterator[tuple[list[JsonObject], str]]:
        """All objects of a collection, page by page, each with the version of the list."""
        token = ""
        while True:
            request = KubeRequest("GET", path, requests.page_query(query, token))
            items, version, token = requests.page(await self._answer(request))
            yield items, version
            if not token:
                return

    async def create(self, path: str, body: JsonMapping, **query: str) -> JsonObject:
        return await self._answer(KubeRequest("POST", path, query, body))

    async def replace(self, path: str, body: JsonMapping) -> JsonObject:
        return await self._answer(KubeRequest("PUT", path, {}, body))

    async def patch(self, path: str, body: object, kind: str = MERGE) -> JsonObject:
        return await self._answer(KubeRequest("PATCH", path, {}, body, kind))

    async def delete(self, path: str, options: JsonMapping | None = None) -> JsonObject:
        """KubeRefused with status 404 if it is not there, 409 if it is another one than the options say."""
        return await self._answer(KubeRequest("DELETE", path, {}, requests.delete_body(options)))

    async def text(self, path: str, **query: str) -> str:
        """An answer that is no JSON: the log of a pod. One attempt."""
        request = KubeRequest("GET", path, query)
        response = await self._send(request, self._timeout)
        async with response:
            if response.status >= 400:
                raise await _refused(response, request.name)
            return (await response.content.read(LONGEST_LOG_BYTES)).decode(errors="replace")

    async def watch(self, path: str, query: Mapping[str, str], *, quiet_s: float) -> AsyncIterator[bytes]:
        """The lines of a watch as they come. It ends when the API ends it;
        KubeSilent if it breaks off, or is quiet for too long.
        """
        name = f"WATCH {path}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.total, sock_read=quiet_s)
        try:
            response = await self._send(KubeRequest("GET", path, {**query, "watch": "1"}), timeout)
            async with response:
                if response.status >= 400:
                    raise await _refused(response, name)
                waiting = b""
                async for block in response.content.iter_any():
                    *lines, waiting = (waiting + block).split(b"\n")
                    for line in lines:
                        yield line
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise requests.no_answer(error, name) from error

    # ---- requests

    async def _answer(self, request: KubeRequest) -> JsonObject:
        attempts = requests.Attempts(policy=requests.POLICY)
        while True:
            try:
                return await self._once(request)
            except (KubeRefused, KubeSilent) as error:
                step = requests.next_step(attempts, error, chance())
                if isinstance(step, requests.GiveUp):
                    raise step.error from error.__cause__
                if isinstance(step, requests.SendAgain):
                    await self._sleep(step.seconds)
                elif not self._credentials.renew():
                    raise
                attempts = step.attempts

    async def _once(self, request: KubeRequest) -> JsonObject:
        try:
            response = await self._send(request, self._timeout)
            async with response:
                if response.status >= 400:
                    raise await _refused(response, request.name)
                return requests.parsed(await response.read(), request.name)
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise requests.no_answer(error, request.name) from error

    async def _send(self, request: KubeRequest, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        session = self._session
        assert session is not None, "the client is not open"
        headers = await self._headers()
        if request.body is not None:
            headers["Content-Type"] = request.kind
        began = time.monotonic()
        status = 0
        try:
            response = await session.request(
                request.verb,
                f"{self._origin}{request.target(self.access)}",
                data=request.data,
                headers=headers,
                timeout=timeout,
                ssl=self._tls or True,
                server_hostname=self.access.server_name or None,
                proxy=self._proxy,
                allow_redirects=False,
            )
            status = response.status
            self._look_at_clock(response.headers.get("Date", ""))
        finally:
            self._answered("WATCH" if "watch" in request.query else request.verb, status, time.monotonic() - began)
        return response

    def _look_at_clock(self, date: str) -> None:
        """How far the server's clock is ahead of ours. What it writes into objects is compared with the time of now."""
        now_s = time.time()
        if not date or abs(now_s - self._clock_seen_s) < CLOCK_EVERY_S:
            return
        try:
            ahead_s = parsedate_to_datetime(date).timestamp() - now_s
        except (TypeError, ValueError):
            return
        self._clock_seen_s = now_s
        self.clock_ahead_s = ahead_s if abs(ahead_s) > CLOCKS_S else 0.0

    async def _headers(self) -> dict[str, str]:
        """Credentials of this moment: a pod's token is renewed in its file;
        plug-ins are processes, and not waited for here.
        """
        credentials = self._credentials
        if self.access.plugin:
            headers, self._tls = await asyncio.to_thread(lambda: (credentials.headers(), credentials.tls()))
            return dict(headers)
        if self._tls is None:
            self._tls = credentials.tls()
        return credentials.headers()


async def _refused(response: aiohttp.ClientResponse, request: str) -> KubeRefused:
    text = await response.content.read(requests.LONGEST_REFUSAL)
    after = response.headers.get("Retry-After", "")
    return requests.refusal(response.status, response.reason or "", text, after, request, time.time())
