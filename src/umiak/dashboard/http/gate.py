"""Who may ask for what: hosts, methods, origins, tokens. A decider.

    gate = Gate(GateSettings(hosts=frozenset({"localhost", "127.0.0.1", "[::1]"})), token, session)
    gate.check(head)               HttpRefusal before anything was looked up
    gate.session_cookie()          a token is exchanged for the cookie of a session

What changes something is allowed by name when the server begins. A browser needs its cookie for it, and a key in a header that only a page of our own
can read; a program needs the token.

A page of another site can make a browser send requests here, also under a name of its own that leads to this machine. So hosts are an allow-list
that is asked first; methods are one too; everything but reading needs the token in a header, and an origin that is ours. Reading changes nothing.
"""

from __future__ import annotations

import hmac

from umiak.core.value import value
from umiak.web.guard import LOOPBACK, TokenCheck, host_name
from umiak.web.messages import HttpRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.web.messages import RequestHead

READING = frozenset({"GET", "HEAD"})
SESSION = "/session"
OPEN_PREFIXES = ("/static/",)
ACTIONS = frozenset({"cancel"})
"""The last word of an address that changes something: ``/runs/ID/cancel``."""
ACTION_HEADER = "x-umiak-dashboard-action"
TOKEN_HEADER = "x-umiak-dashboard-token"  # noqa: S105 - a header's name
COOKIE = "umiak-dashboard"


@value
class GateSettings:
    """What is allowed."""

    hosts: frozenset[str] = LOOPBACK
    """Names and addresses under which it may be asked, without ports."""
    port: int = 0
    is_tls: bool = False
    actions: frozenset[str] = frozenset()
    """What may be changed: some of `ACTIONS`."""


class Gate:
    """Judges requests."""

    def __init__(self, settings: GateSettings, token: str, session: str, action_key: str = "") -> None:
        self.settings = settings
        self.action_key = action_key
        """Told to those who may read; nobody may do anything without one."""
        self._tokens, self._session = TokenCheck(token), session.encode()

    @property
    def cookie_name(self) -> str:
        """Cookies know no ports: two dashboards on one machine must not overwrite each other's."""
        return f"{COOKIE}-{self.settings.port}"

    def check(self, head: RequestHead, now_s: float) -> None:
        """HttpRefusal if the request must not be answered."""
        host = head.headers.get("host", "")
        if host_name(host) not in self.settings.hosts:
            raise HttpRefusal(421, "this server does not answer to that host name: umiak dashboard --allowed-hosts")
        if head.method not in READING and head.method != "POST":
            raise HttpRefusal(405, "method not allowed", {"Allow": "GET, HEAD"})
        site = head.headers.get("sec-fetch-site", "")
        if head.method == "POST":
            if head.path != SESSION:
                self._check_action(head, host, site, now_s)
                return
            self._check_origin(head, host, site)
            self.check_token(head.headers.get(TOKEN_HEADER, ""), now_s)
            return
        if site in ("cross-site", "same-site") and head.headers.get("sec-fetch-mode", "") != "navigate":
            raise HttpRefusal(403, "asked by a page of another site")
        if not (self.is_open(head) or self.knows(head, now_s)):
            raise HttpRefusal(401, "no token: open the address that `umiak dashboard` printed")

    def _check_action(self, head: RequestHead, host: str, site: str, now_s: float) -> None:
        action = action_of(head.path)
        if not action:
            raise HttpRefusal(405, "method not allowed", {"Allow": "GET, HEAD"})
        is_program = head.headers.get("authorization", "").lower().startswith("bearer ")
        if not is_program or head.headers.get("origin") or site:
            self._check_origin(head, host, site)
        if not self.knows(head, now_s):
            raise HttpRefusal(401, "no token: open the address that `umiak dashboard` printed")
        if action not in self.settings.actions:
            raise HttpRefusal(403, f"this dashboard was started without --allow {action}")
        key = head.headers.get(ACTION_HEADER, "")
        if not is_program and not (self.action_key and hmac.compare_digest(key.encode(), self.action_key.encode())):
            raise HttpRefusal(403, "the key of this dashboard's own page is missing: load the page again")

    def is_open(self, head: RequestHead) -> bool:
        """What holds nothing of any run: the page itself, its modules and styles."""
        return head.path.startswith(OPEN_PREFIXES) or wants_page(head)

    def knows(self, head: RequestHead, now_s: float) -> bool:
        """Whether the request has the cookie of this session, or the token. HttpRefusal after too many wrong ones."""
        if self._tokens.is_borne(head, now_s):
            return True
        cookie = head.cookie(self.cookie_name)
        return bool(cookie) and hmac.compare_digest(cookie.encode(), self._session)

    def check_token(self, token: str, now_s: float) -> None:
        """Of one that wants a session. HttpRefusal for a wrong one."""
        self._tokens.check(token, now_s)

    def session_cookie(self, session: str = "") -> str:
        """The header that gives a browser its session."""
        secure = "; Secure" if self.settings.is_tls else ""
        return f"{self.cookie_name}={session or self._session.decode()}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def _check_origin(self, head: RequestHead, host: str, site: str) -> None:
        scheme = "https" if self.settings.is_tls else "http"
        if head.headers.get("origin", "").lower() != f"{scheme}://{host.lower()}":
            raise HttpRefusal(403, "asked by a page of another origin")
        if site not in ("", "same-origin"):
            raise HttpRefusal(403, "asked by a page of another site")


def action_of(path: str) -> str:
    """What an address changes: ``cancel`` of ``/runs/ID/cancel``; empty: nothing."""
    words = path.split("/")
    return words[3] if len(words) == 4 and words[:2] == ["", "runs"] and words[2] and words[3] in ACTIONS else ""


def wants_page(head: RequestHead) -> bool:
    """Whether a browser asks for something to show, and not a program for data."""
    if head.path.endswith(".json") or head.path.startswith(("/static/", "/files/")):
        return False
    return "text/html" in head.headers.get("accept", "")
