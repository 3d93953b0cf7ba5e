"""Links between launchers: framed JSON over TCP, with proof of a shared token and heartbeats. An adapter.

    frame      4 bytes of length, big-endian, then that many bytes of JSON; the length is checked before anything is read
    handshake  caller: hello (version, job, nonce)      listener: challenge (nonce, proof)      caller: proof
               listener: welcome | moved (who leads) | refused (why), or beats while it does not know yet
    after it   {"m": message} and {"b": 1} beats, one a second from each side

With a token each side proves by HMAC-SHA256 over both nonces that it knows it, before anything it says is acted upon; the
token itself never travels. A link tells its owner one of two things about its end: *closed*, the other process is gone, or
*silent*, nothing was heard for the heartbeat timeout. A close after a long silence counts as silence: what closed
the connection may have been this machine's own network stack. So does a close after this launcher itself stood still.
"""

from __future__ import annotations

import json
import os
import socket
import time

from umiak.adapters import hostinfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from umiak.adapters.loop import Loop, Timer

VERSION = 1
BEAT_EVERY_S = 1.0
HANDSHAKE_TIME_S = 10.0
STRANGER_FRAME_BYTES = 4096
FRIEND_FRAME_BYTES = 64 * 1024 * 1024
MOST_STRANGERS = 4096
"""Connections that have not proved anything yet; one more is closed at once."""
NOT_UMIAK = "what listens there is not umiak"
_READ_BYTES = 256 * 1024


