"""Links between launchers over loopback: who is let in, what gets through, and how an end is told."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import run_until
from umiak.adapters import frames, hostinfo
from umiak.adapters.frames import frame
from umiak.adapters.loop import Loop
from umiak.launch.links import handshake, strangers
from umiak.launch.links.handshake import Caller, Listener, Visitor
from umiak.launch.links.link import Heart, Link, message_frame
from umiak.launch.links.strangers import Room

LONG_S = 60.0
"""A heartbeat timeout that never runs out in a test."""


class Side:
    """One launcher's end of things: its loop is shared, its heart is its own."""

    def __init__(self, loop: Loop, timeout_s: float = LONG_S) -> None:
        self.loop = loop
        self.heart = Heart(loop, timeout_s)
        self.visitors: list[Visitor] = []
        self.links: list[Link] = []
        self.heard: list[Any] = []
        self.ends: list[str] = []

    def watch(self, link: Link) -> Link:
        self.links.append(link)
        link.on_message = self.heard.append
        link.on_closed = lambda: self.ends.append("closed")
        link.on_silent = lambda: self.ends.append("silent")
        return link


class Listening(Side):
    """A launcher that listens."""

    def __init__(
        self,
        loop: Loop,
        *,
        token: bytes | None = None,
        job_id: str = "ctr",
        timeout_s: float = LONG_S,
        room: Room = Room(),  # noqa: B008 - a value
    ) -> None:
        super().__init__(loop, timeout_s)
        sock = frames.listen("127.0.0.1", 0)
        self.listener = Listener(loop, self.heart, sock, job_id=job_id, token=token, room=room)
        self.listener.on_visitor = self.visitors.append

    def welcomes(self) -> None:
        self.listener.on_visitor = lambda visitor: _nothing(self.watch(visitor.welcome()))


class Calling(Side):
    """A launcher that calls another one."""

    def __init__(
        self,
        loop: Loop,
        port: int,
        *,
        token: bytes | None = None,
        job_id: str = "ctr",
        timeout_s: float = LONG_S,
        patience_s: float = LONG_S,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(loop, timeout_s)
        self.failures: list[tuple[bool, str, bool]] = []
        self.moved: list[tuple[str, int]] = []
        self.caller = Caller(
            loop, self.heart, host=host, port=port, job_id=job_id, token=token, purpose="join", patience_s=patience_s
        )
        self.caller.on_link = lambda link: _nothing(self.watch(link))
        self.caller.on_failed = lambda refused, why, fatal: self.failures.append((refused, why, fatal))
        self.caller.on_moved = lambda where, its_port: self.moved.append((where, its_port))

    @property
    def outcome(self) -> list[Any]:
        return [*self.links, *self.failures, *self.moved]


def _nothing(_: object) -> None:
    pass


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    # Nobody is thrown out for being slow, unless a test wants that.
    monkeypatch.setattr(handshake, "HANDSHAKE_TIME_S", 10 * LONG_S)
    some = Loop()
    opened: list[Any] = []
    register = some.on_readable

    def remember(fd: int, call: Any) -> None:
        opened.append(getattr(call, "__self__", None))
        register(fd, call)

    some.on_readable = remember  # type: ignore[method-assign]
    yield some
    for each in opened:  # sockets and listeners that a test left open
        if hasattr(each, "close"):
            each.close()
    some._epoll.close()


@pytest.fixture
def listening(loop: Loop) -> Listening:
    return Listening(loop)


def connected(loop: Loop, **timeouts: float) -> tuple[Listening, Calling]:
    listening = Listening(loop, **timeouts)
    listening.welcomes()
    calling = Calling(loop, listening.listener.port, **timeouts)
    run_until(loop, lambda: calling.links and listening.links)
    return listening, calling


# ---- the handshake


@pytest.mark.parametrize("token", [None, b"secret"], ids=["without a token", "with a token"])
def test_two_launchers_of_one_job_meet(loop: Loop, token: bytes | None) -> None:
    listening = Listening(loop, token=token)
    listening.welcomes()
    calling = Calling(loop, listening.listener.port, token=token)
    run_until(loop, lambda: calling.links and listening.links)
    assert calling.outcome == calling.links
    calling.links[0].send(message_frame({"hello": "master"}))
    listening.links[0].send(message_frame({"hello": "node"}))
    run_until(loop, lambda: calling.heard and listening.heard)
    assert (calling.heard, listening.heard) == ([{"hello": "node"}], [{"hello": "master"}])
    assert calling.links[0].local_host == calling.links[0].peer_host == "127.0.0.1"
    assert abs(calling.links[0].clock_offset_s) < 60


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        pytest.param(b"secret", b"other", "set the same UMIAK_TOKEN", id="the listener has another token"),
        pytest.param(b"secret", None, "does not know this UMIAK_TOKEN", id="the listener has none"),
        pytest.param(None, b"secret", "set the same UMIAK_TOKEN", id="the caller has none"),
    ],
)
def test_who_does_not_know_the_token_is_not_talked_to(loop: Loop, ours: Any, theirs: Any, told: str) -> None:
    listening = Listening(loop, token=theirs)
    calling = Calling(loop, listening.listener.port, token=ours)
    run_until(loop, lambda: calling.outcome)
    ((refused, why, fatal),) = calling.failures
    assert told in why
    assert fatal
    assert not refused
    assert b"secret" not in why.encode()
    run_until(loop, lambda: not any(visitor.is_open for visitor in listening.visitors))
    assert not listening.visitors or theirs is None, "who has no token lets everybody in"


