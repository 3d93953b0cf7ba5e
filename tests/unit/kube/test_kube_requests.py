"""What follows from a failed request to a Kubernetes API, and that both clients do it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.support.kube_server import KubeServer, status
from umiak.core.backoff import ATTEMPTS, JITTER
from umiak.core.shown import Secrets
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.kube.api import KubeApi
from umiak.kube.async_api import AsyncKubeApi
from umiak.kube.kubeconfig import KubeAccess
from umiak.kube.requests import POLICY, Attempts, GiveUp, Renew, SendAgain, next_step, proxy

FRESH = Attempts(policy=POLICY)


def refused(code: int, after_s: float = 0.0) -> KubeRefused:
    return KubeRefused(code, "Reason", "why", "GET /x", after_s=after_s)


def test_a_credential_is_renewed_once() -> None:
    step = next_step(FRESH, refused(401), 0.5)
    assert isinstance(step, Renew)
    assert step.attempts.failures == 0
    error = refused(401)
    assert next_step(step.attempts, error, 0.5) == GiveUp(error=error)


@pytest.mark.parametrize("code", [0, 400, 403, 404, 409, 410, 422])
def test_a_refusal_is_final(code: int) -> None:
    error = refused(code)
    assert next_step(FRESH, error, 0.5) == GiveUp(error=error)


def test_tls_errors_are_final_and_lost_connections_are_not() -> None:
    error = KubeSilent("bad certificate", "GET /x", tls="renew it")
    assert next_step(FRESH, error, 0.5) == GiveUp(error=error)
    assert isinstance(next_step(FRESH, KubeSilent("reset", "GET /x"), 0.5), SendAgain)


def test_the_api_is_asked_again_no_sooner_than_it_says() -> None:
    step = next_step(FRESH, refused(429, 20.0), 0.0)
    assert isinstance(step, SendAgain)
    assert step.seconds == 20.0
    error = refused(429, 1000.0)
    assert next_step(FRESH, error, 0.0) == GiveUp(error=error)  # with `after_s`, for those who come back later


def test_the_last_error_is_told_after_all_attempts() -> None:
    attempts, waits = FRESH, []
    while isinstance(step := next_step(attempts, refused(503), 0.5), SendAgain):
        waits.append(step.seconds)
        attempts = step.attempts
    assert waits == pytest.approx([0.1 * 2**number for number in range(ATTEMPTS - 1)])
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, KubeSilent)
    assert step.error.why == "503 Reason: why"


@pytest.mark.parametrize("is_asynchronous", [False, True])
@pytest.mark.parametrize(
    ("answers", "error", "sent", "pauses"),
    [
        ([(429, {"Retry-After": "7"}), (200, {})], None, 2, [7.0]),
        ([(503, {}), (500, {}), (200, {})], None, 3, [0.1, 0.2]),
        ([(503, {})] * ATTEMPTS, KubeSilent, ATTEMPTS, [0.1, 0.2, 0.4, 0.8, 1.6]),
        ([(403, {})], KubeRefused, 1, []),
        ([(503, {"Retry-After": "900"})], KubeRefused, 1, []),
        ([(200, None)], KubeRefused, 1, []),
    ],
)
def test_both_clients_do_the_same(
    is_asynchronous: bool,
    answers: list[tuple[int, dict[str, str] | None]],
    error: type[Exception] | None,
    sent: int,
    pauses: list[float],
) -> None:
    waits: list[float] = []
    left = list(answers)

    async def answer(_verb: str, _path: str, _request: web.Request) -> web.StreamResponse | None:
        code, headers = left.pop(0)
        if headers is None:
            return web.Response(text="<html>log in</html>")
        return web.json_response({"kind": "Pod"}) if code == 200 else status(code, "Reason", "why", **headers)

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async def main() -> int:
        async with KubeServer() as server:
            server.hook = answer
            access = KubeAccess(server=server.url, secrets=Secrets())
            async with AsyncKubeApi(access, {}, sleep=wait) as asynchronous:
                plain = KubeApi(access, {}, timeout_s=30, sleep=waits.append)
                get: Callable[[str], Any] = (
                    asynchronous.get if is_asynchronous else lambda path: asyncio.to_thread(plain.get, path)
                )
                try:
                    if error is None:
                        assert (await get("/api/v1/pods/x"))["kind"] == "Pod"
                    else:
                        with pytest.raises(error):
                            await get("/api/v1/pods/x")
                finally:
                    plain.close()
            return len(server.requests)

    assert asyncio.run(main()) == sent
    assert waits == pytest.approx(pauses, rel=JITTER)


def test_a_proxy_is_that_of_the_kubeconfig_or_the_environment() -> None:
    access = KubeAccess(server="https://api.lab:6443", secrets=Secrets())
    for environ, expected in (
        ({}, None),
        ({"https_proxy": "http://gate:3128"}, "http://gate:3128"),
        ({"https_proxy": "http://gate:3128", "no_proxy": ".lab"}, None),
        ({"http_proxy": "http://gate:3128"}, None),
    ):
        parts = proxy(access, environ)
        assert (parts.geturl() if parts else None) == expected
