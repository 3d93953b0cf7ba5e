"""Sessions on a Ray cluster without Ray: the client's channel, the driver, the actor and the program on the node, over a dashboard and a cluster of dictionaries.

What Ray itself does is in test_submit_ray.py; here are the ends, the limits and the faults.
"""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import eventually
from tests.support.reaching import processes_with, unique_mark
from umiak.adapters.stores.http_retry import Unanswered
from umiak.core.problem import UmiakError
from umiak.submit.backend import JobNode
from umiak.submit.backends.ray.sessions import channel, driver, messages, program
from umiak.submit.backends.ray.settings import RaySettings
from umiak.submit.payload import launcher_file
from umiak.submit.reach.command import NodeCommand
from umiak.submit.reach.session import NodeSession

NODE = JobNode(run_id="ctr-3f2a9c", name="trainer.0", address="5d1c")


class Actors:
    """Calls of actors, each in a thread."""

    class exceptions:  # noqa: N801 - as in ray
        RayError = RuntimeError

    def __init__(self) -> None:
        self.pool = concurrent.futures.ThreadPoolExecutor(16)

    def handle(self, made: Any) -> Any:
        class Method:
            def __init__(self, pool: Any, call: Any) -> None:
                self.remote = lambda *words: pool.submit(call, *words)

        class Handle:
            def __getattr__(self, name: str, pool: Any = self.pool) -> Any:
                return Method(pool, getattr(made, name))

        return Handle()

    def wait(self, asked: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        done, rest = concurrent.futures.wait(asked, timeout, concurrent.futures.FIRST_COMPLETED)
        return list(done), list(rest)

    def get(self, answer: Any) -> Any:
        return answer.result()


class Cluster:
    """A dashboard and what is behind it, as `RayApi` shows it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.logs = directory / "logs"
        self.logs.mkdir()
        self.packages: dict[str, bytes] = {}
        self.known: dict[str, dict[str, Any]] = {}
        self.drivers: list[threading.Thread] = []
        self.broken: list[int] = []
        """After so many bytes the next connections break."""
        self.most_segments = 0
        self.refuses = self.is_gone = False

    # What a client asks.

    def has_package(self, name: str) -> bool:
        return name in self.packages

    def send_package(self, name: str, data: bytes) -> None:
        if self.refuses:
            raise Unanswered("no way", again=True)
        self.packages[name] = data

    def start(self, body: dict[str, Any]) -> None:
        session = body["submission_id"]
        self.known[session] = {
            "status": "RUNNING",
            "driver_node_id": "head",
            "body": body,
            "submission_id": session,
            "metadata": body["metadata"],
        }
        thread = threading.Thread(target=self._drive, args=(session,), daemon=True)
        self.drivers.append(thread)
        thread.start()

    def jobs(self) -> Any:
        return list(self.known.values())

    def job(self, session: str) -> dict[str, Any] | None:
        if self.is_gone:
            raise Unanswered("nobody is there", again=True)
        return self.known.get(session)

    def log(self, _: str, __: str) -> Iterator[bytes]:
        yield b"one\nlast words\n"

    def stop(self, session: str) -> None:
        self.known[session]["status"] = "STOPPED"

    def remove(self, session: str) -> None:
        assert self.known[session]["status"] != "RUNNING", "Ray removes no job that runs"
        del self.known[session]

    def growing_file(self, name: str, _: str, __: float) -> Iterator[bytes]:
        path = self.logs / name
        if not path.exists():
            raise Unanswered("no such file", again=False)
        left = self.broken.pop() if self.broken else -1
        with open(path, "rb") as file:
            while not self.is_gone:
                data = file.read(10_000)
                if data and left >= 0:
                    data, left = data[:left], left - len(data)
                yield data
                if left < 0 and left != -1:
                    raise Unanswered("the connection broke", again=True)
                if not data:
                    time.sleep(0.01)
            yield b""

    # What is on the cluster.

    def take(self, name: str) -> bytes | None:
        self.most_segments = max(self.most_segments, len(list(self.logs.iterdir())))
        return self.packages.pop(name, None)

    def remove_packages(self, prefix: str) -> None:
        for name in [each for each in self.packages if each.startswith(prefix)]:
            del self.packages[name]

    def _drive(self, session: str) -> None:
        import shlex

        words = shlex.split(self.known[session]["body"]["entrypoint"])
        order = messages.from_text(words[-1])
        cluster, actors = self, Actors()

        class Driver(driver.SessionDriver):
            def actor(self) -> Any:
                return actors.handle(program.SessionNode())

        class Taken(driver.Packages):
            def take(self, name: str) -> bytes | None:
                return cluster.take(name)

            def remove(self, prefix: str) -> None:
                cluster.remove_packages(prefix)

        segments = driver.Segments(str(self.logs), session)
        own = Driver(actors, order, segments, Taken())
        code = own.main()
        own.clean()
        self.known[session].update(status="FAILED" if code else "SUCCEEDED", end_time=time.time() * 1000)

    def is_clean(self) -> bool:
        own = [name for name in self.packages if "_to_" in name]
        return not own and not list(self.logs.iterdir()) and not any(each.is_alive() for each in self.drivers)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """With one node of a run, whose launcher is a process that has its id."""
    monkeypatch.setattr(program, "sent", lambda _: launcher_file.find().path)
    return Cluster(tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """The directory of the node, and a worker there; beside it one of another node of the same run."""
    started = []
    for rank in (0, 1):
        work = tmp_path / "runs" / NODE.run_id / f"trainer.{rank}" / "work"
        work.mkdir(parents=True)
        worker = {"UMIAK_JOB_ID": NODE.run_id, "UMIAK_ROLE": "trainer", "UMIAK_RANK": str(rank)}
        script = f"import os, subprocess; subprocess.run(['sleep', '1000'], env={{**os.environ, **{worker!r}}})"
        started.append(subprocess.Popen([sys.executable, "-c", script], cwd=work, start_new_session=True))
    try:
        yield tmp_path / "runs" / NODE.run_id / "trainer.0"
    finally:
        for each in started:
            os.killpg(each.pid, 9)
            each.wait()


def opened(cluster: Cluster, node: JobNode = NODE) -> channel.RayChannel:
    settings = RaySettings(address="http://head:8265", directory=str(cluster.directory / "runs"))
    return channel.opened(cluster, node, settings)  # type: ignore[arg-type]


def captured(cluster: Cluster, *words: str, source: int | None = None) -> tuple[bytes, int]:
    session = NodeSession(NODE.name, opened(cluster))
    found = eventually(lambda: session.workers(NODE.run_id))
    assert found == [("trainer", 0)], "a worker of another node of the run"
    out: list[bytes] = []
    try:
        command = NodeCommand(session, lambda _, data: out.append(data), source=source)
        end = command.run({"run": NODE.run_id, "words": list(words), "rank": 0})
    finally:
        session.close()
    return b"".join(out), end.code


def captured_rest(session: NodeSession) -> None:
    while True:
        session.next()


def test_more_than_fits_comes_whole_over_connections_that_break(
    cluster: Cluster, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the disk of the head never has more than some segments of it."""
    monkeypatch.setattr(driver, "SEGMENT_BYTES", 100_000)
    cluster.broken = [0, 70_000, 1, 33_333]
    data = os.urandom(3_000_000)
    (run / "work" / "data").write_bytes(data)
    out, code = captured(cluster, "sh", "-c", "cat data; pwd; exit 5")
    assert (out, code) == (data + f"{run}/work\n".encode(), 5)
    assert 1 < cluster.most_segments <= driver.MOST_SEGMENTS + 2
    eventually(cluster.is_clean)


def test_sessions_that_are_over_for_a_while_are_forgotten(
    cluster: Cluster, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no job that is no session, or runs."""
    del run
    cluster.known = {"r": {"submission_id": "r", "status": "SUCCEEDED", "end_time": 1, "metadata": {"umiak": "r"}}}
    opened(cluster).close()
    eventually(cluster.is_clean)
    opened(cluster).close()
    assert len(cluster.known) == 3, "Ray would write it down again"
    eventually(cluster.is_clean)
    monkeypatch.setattr(channel, "FORGET_S", -1)
    opened(cluster).close()
    assert len(cluster.known) == 2
    assert "r" in cluster.known
    eventually(cluster.is_clean)


def test_input_reaches_the_command_and_ends(cluster: Cluster, run: Path, tmp_path: Path) -> None:
    del run
    (tmp_path / "input").write_bytes(os.urandom(700_000))
    with open(tmp_path / "input", "rb") as file:
        assert captured(cluster, "cat", source=file.fileno()) == ((tmp_path / "input").read_bytes(), 0)
    eventually(cluster.is_clean)


def test_a_client_that_is_gone_ends_the_command(cluster: Cluster, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says so: its lease ends."""
    del run
    mark = unique_mark()
    session = NodeSession(NODE.name, opened(cluster))
    eventually(lambda: session.workers(NODE.run_id))
    session.ask({"do": "exec", "run": NODE.run_id, "words": ["sh", "-c", f"sleep 1000.{mark} & sleep 1001.{mark}"]})
    eventually(lambda: len(processes_with(mark)) == 2)
    cluster.refuses = True
    monkeypatch.setattr(messages, "LEASE_S", 0.5)  # not before: a busy machine may take seconds to start it
    eventually(lambda: not processes_with(mark))
    eventually(cluster.is_clean)
    with pytest.raises(UmiakError, match="the connection was lost"):
        captured_rest(session)
    session.close()


def test_a_dashboard_that_goes_is_a_lost_connection(
    cluster: Cluster, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del run
    session = NodeSession(NODE.name, opened(cluster))
    cluster.is_gone = cluster.refuses = True
    monkeypatch.setattr(messages, "LEASE_S", 0.5)
    with pytest.raises(UmiakError, match="the connection was lost") as caught:
        captured_rest(session)
    assert "nobody is there" in str(caught.value.problems[0].why)
    session.close()
    eventually(cluster.is_clean)


@pytest.mark.parametrize("name", ["trainer.7", "link"])
def test_a_node_without_the_run_says_so(cluster: Cluster, run: Path, name: str) -> None:
    (run.parent / "link").symlink_to("/etc")
    node = JobNode(run_id=NODE.run_id, name=name, address="5d1c")
    with pytest.raises(UmiakError) as caught:
        opened(cluster, node)
    assert caught.value.problems[0].code == ("UM-SUBMIT-490" if name == "trainer.7" else "UM-SUBMIT-491")
    eventually(cluster.is_clean)


def test_a_driver_that_fails_is_told_with_its_last_words(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(body: dict[str, Any]) -> None:
        cluster.known[body["submission_id"]] = {"status": "FAILED", "driver_node_id": "head"}

    monkeypatch.setattr(cluster, "start", start)
    with pytest.raises(UmiakError) as caught:
        opened(cluster)
    assert caught.value.problems[0].code == "UM-SUBMIT-491"
    assert "last words" in str(caught.value.problems[0].why)