def test_a_launcher_of_another_job_is_refused(loop: Loop, listening: Listening) -> None:
    calling = Calling(loop, listening.listener.port, job_id="another")
    run_until(loop, lambda: calling.outcome)
    ((_, why, fatal),) = calling.failures
    assert "--job_id ctr" in why
    assert fatal
    assert listening.visitors == []


def test_a_launcher_of_another_version_is_refused(loop: Loop, knock: Any, listening: Listening) -> None:
    stranger = knock(listening)
    stranger.say(frame({"umiak": 99, "job": "ctr", "nonce": "n", "for": "join"}))
    assert "version" in stranger.hear(loop)["refused"]


def test_nobody_listens(loop: Loop) -> None:
    with frames.listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
    calling = Calling(loop, port)
    run_until(loop, lambda: calling.outcome)
    assert [(refused, fatal) for refused, _, fatal in calling.failures] == [(True, False)]


def test_an_unknown_host_is_no_refusal(loop: Loop) -> None:
    calling = Calling(loop, 1, host="no-such-host.invalid")
    run_until(loop, lambda: calling.outcome)
    assert [(refused, fatal) for refused, _, fatal in calling.failures] == [(False, False)]


def test_somebody_listens_and_never_speaks(loop: Loop) -> None:
    with frames.listen("127.0.0.1", 0) as sock:
        calling = Calling(loop, sock.getsockname()[1], patience_s=0.05)
        run_until(loop, lambda: calling.outcome)
    ((refused, why, fatal),) = calling.failures
    assert "no answer" in why
    assert not refused
    assert not fatal


def test_somebody_listens_who_is_no_launcher(loop: Loop) -> None:
    with frames.listen("127.0.0.1", 0) as sock:
        calling = Calling(loop, sock.getsockname()[1])
        run_until(loop, lambda: calling.caller._framed is not None)
        other, _ = sock.accept()
        with other:
            other.sendall(frame({"hello": "I am a database"}))
            run_until(loop, lambda: calling.outcome)
    assert [fatal for _, _, fatal in calling.failures] == [True]


def test_a_web_server_is_no_launcher(loop: Loop) -> None:
    with frames.listen("127.0.0.1", 0) as sock:
        calling = Calling(loop, sock.getsockname()[1])
        run_until(loop, lambda: calling.caller._framed is not None)
        other, _ = sock.accept()
        with other:
            other.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            run_until(loop, lambda: calling.outcome)
    assert len(calling.failures) == 1


