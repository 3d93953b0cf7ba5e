"""`pods/exec` as a kubelet answers it: a handshake, frames of RFC 6455, streams by their first byte. The program behind it is the real one."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import PATIENCE_S
from umiak.core.job import Handle
from umiak.core.problem import UmiakError
from umiak.core.shown import Secrets
from umiak.kube.answers import KubeRefused
from umiak.kube.api import KubeApi
from umiak.kube.kubeconfig import KubeAccess
from umiak.kube.web_socket import masked
from umiak.submit.backend import JobNode
from umiak.submit.backends.kubernetes import nodes
from umiak.submit.backends.kubernetes.state import KubeFacts
from umiak.submit.reach.command import NodeCommand
from umiak.submit.reach.session import NodeGone, NodeSession

PODS = "/api/v1/namespaces/training/pods"
HANDLE = Handle(backend="kubernetes", place="k8s", id="ctr-1")


class Kubelet(BaseHTTPRequestHandler):
    """One pod in which the program runs as a process of this machine."""

    protocol_version = "HTTP/1.1"
    asked: list[dict[str, list[str]]] = []

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.asked.append(parse_qs(parts.query))
        if "/forbidden/" in parts.path:
            data = json.dumps({"reason": "Forbidden", "message": "no pods/exec for you"}).encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        assert self.headers["Sec-WebSocket-Protocol"] == "v4.channel.k8s.io"
        key = self.headers["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode())
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        self.close_connection = True
        self._say(9, b"are you there")
        self._say(2, b"\1")  # an empty message of each stream, as a kubelet sends them first
        if "/broken/" in parts.path:
            self._say(2, b"\2sh: python3: not found\n")
            self._say(2, b"\3" + json.dumps({"status": "Failure", "message": "exit code 127"}).encode())
            self._say(8, b"\x03\xe8")
            return
        self._bridge()

    def _bridge(self) -> None:
        words = [sys.executable, "-m", "umiak.submit.node.session"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            reader = threading.Thread(target=self._read, args=(process.stdout.fileno(),), daemon=True)
            reader.start()
            try:
                while True:
                    kind, data = self._hear()
                    if kind == 8:
                        break
                    if kind == 2:
                        assert data[0] == 0
                        process.stdin.write(data[1:])
                        process.stdin.flush()
            except (OSError, ValueError):
                pass  # it has gone without a word
            process.stdin.close()
            process.wait(PATIENCE_S)
            reader.join(PATIENCE_S)

    def _read(self, fd: int) -> None:
        try:
            while data := os.read(fd, 5000):
                half = len(data) // 2
                self._say(2, b"\1" + data[:half], is_last=False)
                self._say(0, data[half:])
        except OSError:
            pass

    def _say(self, kind: int, data: bytes, *, is_last: bool = True) -> None:
        size = len(data)
        head = bytes([size]) if size < 126 else bytes([126]) + size.to_bytes(2, "big")
        self.wfile.write(bytes([(0x80 if is_last else 0) | kind]) + head + data)
        self.wfile.flush()

    def _hear(self) -> tuple[int, bytes]:
        first, second = self.rfile.read(2)
        assert second & 0x80, "a client masks"
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(self.rfile.read(2 if size == 126 else 8), "big")
        mask = self.rfile.read(4)
        return first & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(self.rfile.read(size)))


@pytest.fixture
def api() -> Iterator[KubeApi]:
    Kubelet.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Kubelet) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        access = KubeAccess(server=f"http://127.0.0.1:{server.server_address[1]}", secrets=Secrets())
        yield KubeApi(access, {}, timeout_s=30)
        server.shutdown()


def node(name: str = "ctr-worker-0") -> JobNode:
    return JobNode(run_id="ctr-1", name=name, address=name, command=("python3", "/umiak/x", "-m", "a&b=c"))


def test_a_command_runs_in_a_pod(api: KubeApi) -> None:
    """Beside a worker, which is a process with its variables."""
    run_id = f"ctr-{os.urandom(6).hex()}"
    environ = {**os.environ, "UMIAK_JOB_ID": run_id, "UMIAK_ROLE": "trainer", "UMIAK_RANK": "3"}
    with subprocess.Popen(["sleep", "1000"], env=environ) as worker:
        session = NodeSession("pod", nodes.opened(api, PODS, node(), "k8s"))
        try:
            assert session.workers(run_id) == [("trainer", 3)]
            given = b"x" * 200_000
            source, feed = os.pipe()

            def fed() -> None:
                os.write(feed, given)
                os.close(feed)

            feeder = threading.Thread(target=fed)
            feeder.start()
            out: dict[bool, bytes] = {False: b"", True: b""}

            def take(is_error: bool, data: bytes) -> None:
                out[is_error] += data

            words = ["sh", "-c", "echo $UMIAK_RANK >&2; cat; exit 5"]
            end = NodeCommand(session, take, source=source).run({"run": run_id, "words": words})
            feeder.join()
            os.close(source)
            assert (end.code, out[False], out[True]) == (5, given, b"3\n")
        finally:
            session.close()
            worker.kill()
    query = Kubelet.asked[0]
    assert query["command"] == ["python3", "/umiak/x", "-m", "a&b=c"]
    assert (query["container"], query["stdin"], query["stdout"]) == (["umiak"], ["true"], ["true"])


def test_rights_that_are_missing_are_named(api: KubeApi) -> None:
    with pytest.raises(UmiakError) as caught:
        nodes.opened(api, PODS, node("forbidden"), "k8s")
    problem = caught.value.problems[0]
    assert (problem.code, problem.why) == ("UM-SUBMIT-401", "no pods/exec for you")


def test_a_pod_without_the_program_says_why(api: KubeApi) -> None:
    with pytest.raises(NodeGone) as caught:
        NodeSession("pod", nodes.opened(api, PODS, node("broken"), "k8s"))
    assert "python3: not found; exit code 127" in str(caught.value.problems[0].why)


def test_pods_that_are_over_have_no_files() -> None:
    pods = ({"metadata": {"name": "ctr-0"}, "status": {"phase": "Succeeded"}},)
    facts = KubeFacts(pods=pods)
    with pytest.raises(UmiakError) as caught:
        nodes.roots_of(nodes.nodes_of(facts, HANDLE, "python3"), HANDLE)
    assert caught.value.problems[0].code == "UM-SUBMIT-400"


@given(st.binary(max_size=100), st.binary(min_size=4, max_size=4))
def test_a_mask_is_taken_off_by_itself(data: bytes, mask: bytes) -> None:
    assert masked(data, mask) == bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
    assert masked(masked(data, mask), mask) == data


def test_an_api_that_refuses_is_told(api: KubeApi) -> None:
    with pytest.raises(KubeRefused):
        api.web_socket(f"{PODS}/forbidden/exec", [], "v4.channel.k8s.io")
