"""Samples from trainer to trainer: a shuffle among all of them, after which each sample is held by exactly one.
An adapter.

Every trainer says through the servers where it listens; then each connects to every other one and sends what is for it.
Both sides prove that they know the job's token, and a secret of this one shuffle that came through the servers. Where
the servers are spoken to through TLS, samples go through them as well, in pieces: slower, but nothing crosses the
network in the open.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from umiak_native import MultiSlotSamples

from umiak.core.cluster import split_host_port
from umiak.core.names import is_loopback
from umiak.core.problem import Problem
from umiak.fleet.datasets.pipes import DatasetError
from umiak.fleet.threads import BackgroundTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from umiak.core.json_types import JsonObject
    from umiak.ps.sessions import Session

CHUNK_SAMPLES = 8192
MOST_FRAME_BYTES = 1 << 31
_PIECE_BYTES = 900_000
"""Of what goes through the servers; they take up to 1 MiB at a time."""
_NONCE_BYTES = 32
_PROOF_BYTES = hashlib.sha256().digest_size
_NAME = "fleet.shuffle"


class ExchangeError(DatasetError):
    """Samples could not be exchanged."""

    def __init__(self, what: str, why: str) -> None:
        hint = "start the job again: a part of the samples may be held twice or not at all"
        super().__init__(Problem(code="UM-FLEET-047", what=what, why=why, hint=hint))


def shuffled(session: Session, samples: MultiSlotSamples) -> MultiSlotSamples:
    """This trainer's part of everybody's samples, dealt at random.
    Every trainer has to call it. Parts differ by one at most.
    """
    sizes = [int(each) if each else 0 for each in session.gather(str(len(samples)).encode(), _NAME)]
    goals = dealt(sizes, session.rank)
    parts = [np.flatnonzero(goals == rank).astype(np.int64) for rank in range(session.world)]
    if session.options.tls:
        received = _through_servers(session, samples, parts)
    else:
        received = _between_trainers(session, samples, parts)
    kept = MultiSlotSamples.join([samples.take(parts[session.rank]), *received])
    _check(session, sizes, len(kept))
    return kept


def dealt(sizes: list[int], rank: int) -> NDArray[np.int64]:
    """For each sample of a trainer the one that gets it: at random, and over all trainers as evenly as possible."""
    first = sum(sizes[:rank])
    places = np.arange(first, first + sizes[rank], dtype=np.int64) % len(sizes)
    return np.random.permutation(places)


def _check(session: Session, before: list[int], kept: int) -> None:
    after = [int(each) if each else 0 for each in session.gather(str(kept).encode(), _NAME)]
    if sum(after) != sum(before):
        what = f"{sum(before)} samples before the shuffle, {sum(after)} after it"
        raise ExchangeError(what, f"trainers had {before}, and have {after}")


# ---- sockets


def _between_trainers(
    session: Session, samples: MultiSlotSamples, parts: list[NDArray[np.int64]]
) -> list[MultiSlotSamples]:
    rank, world, timeout_s = session.rank, session.world, session.options.timeout_s
    host = _own_host(session)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, backlog=world) as listener:
        listener.settimeout(timeout_s)
        own = {"host": host, "port": listener.getsockname()[1], "secret": secrets.token_hex(32) if rank == 0 else ""}
        answers: list[JsonObject] = [
            json.loads(each) if each else {} for each in session.gather(json.dumps(own).encode(), _NAME)
        ]
        missing = [number for number, each in enumerate(answers) if not each]
        if missing:
            raise ExchangeError(f"trainers {missing} are gone", "samples that they hold would be lost")
        token = os.fsencode(session.seat.token or "")
        key = hmac.digest(token, bytes.fromhex(answers[0]["secret"]), "sha256")
        receivers = _Receivers(listener, key, world - 1, timeout_s)
        senders = [
            BackgroundTask(
                partial(_send, answers[to], key, rank, to, samples, parts[to], timeout_s), f"shuffle to {to}"
            )
            for to in range(world)
            if to != rank
        ]
        try:
            for sender in senders:
                sender.join()
            received = receivers.join()
        except (OSError, ValueError) as error:
            raise ExchangeError("samples could not be exchanged between trainers", str(error)) from error
    return received


def _own_host(session: Session) -> str:
    """The address by which this machine is known to the servers, and so to the other trainers."""
    host, port = split_host_port(session.seat.servers[0])
    if is_loopback(host):
        return "127.0.0.1"
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port or 0, type=socket.SOCK_DGRAM):
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # no packet is sent
            return str(probe.getsockname()[0])
    return "127.0.0.1"


class _Receivers:
    """Takes what every other trainer sends."""

    def __init__(self, listener: socket.socket, key: bytes, count: int, timeout_s: float) -> None:
        self._key = key
        self._timeout_s = timeout_s
        self._received: dict[int, list[MultiSlotSamples]] = {}
        self._jobs: list[BackgroundTask] = []
        self._accepting = BackgroundTask(lambda: self._accept(listener, count), "shuffle accept")

    def join(self) -> list[MultiSlotSamples]:
        """All of it, in order of the trainers that sent it."""
        self._accepting.join()
        return [samples for rank in sorted(self._received) for samples in self._received[rank]]

    def _accept(self, listener: socket.socket, count: int) -> None:
        while len(self._received) < count:
            connection, _ = listener.accept()
            connection.settimeout(self._timeout_s)
            rank = self._admitted(connection)
            if rank is None or rank in self._received:
                connection.close()  # a stranger
                continue
            into = self._received[rank] = []
            self._jobs.append(BackgroundTask(partial(_receive, connection, into), f"shuffle from {rank}"))
        for job in self._jobs:
            job.join()

    def _admitted(self, connection: socket.socket) -> int | None:
        """The number of the trainer on the other side, if it is one of this job."""
        try:
            asked = secrets.token_bytes(_NONCE_BYTES)
            connection.sendall(asked)
            head = _read(connection, 4 + _NONCE_BYTES + _PROOF_BYTES)
            who, theirs, proof = head[:4], head[4 : 4 + _NONCE_BYTES], head[4 + _NONCE_BYTES :]
            if not hmac.compare_digest(proof, _proof(self._key, b"sender", who, asked, theirs)):
                return None
            connection.sendall(_proof(self._key, b"receiver", who, asked, theirs))
        except OSError:
            return None
        return int.from_bytes(who, "little")


def _proof(key: bytes, role: bytes, who: bytes, asked: bytes, answered: bytes) -> bytes:
    return hmac.digest(key, b"umiak shuffle " + role + who + asked + answered, "sha256")


def _send(
    peer: JsonObject,
    key: bytes,
    rank: int,
    to: int,
    samples: MultiSlotSamples,
    picked: NDArray[np.int64],
    timeout_s: float,
) -> None:
    where = str(peer["host"]), int(str(peer["port"]))
    with socket.create_connection(where, timeout=timeout_s) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked = _read(connection, _NONCE_BYTES)
        own, who = secrets.token_bytes(_NONCE_BYTES), rank.to_bytes(4, "little")
        connection.sendall(who + own + _proof(key, b"sender", who, asked, own))
        if not hmac.compare_digest(_read(connection, _PROOF_BYTES), _proof(key, b"receiver", who, asked, own)):
            raise ConnectionError(f"{where[0]}:{where[1]} is not trainer {to} of this job")
        for start in range(0, len(picked), CHUNK_SAMPLES):
            frame = samples.take(picked[start : start + CHUNK_SAMPLES]).encode()
            connection.sendall(len(frame).to_bytes(8, "little"))
            connection.sendall(frame)
        connection.sendall(bytes(8) + len(picked).to_bytes(8, "little"))
        if _read(connection, 1) != b"+":
            raise ConnectionError(f"trainer {to} did not take its samples")


def _receive(connection: socket.socket, into: list[MultiSlotSamples]) -> None:
    with connection:
        while length := int.from_bytes(_read(connection, 8), "little"):
            if length > MOST_FRAME_BYTES:
                raise ConnectionError(f"a message of {length} bytes")
            into.append(MultiSlotSamples.decode(_read(connection, length)))
        size, received = int.from_bytes(_read(connection, 8), "little"), sum(map(len, into))
        if size != received:
            raise ConnectionError(f"{size} samples were sent, {received} came")
        connection.sendall(b"+")


def _read(connection: socket.socket, count: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < count:
        piece = connection.recv(min(count - len(pieces), 1 << 20))
        if not piece:
            raise ConnectionError("another trainer hung up")
        pieces += piece
    return bytes(pieces)


# ---- through the servers


def _through_servers(
    session: Session, samples: MultiSlotSamples, parts: list[NDArray[np.int64]]
) -> list[MultiSlotSamples]:
    pieces = _pieces(samples, parts, session.rank)
    streams: dict[int, bytearray] = {rank: bytearray() for rank in range(session.world)}
    own = session.rank.to_bytes(4, "little")
    while any(pieces_of_all := session.gather(next(pieces, b""), _NAME)):
        for rank, piece in enumerate(pieces_of_all):
            if piece[:4] == own:
                streams[rank] += piece[4:]
    return [MultiSlotSamples.decode(bytes(stream)) for stream in streams.values() if stream]


def _pieces(samples: MultiSlotSamples, parts: list[NDArray[np.int64]], rank: int) -> Iterator[bytes]:
    """For each other trainer its number and a part of its samples' bytes, again and again."""
    for to, picked in enumerate(parts):
        if to == rank or not len(picked):
            continue
        whole = samples.take(picked).encode()
        for start in range(0, len(whole), _PIECE_BYTES):
            yield to.to_bytes(4, "little") + whole[start : start + _PIECE_BYTES]