def test_a_call_that_was_taken_back_is_never_answered(loop: Loop, listening: Listening) -> None:
    listening.welcomes()
    early = Calling(loop, listening.listener.port)
    early.caller.cancel()
    late = Calling(loop, listening.listener.port)
    run_until(loop, lambda: late.caller._sock is not None)
    late.caller.cancel()
    other = Calling(loop, listening.listener.port)
    run_until(loop, lambda: other.links)
    assert early.outcome == late.outcome == []


# ---- strangers at the door


class Stranger:
    """Somebody who connects to a listener and says what a test wants."""

    def __init__(self, listening: Listening) -> None:
        self.sock = socket.create_connection(("127.0.0.1", listening.listener.port))
        self.sock.setblocking(False)
        self.received = b""
        self.is_out = False

    def say(self, data: bytes) -> None:
        self.sock.sendall(data)

    def look(self) -> None:
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        self.received += data
        self.is_out = self.is_out or not data

    def hear(self, loop: Loop) -> dict[str, Any]:
        """The next frame."""

        def whole() -> bool:
            self.look()
            return len(self.received) >= 4 and len(self.received) >= 4 + int.from_bytes(self.received[:4], "big")

        run_until(loop, whole)
        length = int.from_bytes(self.received[:4], "big")
        body, self.received = self.received[4 : 4 + length], self.received[4 + length :]
        content: dict[str, Any] = json.loads(body)
        return content

    def is_thrown_out(self, loop: Loop) -> bool:
        def look() -> bool:
            self.look()
            return self.is_out

        run_until(loop, look)
        self.sock.close()
        return True


@pytest.fixture
def knock() -> Iterator[Callable[[Listening], Stranger]]:
    """Brings a stranger to a listener's door."""
    strangers: list[Stranger] = []

    def come(listening: Listening) -> Stranger:
        strangers.append(Stranger(listening))
        return strangers[-1]

    yield come
    for stranger in strangers:
        stranger.sock.close()


HELLO = {"umiak": handshake.VERSION, "job": "ctr", "nonce": "n", "for": "join"}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: me\r\n\r\n", id="a browser"),
        pytest.param((handshake.STRANGER_FRAME_BYTES + 1).to_bytes(4, "big"), id="a large frame is announced"),
        pytest.param(b"\xff\xff\xff\xff", id="a huge frame is announced"),
        pytest.param(b"\x00\x00\x00\x03{]}", id="no JSON"),
        pytest.param(b"\x00\x00\x00\x02[]", id="no object"),
        pytest.param(b"\x00\x00\x00\x02\xff\xfe", id="no text"),
        pytest.param((4000).to_bytes(4, "big") + b"[" * 4000, id="a deep hole"),
        pytest.param(b"\x00\x00\x00\x00", id="nothing"),
    ],
)
def test_a_stranger_who_talks_nonsense_is_thrown_out(loop: Loop, knock: Any, listening: Listening, data: bytes) -> None:
    stranger = knock(listening)
    stranger.say(data)
    assert stranger.is_thrown_out(loop)
    assert listening.visitors == []
    assert len(listening.listener.strangers) == 0


@pytest.mark.parametrize(
    "hello",
    [
        {},
        {**HELLO, "umiak": "1"},
        {**HELLO, "umiak": None},
        {**HELLO, "job": ["ctr"]},
        {**HELLO, "nonce": 5},
        {**HELLO, "for": None},
        {name: item for name, item in HELLO.items() if name != "nonce"},
    ],
    ids=json.dumps,
)
def test_a_hello_that_makes_no_sense_is_refused(
    loop: Loop, knock: Any, listening: Listening, hello: dict[str, Any]
) -> None:
    stranger = knock(listening)
    stranger.say(frame(hello))
    assert isinstance(stranger.hear(loop)["refused"], str)
    stranger.sock.close()
    run_until(loop, lambda: len(listening.listener.strangers) == 0)
    assert listening.visitors == []


@pytest.mark.parametrize(
    "answer", [{}, {"proof": None}, {"proof": ""}, {"proof": 7}, {"proof": "0" * 64}, {"proof": "é"}], ids=json.dumps
)
def test_a_wrong_proof_is_refused(loop: Loop, knock: Any, answer: dict[str, Any]) -> None:
    listening = Listening(loop, token=b"secret")
    stranger = knock(listening)
    stranger.say(frame(HELLO))
    assert stranger.hear(loop)["umiak"] == handshake.VERSION
    stranger.say(frame(answer))
    assert "UMIAK_TOKEN" in stranger.hear(loop)["refused"]
    assert listening.visitors == []


