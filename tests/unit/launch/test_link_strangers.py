"""Links between launchers: strangers at the door, who must cost nothing."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import run_until
from tests.unit.launch import test_link as first
from tests.unit.launch.test_link import Calling, Listening, connected
from umiak.adapters import frames
from umiak.adapters.frames import frame
from umiak.adapters.loop import Loop
from umiak.launch.links import handshake, unknown_peers
from umiak.launch.links.link import message_frame
from umiak.launch.links.unknown_peers import Room

listening = first.listening
loop = first.loop


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
    unknown_peers: list[Stranger] = []

    def come(listening: Listening) -> Stranger:
        unknown_peers.append(Stranger(listening))
        return unknown_peers[-1]

    yield come
    for stranger in unknown_peers:
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
    assert len(listening.listener.unknown_peers) == 0


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
    run_until(loop, lambda: len(listening.listener.unknown_peers) == 0)
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
    run_until(loop, lambda: len(listening.listener.unknown_peers) == 0)
    assert listening.visitors == []


def test_a_stranger_who_is_slow_is_thrown_out_and_others_get_in_meanwhile(
    loop: Loop, knock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIME_S", 0.2)
    listening = Listening(loop)
    listening.welcomes()
    stranger = knock(listening)
    stranger.say(frame(HELLO)[:7])
    run_until(loop, lambda: len(listening.listener.unknown_peers) == 1)
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: calling.links and listening.links)
    listening.links[0].trust()
    assert stranger.is_thrown_out(loop)
    assert len(listening.listener.unknown_peers) == 0
    assert calling.links[0].is_open


def small(loop: Loop, unknown_peers: int, **more: Any) -> Listening:
    """A launcher with room for so many strangers."""
    return Listening(loop, room=Room(unknown_peers=unknown_peers, links=8), **more)


def test_a_new_stranger_takes_the_place_of_the_oldest(loop: Loop, knock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_peers, "TIME_TO_PROVE_S", 0.0)
    listening = small(loop, 3)
    crowd = [knock(listening) for _ in range(5)]
    assert all(stranger.is_thrown_out(loop) for stranger in crowd[:2])
    assert len(listening.listener.unknown_peers) == 3
    listening.welcomes()
    calling = Calling(loop, listening.listener.port)
    run_until(loop, lambda: calling.links)


def test_strangers_wait_outside_while_the_others_still_have_time(loop: Loop, knock: Any) -> None:
    listening = small(loop, 3)
    listening.welcomes()
    crowd = [knock(listening) for _ in range(3)]
    run_until(loop, lambda: len(listening.listener.unknown_peers) == 3)
    unknown_peers.TIME_TO_PROVE_S, before = 1e9, unknown_peers.TIME_TO_PROVE_S
    try:
        calling = Calling(loop, listening.listener.port)
        turns: list[int] = []
        loop.after(3 * handshake.PAUSE_S, lambda: turns.append(1))
        run_until(loop, lambda: turns)
        assert not calling.outcome
        assert len(listening.listener.unknown_peers) == 3
        crowd[0].sock.close()
        run_until(loop, lambda: calling.links)
    finally:
        unknown_peers.TIME_TO_PROVE_S = before


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
    assert len(listening.listener.unknown_peers) == (0 if token else 1)
    if token is None:
        with_room = handshake.JOIN_FRAME_BYTES
        calling.links[0].send(message_frame("x" * (with_room - 100)))
        run_until(loop, lambda: listening.heard)
        listening.links[0].trust()
        assert len(listening.listener.unknown_peers) == 0
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
    assert len(listening.listener.unknown_peers) == 0
    assert listening.heartbeats.links == set()


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


def test_a_launcher_of_another_version_is_refused(loop: Loop, knock: Any, listening: Listening) -> None:
    stranger = knock(listening)
    stranger.say(frame({"umiak": 99, "job": "ctr", "nonce": "n", "for": "join"}))
    assert "version" in stranger.hear(loop)["refused"]
