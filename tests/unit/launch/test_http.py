"""HTTP requests on the launcher's loop, answered by a small server that says whatever a test wants it to say."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import PATIENCE_S, run_until
from umiak.adapters.loop import Loop
from umiak.launch.links import http_post
from umiak.launch.links.http_post import Post


class Server:
    """Takes one request and lets a test talk to its sender."""

    def __init__(self, output: Callable[[socket.socket], None]) -> None:
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._sock.settimeout(PATIENCE_S)
        self.address = self._sock.getsockname()
        self.request = b""
        self._output = output
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        try:
            sock, _ = self._sock.accept()
        except OSError:
            return
        with sock:
            sock.settimeout(PATIENCE_S)
            while not self._is_whole():
                self.request += sock.recv(65536)
            try:
                self._output(sock)
            except OSError:
                pass  # the other side has heard enough

    def _is_whole(self) -> bool:
        head, end, body = self.request.partition(b"\r\n\r\n")
        if not end:
            return False
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        return len(body) >= int(length.split(b":")[1])

    def close(self) -> None:
        self._sock.close()
        self._thread.join(PATIENCE_S)


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], Server]]:
    servers: list[Server] = []

    def start(output: Callable[[socket.socket], None]) -> Server:
        servers.append(Server(output))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


class Asked:
    """One request and everything that came of it."""

    def __init__(self, address: tuple[str, int], body: object = None, **more: Any) -> None:
        self.loop = Loop()
        self.answers: list[tuple[int, Any]] = []
        self.failures: list[str] = []
        self.post = Post(
            self.loop,
            address,
            "/v3/kv/txn",
            {"key": "x"} if body is None else body,
            on_answer=lambda status, answer: self.answers.append((status, answer)),
            on_failed=self.failures.append,
            **{"timeout_s": PATIENCE_S, **more},
        )

    def wait(self) -> Asked:
        run_until(self.loop, lambda: self.answers or self.failures)
        assert len(self.answers) + len(self.failures) == 1, "told once"
        return self


def says(*pieces: bytes) -> Callable[[socket.socket], None]:
    def output(sock: socket.socket) -> None:
        for piece in pieces:
            sock.sendall(piece)

    return output


OK = b"HTTP/1.1 200 OK\r\n"


def sized(body: bytes, head: bytes = OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + body


def test_the_request_is_a_whole_one(serve: Any) -> None:
    server = serve(says(sized(b"{}")))
    asked = Asked(server.address, {"key": "ключ"}).wait()
    head, _, body = server.request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v3/kv/txn HTTP/1.1"
    assert f"Host: 127.0.0.1:{server.address[1]}" in lines
    assert "Connection: close" in lines
    assert json.loads(body) == {"key": "ключ"}
    assert asked.post.local_host == "127.0.0.1"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(sized(b'{"a": [1, 2]}'), id="with a length"),
        pytest.param(chunked(b'{"a":', b" [1, 2", b"]}"), id="in chunks"),
        pytest.param(chunked(b'{"a": [1, 2]}').replace(b"d\r\n", b"D;name=value\r\n"), id="in chunks with extensions"),
        pytest.param(OK + b'\r\n{"a": [1, 2]}', id="until the end"),
        pytest.param(sized(b'{"a": [1, 2]}').replace(b"Content-Length", b"content-length"), id="in small letters"),
    ],
)
def test_an_answer_is_understood(serve: Any, answer: bytes) -> None:
    asked = Asked(serve(says(answer)).address).wait()
    assert asked.answers == [(200, {"a": [1, 2]})]


@pytest.mark.parametrize(
    "answer", [sized(b'{"a": "\xc3\xa9"}'), chunked(b'{"a": "\xc3', b'\xa9"}')], ids=["length", "chunks"]
)
def test_an_answer_that_comes_byte_by_byte_is_understood(serve: Any, answer: bytes) -> None:
    asked = Asked(serve(says(*(bytes([byte]) for byte in answer))).address).wait()
    assert asked.answers == [(200, {"a": "é"})]


def test_an_answer_is_handed_out_before_the_server_hangs_up(serve: Any) -> None:
    finished = threading.Event()

    def output(sock: socket.socket) -> None:
        sock.sendall(sized(b"{}"))
        finished.wait(PATIENCE_S)

    asked = Asked(serve(output).address).wait()
    finished.set()
    assert asked.answers == [(200, {})]


def test_a_large_request_and_a_large_answer_get_through(serve: Any) -> None:
    text = "x" * 3_000_000
    asked = Asked(serve(says(sized(json.dumps(text).encode()))).address, text).wait()
    assert asked.answers == [(200, text)]


def test_an_error_of_the_server_is_an_answer(serve: Any) -> None:
    asked = Asked(serve(says(sized(b'{"error": "no"}', b"HTTP/1.1 503 Service Unavailable\r\n"))).address).wait()
    assert asked.answers == [(503, {"error": "no"})]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(b"", "connection closed", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", "connection closed", id="half a head"),
        pytest.param(sized(b"{}")[:-1], "connection closed", id="half a body"),
        pytest.param(chunked(b"{}")[:-5], "connection closed", id="half the chunks"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "an answer that is not HTTP", id="another protocol"),
        pytest.param(b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n", "an answer that is not HTTP", id="TLS"),
        pytest.param(sized(b"<html>"), "an answer that is not JSON", id="a web page"),
        pytest.param(sized(b"\xff\xfe"), "an answer that is not JSON", id="no text"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\nsize\r\n{}\r\n",
            "a chunk that is not HTTP",
            id="a chunk of no size",
        ),
    ],
)
def test_what_is_no_answer_is_a_failure_with_its_reason(serve: Any, answer: bytes, why: str) -> None:
    asked = Asked(serve(says(answer)).address).wait()
    assert asked.failures == [why]


def test_an_endless_answer_is_cut_short(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_post, "MOST_BYTES", 100_000)

    def output(sock: socket.socket) -> None:
        sock.sendall(OK + b"\r\n")
        while True:
            sock.sendall(b"x" * 65536)

    asked = Asked(serve(output).address).wait()
    assert asked.failures == ["an answer that is too large"]


def test_a_server_that_never_answers_is_given_up(serve: Any) -> None:
    finished = threading.Event()
    asked = Asked(serve(lambda _sock: finished.wait(PATIENCE_S)).address, timeout_s=0.05).wait()
    finished.set()
    assert asked.failures == ["no answer in time"]


def test_a_server_that_stops_in_the_middle_is_given_up(serve: Any) -> None:
    finished = threading.Event()

    def output(sock: socket.socket) -> None:
        sock.sendall(sized(b"{}")[:-1])
        finished.wait(PATIENCE_S)

    asked = Asked(serve(output).address, timeout_s=0.05).wait()
    finished.set()
    assert asked.failures == ["no answer in time"]


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = sock.getsockname()
    asked = Asked(address).wait()
    assert asked.failures == ["Connection refused"]


def test_nobody_knows_the_name() -> None:
    assert len(Asked(("no-such-host.invalid", 1)).wait().failures) == 1


def test_a_request_that_was_taken_back_is_never_answered(serve: Any) -> None:
    taken_back, answered = threading.Event(), threading.Event()

    def output(sock: socket.socket) -> None:
        taken_back.wait(PATIENCE_S)
        try:
            sock.sendall(sized(b"{}"))
        finally:
            answered.set()

    server = serve(output)
    asked = Asked(server.address)
    run_until(asked.loop, lambda: asked.post.local_host)
    asked.post.cancel()
    asked.post.cancel()
    taken_back.set()
    run_until(asked.loop, answered.is_set)
    assert (asked.answers, asked.failures) == ([], [])


def test_a_stream_hands_out_each_line_as_it_comes_and_tells_its_end(serve: Any) -> None:
    go_on = threading.Event()

    def output(sock: socket.socket) -> None:
        sock.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for chunk in (b'{"n": 1}\n{"n"', b": 2}\n", b"\n"):
            sock.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        go_on.wait(PATIENCE_S)
        sock.sendall(b'9\r\n{"n": 3}\n\r\n0\r\n\r\n')

    asked = Asked(serve(output).address, stream=True)
    run_until(asked.loop, lambda: len(asked.answers) == 2)
    assert asked.failures == []
    go_on.set()
    run_until(asked.loop, lambda: asked.failures)
    assert asked.answers == [(200, {"n": 1}), (200, {"n": 2}), (200, {"n": 3})]
    assert asked.failures == ["connection closed"]


def test_a_stream_has_a_time_limit_for_its_beginning_only(serve: Any) -> None:
    go_on = threading.Event()

    def output(sock: socket.socket) -> None:
        sock.sendall(OK + b'\r\n{"n": 1}\n')
        go_on.wait(PATIENCE_S)
        sock.sendall(b'{"n": 2}\n')

    asked = Asked(serve(output).address, stream=True)
    run_until(asked.loop, lambda: asked.answers or asked.failures)
    assert asked.failures == []
    assert asked.post._timer.call is None, "no clock ticks for a stream that has begun"
    go_on.set()
    run_until(asked.loop, lambda: asked.failures)
    assert len(asked.answers) == 2


def test_a_stream_may_be_left_from_inside_an_answer(serve: Any) -> None:
    lines = b"".join(b'{"n": %d}\n' % number for number in range(10))
    asked = Asked(serve(says(OK + b"\r\n" + lines)).address, stream=True)
    asked.post._on_answer = lambda status, answer: (asked.answers.append((status, answer)), asked.post.cancel())
    run_until(asked.loop, lambda: asked.answers)
    asked.loop.after(0.005, asked.loop.stop)
    asked.loop.run()
    assert asked.answers == [(200, {"n": 0})]
    assert asked.failures == []
