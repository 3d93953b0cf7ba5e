"""How two launchers come to trust each other before they talk. An adapter.

    caller     hello (version, job, nonce, what for)
    listener   challenge (nonce)
    caller     proof
    listener   proof, or refused (why)
    listener   welcome | moved (who leads) | other (not whom you called), or beats while it does not know yet

With a token each side proves by HMAC-SHA256 over everything that both have said that it knows it, before anything it
says is acted upon; the token itself never travels. The caller proves first: a listener shows nothing to somebody who
only connects, so that nobody can take a proof home and try tokens on it.

Until then frames are small, time is short, and there is room for some strangers only (`unknown_peers`).
In a job without a token everybody is a stranger until it has joined (`Link.trust`).
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time

from umiak.adapters import hostinfo
from umiak.adapters.frames import FramedSocket, frame, ignore
from umiak.core.names import is_host, is_loopback, is_port
from umiak.core.shown import one_line
from umiak.launch.links.link import HOLD, Link
from umiak.launch.links.unknown_peers import Room, UnknownPeers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.adapters.loop import Loop, Timer
    from umiak.core.json_types import JsonObject
    from umiak.launch.links.link import Heartbeats

VERSION = 3
HANDSHAKE_TIME_S = 10.0
"""For a stranger, to prove itself; in a job without a token, then once more to join."""
STRANGER_FRAME_BYTES = 4096
JOIN_FRAME_BYTES = 64 * 1024
"""The first message of a node, in a job without a token."""
NODE_FRAME_BYTES = 1024 * 1024
"""A node's messages: at most the end of one worker's output."""
MASTER_FRAME_BYTES = 16 * 1024 * 1024
"""A master's: at most a formation of all nodes."""
PAUSE_S, LONG_PAUSE_S = 0.05, 0.5
"""Nobody is let in for so long while there is no room, and while there are no descriptors."""
TELL_EVERY_S = 60.0
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
LONGEST_ANSWER = 1000
NOT_UMIAK = "something else answers there, not umiak"
CALL_AGAIN_S = 0.05
LOOK_UP_AGAIN_S = 0.5