def test_a_proof_that_was_overheard_is_worth_nothing(loop: Loop, knock: Any) -> None:
    listening = Listening(loop, token=b"secret")
    first = knock(listening)
    first.say(frame(HELLO))
    overheard = handshake.proof(b"secret", "caller", "ctr", "join", "n", first.hear(loop)["challenge"])
    second = knock(listening)
    second.say(frame(HELLO))
    challenge = second.hear(loop)["challenge"]
    assert overheard != handshake.proof(b"secret", "caller", "ctr", "join", "n", challenge)
    second.say(frame({"proof": overheard}))
    assert "refused" in second.hear(loop)


def test_who_was_refused_is_not_heard_any_more(loop: Loop, knock: Any) -> None:
    listening = Listening(loop, token=b"secret")
    stranger = knock(listening)
    stranger.say(frame(HELLO))
    challenge = stranger.hear(loop)["challenge"]
    stranger.say(frame({"proof": "wrong"}))
    stranger.hear(loop)
    stranger.say(frame({"proof": handshake.proof(b"secret", "caller", "ctr", "join", "n", challenge)}))
    stranger.sock.close()
    run_until(loop, lambda: len(listening.listener.strangers) == 0)
    assert listening.visitors == []


def test_a_stranger_who_is_slow_is_thrown_out_and_others_get_in_meanwhile(
    loop: Loop, knock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIME_S", 0.2)
    listening = Listening(loop)
    listening.welcomes()
    stranger = knock(listening)
    stranger.say(frame(HELLO)[:7])
    run_until(loop, lambda: len(listening.listener.strangers) == 1)
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: calling.links and listening.links)
    listening.links[0].trust()
    assert stranger.is_thrown_out(loop)
    assert len(listening.listener.strangers) == 0
    assert calling.links[0].is_open


def small(loop: Loop, strangers: int, **more: Any) -> Listening:
    """A launcher with room for so many strangers."""
    return Listening(loop, room=Room(strangers=strangers, links=8), **more)


def test_a_new_stranger_takes_the_place_of_the_oldest(loop: Loop, knock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "TIME_TO_PROVE_S", 0.0)
    listening = small(loop, 3)
    crowd = [knock(listening) for _ in range(5)]
    assert all(stranger.is_thrown_out(loop) for stranger in crowd[:2])
    assert len(listening.listener.strangers) == 3
    listening.welcomes()
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: calling.links)


def test_strangers_wait_outside_while_the_others_still_have_time(loop: Loop, knock: Any) -> None:
    listening = small(loop, 3)
    listening.welcomes()
    crowd = [knock(listening) for _ in range(3)]
    run_until(loop, lambda: len(listening.listener.strangers) == 3)
    strangers.TIME_TO_PROVE_S, before = 1e9, strangers.TIME_TO_PROVE_S
    try:
        calling = Calling(loop, listening.listener.port)
        turns: list[int] = []
        loop.after(3 * handshake.PAUSE_S, lambda: turns.append(1))
        run_until(loop, lambda: turns)
        assert not calling.outcome
        assert len(listening.listener.strangers) == 3
        crowd[0].sock.close()
        run_until(loop, lambda: calling.links)
    finally:
        strangers.TIME_TO_PROVE_S = before


def test_without_descriptors_nobody_is_let_in_for_a_while_and_nothing_spins(loop: Loop, knock: Any) -> None:
    listening = small(loop, 3)
    listening.welcomes()
    troubles: list[str] = []
    listening.listener.on_trouble = troubles.append
    refusals: list[int] = []

    class NoDescriptors:
        """A listening socket of a process that may open nothing more."""

        def __init__(self, sock: socket.socket) -> None:
            self._sock = sock

        def __getattr__(self, name: str) -> Any:
            return getattr(self._sock, name)

        def accept(self) -> Any:
            refusals.append(1)
            if len(refusals) > 2:
                return self._sock.accept()
            raise OSError(errno.EMFILE, "Too many open files")

    listening.listener._sock = NoDescriptors(listening.listener._sock)  # type: ignore[assignment]
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: calling.links)
    assert len(refusals) <= 4, "tried again after a pause, not at once"
    assert len(troubles) == 1, "told once"
    assert "Too many open files" in troubles[0]


