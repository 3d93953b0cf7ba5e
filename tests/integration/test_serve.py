"""`umiak serve`: what the protocol promises, with a model that was really trained, under load while versions change, and at its end."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from testbed import triton_client
from testbed.pytest_support import require
from tests.support import PATIENCE_S, eventually, plain_inference
from tests.support.train_runs import Work
from umiak.data import features

pytestmark = [pytest.mark.paddle]

ROWS = 12


@pytest.fixture
def exported(work: Work) -> Work:
    done = work.here("alone", "-o", "runner.alone.save_inference_path=served")
    assert done.status == 0, done.said
    return work


class Server:
    """One that runs, and a way to ask it."""

    def __init__(self, process: subprocess.Popen[str], said: Path) -> None:
        self.process, self._said = process, said
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        scheme, _, address = address.partition("://")
        assert address.startswith("127.0.0.1:"), self.said
        self.has_tls = scheme == "https"
        self.port = int(address.rpartition(":")[2])

    @property
    def said(self) -> str:
        return self._said.read_text()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def ask(
        self, path: str, body: Any = None, *, connection: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        own = connection or self.connect()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        own.request("GET" if body is None else "POST", path, data, headers or {})
        answer = own.getresponse()
        text = answer.read()
        if connection is None:
            own.close()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(text) if is_json else text


@contextmanager
def served(work: Work, *words: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "umiak.cli.main", "serve", *words, "--port", "0"]
    said = work.path / "served.log"
    with said.open("w") as err:
        process = subprocess.Popen(command, cwd=work.path, stdout=subprocess.PIPE, stderr=err, text=True)
    try:
        yield Server(process, said)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert "Warning" not in said.read_text(), "importing Paddle says nothing"


def samples(count: int = ROWS, seed: int = 1) -> list[dict[str, Any]]:
    chance = np.random.default_rng(seed)
    return [
        {
            **{str(slot): [int(chance.integers(1, 40))] for slot in range(1, 5)},
            "price": chance.random(2).round(3).tolist(),
        }
        for _ in range(count)
    ]


def tensors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [
        {"name": str(slot), "shape": [len(rows), 1], "datatype": "INT64", "data": [row[str(slot)][0] for row in rows]}
        for slot in range(1, 5)
    ]
    return [
        *found,
        {"name": "price", "shape": [len(rows), 2], "datatype": "FP32", "data": [row["price"] for row in rows]},
    ]


def slot_text(rows: list[dict[str, Any]]) -> str:
    """The same as lines of data."""
    return "".join(
        " ".join(
            [
                *(f"{slot}:{each}" for slot in range(1, 5) for each in row[str(slot)]),
                *(f"price:{each}" for each in row["price"]),
            ]
        )
        + "\n"
        for row in rows
    )


def test_the_protocol_with_a_trained_model(exported: Work) -> None:
    rows = samples()
    data = exported.path / "asked"
    data.mkdir()
    (data / "part").write_text(slot_text(rows))
    command = [
        sys.executable,
        "-m",
        "umiak.cli.main",
        "predict",
        "-m",
        "config.yaml",
        "--data",
        "asked",
        "--out",
        "s.csv",
        "-q",
    ]
    subprocess.run(command, cwd=exported.path, check=True)
    expected = [float(each) for each in (exported.path / "s.csv").read_text().splitlines()[1:]]
    with served(exported, "--models", "served", "--name", "ctr", "--most_rows", "64", "--most_body", "64K") as server:
        assert server.ask("/v2")[1]["name"] == "umiak"
        assert server.ask("/v2/health/live") == (200, {"live": True})
        assert server.ask("/v2/health/ready") == (200, {"ready": True, "version": "1"})
        assert server.ask("/v2/models/ctr/versions/1/ready")[0] == 200
        status, said = server.ask("/v2/models/ctr")
        assert (status, said["versions"], said["outputs"]) == (
            200, ["1"], [{"name": "probability", "datatype": "FP32", "shape": [-1, 1]}],
        )  # fmt: skip
        assert {each["name"] for each in said["inputs"]} == {"1", "2", "3", "4", "price"}
        # Slots by name, tensors as JSON, and tensors as bytes: the same answers, and those of `umiak predict`.
        status, plain = server.ask("/v1/models/ctr:predict", {"instances": rows})
        assert status == 200
        assert np.allclose(plain["predictions"], expected, atol=1e-6)
        status, answer = server.ask("/v2/models/ctr/infer", {"id": "7", "inputs": tensors(rows)})
        (output,) = answer["outputs"]
        assert (status, answer["id"], answer["model_version"], output["shape"]) == (200, "7", "1", [ROWS, 1])
        assert output["data"] == plain["predictions"]
        assert server.ask("/v2/models/ctr/versions/1/infer", {"inputs": tensors(rows)})[0] == 200
        body, json_bytes = binary(rows)
        headers = {"Inference-Header-Content-Length": str(json_bytes)}
        status, raw = server.ask("/v2/models/ctr/infer", body, headers=headers)
        assert status == 200
        assert struct.unpack(f"<{ROWS}f", raw[-4 * ROWS :]) == tuple(np.float32(each) for each in plain["predictions"])
        refusals(server, rows)
        text = server.ask("/metrics")[1].decode()
        assert 'umiak_serve_requests_total{status="200"} 4' in text
        assert f"umiak_serve_rows_total {4 * ROWS}" in text
        assert 'umiak_serve_model{version="1"} 1' in text
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0


def test_raw_features_are_answered_by_the_lock_beside_a_model(exported: Work) -> None:
    directory = next((exported.path / "served").rglob("signature.json")).parent
    columns = [f"    - {{name: '{slot}', from: c{slot}, kind: id, hash: 50}}" for slot in range(1, 5)]
    text = "\n".join(["features:", "  columns:", *columns, "    - {name: price, kind: vector, dim: 2}", ""])
    (exported.path / "raw.yaml").write_text(text)
    lock = features.of_section(features.load(exported.path / "raw.yaml"))
    features.write_lock(lock, str(directory / "features.lock.json"))
    rows = [{"c1": "a", "c2": 3, "c4": None, "price": [0.5, 2]}, {"c1": "b", "price": None}]
    made = features.FeatureTransform(lock).rows(rows).features
    assert made["price"].numbers is not None
    inputs: list[dict[str, Any]] = [
        {"name": "price", "shape": [2, 2], "datatype": "FP32", "data": made["price"].numbers.tolist()}
    ]
    for slot in "1234":
        ids = made[slot].ids
        assert ids is not None
        keys = features.keys_of(slot, ids).view(np.int64).tolist()
        inputs.append({"name": slot, "shape": [2, 1], "datatype": "INT64", "data": keys})
    with served(exported, "--models", "served", "--name", "ctr") as server:
        status, plain = server.ask("/predict", {"instances": rows})
        assert (status, len(plain["predictions"])) == (200, 2)
        _, answer = server.ask("/v2/models/ctr/infer", {"inputs": inputs})
        assert answer["outputs"][0]["data"] == plain["predictions"]
        assert plain["predictions"][0] != plain["predictions"][1]
        status, refused = server.ask("/predict", {"instances": [{"1": "a"}]})
        assert (status, "no feature has the column '1'" in json.dumps(refused)) == (400, True)


def binary(rows: list[dict[str, Any]]) -> tuple[bytes, int]:
    """A body as clients of Triton send it, JSON and then the tensors as bytes; and how long its JSON is."""
    head, rest = [], b""
    for each in tensors(rows):
        array = np.array(each.pop("data"), {"INT64": np.int64, "FP32": np.float32}[each["datatype"]])
        rest += array.tobytes()
        head.append({**each, "parameters": {"binary_data_size": array.nbytes}})
    text = json.dumps({"inputs": head, "parameters": {"binary_data_output": True}}).encode()
    return text + rest, len(text)


def refusals(server: Server, rows: list[dict[str, Any]]) -> None:
    """What is wrong is told with its status, and the connection goes on."""
    opened = [server.connect()]

    def refused(path: str, body: Any, status: int, words: str, **headers: str) -> None:
        found, said = server.ask(path, body, connection=opened[-1], headers=headers)
        assert (found, words in said["error"]) == (status, True), said

    infer = "/v2/models/ctr/infer"
    refused(infer, {"inputs": tensors(rows)[:-1]}, 400, "inputs are missing: price")
    refused(infer, {"inputs": [{**tensors(rows)[0], "name": "user"}]}, 400, "no input is called user")
    refused(infer, {"inputs": [{**tensors(rows)[0], "datatype": "BYTES"}]}, 400, "datatype BYTES is not one of")
    refused(infer, {"inputs": [{**tensors(rows)[0], "shape": [3, 1]}]}, 400, "12 numbers where its shape has 3")
    refused(infer, {"inputs": [{**tensors(rows)[0], "data": [0.5] * ROWS}]}, 400, "has fractions")
    refused(infer, b"{", 400, "no JSON")
    refused(infer, {"inputs": tensors(samples(65))}, 413, "65 rows in one request: at most 64")
    refused("/predict", {"instances": [{"1": [1.5], "price": [1, 2]}]}, 400, "an id or a list of ids")
    refused("/predict", {"instances": [{"2": 1}]}, 400, "instance 0 has no price")
    refused("/v2/models/other/infer", {}, 404, "no model is called other: there is ctr")
    refused("/v2/models/ctr/versions/0/infer", {}, 404, "this version is not served: there is 1")
    opened.append(server.connect())
    refused(infer, b" " * (65 << 10), 413, "at most 65536 are read")
    opened.append(server.connect())
    refused(infer, {}, 403, "a page of a browser", Origin="http://evil.example")
    opened.append(server.connect())
    refused(infer, {}, 421, "localhost alone", Host="evil.example")
    for each in opened:
        each.close()


def test_no_request_is_lost_while_versions_change_and_at_the_end(exported: Work) -> None:
    served_at = exported.path / "served"
    shutil.move(served_at / "1", exported.path / "later")
    rows = samples(5)
    answers: list[tuple[int, Any]] = []
    ended, failed = threading.Event(), []

    def ask(server: Server) -> None:
        connection = server.connect()
        try:
            while not ended.is_set():
                answers.append(server.ask("/v2/models/served/infer", {"inputs": tensors(rows)}, connection=connection))
        except Exception as error:  # noqa: BLE001
            failed.append(error)
        finally:
            connection.close()

    with served(exported, "--models", "served") as server:
        threads = [threading.Thread(target=ask, args=(server,)) for _ in range(4)]
        for each in threads:
            each.start()
        assert eventually(lambda: len(answers) > 50)
        # A version that is broken is passed over; one that is whole is taken.
        broken = served_at / "1"
        broken.mkdir()
        (broken / "signature.json").write_text("{}")
        assert eventually(lambda: "passed over" in server.said)
        assert server.ask("/v2/health/ready")[1]["version"] == "0"
        os.rename(exported.path / "later", served_at / "2")
        assert eventually(lambda: answers[-1][1].get("model_version") == "2")
        behind = len(answers)
        assert eventually(lambda: len(answers) > behind + 50)
        ended.set()
        for each in threads:
            each.join()
        assert not failed
        assert {status for status, _ in answers} == {200}
        by_version: dict[str, set[tuple[float, ...]]] = {}
        for _, answer in answers:
            found = tuple(np.array(answer["outputs"][0]["data"], np.float32).round(5).tolist())
            by_version.setdefault(answer["model_version"], set()).add(found)
        assert set(by_version) == {"0", "2"}
        assert all(len(each) <= 2 for each in by_version.values()), "answers are those of one version each"
        # What was sent before the signal is answered.
        body = json.dumps({"inputs": tensors(rows)}).encode()
        sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
        for each in sockets:
            each.sendall(
                b"POST /v2/models/served/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                + body[:10]
            )
        assert server.ask("/v2/health/live")[0] == 200  # so it has read the others' heads
        server.process.send_signal(signal.SIGTERM)
        for each in sockets:
            each.sendall(body[10:])
            assert each.recv(64).startswith(b"HTTP/1.1 200 ")
            each.close()
        assert server.process.wait(PATIENCE_S) == 0


def test_too_many_wait_and_are_told_and_a_token_is_needed_where_there_is_one(exported: Work) -> None:
    token = exported.path / "token"
    token.write_text("0123456789abcdef" * 2)
    token.chmod(0o600)
    with served(
        exported, "--models", "served/1", "--name", "ctr", "--most_waiting", "4", "--token_file", "token"
    ) as server:
        infer, own = "/v2/models/ctr/infer", {"Authorization": f"Bearer {token.read_text()}"}
        assert server.ask("/v2/health/ready")[0] == 200
        assert server.ask(infer, {"inputs": tensors(samples(4))})[0] == 401
        assert server.ask(infer, {"inputs": tensors(samples(4))}, headers={"Authorization": "Bearer no"})[0] == 401
        assert server.ask("/metrics")[0] == 401
        assert server.ask(infer, {"inputs": tensors(samples(4))}, headers=own)[0] == 200
        status, said = server.ask(infer, {"inputs": tensors(samples(5))}, headers=own)
        assert (status, said) == (429, {"error": "too many requests are waiting"})


def test_what_cannot_be_served_is_told(work: Work) -> None:
    def said(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "umiak.cli.main", "serve", *words]
        done = subprocess.run(command, cwd=work.path, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        return done.returncode, done.stderr

    status, text = said("--models", "nowhere")
    assert (status, "UM-SERVE-002" in text) == (2, True)
    status, text = said("-m", "config.yaml")
    assert (status, "no save_inference_path" in text) == (2, True)
    status, text = said("--models", "out", "--host", "0.0.0.0")
    assert (status, text.count("UM-SERVE-005")) == (2, 2)
    assert "UM-SERVE-004" in said()[1]


@pytest.mark.parametrize("is_safe", [False, True], ids=["plain", "tls"])
def test_tritons_own_client_over_plain_http_and_over_tls_with_a_token(exported: Work, is_safe: bool) -> None:
    require(triton_client.available())
    rows, token = samples(), "0123456789abcdef" * 2
    words, more = ["--models", "served", "--name", "ctr"], {}
    if is_safe:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(exported.path / "ca.pem")
        own = authority.issue_cert("localhost", "127.0.0.1")
        own.private_key_and_cert_chain_pem.write_to_path(exported.path / "own.pem")
        (exported.path / "token").write_text(token)
        (exported.path / "token").chmod(0o600)
        words += ["--tls_cert", "own.pem", "--token_file", "token"]
        more = {"token": token, "authority": str(exported.path / "ca.pem")}
    with served(exported, *words) as server:
        assert server.has_tls == is_safe
        inputs = [{**each, "data": np.reshape(each["data"], each["shape"]).tolist()} for each in tensors(rows)]
        url = f"localhost:{server.port}"
        found = triton_client.ask({"url": url, "model": "ctr", "inputs": inputs, "outputs": ["probability"], **more})
        if is_safe:
            plain = server.connect()
            with pytest.raises((http.client.HTTPException, OSError)):
                server.ask("/v2/health/live", connection=plain)  # no HTTP without TLS at this port
            plain.close()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    assert (found["live"], found["ready"], found["model_ready"]) == (True, True, True)
    assert found["server"]["extensions"] == ["binary_tensor_data"]
    assert {each["name"] for each in found["metadata"]["inputs"]} == {"1", "2", "3", "4", "price"}
    for way, request in (("binary", "7"), ("json", "8"), ("version", "9")):
        assert found[way]["response"] == {"id": request, "model_name": "ctr", "model_version": "1"}
        kind, numbers = found[way]["outputs"]["probability"]
        assert (kind, np.shape(numbers)) == ("float32", (ROWS, 1))
        assert np.allclose(numbers, answers_of(exported, rows), atol=1e-6)
    assert found["missing"] == ["400", "inputs are missing: 1"]
    assert found["unknown"] == ["404", "no model is called other: there is ctr"]
    assert found["nobody"] == (["401", "a token is needed: Authorization: Bearer ..."] if is_safe else None)
    assert all(np.allclose(each, found["binary"]["outputs"]["probability"][1], atol=1e-6) for each in found["at_once"])


def answers_of(work: Work, rows: list[dict[str, Any]]) -> Any:
    """What plain Paddle answers."""
    arrays = {str(slot): np.array([each[str(slot)] for each in rows], np.int64) for slot in range(1, 5)}
    arrays["price"] = np.array([each["price"] for each in rows], np.float32)
    prefix = str(work.path / "served" / "1" / "inference")
    return plain_inference.predictions({prefix: arrays})[prefix]["inference"][0]