class Caller:
    """Dials another launcher and goes through the handshake. Exactly one of the callbacks is called, once."""

    def __init__(
        self,
        loop: Loop,
        heartbeats: Heartbeats,
        *,
        host: str,
        port: int,
        job_id: str,
        token: bytes | None,
        purpose: str,
        patience_s: float,
        name_patience_s: float = 0.0,
    ) -> None:
        """``name_patience_s``: for how long a name that nobody knows is looked up again;
        the name of a new pod may be published late.
        """
        self._loop, self._heartbeats, self._patience_s = loop, heartbeats, patience_s
        self._name_known_by = loop.now() + name_patience_s
        self._job_id, self._token, self._purpose = job_id, token, purpose
        self.on_link: Callable[[Link], None] = ignore
        self.on_moved: Callable[[str, int], None] = lambda _host, _port: None
        self.on_failed: Callable[[bool, str, bool], None] = lambda _refused, _why, _fatal: None
        self._host, self._port = host, port
        self._where = f"{host} port {port}"
        self._hung_up = ""
        self._nonce = os.urandom(16).hex()
        self._challenge = ""
        self._framed: FramedSocket | None = None
        self._sock: socket.socket | None = None
        self._asked_at = 0.0
        self._over = False
        self._timer: Timer | None = None
        loop.soon(self._connect)

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self._over = True
        if self._timer:
            self._timer.cancel()
        if self._framed:
            self._framed.close()
        elif self._sock and self._sock.fileno() >= 0:
            self._loop.forget(self._sock.fileno())
            self._sock.close()

    def _connect(self) -> None:
        if self._over:
            return
        try:
            family, address = hostinfo.look_up(self._host, self._port)
            self._sock = socket.socket(family, socket.SOCK_STREAM)
            self._sock.setblocking(False)
            error = self._sock.connect_ex(address)
        except OSError as failure:
            if isinstance(failure, socket.gaierror) and self._loop.now() < self._name_known_by:
                self._loop.after(LOOK_UP_AGAIN_S, self._connect)
                return
            self._fail(refused=False, why=f"{self._where}: {failure.strerror or failure}")
            return
        self._timer = self._timer or self._loop.after(self._patience_s, self._timed_out)
        if error in (0, 115):  # EINPROGRESS
            self._loop.on_writable(self._sock.fileno(), self._connected)
        else:
            self._fail(refused=error == 111, why=f"{self._where}: {os.strerror(error)}")

    def _connected(self) -> None:
        assert self._sock is not None
        self._loop.forget(self._sock.fileno())
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error == 0 and self._is_self_connection():
            error = 111  # on loopback a socket can connect to itself; that is nobody listening
        if error:
            # Only the host itself can refuse; anything else (no route, time-out) may be a cut.
            self._fail(refused=error == 111, why=f"{self._where}: {os.strerror(error)}")
            return
        self._framed = FramedSocket(self._loop, self._sock, most_bytes=STRANGER_FRAME_BYTES)
        self._framed.on_frame = self._challenged
        self._framed.on_end = self._ended
        self._asked_at = time.time()
        hello = {"umiak": VERSION, "job": self._job_id, "nonce": self._nonce, "for": self._purpose}
        self._framed.send(frame(hello))

    def _is_self_connection(self) -> bool:
        assert self._sock is not None
        try:
            return bool(self._sock.getsockname() == self._sock.getpeername())
        except OSError:
            return False

    def _challenged(self, content: JsonObject) -> None:
        assert self._framed is not None
        if self._refused(content):
            return
        challenge = content.get("challenge")
        if content.get("umiak") != VERSION or not isinstance(challenge, str):
            self._fail(refused=False, why=f"{self._where}: {NOT_UMIAK}", fatal=True)
            return
        self._challenge = challenge
        self._framed.on_frame = self._proved
        self._framed.send(frame({"proof": self._proof_of("caller")}))

    def _proved(self, content: JsonObject) -> None:
        """The listener has taken our proof, and shows its own."""
        assert self._framed is not None
        if self._refused(content):
            return
        theirs = content.get("proof")
        if not isinstance(theirs, str):
            self._fail(refused=False, why=f"{self._where}: {NOT_UMIAK}", fatal=True)
        elif self._token is not None and not _same(theirs, self._proof_of("listener")):
            why = f"{self._where}: the launcher there does not know this UMIAK_TOKEN"
            self._fail(refused=False, why=why, fatal=True)
        else:
            self._framed.on_frame = self._answered

    def _proof_of(self, role: str) -> str:
        if self._token is None:
            return ""
        return proof(self._token, role, self._job_id, self._purpose, self._nonce, self._challenge)

    def _answered(self, content: JsonObject) -> None:
        assert self._framed is not None
        if "b" in content:
            # The other side is alive but does not know yet who leads: it is worth waiting.
            if self._timer:
                self._timer.cancel()
            self._timer = self._loop.after(self._patience_s, self._timed_out)
            return
        if self._refused(content):
            return
        moved = _address(content.get("moved"))
        if moved:
            self.cancel()
            self.on_moved(*moved)
            return
        if "other" in content:
            # As good as a refused connection: who was called is not there any more, or never was.
            self._fail(refused=True, why=f"{self._where}: another launcher answers there")
            return
        their_time = content.get("welcome", "")
        if type(their_time) not in (int, float) or not 0 <= their_time < 1e12:
            self._fail(refused=False, why=f"{self._where}: an answer that makes no sense", fatal=True)
            return
        if self._timer:
            self._timer.cancel()
        self._over = True
        self._framed.take_frames_of(MASTER_FRAME_BYTES)
        middle = (self._asked_at + time.time()) / 2
        self.on_link(Link(self._framed, self._heartbeats, clock_offset_s=their_time - middle))

    def _refused(self, content: JsonObject) -> bool:
        if "refused" not in content:
            return False
        self._fail(refused=False, why=f"{self._where}: {one_line(str(content['refused']), LONGEST_ANSWER)}", fatal=True)
        return True

    def _ended(self, reason: str) -> None:
        assert self._framed is not None
        if self._framed.is_garbled:
            self._fail(refused=False, why=f"{self._where}: {NOT_UMIAK}", fatal=True)
            return
        # The one that took the call hung up in the middle of it. If that launcher has died, the next call is refused.
        self._framed = self._sock = None
        self._hung_up = reason
        self._loop.after(CALL_AGAIN_S, self._connect)

    def _timed_out(self) -> None:
        silence = f"no answer for {self._patience_s:g} s"
        if self._framed:
            silence = f"something listens there, but {silence}: perhaps another program, or a launcher that is stopped"
        hung_up = f"something listens there, but hangs up ({self._hung_up}): perhaps another program"
        how = hung_up if self._hung_up else silence
        self._fail(refused=False, why=f"{self._where}: {how}")

    def _fail(self, *, refused: bool, why: str, fatal: bool = False) -> None:
        if not self._over:
            self.cancel()
            self.on_failed(refused, why, fatal)