@pytest.mark.parametrize("token", [None, b"secret"], ids=["without a token", "with a token"])
def test_who_stops_being_a_stranger_and_when(loop: Loop, token: bytes | None) -> None:
    listening = Listening(loop, token=token)
    listening.welcomes()
    calling = Calling(loop, listening.listener.port, token=token)
    run_until(loop, lambda: calling.links and listening.links)
    assert len(listening.listener.strangers) == (0 if token else 1)
    if token is None:
        with_room = handshake.JOIN_FRAME_BYTES
        calling.links[0].send(message_frame("x" * (with_room - 100)))
        run_until(loop, lambda: listening.heard)
        listening.links[0].trust()
        assert len(listening.listener.strangers) == 0
    calling.links[0].send(message_frame("x" * (handshake.NODE_FRAME_BYTES - 100)))
    run_until(loop, lambda: len(listening.heard) == (1 if token else 2))


def test_who_has_not_joined_may_not_send_much(loop: Loop) -> None:
    listening, calling = connected(loop)
    calling.links[0].send(message_frame("x" * handshake.JOIN_FRAME_BYTES))
    run_until(loop, lambda: listening.ends)
    assert listening.heard == []


@pytest.mark.parametrize("purpose", ["join", "probe", "takeover 10.0.0.1 80 3"])
def test_without_a_token_time_runs_out_for_those_who_do_not_join(
    loop: Loop, knock: Any, monkeypatch: pytest.MonkeyPatch, purpose: str
) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIME_S", 0.1)
    listening = Listening(loop)
    listening.listener.on_visitor = lambda visitor: visitor.welcome() if purpose == "join" else None
    stranger = knock(listening)
    stranger.say(frame({**HELLO, "for": purpose}))
    stranger.hear(loop)
    stranger.say(frame({"proof": ""}))
    assert stranger.is_thrown_out(loop)
    assert len(listening.listener.strangers) == 0
    assert listening.heart.links == set()


def test_a_listener_shows_nothing_to_somebody_who_has_shown_nothing(loop: Loop, knock: Any) -> None:
    """Else a stranger could take the listener's proof home, and try tokens on it."""
    listening = Listening(loop, token=b"secret")
    stranger = knock(listening)
    stranger.say(frame(HELLO))
    assert set(stranger.hear(loop)) == {"umiak", "challenge"}
    stranger.say(frame({"proof": "0" * 64}))
    assert set(stranger.hear(loop)) == {"refused"}


def test_a_refusal_can_not_steer_the_terminal_of_the_caller(loop: Loop) -> None:
    with frames.listen("127.0.0.1", 0) as sock:
        calling = Calling(loop, sock.getsockname()[1])
        run_until(loop, lambda: calling.caller._framed is not None)
        other, _ = sock.accept()
        with other:
            other.sendall(frame({"refused": "\x1b]0;title\x07 no\nLAUNCH INFO all is well " + "x" * 3000}))
            run_until(loop, lambda: calling.outcome)
    ((_, why, _fatal),) = calling.failures
    assert why.isprintable()
    assert len(why) < 2000


def test_a_handshake_may_come_byte_by_byte(loop: Loop, knock: Any, listening: Listening) -> None:
    stranger = knock(listening)
    for byte in frame(HELLO):
        stranger.say(bytes([byte]))
    assert "challenge" in stranger.hear(loop)
    stranger.say(frame({"proof": ""}))
    run_until(loop, lambda: listening.visitors)
    assert listening.visitors[0].purpose == "join"
    stranger.sock.close()


# ---- visitors