def frame(content: object) -> bytes:
    """A frame that holds this content."""
    body = json.dumps(content, separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + body


_BEAT = frame({"b": 1})


class FramedSocket:
    """A non-blocking socket that takes and gives frames."""

    def __init__(self, loop: Loop, sock: socket.socket, *, most_bytes: int) -> None:
        self._loop = loop
        self._sock = sock
        self._most_bytes = most_bytes
        self._received = bytearray()
        self._unsent = bytearray()
        self.on_frame: Callable[[dict[str, Any]], None] = _ignore
        self.on_end: Callable[[str], None] = _ignore
        self.last_heard = loop.now()
        self.ended = False
        self.is_garbled = False
        """Whether it ended because the other side does not speak in frames."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.on_readable(sock.fileno(), self._read)

    def trust(self) -> None:
        """The other side has proved itself: its frames may be large."""
        self._most_bytes = FRIEND_FRAME_BYTES

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def local_host(self) -> str:
        host: str = self._sock.getsockname()[0]
        return host.removeprefix("::ffff:")

    @property
    def peer_host(self) -> str:
        try:
            host: str = self._sock.getpeername()[0]
        except OSError:
            return "unknown"
        return host.removeprefix("::ffff:")

    def send(self, data: bytes) -> None:
        """Send a whole frame, now or as soon as the other side takes it."""
        if self.ended:
            return
        if not self._unsent:
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                # Told from the loop, so that whoever sends is not called back in the middle of it.
                reason = error.strerror or "closed"
                self._loop.soon(lambda: self._end(reason))
                return
            data = data[sent:]
        if data:
            self._unsent += data
            self._loop.on_writable(self._sock.fileno(), self._write)

    def finish_sending(self) -> None:
        """Say that nothing more will come; the other side reads what is on its way and then sees the end."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        """Let go of the socket; the owner is not told."""
        if not self.ended:
            self.ended = True
            self._loop.forget(self._sock.fileno())
            self._sock.close()

    def _write(self) -> None:
        try:
            sent = self._sock.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error.strerror or "closed")
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.on_writable(self._sock.fileno(), None)

    def _read(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error.strerror or "reset")
            return
        if not data:
            self._end("closed")
            return
        self.last_heard = self._loop.now()
        self._received += data
        while not self.ended and len(self._received) >= 4:
            length = int.from_bytes(self._received[:4], "big")
            if length > self._most_bytes:
                self.is_garbled = True
                self._end(f"a frame of {length} bytes, at most {self._most_bytes} are taken")
                return
            if len(self._received) < 4 + length:
                return
            body = bytes(self._received[4 : 4 + length])
            del self._received[: 4 + length]
            try:
                content = json.loads(body)
            except (ValueError, RecursionError):
                self.is_garbled = True
                self._end("a frame that is not JSON")
                return
            if not isinstance(content, dict):
                self._end("a frame that is not an object")
                return
            self.on_frame(content)

    def _end(self, reason: str) -> None:
        if not self.ended:
            self.close()
            self.on_end(reason)


class Link:
    """An established connection to another launcher. Messages, beats, and one word at its end."""

    def __init__(self, framed: FramedSocket, heart: Heart, *, clock_offset_s: float = 0.0) -> None:
        self._framed = framed
        self._heart = heart
        self.clock_offset_s = clock_offset_s
        """What to add to this machine's wall clock to get the master's."""
        self.on_message: Callable[[Any], None] = _ignore
        self.on_closed: Callable[[], None] = _nothing
        self.on_silent: Callable[[], None] = _nothing
        self._silent_said = False
        framed.on_frame = self._frame
        framed.on_end = self._ended
        heart.links.add(self)

    @property
    def local_host(self) -> str:
        return self._framed.local_host

    @property
    def peer_host(self) -> str:
        return self._framed.peer_host

    @property
    def has_unsent(self) -> bool:
        return self._framed.has_unsent and not self._framed.ended

    @property
    def is_open(self) -> bool:
        return not self._framed.ended

    def send(self, data: bytes) -> None:
        """Send a frame made by ``message_frame``."""
        self._framed.send(data)

    def finish_sending(self) -> None:
        self._framed.finish_sending()

    def close(self) -> None:
        self._heart.links.discard(self)
        self._framed.close()

    def beat(self) -> None:
        """Show that we live."""
        self._framed.send(_BEAT)

    @property
    def last_heard(self) -> float:
        return self._framed.last_heard

    def fell_silent(self) -> None:
        """The other side was not heard for too long."""
        if not self._silent_said:
            self._silent_said = True
            self.on_silent()

    def _frame(self, content: dict[str, Any]) -> None:
        if "m" in content:
            self.on_message(content["m"])

    def _ended(self, _reason: str) -> None:
        self._heart.links.discard(self)
        if self._silent_said:
            return
        if self._heart.is_in_doubt or self._heart.now() - self._framed.last_heard > self._heart.timeout_s / 2:
            self._silent_said = True
            self.on_silent()
        else:
            self.on_closed()


class Heart:
    """Beats for all links of this launcher, with one timer."""

    def __init__(self, loop: Loop, timeout_s: float) -> None:
        self._loop = loop
        self.timeout_s = timeout_s
        self.links: set[Link] = set()
        self._every_s = min(BEAT_EVERY_S, timeout_s / 5)
        self._in_doubt_until = 0.0
        self._next_beat = loop.now() + self._every_s
        loop.on_nap = self._napped
        loop.at(self._next_beat, self._beat)

    def now(self) -> float:
        return self._loop.now()

    @property
    def is_in_doubt(self) -> bool:
        """Whether this launcher stood still so long a moment ago that the others may have given it up.

        Then their hanging up is no sign that they died.
        """
        return self.now() < self._in_doubt_until

    def _napped(self, seconds: float) -> None:
        if seconds > self.timeout_s / 2:
            self._in_doubt_until = self.now() + self.timeout_s

    def _beat(self) -> None:
        now = self._loop.now()
        # Punctual also when this beat was late: the others' patience counts on it.
        self._next_beat = max(self._next_beat + self._every_s, now)
        self._loop.at(self._next_beat, self._beat)
        for link in tuple(self.links):
            link.beat()
        self._listen()

    def _listen(self) -> None:
        """Notice silence when it is due, not only at the next beat: a side that is cut off must stop in time."""
        due = self._next_beat
        for link in tuple(self.links):
            silent_at = link.last_heard + self.timeout_s
            if silent_at <= self._loop.now():
                link.fell_silent()
            else:
                due = min(due, silent_at)
        if due < self._next_beat:
            self._loop.at(due, self._listen)


def message_frame(message: object) -> bytes:
    """The frame for one message; made once when it goes to many."""
    return frame({"m": message})


class Caller:
    """Dials another launcher and goes through the handshake. Exactly one of the callbacks is called, once."""

    def __init__(
        self,
        loop: Loop,
        heart: Heart,
        *,
        host: str,
        port: int,
        job_id: str,
        token: bytes | None,
        purpose: str,
        patience_s: float,
    ) -> None:
        self._loop, self._heart, self._patience_s = loop, heart, patience_s
        self._job_id, self._token, self._purpose = job_id, token, purpose
        self.on_link: Callable[[Link], None] = _ignore
        self.on_moved: Callable[[str, int], None] = lambda _host, _port: None
        self.on_failed: Callable[[bool, str, bool], None] = lambda _refused, _why, _fatal: None
        self._where = f"{host} port {port}"
        self._nonce = os.urandom(16).hex()
        self._framed: FramedSocket | None = None
        self._sock: socket.socket | None = None
        self._asked_at = 0.0
        self._over = False
        self._timer: Timer | None = None
        loop.soon(lambda: self._connect(host, port))

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

    def _connect(self, host: str, port: int) -> None:
        if self._over:
            return
        try:
            family, address = hostinfo.look_up(host, port)
            self._sock = socket.socket(family, socket.SOCK_STREAM)
            self._sock.setblocking(False)
            error = self._sock.connect_ex(address)
        except OSError as failure:
            self._fail(refused=False, why=f"{self._where}: {failure.strerror or failure}")
            return
        self._timer = self._loop.after(self._patience_s, self._timed_out)
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

    def _challenged(self, content: dict[str, Any]) -> None:
        assert self._framed is not None
        if self._refused(content):
            return
        challenge = content.get("challenge")
        if content.get("umiak") != VERSION or not isinstance(challenge, str):
            self._fail(refused=False, why=f"{self._where}: {NOT_UMIAK}", fatal=True)
            return
        if self._token is not None:
            theirs = content.get("proof")
            if not isinstance(theirs, str) or not _same(theirs, proof(self._token, "listener", self._nonce, challenge)):
                why = f"{self._where}: the launcher there does not know this UMIAK_TOKEN"
                self._fail(refused=False, why=why, fatal=True)
                return
        answer = proof(self._token, "caller", self._nonce, challenge) if self._token is not None else ""
        self._framed.on_frame = self._answered
        self._framed.send(frame({"proof": answer}))

    def _answered(self, content: dict[str, Any]) -> None:
        assert self._framed is not None
        if "b" in content:
            # The other side is alive but does not know yet who leads: it is worth waiting.
            if self._timer:
                self._timer.cancel()
            self._timer = self._loop.after(self._patience_s, self._timed_out)
            return
        if self._refused(content):
            return
        moved = content.get("moved")
        if isinstance(moved, list) and len(moved) == 2 and isinstance(moved[0], str) and isinstance(moved[1], int):
            self.cancel()
            self.on_moved(moved[0], moved[1])
            return
        their_time = content.get("welcome")
        if not isinstance(their_time, (int, float)):
            self._fail(refused=False, why=f"{self._where}: an answer that makes no sense", fatal=True)
            return
        if self._timer:
            self._timer.cancel()
        self._over = True
        self._framed.trust()
        middle = (self._asked_at + time.time()) / 2
        self.on_link(Link(self._framed, self._heart, clock_offset_s=their_time - middle))

    def _refused(self, content: dict[str, Any]) -> bool:
        if "refused" not in content:
            return False
        self._fail(refused=False, why=f"{self._where}: {content['refused']}", fatal=True)
        return True

    def _ended(self, reason: str) -> None:
        assert self._framed is not None
        if self._framed.is_garbled:
            self._fail(refused=False, why=f"{self._where}: {NOT_UMIAK}", fatal=True)
        else:
            self._fail(refused=False, why=f"{self._where}: {reason}")

    def _timed_out(self) -> None:
        listens = "something listens there, but " if self._framed else ""
        self._fail(refused=False, why=f"{self._where}: {listens}no answer for {self._patience_s:g} s")

    def _fail(self, *, refused: bool, why: str, fatal: bool = False) -> None:
        if not self._over:
            self.cancel()
            self.on_failed(refused, why, fatal)


class Visitor:
    """A caller that has proved itself and waits for an answer: ``welcome()`` it, or tell it who leads."""

    def __init__(self, framed: FramedSocket, heart: Heart, purpose: str) -> None:
        self._framed = framed
        self._heart = heart
        self.purpose = purpose
        framed.on_frame = _ignore

    @property
    def is_open(self) -> bool:
        return not self._framed.ended

    def welcome(self) -> Link:
        self._framed.send(frame({"welcome": time.time()}))
        self._framed.trust()
        return Link(self._framed, self._heart)

    def moved(self, host: str, port: int) -> None:
        self._framed.send(frame({"moved": [host, port]}))
        self._framed.finish_sending()

    def hold(self) -> None:
        """Not known yet who leads: keep the caller patient."""
        self._framed.send(_BEAT)


class Listener:
    """Takes calls from other launchers, lets in those that know the token, and hands them to ``on_visitor``."""

    def __init__(self, loop: Loop, heart: Heart, sock: socket.socket, *, job_id: str, token: bytes | None) -> None:
        self._loop, self._heart, self._sock = loop, heart, sock
        self._job_id, self._token = job_id, token
        self.on_visitor: Callable[[Visitor], None] = _ignore
        self._strangers = 0
        sock.setblocking(False)
        loop.on_readable(sock.fileno(), self._accept)

    @property
    def port(self) -> int:
        number: int = self._sock.getsockname()[1]
        return number

    def close(self) -> None:
        self._loop.forget(self._sock.fileno())
        self._sock.close()

    def _accept(self) -> None:
        for _ in range(64):
            try:
                sock, _address = self._sock.accept()
            except OSError:
                return  # nobody more, or no descriptors left: the caller will try again
            if self._strangers >= MOST_STRANGERS:
                sock.close()
                continue
            self._strangers += 1
            _Greeting(self._loop, self._heart, sock, self)

    def admit(self, visitor: Visitor | None) -> None:
        """A greeting is over; with a visitor if the caller proved itself."""
        self._strangers -= 1
        if visitor:
            self.on_visitor(visitor)

    def refusal(self, hello: dict[str, Any]) -> str | None:
        """Why this caller is not talked to, if it is not."""
        if hello.get("umiak") != VERSION:
            return f"this launcher speaks version {VERSION} of the protocol, the caller {hello.get('umiak')!r}"
        if hello.get("job") != self._job_id:
            return f"this launcher runs --job_id {self._job_id}, the caller another job"
        return None

    def proof_for(self, role: str, caller_nonce: str, challenge: str) -> str:
        return proof(self._token, role, caller_nonce, challenge) if self._token is not None else ""


class _Greeting:
    """One handshake, on the listener's side."""

    def __init__(self, loop: Loop, heart: Heart, sock: socket.socket, listener: Listener) -> None:
        self._heart, self._listener = heart, listener
        self._framed = FramedSocket(loop, sock, most_bytes=STRANGER_FRAME_BYTES)
        self._framed.on_frame = self._hello
        self._framed.on_end = lambda _reason: self._over(None)
        self._challenge = os.urandom(16).hex()
        self._nonce = self._purpose = ""
        self._timer = loop.after(HANDSHAKE_TIME_S, self._drop)

    def _hello(self, content: dict[str, Any]) -> None:
        why = self._listener.refusal(content)
        nonce, purpose = content.get("nonce"), content.get("for")
        if why is None and not (isinstance(nonce, str) and isinstance(purpose, str)):
            why = "a hello that makes no sense"
        if why is not None:
            self._refuse(why)
            return
        self._nonce, self._purpose = str(nonce), str(purpose)
        self._framed.on_frame = self._answer
        own_proof = self._listener.proof_for("listener", self._nonce, self._challenge)
        self._framed.send(frame({"umiak": VERSION, "challenge": self._challenge, "proof": own_proof}))

    def _answer(self, content: dict[str, Any]) -> None:
        wanted = self._listener.proof_for("caller", self._nonce, self._challenge)
        theirs = content.get("proof")
        if wanted and not (isinstance(theirs, str) and _same(theirs, wanted)):
            self._refuse("this job has a token: set the same UMIAK_TOKEN on every node")
            return
        self._over(Visitor(self._framed, self._heart, self._purpose))

    def _refuse(self, why: str) -> None:
        self._framed.send(frame({"refused": why}))
        self._framed.finish_sending()
        self._framed.on_frame = _ignore

    def _drop(self) -> None:
        self._framed.close()
        self._over(None)

    def _over(self, visitor: Visitor | None) -> None:
        self._timer.cancel()
        self._framed.on_end = _ignore
        self._listener.admit(visitor)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; an empty host means every address, IPv6 as well where the machine has it. OSError if taken."""
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A port that was ours a moment ago may be taken again; one that somebody listens on may not.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
        sock.bind((host, port))
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


def proof(token: bytes, role: str, caller_nonce: str, challenge: str) -> str:
    """What only someone who knows the token can say."""
    import hmac

    return hmac.new(token, f"umiak/{VERSION}/{role}/{caller_nonce}/{challenge}".encode(), "sha256").hexdigest()


def _same(one: str, other: str) -> bool:
    import hmac

    return hmac.compare_digest(one.encode(), other.encode())


def _ignore(_anything: object) -> None:
    pass


def _nothing() -> None:
    pass
