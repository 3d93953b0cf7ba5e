"""`umiak launch --check` for real: launchers that meet on loopback and on hosts whose links are cut, and unwelcome guests."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.pytest_support import NetworkFactory
from tests.integration.launching import LAUNCH, Launcher, Stage, free_port
from tests.support import run_until
from umiak.adapters import link as links
from umiak.adapters.loop import Loop
from umiak.core.cluster import Role
from umiak.core.decode import encode_tagged
from umiak.core.value import replace
from umiak.launch.preflight import collector, doors, prober
from umiak.launch.preflight.errand import Errand, Result
from umiak.launch.preflight.examination import Verdict
from umiak.launch.preflight.member import Member
from umiak.launch.preflight.messages import AskTime, Facts, Here, Probed, Report
from umiak.launch.preflight.post import Post

SECRET = {"UMIAK_TOKEN": "a secret of all nodes"}


def check(stage: Stage, flags: str, *program: str, text: str | None = "print(1)\n", **more: Any) -> Launcher:
    """A launcher with --check in a directory that holds train.py with this text."""
    directory = stage.directory / f"node{len(stage.launchers)}"
    directory.mkdir()
    if text is not None:
        (directory / "train.py").write_text(text)
    command = [*LAUNCH, "--check", *flags.split(), *program]
    return stage.start(command, cwd=directory, **{"env": SECRET, **more})


def table_of(launcher: Launcher) -> list[str]:
    """What it showed on standard output: nothing but the table."""
    lines = launcher.stdout.splitlines()
    assert lines[0].startswith("node  host ")
    assert lines[-1].startswith("verdict: ")
    return lines


# ---- one machine


def test_one_node(stage: Stage) -> None:
    launcher = check(stage, "--nproc_per_node 3", "train.py")
    assert launcher.wait() == 0
    lines = table_of(launcher)
    assert lines[1].startswith("0     127.0.0.1 ")
    assert "one node, no connections to try" in lines
    assert lines[-1].startswith("verdict: ready")
    assert "the job is done" not in launcher.stderr
    assert launcher.log("workerlog.0") == launcher.stdout


def test_one_node_with_servers_and_without_a_program(stage: Stage) -> None:
    launcher = check(stage, "--server_num 2 --trainer_num 2", text=None)
    assert launcher.wait() == 0
    assert table_of(launcher)[1].endswith(" -")


def test_two_launchers(stage: Stage) -> None:
    flags = f"--nnodes 2 --nproc_per_node 2 --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py")
    assert first.wait() == second.wait() == 0
    shown, silent = (first, second) if first.stdout else (second, first)
    # Each of two nodes tries two workers of the other, and one of them the store as well.
    assert "all 5 connections work" in table_of(shown)
    assert silent.stdout == ""
    assert "all 5 connections work; the whole table is on the console of 127.0.0.1" in silent.stderr


def test_json_is_all_that_is_on_standard_output(stage: Stage) -> None:
    flags = f"--json --nnodes 2 --server_num 1 --trainer_num 1 --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py")
    assert first.wait() == second.wait() == 0
    found = json.loads(first.stdout or second.stdout)
    assert first.stdout == "" or second.stdout == ""
    assert found["ready"] is True
    assert [node["node"] for node in found["nodes"]] == [0, 1]
    assert found["connections"]["failed"] == 0
    assert found["nodes"][0]["program_sha256"] == found["nodes"][1]["program_sha256"]


def test_launchers_that_may_need_one_another_later_are_tried_as_well(stage: Stage) -> None:
    flags = f"--json --nnodes 2 --max_restart 1 --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py")
    assert first.wait() == second.wait() == 0
    # Two workers, the store, and two launchers.
    assert json.loads(first.stdout or second.stdout)["connections"]["tried"] == 5


def test_different_scripts(stage: Stage) -> None:
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py", text="print(2)\n")
    assert first.wait() == second.wait() == 3
    shown, silent = (first, second) if first.stdout else (second, first)
    what = "the contents of train.py differ: "
    assert any(line.startswith(f"error: {what}") for line in table_of(shown))
    assert table_of(shown)[-1].startswith("verdict: not ready, 1 problem")
    # One cause on each console, and no word of failed trainers.
    assert [line for line in shown.stderr.splitlines() if line.startswith("error:")] == [
        f"error: the nodes are {table_of(shown)[-1].removeprefix('verdict: ')} [UM-CHECK-001]"
    ]
    errors = [line for line in silent.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: the nodes are not ready: {what}")
    assert "exit code" not in first.stderr + second.stderr


def test_a_script_that_is_missing_on_one_node(stage: Stage) -> None:
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()}"
    launchers = [check(stage, flags, "train.py"), check(stage, flags, "train.py", text=None)]
    assert [launcher.wait() for launcher in launchers] == [3, 3]
    assert "there is no train.py on: 127.0.0.1 (node " in "".join(launcher.stdout for launcher in launchers)


def test_nodes_share_a_log_directory(stage: Stage) -> None:
    flags = f"--nnodes 2 --log_dir {stage.directory / 'shared'} --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py")
    assert first.wait() == second.wait() == 0
    assert bool(first.stdout) != bool(second.stdout)


def test_a_node_without_check_is_turned_away(stage: Stage) -> None:
    master = f"127.0.0.1:{free_port()}"
    first = check(stage, f"--nnodes 2 --join_timeout 2 --master {master}", "train.py")
    first.expect("waiting for 1 of 2 nodes") if "waiting" in first.said else first.expect("Configuration")
    second = stage.launch(f"--nnodes 2 --join_timeout 30 --master {master}", host=None, env=SECRET)
    assert second.wait() == 3
    assert "default.check" in second.stderr
    assert first.wait() == 3
    assert first.stdout == ""


def test_a_signal_ends_it(stage: Stage) -> None:
    launcher = check(stage, f"--nnodes 2 --master 127.0.0.1:{free_port()}", "train.py")
    launcher.expect("Configuration")
    launcher.signal(2)
    assert launcher.wait() == 130


# ---- hosts whose links are cut


@pytest.mark.netns
def test_a_cut_pair_is_named_everywhere(stage: Stage, network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    net.cut(b, c)
    flags = f"--nnodes 3 --nproc_per_node 2 --sort_ip --master {a.address}:8090"
    launchers = [check(stage, flags, "train.py", host=host) for host in net.hosts]
    assert [launcher.wait() for launcher in launchers] == [3, 3, 3]
    ports = [_ports(launcher) for launcher in launchers]
    pairs = [
        f"{b.address} -> {c.address}:{ports[2][0]},{ports[2][1]}: timed out",
        f"{c.address} -> {b.address}:{ports[1][0]},{ports[1][1]}: timed out",
    ]
    lines = table_of(launchers[0])
    # 4 workers of others for each of three nodes, and the store for two.
    at = lines.index("10 of 14 connections work; these do not:")
    assert lines[at + 1 : at + 3] == [f"  {pair}" for pair in pairs]
    assert lines[-1].startswith("verdict: not ready, 2 problems")
    for launcher in launchers[1:]:
        assert launcher.stdout == ""
        assert f"error: the nodes are not ready: {pairs[0]}, and 1 more problem [UM-CHECK-001]" in launcher.stderr
        assert f"hint: the whole table is on the console of {a.address}" in launcher.stderr


@pytest.mark.netns
def test_servers_ports_are_tried_as_well(stage: Stage, network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    flags = f"--servers {a.address}:6000 --trainers {b.address}:6001,{b.address}:6002 --json"
    launchers = [check(stage, flags, "train.py", host=host) for host in net.hosts]
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    found = json.loads(launchers[1].stdout)
    # From the server's node two trainers and their store; from the trainers' the server and the store of its barrier.
    assert found["connections"] == {"tried": 5, "failed": 0, "pairs": []}
    assert "the whole table is on the console of " in launchers[0].stderr


@pytest.mark.netns
def test_a_node_that_can_t_reach_the_first_trainer(stage: Stage, network: NetworkFactory) -> None:
    """The launchers meet at the third host, so they do meet, but the first host's store is out of the second's reach."""
    net = network(3)
    a, b, c = net.hosts
    net.cut(a, b)
    flags = f"--nnodes 3 --sort_ip --join_timeout 6 --master {c.address}:8090"
    launchers = [check(stage, flags, "train.py", host=host) for host in net.hosts]
    assert [launcher.wait() for launcher in launchers] == [3, 3, 3]
    store = _contract(launchers[0])["UMIAK_STORE"]
    assert f"error: {b.address} can't connect to {store}: timed out [UM-CHECK-002]" in launchers[1].stderr
    assert launchers[1].stdout == ""
    lines = table_of(launchers[0])
    assert f"?     {b.address}  did not report" in lines
    assert f"error: no report from {b.address} within 6 s: trainer 1 [UM-CHECK-101]" in lines
    assert f"  {a.address} -> {b.address}:{_ports(launchers[1])[0]}: timed out" in lines
    # The third node still reaches the second, whose worker must not have gone away.
    assert not any(line.startswith(f"  {c.address} -> ") for line in lines)
    assert "the nodes are not ready" in launchers[2].stderr


@pytest.mark.netns
def test_launchers_that_can_t_meet_say_so_as_always(stage: Stage, network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    net.cut(a, b)
    flags = f"--nnodes 2 --join_timeout 2 --master {a.address}:8090"
    launchers = [check(stage, flags, host=host) for host in net.hosts]
    assert [launcher.wait() for launcher in launchers] == [3, 3]
    assert "gave up after --join_timeout 2" in launchers[0].stderr
    assert f"no master at {a.address}:8090" in launchers[1].stderr


def _contract(launcher: Launcher, key: str = "trainer.0") -> dict[str, str]:
    pairs = [line.partition("=") for line in launcher.log(f"envlog.{key}").splitlines()]
    return {name: text for name, _, text in pairs}


def _ports(launcher: Launcher) -> list[int]:
    """The ports of this node's trainers."""
    keys = sorted(path.name.removeprefix("envlog.") for path in launcher.log_dir.glob("envlog.trainer.*"))
    return [int(_contract(launcher, key)["UMIAK_ENDPOINT"].rpartition(":")[2]) for key in keys]


