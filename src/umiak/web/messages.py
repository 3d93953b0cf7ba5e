"""Requests as they were read, and answers as they are written. A decider.

    head = request_head(b"GET /runs?q=ctr HTTP/1.1\\r\\nHost: localhost:8200\\r\\n\\r\\n")
    head.path, head.query, head.headers["host"]
    byte_range("bytes=0-99", 1000)        (0, 100)

Only what the dashboard needs of HTTP/1.1: anything else is refused with a status.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_HEAD_BYTES = 16 << 10
MOST_HEADERS = 64
MOST_BODY_BYTES = 4 << 10
REASONS = {
    200: "OK",
    204: "No Content",
    206: "Partial Content",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    416: "Range Not Satisfiable",
    421: "Misdirected Request",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class HttpRefusal(Exception):
    """A request that is not answered, and with which status."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, dict(headers or {})


@value
class RequestHead:
    """The first lines of a request."""

    method: str
    path: str
    """Decoded; it is only ever compared."""
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    """By their names in small letters."""
    keeps_alive: bool = True
    body: bytes = b""
    """What came behind it, where a server reads bodies."""

    @property
    def body_bytes(self) -> int:
        text = self.headers.get("content-length", "0")
        if not (text.isascii() and text.isdigit()) or len(text) > 9:
            raise HttpRefusal(400, "the length of the body is no number")
        return int(text)

    def cookie(self, name: str) -> str:
        for part in self.headers.get("cookie", "").split(";"):
            key, _, text = part.strip().partition("=")
            if key == name:
                return text
        return ""


def request_head(data: bytes) -> RequestHead:
    """HttpRefusal if it is no request of HTTP/1.1."""
    try:
        lines = data.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
    except UnicodeDecodeError:
        raise HttpRefusal(400, "a header is not ASCII") from None
    words = lines[0].split(" ")
    if len(words) != 3 or not words[0] or not set(words[0]) <= _TOKEN:
        raise HttpRefusal(400, "not a request")
    method, target, version = words
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise HttpRefusal(505, "expected HTTP/1.1")
    if not target.startswith("/"):
        raise HttpRefusal(400, "expected a path")
    headers = _headers(lines[1:])
    path, _, query = target.partition("?")
    path = unquote(path.partition("#")[0], errors="replace")
    try:
        pairs = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=50))
    except ValueError:
        raise HttpRefusal(400, "too many fields") from None
    if "transfer-encoding" in headers:
        raise HttpRefusal(501, "bodies in chunks are not read")
    keeps_alive = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return RequestHead(method=method, path=path, query=pairs, headers=headers, keeps_alive=keeps_alive)


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > MOST_HEADERS:
        raise HttpRefusal(431, "too many headers")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, text = line.partition(":")
        if not colon or not name or not set(name) <= _TOKEN or any(letter < " " and letter != "\t" for letter in text):
            raise HttpRefusal(400, "not a header")
        name = name.lower()
        if name in headers and name in ("host", "content-length", "origin", "authorization", "range"):
            raise HttpRefusal(400, f"two headers are called {name}")
        headers[name] = text.strip()
    return headers


def number_in(query: dict[str, str], name: str, default: int) -> int:
    """A number of a query; the default if there is none, or something else."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else default


def byte_range(text: str, size: int) -> tuple[int, int] | None:
    """Begin and end of the one range that is asked for; None: all of it. HttpRefusal if there is nothing in it."""
    unit, equals, wanted = text.partition("=")
    first, dash, last = wanted.strip().partition("-")
    if unit.strip() != "bytes" or not equals or not dash or "," in wanted:
        return None  # may be ignored, says the standard
    if not (first or last) or not all(
        each.isascii() and each.isdigit() and len(each) < 19 for each in (first, last) if each
    ):
        return None
    if not first:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = int(first), min(size, int(last) + 1) if last else size
    if begin >= end or begin >= size:
        raise HttpRefusal(416, "nothing is there", {"Content-Range": f"bytes */{size}"})
    return begin, end


@value
class HttpAnswer:
    """What is sent back: a text, or a piece of a file."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    headers: dict[str, str] = {}
    is_packed: bool = False
    """The body is compressed with gzip."""


def head_of(answer: HttpAnswer, length: int | None, always: Mapping[str, str], *, keeps_alive: bool) -> bytes:
    """The first lines of an answer. ``length``: None for one that goes on until the connection ends."""
    lines = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Status')}", f"Content-Type: {answer.kind}"]
    headers = {**always, **answer.headers}
    if answer.is_packed:
        headers["Content-Encoding"] = "gzip"
    lines += [f"{name}: {text}" for name, text in headers.items()]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    lines.append(f"Connection: {'keep-alive' if keeps_alive and length is not None else 'close'}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", errors="replace")
