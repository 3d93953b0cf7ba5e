"""Adapter: a real S3 server of moto on loopback, which checks signatures, and a proxy in front of it that fails on demand.

    with moto_server.server() as s3:
        s3.environ                        endpoint, region and keys, as the environment names them
        s3.faults.extend(["503", "reset", "cut"])     the next three requests

moto is in an environment of its own, .venv-moto (180 MB), which `make test` makes: it and its dependencies are nobody else's.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import http.server
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

VENV = Path(__file__).resolve().parent.parent / ".venv-moto"
BUCKET = "bucket"
START_TIMEOUT_S = 240.0
UNCHECKED_REQUESTS = 3
"""Those that make the user whose keys are checked from then on."""
MAKE_USER = """
import boto3, json, sys
client = {"region_name": "us-east-1", "endpoint_url": sys.argv[1]}
first = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
iam = boto3.client("iam", **client, **first)
iam.create_user(UserName="tester")
keys = iam.create_access_key(UserName="tester")["AccessKey"]
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="tester", PolicyName="all", PolicyDocument=json.dumps(policy))
pair = {"aws_access_key_id": keys["AccessKeyId"], "aws_secret_access_key": keys["SecretAccessKey"]}
boto3.client("s3", **client, **pair).create_bucket(Bucket=sys.argv[2])
print(json.dumps([keys["AccessKeyId"], keys["SecretAccessKey"]]))
"""


@functools.cache
def available() -> str | None:
    """Why there can be none on this machine, or `None` where there can."""
    return None if (VENV / "bin" / "moto_server").exists() else f"moto is not installed: make test makes {VENV.name}"


class S3Server:
    """A running one."""

    def __init__(self, direct: str, proxied: str, keys: list[str], faults: list[str]) -> None:
        self.direct = direct
        self.faults = faults
        self.environ = {
            "AWS_ENDPOINT_URL": proxied,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": keys[0],
            "AWS_SECRET_ACCESS_KEY": keys[1],
        }


@contextlib.contextmanager
def server() -> Iterator[S3Server]:
    """Run a server that has an empty bucket."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    command = [str(VENV / "bin" / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    environ = {"INITIAL_NO_AUTH_ACTION_COUNT": str(UNCHECKED_REQUESTS), "NO_PROXY": "*"}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(port, process)
        direct = f"http://127.0.0.1:{port}"
        made = subprocess.run(
            [str(VENV / "bin" / "python"), "-c", MAKE_USER, direct, BUCKET],
            env={"NO_PROXY": "*"},
            stdout=subprocess.PIPE,
            check=True,
        )
        faults: list[str] = []
        proxy = _proxy(port, faults)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield S3Server(direct, f"http://127.0.0.1:{proxy.server_address[1]}", json.loads(made.stdout), faults)
        finally:
            proxy.shutdown()
            proxy.server_close()
    finally:
        process.kill()
        process.wait()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("moto's server has not started")


def _proxy(port: int, faults: list[str]) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = faults.pop(0) if faults else ""
            self.close_connection = True
            if fault == "hang":
                self.rfile.read(1)  # until the client gives up
            if fault in ("hang", "reset"):
                return
            if fault == "503":
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            headers = {**dict(self.headers), "Connection": "close"}
            upstream.request(self.command, self.path, body=body, headers=headers)
            answer = upstream.getresponse()
            data = answer.read()
            upstream.close()
            if fault == "lost":  # done, and nobody is told
                return
            self.send_response(answer.status)
            for name, text in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, text)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if fault == "cut" else data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815 - as the base class calls them

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
