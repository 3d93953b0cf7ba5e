"""Links between launchers over loopback: who is let in, what gets through, and how an end is told."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import run_until
from umiak.adapters import frames, hostinfo
from umiak.adapters.frames import frame
from umiak.adapters.loop import Loop
from umiak.launch.links import handshake
from umiak.launch.links.handshake import Caller, Listener, Visitor
from umiak.launch.links.link import Heartbeats, Link, message_frame
from umiak.launch.links.unknown_peers import Room

LONG_S = 60.0
"""A heartbeat timeout that never runs out in a test."""


class Side:
    """One launcher's end of things: its loop is shared, its heart is its own."""

    def __init__(self, loop: Loop, timeout_s: float = LONG_S) -> None:
        self.loop = loop
        self.heartbeats = Heartbeats(loop, timeout_s)
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
        self.listener = Listener(loop, self.heartbeats, sock, job_id=job_id, token=token, room=room)
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
        name_patience_s: float = 0.0,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(loop, timeout_s)
        self.failures: list[tuple[bool, str, bool]] = []
        self.moved: list[tuple[str, int]] = []
        self.caller = Caller(
            loop,
            self.heartbeats,
            host=host,
            port=port,
            job_id=job_id,
            token=token,
            purpose="join",
            patience_s=patience_s,
            name_patience_s=name_patience_s,
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
    assert not listening.heartbeats.links
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
    calling.heartbeats.links.clear()
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
    loop.at(loop.now() - 50.0, listening.heartbeats._listen)
    done: list[int] = []
    loop.after(0.01, lambda: done.append(1))
    run_until(loop, lambda: done)
    assert listening.ends == []


def test_a_side_that_stood_still_does_not_take_hanging_up_for_a_death(loop: Loop) -> None:
    """The others may have given this launcher up meanwhile, and gone on without it."""
    listening, calling = connected(loop)
    loop.on_nap = listening.heartbeats._napped
    loop.on_nap(LONG_S)
    assert listening.heartbeats.is_in_doubt
    calling.links[0].close()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["silent"]


def test_a_short_nap_casts_no_doubt(loop: Loop) -> None:
    listening, calling = connected(loop)
    listening.heartbeats._napped(LONG_S / 4)
    assert not listening.heartbeats.is_in_doubt
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


def test_a_name_that_is_published_late_is_looked_up_again(
    loop: Loop, listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a pod that has just started, with the name server's memory of its absence."""
    monkeypatch.setattr(handshake, "LOOK_UP_AGAIN_S", 0.01)
    listening.welcomes()
    answers = iter([socket.gaierror(socket.EAI_NONAME, "Name or service not known")] * 3)
    found = hostinfo.look_up

    def look_up(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
        for error in answers:
            raise error
        return found("127.0.0.1", port)

    monkeypatch.setattr(hostinfo, "look_up", look_up)
    calling = Calling(loop, listening.listener.port, host="job-worker-1", name_patience_s=LONG_S)
    run_until(loop, lambda: calling.outcome)
    assert calling.links
    assert not calling.failures


def test_a_name_that_nobody_ever_knows_is_told(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "LOOK_UP_AGAIN_S", 0.01)
    for patience_s in (0.0, 0.05):
        calling = Calling(loop, 7000, host="no-such-host.invalid", name_patience_s=patience_s)
        run_until(loop, lambda calling=calling: calling.outcome)
        ((refused, why, fatal),) = calling.failures
        assert (refused, fatal) == (False, False)
        assert why.startswith("no-such-host.invalid port 7000: ")


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

    calling.heartbeats.links.clear()
    deaf_beat()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["silent"]


def test_a_launcher_that_lets_go_and_lives_on_is_not_taken_for_dead(loop: Loop) -> None:
    listening, calling = connected(loop)
    calling.links[0].leave()
    run_until(loop, lambda: listening.ends)
    assert listening.ends == ["silent"]
    assert calling.ends == [], "who lets go is not told of it"