# ---- the talk between workers, on one loop

FACTS = Facts(
    hostname="here",
    own_address="10.0.0.1",
    umiak="0.1.0",
    python="3.11.7",
    frameworks={},
    device_kind="",
    device_count=0,
    program="",
    program_hash="",
    log_dir="/log",
    log_writable=True,
    log_free_bytes=2**40,
    shm_bytes=2**40,
    open_files=10**6,
    token=True,
)


class Exam:
    """A collector for a job of so many trainers, each a node, and whatever the test lets come to it."""

    def __init__(self, trainers: int, *, patience_s: float = 30.0) -> None:
        self.loop = Loop()
        self.verdict: Verdict | None = None
        self.over = 0
        self.results: list[Result] = []
        self.ended: list[int] = []
        ports = [free_port() for _ in range(trainers + 1)]
        self.store = f"127.0.0.1:{ports.pop()}"
        self.endpoints = tuple(f"127.0.0.1:{port}" for port in ports)
        self.patience_s = patience_s
        self.collector = collector.Collector(
            self.loop,
            endpoints={Role.TRAINER: self.endpoints},
            store=self.store,
            patience_s=patience_s,
            on_verdict=lambda verdict: setattr(self, "verdict", verdict),
            on_over=lambda: setattr(self, "over", self.over + 1),
        )
        doors.Door(self.loop, self.store, "n0", self.collector.welcome)

    def post(self, rank: int) -> Post:
        return Post(
            node=f"n{rank}",
            node_rank=rank,
            host="127.0.0.1",
            role=Role.TRAINER,
            rank=rank,
            key="trainer.0",
            endpoint=self.endpoints[rank],
            store=self.store,
            gloo="",
            endpoints={Role.SERVER: (), Role.TRAINER: self.endpoints, Role.HETER: ()},
        )

    def member(self, rank: int, *, listens: bool = True, patience_s: float | None = None, **post: Any) -> None:
        if listens:
            doors.Door(self.loop, self.endpoints[rank], f"n{rank}", lambda _guest: None)
        Member(
            self.loop,
            replace(self.post(rank), **post),
            Errand(result_fd=-1, first="trainer.0", patience_s=patience_s or self.patience_s),
            FACTS,
            doors.Addresses(),
            on_result=self.results.append,
            on_over=lambda: self.ended.append(rank),
        )

    def report(self, rank: int, **more: Any) -> Report:
        made = Report(
            node=f"n{rank}",
            node_rank=rank,
            host="127.0.0.1",
            role=Role.TRAINER,
            rank=rank,
            doors=self.endpoints[rank : rank + 1],
            clock_offset_s=0.0,
            round_trip_s=0.0,
            facts=FACTS,
        )
        return replace(made, **more)

    def guest(self, *words: bytes) -> socket.socket:
        """Somebody who connects to the collector and says this."""
        host, _, port = self.store.rpartition(":")
        sock = socket.create_connection((host, int(port)), timeout=10)
        for each in words:
            sock.sendall(each)
        sock.setblocking(False)
        return sock

    def until(self, happened: Callable[[], Any]) -> None:
        run_until(self.loop, happened)

    def is_hung_up_on(self, sock: socket.socket) -> bool:
        """Whether the collector has closed this connection; what it said before is read away."""
        try:
            while sock.recv(65536):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        return True