def test_a_visitor_is_held_and_then_welcomed(loop: Loop, listening: Listening) -> None:
    calling = Calling(loop, listening.listener.port, patience_s=0.5)
    run_until(loop, lambda: listening.visitors)
    visitor = listening.visitors[0]
    timers = []
    for _ in range(3):
        visitor.hold()
        timers.append(calling.caller._timer)
        run_until(loop, lambda: calling.caller._timer is not timers[-1])
    assert calling.outcome == [], "each sign of life starts the caller's patience again"
    listening.watch(visitor.welcome())
    run_until(loop, lambda: calling.links)


def test_a_visitor_is_told_who_leads(loop: Loop, listening: Listening) -> None:
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: listening.visitors)
    listening.visitors[0].moved("10.0.0.7", 6170)
    run_until(loop, lambda: calling.outcome)
    assert calling.moved == [("10.0.0.7", 6170)]
    run_until(loop, lambda: not listening.visitors[0].is_open)


def test_a_visitor_who_leaves_is_noticed(loop: Loop, listening: Listening) -> None:
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: listening.visitors)
    assert listening.visitors[0].is_open
    calling.caller.cancel()
    run_until(loop, lambda: not listening.visitors[0].is_open)


FORGED = [{"moved": ["10.0.0.7; touch x", 1]}, {"moved": ["10.0.0.7", 0]}, {"welcome": float("nan")}, {"welcome": True}]


@pytest.mark.parametrize(
    "answer", [{"welcome": "now"}, {"moved": ["10.0.0.7"]}, {"moved": "10.0.0.7:1"}, {}, *FORGED], ids=json.dumps
)
def test_an_answer_that_makes_no_sense_ends_the_call(loop: Loop, listening: Listening, answer: dict[str, Any]) -> None:
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: listening.visitors)
    listening.visitors[0]._framed.send(frame(answer))
    run_until(loop, lambda: calling.outcome)
    assert [fatal for _, _, fatal in calling.failures] == [True]


# ---- established links


def test_messages_keep_their_order_and_large_ones_get_through(loop: Loop) -> None:
    listening, calling = connected(loop)
    messages = [{"n": number, "text": "x" * (number * 30_000)} for number in range(40)]
    for message in messages:
        listening.links[0].send(message_frame(message))
    assert listening.links[0].has_unsent
    run_until(loop, lambda: len(calling.heard) == 40)
    assert calling.heard == messages
    assert not listening.links[0].has_unsent


def test_a_friend_may_send_more_than_a_stranger_but_not_everything(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "NODE_FRAME_BYTES", 10_000)
    listening, calling = connected(loop)
    listening.links[0].trust()
    calling.links[0].send(message_frame("x" * 9_000))
    run_until(loop, lambda: listening.heard)
    calling.links[0].send(message_frame("x" * 11_000))
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["closed"]
    assert len(listening.heard) == 1


def test_the_end_of_the_other_process_is_told_once_as_closed(loop: Loop) -> None:
    listening, calling = connected(loop)
    calling.links[0].send(message_frame("last words"))
    calling.links[0].close()
    run_until(loop, lambda: listening.ends)
    assert listening.heard == ["last words"]
    assert listening.ends == ["closed"]
    assert calling.ends == [], "who closes it is not told"
    assert not listening.links[0].is_open
    assert not listening.heart.links
    listening.links[0].send(message_frame("too late"))
    listening.links[0].close()


def test_a_reset_connection_is_closed_as_well(loop: Loop) -> None:
    listening, calling = connected(loop)
    sock = calling.links[0]._framed._sock
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    calling.links[0].close()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["closed"]


def test_last_words_arrive_before_the_end(loop: Loop) -> None:
    listening, calling = connected(loop)
    listening.links[0].send(message_frame("x" * 3_000_000))
    run_until(loop, lambda: not listening.links[0].has_unsent)
    listening.links[0].finish_sending()
    run_until(loop, lambda: calling.ends)
    assert len(calling.heard) == 1
    assert calling.ends == ["closed"]


def test_who_is_not_heard_for_the_timeout_is_silent(loop: Loop) -> None:
    """The other side's heart stands still: its machine is frozen, or the way is cut."""
    listening = Listening(loop, timeout_s=0.3)
    listening.welcomes()
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: calling.links and listening.links)
    calling.heart.links.clear()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["silent"]
    assert listening.links[0].is_open, "closing it would look like a death"
    calling.links[0].close()
    run_until(loop, lambda: not listening.links[0].is_open)
    assert listening.ends == ["silent"], "told once"


