"""What the place `ray` decides: bundles, requests, states, lines; and how it treats a dashboard that answers badly."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import GOLDEN
from umiak import platforms
from umiak.core import node_report
from umiak.core.backoff import RetryPolicy
from umiak.core.bundle import shown
from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import FileSet, Handle, Job, Replicas, Resource, RoleSpec
from umiak.core.node_report import NodeReport
from umiak.core.problem import UmiakError
from umiak.core.status import State
from umiak.core.value import replace
from umiak.submit import places
from umiak.submit.backend import AnswerLost, LogLine, LogsWanted, Secrets, Submission, SubmitContext
from umiak.submit.backends.ray import backend, package, plan, state
from umiak.submit.backends.ray.log_lines import LogParser
from umiak.submit.backends.ray.run_driver import exit_code_of, tagged
from umiak.submit.backends.ray.sessions import messages
from umiak.submit.backends.ray.sessions import nodes as found_nodes
from umiak.submit.backends.ray.settings import RaySettings
from umiak.submit.payload import file_set
from umiak.submit.registry import BackendNames

SETTINGS = RaySettings(address="http://head:8265")


def nodes(count: int) -> Replicas:
    return Replicas(least=count, most=count)


PS = Job(
    name="ctr",
    command=("train.py",),
    roles=(
        RoleSpec(role=Role.SERVER, nodes=nodes(2), env=(("SHARDS", "2"),)),
        RoleSpec(nodes=nodes(3), workers=2, resource=Resource(cpus=4, memory_bytes=1 << 30, devices=2)),
    ),
    time_limit_s=60,
)


def made(directory: Path, text: str = 'address = "http://head:8265"', **environ: str) -> backend.RayBackend:
    reading = places.read([("umiak.toml", f'[place.lab]\nbackend = "ray"\n{text}\n')], BackendNames())
    assert not reading.problems
    context = SubmitContext(environ=environ, directory=str(directory), state_directory=str(directory / "state"))
    return backend.make(reading.places["lab"], context)


def codes(error: UmiakError) -> list[str]:
    return [problem.code for problem in error.problems]


# ---- settings


def test_everything_wrong_with_a_place_is_told_at_once(tmp_path: Path) -> None:
    wrong = 'adress = "x"\nstrategy = "ANYWHERE"\nresources = {disk = "much"}\ndirectory = "runs"\nverify_tls = 1'
    with pytest.raises(UmiakError) as caught:
        made(tmp_path, wrong)
    told = "\n".join(line for problem in caught.value.problems for line in problem.lines())
    for part in (
        "did you mean `address`",
        "ANYWHERE",
        "disk",
        "expected an absolute path, got runs",
        "verify_tls must be",
    ):
        assert part in told
    assert "umiak.toml:3:" in told


@pytest.mark.parametrize("address", ["head:8265", "ray://head:10001", "http://", "http://me:hush@head:8265"])
def test_an_address_is_that_of_a_dashboard(tmp_path: Path, address: str) -> None:
    with pytest.raises(UmiakError) as caught:
        made(tmp_path, f'address = "{address}"')
    assert "hush" not in str(caught.value)


# ---- rendering


def test_the_bundle_is_what_it_was(tmp_path: Path) -> None:
    text = 'address = "http://head:8265"\nstrategy = "STRICT_SPREAD"\nresources = {fast_disk = 1}\npython = "/opt/ray/bin/python"'
    rendered = shown(made(tmp_path, text).render(replace(PS, files=FileSet()), "ctr-3f2a9c"))
    assert rendered == (GOLDEN / "bundles" / "submit_ray.txt").read_text()


def test_bundles_have_what_a_node_needs() -> None:
    run = plan.run_of(PS, "ctr-1", replace(SETTINGS, resources=(("disk", 1.0),)))
    trainers = [f"trainer.{number}" for number in range(6)]  # with roles, every worker has a launcher of its own
    assert [each.name for each in run.nodes] == ["server.0", "server.1", *trainers]
    assert dict(run.nodes[0].bundle) == {"CPU": 1, "disk": 1}
    assert dict(run.nodes[4].bundle) == {"CPU": 2, "GPU": 1, "memory": 1 << 29, "disk": 1}
    (alone,) = plan.run_of(replace(PS, roles=(replace(PS.roles[1], nodes=nodes(1)),)), "ctr-1", SETTINGS).nodes
    assert dict(alone.bundle) == {"CPU": 4, "GPU": 2, "memory": 1 << 30}
    assert plan.from_text(run.text()) == run


@pytest.mark.parametrize(("device", "word"), [(None, "GPU"), (DeviceKind.DCU, "GPU"), (DeviceKind.NPU, "NPU")])
def test_devices_in_words_of_ray(device: DeviceKind | None, word: str) -> None:
    role = RoleSpec(resource=Resource(devices=1, device=device))
    assert dict(plan.bundle_of(role, SETTINGS))[word] == 1
    assert dict(plan.bundle_of(role, replace(SETTINGS, device_resource="Accel")))["Accel"] == 1


# ---- the law


@pytest.mark.parametrize(
    "made_job",
    [PS, Job(name="a", command=("x.py",)), Job(name="a", command=("x.py",), roles=(RoleSpec(nodes=nodes(3)),))],
)
@pytest.mark.parametrize("hosts", [[f"10.0.0.{number}" for number in range(1, 9)], ["10.0.0.1"] * 8])
def test_platforms_reads_back_what_nodes_are_told(made_job: Job, hosts: list[str]) -> None:
    run = plan.run_of(made_job, "ctr-1", SETTINGS)
    used = hosts[: len(run.nodes)]
    for rank in range(len(run.nodes)):
        meant = plan.placement(run, rank, used, "10.0.0.1:7000")
        found = platforms.detect(plan.environment(run, rank, used, "10.0.0.1:7000"))
        assert found is not None
        assert replace(found, reason="") == meant
        assert (found.nodes, found.rank) == (len(run.nodes), rank)


# ---- checking


def test_what_keeps_a_job_from_ray_is_told_at_once(tmp_path: Path) -> None:
    bad = Job(
        name="a",
        command=("train.py",),
        roles=(
            RoleSpec(role=Role.SERVER),
            RoleSpec(nodes=Replicas(least=1, most=2), resource=Resource(devices=1, device=DeviceKind.XPU)),
        ),
        secrets=("DB_PASSWORD",),
    )
    found = made(tmp_path, RAY_JOB_HEADERS="no json", DB_PASSWORD="hush-hush-hush").check(bad)
    told = "\n".join(line for problem in found for line in problem.lines())
    assert [each.code for each in found] == [f"UM-SUBMIT-{number}" for number in (332, 323, 324, 325)]
    assert "hush" not in told
    (tmp_path / "train.py").touch()
    assert made(tmp_path).check(Job(name="a", command=("./train.py",))) == []
    elastic = Job(name="a", command=("./train.py",), roles=(RoleSpec(nodes=Replicas(least=1, most=2)),))
    assert made(tmp_path).check(elastic) == []
    missing = made(tmp_path).check(Job(name="a", command=("other.py",)))
    assert [each.code for each in missing] == ["UM-SUBMIT-326"]


def test_more_than_ray_takes_is_refused_before_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST_PACKAGE_BYTES", 1 << 17)
    (tmp_path / "noise").write_bytes(os.urandom(1 << 18))
    with pytest.raises(UmiakError) as caught:
        package.pack_files(file_set.collect(FileSet(), str(tmp_path)), "files.tar.gz")
    assert codes(caught.value) == ["UM-SUBMIT-327"]


def test_packages_are_known_by_their_content() -> None:
    first, again = package.pack({"b": b"2", "a": b"1"}), package.pack({"a": b"1", "b": b"2"})
    assert first == again
    assert package.pack({"a": b"1", "b": b"3"}).name != first.name


# ---- states


def told(**more: object) -> dict[str, object]:
    return {"status": "RUNNING", "start_time": 5000, "driver_exit_code": None, **more}


def test_a_run_that_waits_for_resources_says_so() -> None:
    group = {
        "state": "PENDING",
        "bundles": [{"unit_resources": {"CPU": 8.0, "GPU": 1.0}}] * 2,
        "stats": {"scheduling_state": "INFEASIBLE"},
    }
    status = state.status_of(told(), [group])
    assert status is not None
    assert (status.state, status.said) == (State.QUEUED, "RUNNING")
    assert status.reason == "no nodes of the cluster can hold it: 2 x (CPU 8, GPU 1) (INFEASIBLE)"


@pytest.mark.parametrize(
    ("job", "expected", "code"),
    [
        (told(status="PENDING"), State.QUEUED, None),
        (told(), State.STARTING, None),
        (told(status="SUCCEEDED", driver_exit_code=0, end_time=9000), State.SUCCEEDED, 0),
        (told(status="FAILED", driver_exit_code=7, error_type="JOB_ENTRYPOINT_COMMAND_ERROR"), State.FAILED, 7),
        (told(status="FAILED", driver_exit_code=-9, error_type="JOB_ENTRYPOINT_COMMAND_ERROR"), State.FAILED, 137),
        (told(status="STOPPED"), State.CANCELLED, 143),
    ],
)
def test_states_of_ray(job: dict[str, object], expected: State, code: int | None) -> None:
    status = state.status_of(job)
    assert status is not None
    assert (status.state, status.exit_code) == (expected, code)


def test_a_word_that_ray_never_said_before() -> None:
    assert state.status_of(told(status="DREAMING")) is None


def test_nodes_are_seen_by_their_actors() -> None:
    rows = [{"name": "ctr-1/trainer.0", "state": "ALIVE"}, {"name": "ctr-1/server.1", "state": "PENDING_CREATION"}]
    status = state.status_of(told(), [{"state": "CREATED"}], rows)
    assert status is not None
    assert [(each.name, each.role, each.rank, each.state) for each in status.nodes] == [
        ("server.1", Role.SERVER, 1, State.STARTING),
        ("trainer.0", Role.TRAINER, 0, State.RUNNING),
    ]


def test_nodes_are_found_while_they_live_and_after_their_end() -> None:
    handle = Handle(backend="ray", place="lab", id="r")
    lines = 'trainer.10 {"ray_node": "b"}\ntrainer.2 {"ray_node": "a"}\nnonsense\ntrainer.2 [1]\ntrainer.2 {"ray_node": "c"}\n'
    assert [(each.name, each.address) for each in found_nodes.recorded(lines, handle)] == [
        ("trainer.2", "c"),
        ("trainer.10", "b"),
    ]
    assert state.reports_in(lines) == {}, "they are no reports"
    actors = [
        {"name": "r/trainer.1", "state": "DEAD", "node_id": "a"},
        {"name": "r/trainer.1", "state": "ALIVE", "node_id": "b"},
        {"name": "r/trainer.0", "state": "PENDING_CREATION", "node_id": None},
    ]
    (living,) = found_nodes.living(actors, handle)
    assert (living.name, living.address) == ("trainer.1", "b")
    assert [each.node_number for each in found_nodes.roots_of([living])] == [0]
    for call in (lambda: found_nodes.recorded("", handle), lambda: found_nodes.living([], handle)):
        with pytest.raises(UmiakError):
            call()


def test_a_session_is_a_job_that_is_no_run() -> None:
    order = messages.SessionOrder(session="r-session-1", ray_node="5d", run_id="r", name="trainer.0", directory="/a b")
    body = messages.request(order, "/opt/my ray/python", "_umiak_x.zip")
    words = shlex.split(body["entrypoint"])
    assert words[:3] == ["exec", "/opt/my ray/python", plan.LAUNCHER]
    assert messages.from_text(words[-1]) == order
    assert plan.MARK not in body["metadata"], "`umiak list` would show it"
    assert body["submission_id"] == "r-session-1"


def test_what_the_driver_has_written_about_nodes_is_told() -> None:
    runs = NodeReport(state=State.RUNNING, host="10.0.0.2", restarts=1, reason="trainer 1 failed")
    text = "".join(
        f"{name} {node_report.text_of(report)}"
        for name, report in (
            ("trainer.0", replace(runs, state=State.RESTARTING)),
            ("trainer.10", runs),
            ("trainer.2", replace(runs, state=State.RESTARTING, reason="trainer 2 failed")),
            ("trainer.0", runs),
        )
    )
    known = state.reports_in(f"what Ray says\n{text}trainer.0 {{half a li")
    assert list(known) == ["trainer.0", "trainer.10", "trainer.2"]
    rows = [{"name": "ctr-1/trainer.0", "state": each} for each in ("DEAD", "ALIVE", "DEAD")]
    status = state.status_of(told(), [{"state": "CREATED"}], rows, known)
    assert status is not None
    assert (status.state, status.reason) == (State.RESTARTING, "trainer 2 failed")
    assert [(each.name, each.state) for each in status.nodes] == [
        ("trainer.0", State.RUNNING),
        ("trainer.2", State.RESTARTING),
        ("trainer.10", State.RUNNING),
    ]
    # Ray looks for room for a lost node, and the others go on.
    status = state.status_of(told(), [{"state": "RESCHEDULING"}], [], {"trainer.0": runs})
    assert status is not None
    assert status.state is State.RUNNING
    ended = replace(runs, state=State.FAILED, exit_code=7, reason="trainer 1 failed with exit code 7")
    job = told(status="FAILED", driver_exit_code=7, error_type="JOB_ENTRYPOINT_COMMAND_ERROR")
    status = state.status_of(job, reports={"trainer.1": ended})
    assert status is not None
    assert status.reason == "exit code 7: trainer 1 failed with exit code 7"
    assert [(each.name, each.host, each.exit_code) for each in status.nodes] == [("trainer.1", "10.0.0.2", 7)]


# ---- lines

LOG = b"Ray says\n[driver] on node0\n[trainer.0] one\n[launcher.trainer.0] LAUNCH x\n[server.1] [brackets]\n[trainer.0] two\n"


def lines(parser: LogParser, data: bytes) -> list[tuple[str, str]]:
    return [(each.source, each.text) for each in parser.feed(data)]


def test_a_log_in_pieces_is_taken_apart() -> None:
    whole = lines(LogParser(LogsWanted()), LOG)
    assert whole == [
        ("ray", "Ray says"),
        ("driver", "on node0"),
        ("trainer.0", "one"),
        ("launcher.trainer.0", "LAUNCH x"),
        ("server.1", "[brackets]"),
        ("trainer.0", "two"),
    ]
    parser = LogParser(LogsWanted())
    assert [line for number in range(len(LOG)) for line in lines(parser, LOG[number : number + 1])] == whole
    parser.restart()
    assert lines(parser, LOG + b"[trainer.0] three\n[driver] half") == [("trainer.0", "three")]
    assert [each.text for each in parser.end()] == ["half"]
    assert lines(LogParser(LogsWanted(rank=0)), LOG) == [("trainer.0", "one"), ("trainer.0", "two")]
    assert lines(LogParser(LogsWanted(role=Role.SERVER)), LOG) == [("server.1", "[brackets]")]


def test_reading_goes_on_behind_every_line() -> None:
    found: list[LogLine] = list(LogParser(LogsWanted()).feed(LOG))
    for count in range(len(found) + 1):
        after = {each.source: each.position for each in found[:count]}
        assert list(LogParser(LogsWanted(after=after)).feed(LOG)) == found[count:]


def test_lines_of_workers_keep_their_tag() -> None:
    assert tagged("[trainer 1] [x]", "trainer.0") == "[trainer.1] [x]"
    assert tagged("LAUNCH INFO x", "server.0") == "[launcher.server.0] LAUNCH INFO x"


# ---- a dashboard that answers badly


class Dashboard:
    """Has jobs; the first answers to requests that start one are as the test says."""

    def __init__(self, *faults: str) -> None:
        self.faults = list(faults)
        self.jobs: dict[str, Any] = {}
        self.starts = 0
        self.seen: list[tuple[str, str]] = []
        self.packages: set[str] = set()


@contextlib.contextmanager
def served(board: Dashboard) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            board.seen.append(("GET", self.path))
            name = self.path.rpartition("/")[2]
            if self.headers.get("X-Pass", "") != "open":
                self._say(401, {})
            elif "/packages/" in self.path:
                self._say(200 if name in board.packages else 404, {})
            else:
                self._say(200 if name in board.jobs else 404, board.jobs.get(name, {}))

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            board.seen.append(("PUT", self.path))
            board.packages.add(self.path.rpartition("/")[2])
            self._say(200, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            board.seen.append(("POST", self.path))
            fault = board.faults.pop(0) if board.faults else ""
            if "started" in fault or not fault:
                assert body["submission_id"] not in board.jobs
                board.jobs[body["submission_id"]] = {**body, "status": "PENDING"}
                board.starts += 1
            if "cut" in fault:
                self.close_connection = True
            else:
                self._say(500 if fault else 200, "Traceback\nValueError: no agent\n" if fault else {})

        def _say(self, status: int, data: object) -> None:
            text = (data if isinstance(data, str) else json.dumps(data)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def submitted(made_backend: backend.RayBackend, run_id: str = "a-1") -> str:
    job = Job(name="a", command=("train.py",))
    sent = Submission(
        run_id=run_id, job=job, bundle=made_backend.render(job, run_id), secrets=Secrets(UMIAK_TOKEN="hush" * 8)
    )
    return str(made_backend.submit(sent))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    return tmp_path


HEADERS = {"RAY_JOB_HEADERS": '{"X-Pass": "open"}'}


@pytest.mark.parametrize("fault", ["started, cut", "started, 500"])
def test_a_lost_answer_starts_nothing_twice(project: Path, fault: str) -> None:
    board = Dashboard(fault)
    with served(board) as address:
        place = made(project, f'address = "{address}"', **HEADERS)
        assert submitted(place) == "ray://lab/a-1"
        assert submitted(place) == "ray://lab/a-1"
    assert board.starts == 1
    assert "hush" not in json.dumps(board.jobs)


def test_a_request_that_vanished_is_a_lost_answer(project: Path) -> None:
    board = Dashboard("cut")
    with served(board) as address:
        place = made(project, f'address = "{address}"', **HEADERS)
        with pytest.raises(AnswerLost):
            submitted(place)
        submitted(place)
    assert board.starts == 1


def test_a_refusal_says_why_and_the_files_are_sent_once(project: Path) -> None:
    board = Dashboard("500")
    with served(board) as address:
        place = made(project, f'address = "{address}"', **HEADERS)
        with pytest.raises(UmiakError) as caught:
            submitted(place)
        assert not isinstance(caught.value, AnswerLost)
        assert "ValueError: no agent" in str(caught.value.problems[0].why)
        sent = sum(way == "PUT" for way, _ in board.seen)
        submitted(place)
        assert sum(way == "PUT" for way, _ in board.seen) == sent
        submitted(place, "a-2")
        assert sum(way == "PUT" for way, _ in board.seen) == sent + 1  # the run's own, not the job's files
        with pytest.raises(UmiakError) as refused:
            submitted(made(project, f'address = "{address}"', RAY_JOB_HEADERS='{"X-Pass": "secret-word"}'))
        assert "RAY_AUTH_TOKEN" in str(refused.value.problems[0].hint)
        assert "secret-word" not in str(refused.value.problems)


def test_nobody_there_is_no_lost_answer(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umiak.adapters.stores.http_retry.POLICY", RetryPolicy(first_s=0.0, attempts=1))
    with pytest.raises(UmiakError) as caught:
        submitted(made(project, 'address = "http://127.0.0.1:1"'))
    assert not isinstance(caught.value, AnswerLost)
    assert codes(caught.value) == ["UM-SUBMIT-331"]


@pytest.mark.parametrize(
    ("codes", "has_lost", "expected"),
    [
        pytest.param([143, 1], True, 1, id="the others were told to stop before the loss was known"),
        pytest.param([7, 143, 1], True, 7, id="a failure before"),
        pytest.param([143, 143], False, 143, id="somebody stopped the run"),
        pytest.param([0, 0], False, 0, id="done"),
    ],
)
def test_a_lost_node_is_the_cause_of_what_its_peers_do(codes: list[int], has_lost: bool, expected: int) -> None:
    assert exit_code_of(codes, has_lost=has_lost) == expected


def test_the_reason_of_a_run_is_the_loss_and_not_its_consequence() -> None:
    told = state.status_of(
        {"status": "FAILED", "driver_exit_code": 1, "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR"},
        reports={
            "trainer.0": NodeReport(
                state=State.FAILED, reason="told to stop by signal 15", exit_code=143, changed_s=1.0
            ),
            "trainer.1": NodeReport(state=State.LOST, reason="trainer.1 was lost: it died", changed_s=2.0),
        },
    )
    assert told is not None
    assert told.reason == "exit code 1: trainer.1 was lost: it died"
