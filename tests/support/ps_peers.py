"""Parameter servers as processes of their own, and a peer that speaks the protocol by hand, as docs/reference/ps-protocol.md says."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import umiak_native

JOB = "test"
TOKEN = b"a secret of the tests"
HEADER = struct.Struct("<IBBHIIIIQQ")
MAGIC = int.from_bytes(b"UMPS", "little")
VERSION = 2
OPS = {"hello": 1, "proof": 2, "create": 3, "pull": 4, "push": 5, "shrink": 13, "beat": 18, "status": 22}
OPS |= {"gather": 23, "take": 24}
REPLIES = {
    128: "challenge",
    129: "welcome",
    130: "ok",
    131: "rows",
    132: "json",
    133: "wait",
    134: "error",
    135: "bytes",
}

PROGRAM = """
import json, os, sys, umiak_native
config, token = sys.argv[1], bytes.fromhex(sys.argv[2]) or None
server = umiak_native.Server(config, token)
print(server.start(), flush=True)
verdict = server.wait()
server.stop()
print(verdict, flush=True)
"""


def sum_spec(dim: int = 4) -> str:
    """Rows that begin at zero and to which pushes are added."""
    init = {"kind": "constant", "value": 0.0}
    return json.dumps({"kind": "sparse", "dim": dim, "seed": 1, "init": init, "optimizer": {"rule": "sum"}})


class ServerProcess:
    """One server; `restart` comes back at the same port."""

    def __init__(self, config: dict[str, Any], token: bytes | None = TOKEN) -> None:
        self.config, self.token = {"job": JOB, **config}, token
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        arguments = [sys.executable, "-c", PROGRAM, json.dumps(self.config), (self.token or b"").hex()]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.strip().isdigit(), f"the server did not start: {line!r}"
        self.config["port"] = int(line)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.config['port']}"

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def restart(self) -> None:
        self.kill()
        self.start()

    def verdict(self) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def resident(self) -> int:
        assert self.process is not None
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def threads(self) -> int:
        assert self.process is not None
        return len(os.listdir(f"/proc/{self.process.pid}/task"))


@contextlib.contextmanager
def servers(count: int = 1, token: bytes | None = TOKEN, **config: Any) -> Iterator[list[ServerProcess]]:
    """Processes that are ended with the test."""
    started: list[ServerProcess] = []
    try:
        for index in range(count):
            more = {"log": {**config["log"], "dir": f"{config['log']['dir']}/{index}"}} if "log" in config else {}
            started.append(ServerProcess({"servers": count, "index": index, **config, **more}, token))
        yield started
    finally:
        for server in started:
            server.kill()


def client(started: list[ServerProcess], *, token: bytes | None = TOKEN, **config: Any) -> umiak_native.Client:
    """A client of these servers that has connected to none yet."""
    endpoints = [server.endpoint for server in started]
    return umiak_native.Client(json.dumps({"endpoints": endpoints, "job": JOB, "timeout_s": 30.0, **config}), token)


class Peer:
    """One connection, spoken by hand."""

    def __init__(self, server: ServerProcess, timeout: float = 30.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.config["port"]), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @staticmethod
    def frame(
        op: str, payload: bytes = b"", *, version: int = VERSION, length: int | None = None, **fields: int
    ) -> bytes:
        of = {"flags": 0, "table": 0, "rows": 0, "dim": 0, "client": 0, "seq": 0, **fields}
        counted = len(payload) if length is None else length
        header = HEADER.pack(
            MAGIC, version, OPS[op], of["flags"], of["table"], of["rows"], of["dim"], of["client"], of["seq"], counted
        )
        return header + payload

    def send(self, op: str, payload: bytes = b"", **fields: int) -> None:
        self.socket.sendall(self.frame(op, payload, **fields))

    def receive(self) -> tuple[str, bytes]:
        header = HEADER.unpack(self._exactly(HEADER.size))
        assert header[0] == MAGIC
        assert header[1] == VERSION
        return REPLIES[header[2]], self._exactly(header[9])

    def refusal(self) -> str:
        """The code of an Error frame, after which the connection is closed."""
        kind, payload = self.receive()
        assert kind == "error", payload
        assert self.socket.recv(1) == b""
        code: str = json.loads(payload)["code"]
        return code

    def shake(
        self, *, token: bytes = TOKEN, rank: int = 0, kind: str = "data", incarnation: int = 1, job: str = JOB
    ) -> str:
        """The handshake; "welcome", or the code of what was said instead."""
        nonce = os.urandom(32)
        hello = {"nonce": nonce.hex(), "rank": rank, "incarnation": incarnation, "kind": kind, "job": job}
        self.send("hello", json.dumps(hello).encode())
        answer, payload = self.receive()
        if answer == "error":
            return str(json.loads(payload)["code"])
        other = bytes.fromhex(json.loads(payload)["nonce"])

        def proof(role: bytes) -> str:
            said = b"umiak-ps\0" + role + b"\0" + bytes([VERSION]) + struct.pack("<IQ", rank, incarnation)
            for text in (kind.encode(), job.encode()):
                said += struct.pack("<Q", len(text)) + text
            return hmac.new(token, said + nonce + other, hashlib.sha256).hexdigest()

        self.send("proof", json.dumps({"proof": proof(b"client")}).encode())
        answer, payload = self.receive()
        found = json.loads(payload)
        if answer == "error":
            return str(found["code"])
        assert found["proof"] == proof(b"server")
        return answer

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self.socket.recv(count - len(found))
            if not more:
                raise ConnectionResetError("the server closed the connection")
            found += more
        return found
