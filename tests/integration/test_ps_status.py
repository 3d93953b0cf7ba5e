"""`umiak ps status` and the metrics of servers, with jobs that really run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from tests.support.launching import WORKERS, Launcher, Stage, until
from tests.support.ps_peers import JOB, TOKEN, ServerProcess
from umiak.ps.servers.metrics import MOST_CONNECTIONS, MOST_HEADER_BYTES, MetricsEndpoint

WAITING = WORKERS / "waiting.py"
SECRET = "a secret for the tests of metrics"


def status(*flags: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_"))}
    command = [sys.executable, "-m", "umiak.cli.main", "ps", "status", *flags]
    return subprocess.run(command, env={**clean, **(env or {})}, text=True, capture_output=True, check=False)


def get(url: str, token: str | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def running(stage: Stage, tmp_path: Path):
    """A job of two servers and two trainers, of which one waits for the other, until it is told to end."""
    env = {"UMIAK_PS_METRICS": "0"}
    launcher = stage.launch(
        f"--server_num 2 --trainer_num 2 --job_id status{tmp_path.name}", WAITING, tmp_path, env=env
    )
    yield launcher
    (tmp_path / "enough").touch()
    assert launcher.wait() == 0, stage.transcript()


def test_a_running_job_is_found_and_shown(running: Launcher, tmp_path: Path) -> None:
    job = f"status{tmp_path.name}"

    def look() -> dict | None:
        done = status("--json", "--job", job, "--interval", "0.2")
        report = json.loads(done.stdout) if done.returncode == 0 else None
        waits = report and report["trainers"] and report["trainers"][0]["waits"]
        return report if waits and report["servers"][0]["pushed_rows_per_s"] else None

    report = until(look, "a status in which trainer 0 waits")
    assert report["job"] == job
    assert [server["reachable"] for server in report["servers"]] == [True, True]
    (table,) = report["tables"]
    assert (table["name"], table["rows"], table["learning_rate"]) == ("ads", 100, 0.5)
    assert table["bytes"] > 100 * 4 * 4
    assert all(server["pulled_rows_per_s"] > 0 for server in report["servers"])
    assert "barrier" in report["trainers"][0]["waits"]
    quiet = status("--quiet", "--job", job)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert report["trainers"][1]["waits"] is None
    shown = status("--job", job, "--interval", "0.1")
    assert shown.returncode == 0
    assert re.search(r"^ads +sparse +100 ", shown.stdout, re.MULTILINE)
    assert re.search(r"^0 +here .* waits for .*1", shown.stdout, re.MULTILINE)


def test_metrics_of_a_running_job(running: Launcher) -> None:
    def pages() -> list[str]:
        texts = [path.read_text() for path in running.log_dir.glob("serverlog.*")]
        urls = [url for text in texts for url in re.findall(r"metrics at (http://127\.0\.0\.1:\d+/metrics)", text)]
        found = [get(url)[1] for url in urls]
        rows = [int(count) for page in found for count in re.findall(r'umiak_ps_rows\{.*table="ads"\} (\d+)', page)]
        pushed = [int(count) for page in found for count in re.findall(r"umiak_ps_pushed_rows_total\{.*\} (\d+)", page)]
        return found if len(found) == 2 and sum(rows) == 100 and all(pushed) else []

    first, second = sorted(until(pages, "metrics of both servers, of all rows and of pushes"))
    took = re.findall(r'umiak_ps_request_seconds_count\{.*kind="pushes"\} (\d+)', first + second)
    assert len(took) == 2
    assert all(map(int, took)), "every push is in a bucket"
    assert 'server="0"' in first
    assert 'server="1"' in second


def test_servers_are_asked_by_address_with_the_token_of_the_environment(tmp_path: Path) -> None:
    server = ServerProcess({"port": 0, "world": 1, "servers": 1, "index": 0})
    try:
        flags = ("--servers", server.endpoint, "--job", JOB, "--interval", "0.1")
        good = status(*flags, "--json", env={"UMIAK_TOKEN": TOKEN.decode()})
        assert good.returncode == 0, good.stderr
        assert json.loads(good.stdout)["trainers"][0]["state"] == "expected"
        path = tmp_path / "token"
        path.write_bytes(TOKEN)
        assert status(*flags, env={"UMIAK_TOKEN_FILE": str(path)}).returncode == 0
        wrong = status(*flags, env={"UMIAK_TOKEN": "another secret of the tests"})
        assert wrong.returncode == 3
        assert "does not have this job's token" in wrong.stderr
        assert "UM-PS-173" in wrong.stderr
        other = status("--servers", server.endpoint, "--job", "other", env={"UMIAK_TOKEN": TOKEN.decode()})
        assert other.returncode == 3
        assert f'belongs to the job "{JOB}"' in other.stderr
        assert TOKEN.decode() not in good.stdout + good.stderr + wrong.stderr + other.stderr
    finally:
        server.kill()


def test_one_of_two_servers_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = ServerProcess({"port": 0, "world": 1, "servers": 2, "index": 0})
    try:
        addresses = f"{server.endpoint},127.0.0.1:{port}"
        done = status("--servers", addresses, "--job", JOB, "--interval", "0.1", env={"UMIAK_TOKEN": TOKEN.decode()})
        assert done.returncode == 3
        assert "1 of 2 servers answer" in done.stdout
        assert f"no answer from the parameter server at 127.0.0.1:{port}" in done.stderr
        quiet = status("--quiet", "--servers", addresses, "--job", JOB, env={"UMIAK_TOKEN": TOKEN.decode()})
        assert (quiet.returncode, quiet.stdout, quiet.stderr) == (3, "", done.stderr)
    finally:
        server.kill()


def test_nothing_answers_is_said_in_plain_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = status("--servers", f"127.0.0.1:{port}")
    assert done.returncode == 3
    assert f"no answer from the parameter server at 127.0.0.1:{port} [UM-PS-173]" in done.stderr
    assert "refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_servers_anywhere() -> None:
    done = status("--job", "no such job of these tests")
    assert done.returncode == 3
    assert "no parameter servers to ask" in done.stderr
    assert "UM-PS-172" in done.stderr
    wrong = status("--servers", "nowhere")
    assert wrong.returncode == 2
    assert "not host:port: nowhere" in wrong.stderr


# ---- the endpoint itself


@pytest.fixture
def loopback():
    endpoint = MetricsEndpoint("127.0.0.1", 0, token=SECRET, page=lambda: "a 1\n")
    yield endpoint
    endpoint.close()


def test_on_loopback_no_secret_is_asked_for(loopback: MetricsEndpoint) -> None:
    url = f"http://127.0.0.1:{loopback.port}"
    assert get(f"{url}/metrics") == (200, "a 1\n")
    assert get(f"{url}/metrics?x=1")[0] == 200
    assert get(f"{url}/")[0] == 404
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(f"{url}/metrics", data=b"x")


def test_elsewhere_the_token_is_needed() -> None:
    endpoint = MetricsEndpoint("0.0.0.0", 0, token=SECRET, page=lambda: "a 1\n")
    try:
        url = f"http://127.0.0.1:{endpoint.port}/metrics"
        assert get(url, SECRET) == (200, "a 1\n")
        for wrong in (None, "x", SECRET[:-1], f"{SECRET}x"):
            code, text = get(url, wrong)
            assert code == 401
            assert SECRET not in text
    finally:
        endpoint.close()


def test_without_a_token_nobody_may_ask_from_elsewhere() -> None:
    endpoint = MetricsEndpoint("0.0.0.0", 0, token=None, page=lambda: "a 1\n")
    try:
        request = b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer \r\n\r\n"
        with socket.create_connection(("127.0.0.1", endpoint.port)) as caller:
            caller.sendall(request)
            assert caller.makefile("rb").read().startswith(b"HTTP/1.1 401 ")
    finally:
        endpoint.close()


def test_strangers_are_bounded(loopback: MetricsEndpoint) -> None:
    """Silent connections, endless headers and garbage keep nobody else from being served."""
    silent = [socket.create_connection(("127.0.0.1", loopback.port)) for _ in range(3 * MOST_CONNECTIONS)]
    assert get(f"http://127.0.0.1:{loopback.port}/metrics")[0] == 200
    assert silent[0].recv(1) == b"", "the oldest make room"
    for caller in silent:
        caller.close()
    with socket.create_connection(("127.0.0.1", loopback.port)) as endless:
        endless.sendall(b"x" * (3 * MOST_HEADER_BYTES))
        with contextlib.suppress(ConnectionError):
            assert endless.recv(1) == b""
    with socket.create_connection(("127.0.0.1", loopback.port)) as garbage:
        garbage.sendall(b"\xff\x00\r\n\r\n")
        assert garbage.makefile("rb").read().startswith(b"HTTP/1.1 404 ")
    assert get(f"http://127.0.0.1:{loopback.port}/metrics")[0] == 200


def test_one_that_speaks_while_it_makes_room_ends_nothing() -> None:
    """The oldest connection says something in the very round in which a new one takes its place."""
    asked, go_on = threading.Event(), threading.Event()
    pages = iter(["x" * (32 << 20)])

    def page() -> str:
        asked.set()
        go_on.wait()
        return next(pages, "a 1\n")

    endpoint = MetricsEndpoint("127.0.0.1", 0, token=None, page=page)
    try:
        callers = [socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(MOST_CONNECTIONS)]
        callers[-1].sendall(b"GET /metrics HTTP/1.1\r\n\r\n")  # more than it takes at once, so it stays
        asked.wait()
        callers.append(socket.create_connection(("127.0.0.1", endpoint.port)))
        callers[0].sendall(b"GET")
        go_on.set()
        assert get(f"http://127.0.0.1:{endpoint.port}/metrics") == (200, "a 1\n")
        for caller in callers:
            caller.close()
    finally:
        endpoint.close()


def test_a_page_that_fails_is_no_end() -> None:
    def page() -> str:
        raise RuntimeError("stopping")

    endpoint = MetricsEndpoint("127.0.0.1", 0, token=None, page=page)
    try:
        assert get(f"http://127.0.0.1:{endpoint.port}/metrics")[0] == 503
    finally:
        endpoint.close()


def test_a_port_that_is_taken_does_not_end_a_job(stage: Stage, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        env = {"UMIAK_PS_METRICS": str(taken.getsockname()[1])}
        (tmp_path / "enough").touch()
        launcher = stage.launch("--server_num 1 --trainer_num 1", WAITING, tmp_path, env=env)
        assert launcher.wait() == 0, stage.transcript()
    assert "no metrics at 127.0.0.1" in (launcher.log_dir / "serverlog.0").read_text()
