"""HTTP requests that are tried again after timeouts, lost connections, 429 and 5xx. An adapter; standard library only.

    answer = repeat(lambda: send(url, "GET").read())

What went wrong is told without headers and queries: those have signatures and tokens.
"""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO, TypeVar

    T = TypeVar("T")

ATTEMPTS = 6
FIRST_DELAY_S = 0.25
TIMEOUT_S = 60.0
BLOCK_BYTES = 1 << 20
AGAIN = (408, 429, 500, 502, 503, 504)


class Unanswered(Exception):
    """A request that failed."""

    def __init__(self, what: str, *, again: bool, status: int = 0) -> None:
        super().__init__(what)
        self.again = again
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
            raise Unanswered(_named(error), again=True) from error
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
            raise Unanswered(_named(error), again=True) from error


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
        raise Unanswered(_named(error), again=True) from error
    except Unanswered:
        connection.close()
        raise
    return Answer(connection, response)


def repeat(act: Callable[[], T], *, first_delay_s: float = FIRST_DELAY_S) -> T:
    """Do it until it succeeds, fails for good, or has failed too often; each time waiting twice as long."""
    for attempt in range(ATTEMPTS - 1):
        try:
            return act()
        except Unanswered as error:
            if not error.again:
                raise
        time.sleep(first_delay_s * 2**attempt)
    return act()


def _refused(response: http.client.HTTPResponse) -> Unanswered:
    text = response.read(4096).decode(errors="replace")
    code = text.partition("<Code>")[2].partition("</Code>")[0] or text.partition('"exception":"')[2].partition('"')[0]
    status = f"{response.status} {response.reason}"
    again = response.status in AGAIN
    return Unanswered(f"{status}: {code[:60]}" if code else status, again=again, status=response.status)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}"