class Visitor:
    """A caller that has proved itself and waits for an answer: ``welcome()`` it, or tell it who leads."""

    def __init__(self, framed: FramedSocket, heartbeats: Heartbeats, purpose: str, greeting: _Greeting) -> None:
        self._framed = framed
        self._heartbeats = heartbeats
        self._greeting = greeting
        self.purpose = purpose

    @property
    def is_open(self) -> bool:
        return not self._framed.ended

    @property
    def is_on_loopback(self) -> bool:
        return is_loopback(self._framed.peer_host)

    def welcome(self) -> Link:
        self._framed.send(frame({"welcome": time.time()}))
        self._greeting.expect_join()
        link = Link(self._framed, self._heartbeats)
        link.on_trusted = self._greeting.trusted
        return link

    def moved(self, host: str, port: int) -> None:
        self._framed.send(frame({"moved": [host, port]}))
        self._framed.finish_sending()

    def confirm(self, *, is_the_one: bool) -> None:
        """Whether the caller has reached whom it called; nothing more is said."""
        self._framed.send(frame({"welcome": time.time()} if is_the_one else {"other": True}))
        self._framed.finish_sending()

    def hold(self) -> None:
        """Not known yet who leads: keep the caller patient."""
        self._framed.send(HOLD)
        self._greeting.renew()


