"""Peers that are slow, silent, mistaken or hostile: they are told why and shown out, the server neither stops nor grows, and an
honest client is served all the while.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import trustme
import umiak_native

from tests.support.ps_peers import HEADER, OPS, Peer, ServerProcess, client, servers, sum_spec

FRAMES = int(os.environ.get("UMIAK_FUZZ_FRAMES", "4000"))


@contextlib.contextmanager
def honest_work(server: ServerProcess) -> Iterator[None]:
    """A client that pushes and pulls meanwhile, and is right every time."""
    stop, troubles, turns = threading.Event(), [], [0]

    def work() -> None:
        try:
            mine = client([server], rank=1, world=2)
            table = mine.create_table("honest", sum_spec())
            keys = np.arange(100, dtype=np.uint64)
            while not stop.is_set() or turns[0] == 0:
                mine.push(table, keys, np.ones((100, 4), np.float32))
                turns[0] += 1
                assert (mine.pull(table, keys) == turns[0]).all()
            mine.close()
        except BaseException as trouble:  # noqa: BLE001 - whatever it is, the test tells it
            troubles.append(trouble)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert troubles == []
    assert turns[0] > 0


def test_mistaken_peers_are_told_why() -> None:
    with servers(world=2) as [server], honest_work(server):
        for words, code in [
            ({"token": b"another"}, "wrong-token"),
            ({"job": "another"}, "wrong-job"),
            ({"kind": "king"}, "bad-frame"),
            ({"rank": 7}, "no-such-rank"),
        ]:
            with Peer(server) as peer:
                assert peer.shake(**words) == code
        with Peer(server) as peer:
            peer.socket.sendall(Peer.frame("hello", b"{}", version=1))
            assert peer.refusal() == "other-version"
        with Peer(server) as peer:
            peer.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n")
            assert peer.refusal() == "foreign"
        with Peer(server) as peer:
            peer.send("beat")
            assert peer.refusal() == "bad-frame"
        with Peer(server) as peer:
            assert peer.shake() == "welcome"
            peer.send("beat", client=1)
            assert peer.refusal() == "bad-frame"


@pytest.mark.parametrize(
    ("op", "fields", "code"),
    [
        ("push", {"rows": 2**32 - 1, "dim": 16, "length": (2**32 - 1) * 72}, "too-long"),
        ("push", {"rows": 2**32 - 1, "dim": 2**32 - 1, "length": 8}, "bad-frame"),
        ("pull", {"rows": 2**24, "length": 2**63}, "too-long"),
        ("pull", {"rows": 1, "length": 16}, "bad-frame"),
        ("beat", {"length": 1}, "bad-frame"),
        ("create", {"length": 2**28}, "bad-frame"),
        ("gather", {"rows": 4, "length": 2**20 + 5}, "too-long"),
        ("gather", {"rows": 2**32 - 1, "length": 100}, "bad-frame"),
        ("gather", {"rows": 257, "length": 300}, "bad-frame"),
        ("take", {"length": 257}, "bad-frame"),
    ],
)
def test_lengths_are_checked_before_memory_is_taken(op: str, fields: dict[str, int], code: str) -> None:
    with servers(world=2) as [server]:
        with Peer(server) as peer:
            assert peer.shake() == "welcome"
            before = server.resident()
            peer.socket.sendall(Peer.frame(op, **fields))
            assert peer.refusal() == code
        assert server.resident() - before < 4 << 20


def test_a_frame_that_is_only_announced_takes_no_memory() -> None:
    with servers(world=64) as [server]:
        peers = [Peer(server) for _ in range(32)]
        for rank, peer in enumerate(peers):
            assert peer.shake(rank=rank) == "welcome"
        before = server.resident()
        rows = (200 << 20) // 8
        for rank, peer in enumerate(peers):
            peer.socket.sendall(Peer.frame("pull", rows=rows, length=rows * 8, client=rank) + bytes(4096))
        with honest_work_of(server, rank=40, world=64):
            pass
        assert server.resident() - before < 96 << 20
        for peer in peers:
            peer.socket.close()


@contextlib.contextmanager
def honest_work_of(server: ServerProcess, rank: int, world: int) -> Iterator[None]:
    mine = client([server], rank=rank, world=world)
    table = mine.create_table("honest", sum_spec())
    mine.push(table, np.arange(9, dtype=np.int64), np.ones((9, 4), np.float32))
    yield
    assert (mine.pull(table, np.arange(9, dtype=np.int64)) == 1).all()
    mine.close()


def test_slow_and_silent_peers_are_shown_out() -> None:
    with servers(world=2, handshake_s=0.4, frame_s=0.4) as [server], honest_work(server):
        with Peer(server) as silent, Peer(server) as slow:
            slow.socket.sendall(Peer.frame("hello", b"{}")[:7])
            assert silent.refusal() == "too-slow"
            assert slow.refusal() == "too-slow"
        with Peer(server) as peer:
            assert peer.shake() == "welcome"
            peer.socket.sendall(Peer.frame("pull", rows=100, length=800) + bytes(100))
            assert peer.refusal() == "too-slow"


def test_five_hundred_at_once() -> None:
    with servers(world=2, handshake_s=30.0) as [server], honest_work(server):
        crowd = []
        for _ in range(500):
            caller = socket.socket()
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                caller.connect(("127.0.0.1", server.config["port"]))
            crowd.append(caller)
        # They say nothing and hold their places; somebody who speaks comes in all the same.
        with Peer(server) as peer:
            assert peer.shake() == "welcome"
        for caller in crowd:
            caller.close()


def test_hundreds_of_trainers_are_served() -> None:
    with servers(world=300) as [server]:
        peers = []
        for rank in range(300):
            peers.append(Peer(server))
            assert peers[-1].shake(rank=rank) == "welcome"
        for rank, peer in enumerate(peers):
            peer.send("beat", client=rank)
        assert {peer.receive()[0] for peer in peers} == {"ok"}
        for peer in peers:
            peer.socket.close()


def test_mutated_frames_do_no_harm() -> None:
    dice = random.Random(20240611)
    keys, rows = np.arange(3, dtype=np.uint64).tobytes(), np.ones((3, 4), np.float32).tobytes()
    with servers(world=2) as [server], honest_work(server):
        with Peer(server) as peer:
            assert peer.shake() == "welcome"
            peer.send("create", json.dumps({"name": "fuzz", "spec": json.loads(sum_spec())}).encode())
            assert peer.receive()[0] == "ok"
            peer.send("status")
            number = json.loads(peer.receive()[1])["tables"]["fuzz"]["number"]
        seeds = [
            Peer.frame("pull", keys, rows=3, table=number),
            Peer.frame("push", keys + rows, rows=3, dim=4, table=number, seq=5),
            Peer.frame("shrink", table=number),
            Peer.frame("status"),
            Peer.frame("take", b"fuzz"),
            Peer.frame("beat"),
            Peer.frame("hello", b'{"nonce": "00"}'),
        ]
        before, sent = 0, 0
        while sent < FRAMES:
            before = before or (server.resident() if sent > FRAMES // 4 else 0)
            with Peer(server) as peer:
                if dice.random() < 0.9:
                    assert peer.shake() == "welcome"
                with contextlib.suppress(OSError):
                    for _ in range(dice.randint(1, 20)):
                        sent += 1
                        peer.socket.sendall(_mutated(dice, seeds))
                    peer.socket.shutdown(socket.SHUT_WR)
                    # A pull of a step far ahead is answered with "wait" for ever.
                    peer.socket.settimeout(0.2)
                    while peer.socket.recv(65536):
                        pass
        # Rows that mutated pushes have made are rows like others: 64 bytes and their share of the index, times frames.
        assert server.resident() - before < (48 << 20) + 200 * FRAMES


def _mutated(dice: random.Random, seeds: list[bytes]) -> bytes:
    frame = bytearray(dice.choice(seeds))
    for _ in range(dice.randint(0, 3)):
        match dice.randint(0, 4):
            case 0 if frame:
                frame[dice.randrange(len(frame))] = dice.randrange(256)
            case 1:
                del frame[dice.randrange(len(frame) + 1) :]
            case 2:
                frame += dice.randbytes(dice.randint(0, 60))
            case 3 if len(frame) >= HEADER.size:
                frame[5] = dice.choice([*OPS.values(), *range(20)])
            case _ if len(frame) >= HEADER.size:
                start, size = dice.choice([(8, 4), (12, 4), (16, 4), (24, 8), (32, 8)])
                value = dice.choice([0, 1, 3, 2**16, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
                frame[start : start + size] = (value % 256**size).to_bytes(size, "little")
    return bytes(frame)


def test_tls_and_who_is_trusted(tmp_path: Path) -> None:
    files = _certificates(tmp_path, "own")
    other = _certificates(tmp_path, "other")
    with servers(world=1, tls={"cert": files["cert"], "key": files["key"]}) as [server]:
        mine = client([server], tls={"ca": files["ca"]})
        table = mine.create_table("t", sum_spec())
        keys = np.arange(5000, dtype=np.uint64)
        mine.push(table, keys, np.ones((5000, 4), np.float32))
        assert (mine.pull(table, keys) == 1).all()
        with pytest.raises(umiak_native.Refused, match="TLS") as refused:
            client([server], tls={"ca": other["ca"]}).connect()
        assert refused.value.code == "tls"
        with pytest.raises(umiak_native.Refused) as refused:
            client([server], tls={"ca": files["ca"]}, token=b"wrong").connect()
        assert refused.value.code == "wrong-token"
        with pytest.raises(umiak_native.PsError):
            client([server], timeout_s=0.5).connect()
        assert (mine.pull(table, keys) == 1).all()
        mine.close()
    with servers(world=1, tls={"cert": files["cert"], "key": files["key"], "ca": files["ca"]}) as [server]:
        with pytest.raises(umiak_native.PsError):
            client([server], tls={"ca": files["ca"]}, timeout_s=0.5).connect()
        known = client([server], tls={"ca": files["ca"], "cert": files["cert"], "key": files["key"]})
        known.connect()
        known.close()


def _certificates(directory: Path, name: str) -> dict[str, str]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    paths = {part: str(directory / f"{name}.{part}.pem") for part in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(paths["ca"])
    issued.private_key_pem.write_to_path(paths["key"])
    for pem in issued.cert_chain_pems:
        pem.write_to_path(paths["cert"], append=True)
    return paths


def test_without_a_token_only_this_machine() -> None:
    with pytest.raises(umiak_native.Refused) as refused:
        umiak_native.Server(json.dumps({"host": "0.0.0.0"})).start()
    assert refused.value.code == "token-needed"
    assert "UMIAK_TOKEN" in str(refused.value)
    with servers(token=None) as [server]:
        client([server], token=None).connect()
        with pytest.raises(umiak_native.Refused):
            client([server]).connect()
