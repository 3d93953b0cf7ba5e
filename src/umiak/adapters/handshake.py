"""How two launchers come to trust each other before they talk. An adapter.

    caller     hello (version, job, nonce, what for)
    listener   challenge (nonce, proof)
    caller     proof
    listener   welcome | moved (who leads) | other (not whom you called) | refused (why), or beats while it does not know yet

With a token each side proves by HMAC-SHA256 over both nonces that it knows it, before anything it says is acted upon; the
token itself never travels. Until then frames are small, time is short, and the number of strangers is bounded.
"""

from __future__ import annotations

import os
import socket
import time

from umiak.adapters import hostinfo
from umiak.adapters.frames import FramedSocket, frame, ignore
from umiak.adapters.link import HOLD, Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from umiak.adapters.link import Heart
    from umiak.adapters.loop import Loop, Timer

VERSION = 1
HANDSHAKE_TIME_S = 10.0
STRANGER_FRAME_BYTES = 4096
MOST_STRANGERS = 4096
"""Connections that have not proved anything yet; one more is closed at once."""
NOT_UMIAK = "what listens there is not umiak"
CALL_AGAIN_S = 0.05


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
        self.on_link: Callable[[Link], None] = ignore
        self.on_moved: Callable[[str, int], None] = lambda _host, _port: None
        self.on_failed: Callable[[bool, str, bool], None] = lambda _refused, _why, _fatal: None
        self._host, self._port = host, port
        self._where = f"{host} port {port}"
        self._hung_up = ""
        self._nonce = os.urandom(16).hex()
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
        if "other" in content:
            # As good as a refused connection: who was called is not there any more, or never was.
            self._fail(refused=True, why=f"{self._where}: another launcher answers there")
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
            return
        # Whoever took the call hung up in the middle of it. If that launcher has died, the next call is refused.
        self._framed = self._sock = None
        self._hung_up = reason
        self._loop.after(CALL_AGAIN_S, self._connect)

    def _timed_out(self) -> None:
        listens = "something listens there, but " if self._framed else ""
        how = self._hung_up or f"{listens}no answer for {self._patience_s:g} s"
        self._fail(refused=False, why=f"{self._where}: {how}")

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
        framed.on_frame = ignore

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

    def confirm(self, *, is_the_one: bool) -> None:
        """Whether the caller has reached whom it called; nothing more is said."""
        self._framed.send(frame({"welcome": time.time()} if is_the_one else {"other": True}))
        self._framed.finish_sending()

    def hold(self) -> None:
        """Not known yet who leads: keep the caller patient."""
        self._framed.send(HOLD)


class Listener:
    """Takes calls from other launchers, lets in those that know the token, and hands them to ``on_visitor``."""

    def __init__(self, loop: Loop, heart: Heart, sock: socket.socket, *, job_id: str, token: bytes | None) -> None:
        self._loop, self._heart, self._sock = loop, heart, sock
        self._job_id, self._token = job_id, token
        self.on_visitor: Callable[[Visitor], None] = ignore
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
        self._framed.on_frame = ignore

    def _drop(self) -> None:
        self._framed.close()
        self._over(None)

    def _over(self, visitor: Visitor | None) -> None:
        self._timer.cancel()
        self._framed.on_end = ignore
        self._listener.admit(visitor)


def proof(token: bytes, role: str, caller_nonce: str, challenge: str) -> str:
    """What only someone who knows the token can say."""
    import hmac

    told = f"umiak/{VERSION}/{role}/{caller_nonce}/{challenge}".encode(
        errors="surrogatepass"
    )  # a stranger may say anything
    return hmac.new(token, told, "sha256").hexdigest()


def _same(one: str, other: str) -> bool:
    import hmac

    return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))