def test_hearts_that_beat_keep_a_link_alive(loop: Loop) -> None:
    listening, calling = connected(loop, timeout_s=0.5)
    ends = (listening.links[0]._framed, calling.links[0]._framed)
    moments: list[set[float]] = [set(), set()]

    def many_beats() -> bool:
        for moment, end in zip(moments, ends, strict=True):
            moment.add(end.last_heard)
        return all(len(moment) > 3 for moment in moments)

    run_until(loop, many_beats)
    assert listening.ends == calling.ends == []
    assert (listening.heard, calling.heard) == ([], []), "a beat is no message"


def test_a_close_after_a_long_silence_counts_as_silence(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    listening, calling = connected(loop)
    listening.links[0]._framed.last_heard -= 0.6 * LONG_S
    calling.links[0].close()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["silent"]


def test_a_frozen_launcher_reads_what_waits_before_it_blames_others(loop: Loop) -> None:
    """After a pause of its own, this side's timer is long due, but so are the beats that it has not read."""
    listening, calling = connected(loop, timeout_s=30.0)
    calling.links[0].beat()
    listening.links[0]._framed.last_heard -= 100.0
    loop.at(loop.now() - 50.0, listening.heart._listen)
    done: list[int] = []
    loop.after(0.01, lambda: done.append(1))
    run_until(loop, lambda: done)
    assert listening.ends == []


def test_whoever_stood_still_does_not_take_hanging_up_for_a_death(loop: Loop) -> None:
    """The others may have given this launcher up meanwhile, and gone on without it."""
    listening, calling = connected(loop)
    loop.on_nap = listening.heart._napped
    loop.on_nap(LONG_S)
    assert listening.heart.is_in_doubt
    calling.links[0].close()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["silent"]


def test_a_short_nap_casts_no_doubt(loop: Loop) -> None:
    listening, calling = connected(loop)
    listening.heart._napped(LONG_S / 4)
    assert not listening.heart.is_in_doubt
    calling.links[0].close()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["closed"]


def test_what_a_friend_says_beside_messages_and_beats_is_ignored(loop: Loop) -> None:
    listening, calling = connected(loop)
    calling.links[0]._framed.send(frame({"x": 1}))
    calling.links[0].send(message_frame(None))
    run_until(loop, lambda: listening.heard)
    assert listening.heard == [None]
    assert listening.ends == []


# ---- listening


def test_a_port_that_somebody_listens_on_cannot_be_had_twice() -> None:
    with frames.listen("127.0.0.1", 0) as sock, pytest.raises(OSError, match="in use"):
        frames.listen("127.0.0.1", sock.getsockname()[1])


def can_be_reached(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        return sock.connect_ex((host, port)) == 0


def test_without_a_host_every_address_is_listened_on() -> None:
    with frames.listen("", 0) as sock:
        port = sock.getsockname()[1]
        assert can_be_reached("127.0.0.1", port)
        if "::1" in hostinfo.addresses():
            assert can_be_reached("::1", port)


def test_a_loopback_listener_is_not_seen_from_outside() -> None:
    with frames.listen("127.0.0.1", 0) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


def test_a_side_that_is_heard_no_more_is_silent_though_it_hears(loop: Loop) -> None:
    """A network that carries packets one way only: this side's beats are not confirmed."""
    listening, calling = connected(loop, timeout_s=0.5)
    deaf = calling.links[0]

    def deaf_beat() -> None:
        if deaf.is_open:
            deaf._framed.send(frame({"b": 1, "heard": 0}))
            loop.after(0.05, deaf_beat)

    calling.heart.links.clear()
    deaf_beat()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["silent"]


def test_a_launcher_that_lets_go_and_lives_on_is_not_taken_for_dead(loop: Loop) -> None:
    listening, calling = connected(loop)
    calling.links[0].leave()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["silent"]
    assert calling.ends == [], "who lets go is not told of it"
