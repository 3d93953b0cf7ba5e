"""Who looks at a cluster's page, each with a token of their own, and nobody with more than that. A program; and a decider of requests.

    viewers = Viewers(lambda token, namespaces: ClusterSource(...))
    session = await viewers.enter(token, namespaces)      HttpRefusal if the cluster does not know it
    viewers.of(head)                                      the viewer whose session, or token, a request has

The server has no rights: what it asks of the cluster bears the token of the person who asks for the page. Tokens are kept in memory alone, for as
long as a session lasts; a browser gets a random word for it, in a cookie that no script can read.
"""

from __future__ import annotations

import hashlib
import secrets
import time

from umiak.dashboard.cluster.cluster_runs import ClusterRuns
from umiak.dashboard.cluster.source import Stranger
from umiak.dashboard.http.feed import Feed
from umiak.dashboard.http.gate import Gate, GateSettings
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.web.guard import WrongTokens
from umiak.web.messages import HttpRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.dashboard.cluster.job_view import ClusterReader
    from umiak.web.messages import RequestHead

    MakeSource = Callable[[str, tuple[str, ...]], ClusterReader]

SESSION_S = 8 * 3600.0
IDLE_S = 3600.0
MOST_SESSIONS = 1000
NO_TOKEN = "no token: enter one of your own of this cluster, such as `kubectl create token` prints"  # noqa: S105 - words


class Viewer:
    """One person with one token."""

    def __init__(self, source: ClusterReader, now_s: float) -> None:
        self.feed = Feed(most_watchers=100)
        self.runs = ClusterRuns(source, self.feed.publish)
        self.source = source
        self.until_s, self.seen_s = now_s + SESSION_S, now_s


class Viewers:
    """Of one event loop."""

    def __init__(self, make_source: MakeSource, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._make_source, self._clock = make_source, clock
        self._sessions: dict[str, Viewer] = {}
        self._wrong = WrongTokens()

    @property
    def all(self) -> list[Viewer]:
        return list(dict.fromkeys(self._sessions.values()))

    def known(self, session: str) -> Viewer | None:
        """The viewer of a session that goes on."""
        viewer, now_s = self._sessions.get(session), self._clock()
        if viewer is None:
            return None
        is_watching = viewer.feed.watchers > 0
        if viewer.runs.is_stranger or now_s > viewer.until_s or (now_s - viewer.seen_s > IDLE_S and not is_watching):
            self._drop(session)
            return None
        viewer.seen_s = now_s
        return viewer

    async def enter(self, token: str, namespaces: tuple[str, ...] = (), session: str = "") -> str:
        """The new session. HttpRefusal if the cluster does not know the token, or is not there to ask."""
        self._wrong.check(self._clock())  # each costs the cluster a request
        source = self._make_source(token, namespaces)
        viewer = Viewer(source, self._clock())
        try:
            await viewer.runs.check(source.check)
        except Stranger:
            self._wrong.add()
            source.close()
            raise HttpRefusal(401, "the cluster does not know this token") from None
        except (KubeRefused, KubeSilent) as error:
            source.close()
            raise HttpRefusal(503, f"the cluster can't be asked: {error}") from None
        session = session or secrets.token_urlsafe(32)
        self._sessions[session] = viewer
        while len(self._sessions) > MOST_SESSIONS:
            self._drop(min(self._sessions, key=lambda each: self._sessions[each].seen_s))
        return session

    async def of(self, head: RequestHead, cookie_name: str) -> Viewer:
        """Whose request it is. HttpRefusal if that is nobody known."""
        token = bearer_of(head)
        # A program shows its token each time: what it has seen is kept for it as for a browser, under a word that follows from the token.
        session = f"#{hashlib.sha256(token.encode()).hexdigest()}" if token else head.cookie(cookie_name)
        viewer = self.known(session) if token or not session.startswith("#") else None
        if viewer is None and token:
            viewer = self.known(await self.enter(token, session=session))
        if viewer is None:
            raise HttpRefusal(401, NO_TOKEN, {"WWW-Authenticate": 'Bearer realm="kubernetes"'})
        return viewer

    async def close(self) -> None:
        for viewer in self.all:
            await viewer.runs.close()

    def _drop(self, session: str) -> None:
        self._sessions.pop(session).source.close()


def bearer_of(head: RequestHead) -> str:
    """The token in a request's head; empty: it has none."""
    scheme, _, token = head.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class ViewerGate(Gate):
    """Judges hosts, methods and origins as for a page of one machine; who somebody is, the cluster says."""

    def __init__(self, settings: GateSettings) -> None:
        super().__init__(settings, token="", session="")

    def knows(self, head: RequestHead, now_s: float) -> bool:  # noqa: ARG002 - `Viewers.of` finds out
        return True

    def check_token(self, token: str, now_s: float) -> None:  # noqa: ARG002 - `Viewers.enter` finds out
        if not token:
            raise HttpRefusal(401, NO_TOKEN)
