"""What servers of umiak ask of every request, and say with every answer. Deciders.

host_name("localhost:8000") in LOOPBACK
TokenCheck(token).is_borne(head, now_s)      HttpRefusal for a wrong one
"""

from __future__ import annotations

import hmac

from umiak.web.messages import HttpRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.web.messages import RequestHead

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
MOST_FAILURES = 10
FAILURE_EVERY_S = 1.0
"""After so many wrong tokens, one more a second is looked at; others are told to wait."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""With every answer."""


class WrongTokens:
    """How many wrong tokens there were lately."""

    def __init__(self) -> None:
        self._count = 0.0
        self._looked_at = 0.0

    def check(self, now_s: float) -> None:
        """HttpRefusal after so many that another one has to wait."""
        self._count = max(0.0, self._count - (now_s - self._looked_at) / FAILURE_EVERY_S)
        self._looked_at = now_s
        if self._count >= MOST_FAILURES:
            raise HttpRefusal(429, "too many wrong tokens: wait a moment", {"Retry-After": "2"})

    def add(self) -> None:
        """One more."""
        self._count += 1


class TokenCheck:
    """Compares tokens. The right one is always taken: a crowd of wrong ones keeps nobody out."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._wrong = WrongTokens()

    def is_borne(self, head: RequestHead, now_s: float) -> bool:
        """Whether the request has the token in its head; False if it has none at all."""
        scheme, _, token = head.headers.get("authorization", "").partition(" ")
        if not token or scheme.lower() != "bearer":
            return False
        self.check(token.strip(), now_s)
        return True

    def check(self, token: str, now_s: float) -> None:
        """HttpRefusal if it is another one: 401, after many of those 429."""
        if hmac.compare_digest(token.encode(errors="replace"), self._token):
            return
        self._wrong.check(now_s)
        self._wrong.add()
        raise HttpRefusal(401, "wrong token")


def host_name(host: str) -> str:
    """The host of a Host header without its port, in small letters; empty if it is none."""
    host = host.lower()
    if host.startswith("["):
        name, bracket, port = host.partition("]")
        return f"{name}]" if bracket and _is_port(port) else ""
    name, colon, port = host.partition(":")
    return name if _is_port(colon + port) else ""


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and text[1:].isascii() and text[1:].isdigit() and len(text) <= 6)
