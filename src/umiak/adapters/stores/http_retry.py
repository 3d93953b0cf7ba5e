"""HTTP requests that are tried again after timeouts, lost connections, 429 and 5xx. An adapter; standard library only.

    answer = repeat(lambda: send(url, "GET").read())

What went wrong is told without headers and queries: those have signatures and tokens.
"""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

from umiak.core.backoff import RETRIED_STATUSES, RequestFailure, RetryPolicy, retry_after_s
from umiak.core.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO, TypeVar

    T = TypeVar("T")

FIRST_DELAY_S = 0.25
POLICY = RetryPolicy(first_s=FIRST_DELAY_S)
TIMEOUT_S = 60.0
BLOCK_BYTES = 1 << 20


class Unanswered(RequestFailure):
    """A request over HTTP that failed; status 0: no answer came."""

    def __init__(self, text: str, *, again: bool, status: int = 0, retry_after_s: float = 0.0) -> None:
        super().__init__(text, is_retryable=again, retry_after_s=retry_after_s)
        self.status = status


class Answer:
    """What came back: its headers, and its body yet to be read."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = dict(response.headers)

    def read(self) -> bytes:
        try:
            return self._response.read()
        except (http.client.HTTPException, OSError) as error:
            raise Unanswered(named(error), again=True) from error
        finally:
            self.close()

    def save(self, path: str) -> None:
        """Write the body to a file, all of it or an error; its caller removes what is left then."""
        try:
            expected = self.headers.get("Content-Length")
            with open(path, "wb") as file:
                while block := self._received():
                    file.write(block)
                if expected and file.tell() != int(expected):
                    raise Unanswered(f"{file.tell()} bytes of {expected} arrived", again=True)
        finally:
            self.close()

    def close(self) -> None:
        self._response.close()  # which a connection that is not kept has let go of
        self._connection.close()

    def _received(self) -> bytes:
        try:
            return self._response.read(BLOCK_BYTES)
        except (http.client.HTTPException, OSError) as error:
            raise Unanswered(named(error), again=True) from error


def send(
    url: str,
    method: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | BinaryIO | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """One request, once. Redirections are answers; an error is `Unanswered`."""
    parts = urlsplit(url)
    kind = http.client.HTTPConnection if parts.scheme == "http" else http.client.HTTPSConnection
    connection = kind(parts.netloc, timeout=timeout_s)
    try:
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        connection.request(method, target, body=body, headers=dict(headers or {}))
        response = connection.getresponse()
        if response.status >= 400:
            refused = _refused(response)
            response.close()
            raise refused
    except (http.client.HTTPException, OSError) as error:
        connection.close()
        raise Unanswered(named(error), again=True) from error
    except Unanswered:
        connection.close()
        raise
    return Answer(connection, response)


def repeat(act: Callable[[], T], *, first_delay_s: float = FIRST_DELAY_S) -> T:
    """Do it until it succeeds, fails for good, or has failed too often."""
    failures = 0
    while True:
        try:
            return act()
        except RequestFailure as error:
            failures += 1
            wait(failures, error, first_delay_s=first_delay_s)


def wait(failures: int, error: RequestFailure, *, first_delay_s: float = FIRST_DELAY_S) -> None:
    """Sleep until the next attempt; raises the error if there is none."""
    policy = replace(POLICY, first_s=first_delay_s)
    wait_s = None
    if error.is_retryable:
        wait_s = policy.wait_s(failures, chance(), retry_after_s=error.retry_after_s)
    if wait_s is None:
        raise error
    time.sleep(wait_s)


def _refused(response: http.client.HTTPResponse) -> Unanswered:
    text = response.read(4096).decode(errors="replace")
    code = text.partition("<Code>")[2].partition("</Code>")[0] or text.partition('"exception":"')[2].partition('"')[0]
    return refused(response, code[:60])


def chance() -> float:
    """A random number from 0 to 1, for waits with jitter."""
    from random import random

    return random()  # noqa: S311 - nothing is kept secret with it


def refused(response: http.client.HTTPResponse, why: str) -> Unanswered:
    """An answer that says no, with what the server says about it."""
    status = f"{response.status} {response.reason}"
    return Unanswered(
        f"{status}: {why}" if why else status,
        again=response.status in RETRIED_STATUSES,
        status=response.status,
        retry_after_s=retry_after_s(response.headers.get("Retry-After", ""), time.time()),
    )


def named(error: Exception) -> str:
    """An error of a connection, in words."""
    return f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}"