def said(message: object) -> bytes:
    return links.frame(encode_tagged(message))


def test_members_and_collector() -> None:
    exam = Exam(3)
    for rank in range(3):
        exam.member(rank)
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    assert exam.verdict.ready
    assert (exam.verdict.tried, exam.verdict.failed) == (8, 0)
    assert sorted(exam.ended) == [0, 1, 2]
    # The collector's own node hears it from the collector, the others from their members.
    assert [result.final for result in exam.results] == [True, True]
    assert all(abs(row.skew_s) < 1 for row in exam.verdict.rows)


def test_a_worker_that_does_not_listen_is_refused() -> None:
    exam = Exam(2)
    exam.member(0)
    exam.member(1, listens=False)
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    port = exam.endpoints[1].rpartition(":")[2]
    assert [str(pair) for pair in exam.verdict.pairs] == [f"127.0.0.1 (node 0) -> 127.0.0.1:{port}: refused"]
    assert [result.problem.code for result in exam.results if result.problem] == ["UM-CHECK-001"]


def test_the_collector_does_not_wait_for_ever() -> None:
    exam = Exam(2, patience_s=0.5)
    exam.member(0)
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    assert [finding.code for finding in exam.verdict.findings] == ["UM-CHECK-101"]
    assert exam.ended == [0]