class Listener:
    """Takes calls from other launchers, lets in those that know the token, and hands them to ``on_visitor``."""

    def __init__(
        self,
        loop: Loop,
        heartbeats: Heartbeats,
        sock: socket.socket,
        *,
        job_id: str,
        token: bytes | None,
        room: Room | None = None,
    ) -> None:
        self._loop, self._heartbeats, self._sock = loop, heartbeats, sock
        self._job_id, self._token, self._room = job_id, token, room or Room()
        self.on_visitor: Callable[[Visitor], None] = ignore
        self.on_trouble: Callable[[str], None] = ignore
        self.unknown_peers = UnknownPeers(self._room.unknown_peers)
        self._open = 0  # strangers and others
        self._told_at = -TELL_EVERY_S
        sock.setblocking(False)
        loop.on_readable(sock.fileno(), self._accept)

    @property
    def port(self) -> int:
        number: int = self._sock.getsockname()[1]
        return number

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.forget(self._sock.fileno())
            self._sock.close()

    def _accept(self) -> None:
        for _ in range(64):
            goes = None
            if self.unknown_peers.is_full or self._open >= self._room.unknown_peers + self._room.links:
                goes = self.unknown_peers.first_to_go(self._loop.now())
                if goes is None:
                    self._pause(PAUSE_S)
                    return
                self._tell(
                    f"{len(self.unknown_peers)} connections to this launcher have proved nothing, which is as many as may be; "
                    "for each new one the oldest is closed"
                )
            try:
                sock, _address = self._sock.accept()
            except OSError as error:
                if error.errno in NO_DESCRIPTORS:
                    # Looking again at once would find the same, as fast as this machine can.
                    self._pause(LONG_PAUSE_S)
                    self._tell(f"no new connection can be taken ({error.strerror}); trying again")
                return
            if isinstance(goes, _Greeting):
                goes.drop()
            self._open += 1
            _Greeting(self._loop, self._heartbeats, sock, self)

    def _pause(self, seconds: float) -> None:
        """Let anyone who knocks wait."""
        self._loop.on_readable(self._sock.fileno(), None)
        self._loop.after(seconds, self._go_on)

    def _go_on(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.on_readable(self._sock.fileno(), self._accept)

    def _tell(self, text: str) -> None:
        now = self._loop.now()
        if now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            self.on_trouble(text)

    def let_go(self) -> None:
        """A connection is closed."""
        self._open -= 1

    def refusal(self, hello: JsonObject) -> str | None:
        """Why this caller is not talked to, if it is not."""
        if hello.get("umiak") != VERSION:
            theirs = hello.get("umiak")
            shown = theirs if type(theirs) is int and 0 <= theirs < 1000 else "another one"
            return f"this launcher speaks version {VERSION} of the protocol, the caller {shown}"
        if hello.get("job") != self._job_id:
            return f"this launcher runs --job_id {self._job_id}, the caller another job"
        return None

    def proof_for(self, role: str, purpose: str, caller_nonce: str, challenge: str) -> str:
        if self._token is None:
            return ""
        return proof(self._token, role, self._job_id, purpose, caller_nonce, challenge)


class _Greeting:
    """One connection on the listener's side, for as long as it is a stranger's."""

    def __init__(self, loop: Loop, heartbeats: Heartbeats, sock: socket.socket, listener: Listener) -> None:
        self._loop, self._heartbeats, self._listener = loop, heartbeats, listener
        self._framed = FramedSocket(loop, sock, most_bytes=STRANGER_FRAME_BYTES)
        self._framed.on_frame = self._hello
        self._framed.on_let_go = self._gone
        self._challenge = os.urandom(16).hex()
        self._nonce = self._purpose = ""
        self._is_trusted = False
        listener.unknown_peers.enter(self, loop.now())
        self._timer = loop.after(HANDSHAKE_TIME_S, self.drop)

    def _hello(self, content: JsonObject) -> None:
        why = self._listener.refusal(content)
        nonce, purpose = content.get("nonce"), content.get("for")
        if why is None and not (isinstance(nonce, str) and isinstance(purpose, str)):
            why = "a hello that makes no sense"
        if why is not None:
            self._refuse(why)
            return
        self._nonce, self._purpose = str(nonce), str(purpose)
        self._framed.on_frame = self._answer
        self._framed.send(frame({"umiak": VERSION, "challenge": self._challenge}))

    def _answer(self, content: JsonObject) -> None:
        wanted, theirs = self._proof_of("caller"), content.get("proof")
        if wanted and not (isinstance(theirs, str) and _same(theirs, wanted)):
            self._refuse("this job has a token: set the same UMIAK_TOKEN on every node")
            return
        self._framed.on_frame = self._interrupted
        self._framed.send(frame({"proof": self._proof_of("listener")}))
        if self._listener.has_token:
            self.trusted()
        self.renew()
        self._listener.on_visitor(Visitor(self._framed, self._heartbeats, self._purpose, self))

    def expect_join(self) -> None:
        """It was welcomed."""
        if not self._is_trusted:
            self._framed.take_frames_of(JOIN_FRAME_BYTES)
        self.renew()

    def trusted(self) -> None:
        """It has proved that it knows the token; or, where there is none, it has joined."""
        self._is_trusted = True
        self._timer.cancel()
        self._listener.unknown_peers.leave(self)
        self._framed.take_frames_of(NODE_FRAME_BYTES)

    def renew(self) -> None:
        """Something was answered: a stranger's time begins again."""
        self._timer.cancel()
        if not self._is_trusted and not self._framed.ended:
            self._timer = self._loop.after(HANDSHAKE_TIME_S, self.drop)

    def drop(self) -> None:
        self._framed.hang_up("it has not proved itself in time")

    def _proof_of(self, role: str) -> str:
        return self._listener.proof_for(role, self._purpose, self._nonce, self._challenge)

    def _refuse(self, why: str) -> None:
        self._framed.on_frame = self._interrupted
        self._framed.send(frame({"refused": why}))
        self._framed.finish_sending()

    def _interrupted(self, _content: JsonObject) -> None:
        """A launcher waits for the answer, and hears a refusal to its end."""
        self.drop()

    def _gone(self) -> None:
        self._timer.cancel()
        self._listener.unknown_peers.leave(self)
        self._listener.let_go()


def proof(token: bytes, role: str, job_id: str, purpose: str, caller_nonce: str, challenge: str) -> str:
    """What only someone who knows the token can say, and only here:
    in this role, for this job, purpose and conversation.
    """
    import hmac

    message = json.dumps(["umiak", VERSION, role, job_id, purpose, caller_nonce, challenge])  # ASCII, whatever was said
    return hmac.new(token, message.encode(), "sha256").hexdigest()


def _same(one: str, other: str) -> bool:
    import hmac

    return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))


def _address(said: object) -> tuple[str, int] | None:
    """A host and a port, if that is what was said."""
    if not isinstance(said, list) or len(said) != 2:
        return None
    host, port = said
    return (host, port) if isinstance(host, str) and is_host(host) and type(port) is int and is_port(port) else None
