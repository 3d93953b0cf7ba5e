"""Strangers on the network: crowds that connect and say nothing, and single ones that say what a launcher would not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.ports import free_port
from tests.support import offer, terms
from tests.support.launching import OBEDIENT, Launcher, Stage, until
from umiak.adapters.frames import frame
from umiak.core.decode import encode_tagged
from umiak.launch.links import handshake
from umiak.launch.protocol import Join

FILES = 160
"""So many a launcher of these tests may open."""
CROWD = 400


@contextlib.contextmanager
def crowd(port: int, count: int = CROWD) -> Iterator[list[socket.socket]]:
    """Connections that nobody says anything on."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]


def limited(stage: Stage, flags: str, soft: int, hard: int, *, token: str = "") -> Launcher:
    """A launcher that may open so many files at first, and so many at most."""
    limit = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
    command = ["sh", "-c", limit, "sh", sys.executable, "-m", "umiak.launch", *flags.split(), str(OBEDIENT)]
    return stage.start(command, env={"UMIAK_TOKEN": token})


def open_files(launcher: Launcher) -> int:
    return len(os.listdir(f"/proc/{launcher.halves()[1]}/fd"))


def limits_of(pid: int) -> tuple[int, int]:
    (line,) = [
        line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open files")
    ]
    soft, hard = line.split()[3:5]
    return int(soft), int(hard)


@pytest.mark.parametrize("token", ["", "known to both of them"], ids=["without a token", "with a token"])
def test_a_job_goes_on_in_the_middle_of_a_crowd(stage: Stage, token: str) -> None:
    port = free_port()
    flags = f"--nnodes 2 --master 127.0.0.1:{port} --max_restart 3"
    first = limited(stage, flags, FILES // 2, FILES, token=token)
    until(lambda: _listens(port), "the master listens", talk=stage.transcript)
    second = limited(stage, flags, FILES // 2, FILES, token=token)
    stage.story.until_alive(generation=1, world=2)
    with crowd(port):
        # However many come, what workers need is left over.
        until(lambda: "have proved nothing" in first.said, "the crowd is noticed", talk=stage.transcript)
        assert open_files(first) < FILES - 30
        (worker,) = first.workers()
        assert limits_of(worker.pid) == (FILES // 2, FILES), "workers are limited as the launcher was"
        assert limits_of(first.halves()[1]) == (FILES, FILES)
        os.kill(worker.pid, signal.SIGKILL)
        stage.story.until_alive(generation=2, world=2)
        stage.story.order("end")
        assert [first.wait(), second.wait()] == [0, 0]


def test_a_node_gets_in_through_a_crowd(stage: Stage) -> None:
    port = free_port()
    flags = f"--nnodes 2 --master 127.0.0.1:{port}"
    first = limited(stage, flags, FILES, FILES)
    until(lambda: _listens(port), "the master listens", talk=stage.transcript)
    with crowd(port):
        second = limited(stage, flags, FILES, FILES)
        stage.story.until_alive(generation=1, world=2)
        stage.story.order("end")
        assert [first.wait(), second.wait()] == [0, 0]


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


# ---- one stranger, without a token


class Stranger:
    """Somebody who knows the protocol and joins as nobody should."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.settimeout(60)
        self.say({"umiak": handshake.VERSION, "job": "default", "nonce": "n", "for": "join"})
        self.hear("challenge")
        self.say({"proof": ""})

    def say(self, content: Any) -> None:
        self.sock.sendall(frame(content))

    def hear(self, key: str) -> Any:
        """The next frame that has this in it."""
        while True:
            head = self._exactly(4)
            content = json.loads(self._exactly(int.from_bytes(head, "big")))
            if key in content:
                return content[key]

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.sock.recv(count - len(data))
            assert piece, "it was closed"
            data += piece
        return data

    def join(self, **changes: Any) -> None:
        self.hear("welcome")
        join = encode_tagged(Join(offer=offer("z"), terms=terms("2")))
        join["terms"].update(job_id="default")
        join["offer"].update(changes)
        self.say({"m": join})


@pytest.mark.parametrize(
    "changes",
    [
        {"rank": -7},
        {"host": "127.0.0.1; touch x #"},
        {"host": "\x1b]0;owned\x07\x1b[2J"},
        {"name": "z\nLAUNCH INFO the job is done"},
        {"ports": []},
        {"trainers": 10**9},
    ],
    ids=json.dumps,
)
def test_a_stranger_that_offers_nonsense_is_refused_and_the_job_goes_on(stage: Stage, changes: dict[str, Any]) -> None:
    port = free_port()
    flags = f"--nnodes 2 --master 127.0.0.1:{port}"
    first = stage.launch(flags)
    until(lambda: _listens(port), "the master listens", talk=stage.transcript)
    stranger = Stranger(port)
    stranger.join(**changes)
    refusal = stranger.hear("m")
    stranger.sock.close()
    assert (refusal["is"], refusal["code"]) == ("Refuse", "UM-MEET-033")
    second = stage.launch(flags)
    stage.story.until_alive(generation=1, world=2)
    stage.story.order("end")
    assert [first.wait(), second.wait()] == [0, 0]
    for text in (first.said, first.log("events.jsonl")):
        assert all(line.isprintable() for line in text.splitlines())
        assert "\nLAUNCH INFO the job is done\n" not in text.replace("\r", "\n")


def test_strangers_can_not_fill_the_memory(stage: Stage) -> None:
    """Each announces the largest frame that anybody may send, and sends most of it."""
    port = free_port()
    first = stage.launch(f"--nnodes 2 --master 127.0.0.1:{port}")
    until(lambda: _listens(port), "the master listens", talk=stage.transcript)
    pid = first.halves()[1]
    before = _memory_bytes(pid)
    unknown_peers = [Stranger(port) for _ in range(24)]
    for stranger in unknown_peers:
        stranger.hear("welcome")
        stranger.sock.settimeout(0.5)
        with contextlib.suppress(OSError):
            stranger.sock.sendall((60 << 20).to_bytes(4, "big") + b'{"m":"' + b"x" * (8 << 20))
    for stranger in unknown_peers:
        stranger.sock.close()
    assert _memory_bytes(pid) - before < 24 * (1 << 20)
    first.signal(signal.SIGTERM)
    first.wait()


def _memory_bytes(pid: int) -> int:
    """The most that it ever held."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