def test_a_worker_that_came_too_late_is_told() -> None:
    exam = Exam(2, patience_s=0.2)
    exam.until(lambda: exam.over)
    exam.member(1, patience_s=30.0)
    exam.until(lambda: exam.ended)
    assert [result.final for result in exam.results] == [True]
    assert exam.results[0].problem is not None
    assert "the report of 127.0.0.1 came too late" in exam.results[0].problem.what
    assert exam.over == 1


def test_a_collector_that_is_not_there() -> None:
    exam = Exam(1)
    nowhere = f"127.0.0.1:{free_port()}"
    exam.member(0, store=nowhere, patience_s=0.2)
    exam.until(lambda: exam.results)
    problem = exam.results[0].problem
    assert problem is not None
    assert (problem.code, problem.what) == ("UM-CHECK-002", f"127.0.0.1 can't connect to {nowhere}: refused")
    assert not exam.results[0].final
    exam.until(lambda: exam.ended)


def test_a_server_goes_on_trying_until_it_is_ended() -> None:
    exam = Exam(1)
    nowhere = f"127.0.0.1:{free_port()}"
    exam.member(0, store=nowhere, patience_s=0.01, role=Role.SERVER)
    exam.until(lambda: exam.results)
    late = doors.Door(exam.loop, nowhere, "n9", exam.collector.welcome)
    # It is no seat of this job, so it is reached and turned away: that is the end.
    exam.until(lambda: len(exam.results) > 1)
    assert exam.results[-1].problem is not None
    assert "went away" in exam.results[-1].problem.what
    late.close()


def test_somebody_else_at_the_collector_s_address() -> None:
    exam = Exam(1)
    wrong = f"127.0.0.1:{free_port()}"
    host, _, port = wrong.rpartition(":")
    sock = links.listen(host, int(port))
    guests: list[socket.socket] = []
    sock.setblocking(False)

    def answer() -> None:
        guests.append(sock.accept()[0])
        guests[-1].sendall(
            said(Here(node="n7", endpoint="10.9.9.9:1")) if len(guests) == 1 else b"HTTP/1.1 400 Bad\r\n\r\n"
        )

    exam.loop.on_readable(sock.fileno(), answer)
    exam.member(0, store=wrong, patience_s=1.0)
    exam.until(lambda: len(exam.results) > 1)
    whats = [result.problem.what for result in exam.results if result.problem]
    assert whats[0].endswith(": 10.9.9.9:1 answers there")
    assert "a frame of " in whats[1]
    for each in (sock, *guests):
        exam.loop.forget(each.fileno())
        each.close()


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (300 * 1024).to_bytes(4, "big"),
        links.frame([1, 2]),
        links.frame({"is": "Report"}),
        links.frame({"is": "Nonsense"}),
        links.frame({"is": "Outcome", "ready": True, "summary": "fine"}),
        said(Probed(tried=0, failed=0, unreachable=())),
        b"\0\0\0\x05[[[[[",
    ],
)
def test_what_makes_no_sense_is_hung_up_on(words: bytes) -> None:
    exam = Exam(1)
    guest = exam.guest(words)
    exam.until(lambda: exam.is_hung_up_on(guest))
    guest.close()
    exam.member(0)
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    assert exam.verdict.ready


@pytest.mark.parametrize(
    "changed",
    [
        {"rank": 1},
        {"rank": -1},
        {"role": Role.SERVER},
        {"doors": ("127.0.0.1:1",)},
        {"doors": ()},
        {"host": "10.0.0.9"},
        {"launcher": "10.0.0.9:22"},
        {"clock_offset_s": float("nan")},
        {"round_trip_s": float("inf")},
    ],
)
def test_a_report_from_no_seat_of_the_job_is_not_taken(changed: dict[str, Any]) -> None:
    exam = Exam(1)
    guest = exam.guest(said(exam.report(0, **changed)))
    exam.until(lambda: exam.is_hung_up_on(guest))
    guest.close()
    assert exam.verdict is None


def test_a_seat_reports_once() -> None:
    exam = Exam(2)
    first = exam.guest(said(exam.report(0)))
    second = exam.guest(said(AskTime()), said(exam.report(0)))
    exam.until(lambda: exam.is_hung_up_on(second))
    assert not exam.is_hung_up_on(first)
    for each in (first, second):
        each.close()


def test_a_node_that_goes_away_while_it_is_asked() -> None:
    exam = Exam(2)
    exam.member(0)
    guest = exam.guest(said(exam.report(1)))
    exam.until(lambda: _has_arrived(guest, b"Probe"))
    guest.close()
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    assert "UM-CHECK-102" in [finding.code for finding in exam.verdict.findings]
    assert exam.over == 1


def _has_arrived(sock: socket.socket, word: bytes) -> bool:
    try:
        return word in sock.recv(65536, socket.MSG_PEEK)
    except BlockingIOError:
        return False


@pytest.mark.parametrize(
    ("banner", "why"),
    [
        (said(Here(node="n2", endpoint="{}")), ""),
        (said(Here(node="me", endpoint="{}")), "this address leads back to the node itself"),
        (said(Here(node="n2", endpoint="10.9.9.9:1")), "10.9.9.9:1 answers there"),
        (links.frame({"hello": 1}), "another program answers there"),
        (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            "another program answers there (a frame of 1397966893 bytes, at most 1024 are taken)",
        ),
        (None, "another program answers there (closed)"),
    ],
)
def test_who_answers_matters(banner: bytes | None, why: str) -> None:
    loop = Loop()
    endpoint = f"127.0.0.1:{free_port()}"
    host, _, port = endpoint.rpartition(":")
    listener = links.listen(host, int(port))

    def answer() -> None:
        guest, _ = listener.accept()
        if banner is None:
            guest.close()
            return
        here = said(Here(node="", endpoint=""))
        text = banner
        if b'"{}"' in banner:
            body = banner[4:].replace(b"{}", endpoint.encode())
            text = len(body).to_bytes(4, "big") + body
        assert here
        guest.sendall(text)
        guests.append(guest)

    guests: list[socket.socket] = []
    loop.on_readable(listener.fileno(), answer)
    done: list[Probed] = []
    prober.Prober(loop, doors.Addresses(), "me", done.append, workers=[endpoint], launchers=[endpoint])
    run_until(loop, lambda: done)
    found = [each.why for each in done[0].unreachable]
    # As a launcher's port it is only connected to, so that works in any case.
    assert (done[0].tried, found) == (2, [why] if why else [])
    for each in (listener, *guests):
        loop.forget(each.fileno())
        each.close()


def test_names_that_nobody_knows() -> None:
    loop = Loop()
    done: list[Probed] = []
    names = ["no-such-host.invalid:1", "nonsense:port"]
    prober.Prober(loop, doors.Addresses(), "me", done.append, workers=names, launchers=[])
    run_until(loop, lambda: done)
    assert done[0].failed == 2
    whys = sorted(each.why for each in done[0].unreachable)
    assert whys[0].startswith("not a port")
    assert whys[1].startswith("the name no-such-host.invalid is not known")


def test_ports_are_free_for_the_job_at_once() -> None:
    """A port on which connections were made must be bindable without any special option when the check is over."""
    exam = Exam(2)
    for rank in range(2):
        exam.member(rank)
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    assert exam.verdict.ready
    # All listeners live in this process; closing the loop's sockets is what the workers' end does.
    left = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = {f"{int(endpoint.rpartition(':')[2]):04X}" for endpoint in (*exam.endpoints, exam.store)}
    lingering = [row for row in left if row[1].rpartition(":")[2] in ports and row[3] == "06"]
    assert lingering == []
