"""The talk of a check on one loop in this process: members, collector, trials, and guests who should not be there."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import run_until
from umiak.adapters import frames
from umiak.adapters.loop import Loop
from umiak.adapters.ports import HeldPorts
from umiak.core.cluster import Role, Seat, split_host_port
from umiak.core.decode import encode_tagged
from umiak.core.value import replace
from umiak.launch.preflight import collector, prober, sockets
from umiak.launch.preflight.examination import Verdict
from umiak.launch.preflight.member import CheckMember
from umiak.launch.preflight.messages import AskTime, Facts, Here, Probed, Report
from umiak.launch.preflight.task import CheckResult, CheckTask
from umiak.launch.preflight.worker import CheckWorker

Examine = Callable[..., "Exam"]

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


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A loop; whatever still listens or is connected on it is closed with the test."""
    made = Loop()
    yield made
    for call in (*made._readers.values(), *made._writers.values()):
        call.__self__._sock.close()  # type: ignore[attr-defined]
    made._epoll.close()


@pytest.fixture
def held() -> Iterator[HeldPorts]:
    """Ports that no other launcher or test of this machine takes; one that is not released refuses connections."""
    ports = HeldPorts()
    ports.hold_any(8)
    yield ports
    ports.close()


@pytest.fixture
def examine(loop: Loop, held: HeldPorts) -> Examine:
    """Open a check for so many trainers."""
    return lambda trainers, **more: Exam(loop, held, trainers, **more)


class Exam:
    """A collector for a job of so many trainers, each a node, and whatever the test lets come to it."""

    def __init__(self, loop: Loop, held: HeldPorts, trainers: int, *, patience_s: float = 30.0) -> None:
        self.loop = loop
        self._held = held
        self.verdict: Verdict | None = None
        self.over = 0
        self.results: list[CheckResult] = []
        self.ended: list[int] = []
        addresses = [f"127.0.0.1:{port}" for port in held.numbers]
        self.store, self.nowhere, *endpoints = addresses
        self.endpoints = tuple(endpoints[:trainers])
        self.patience_s = patience_s
        self.collector = collector.Collector(
            self.loop,
            endpoints={Role.TRAINER: self.endpoints},
            store=self.store,
            patience_s=patience_s,
            on_verdict=lambda verdict: setattr(self, "verdict", verdict),
            on_over=lambda: setattr(self, "over", self.over + 1),
        )
        self.open(self.store, "n0", self.collector.welcome)

    def open(
        self, endpoint: str, node: str, welcome: Callable[[frames.FramedSocket], None] = lambda _guest: None
    ) -> None:
        """Listen."""
        self._held.release(int(endpoint.rpartition(":")[2]))
        sockets.PortListener(self.loop, endpoint, node, welcome)

    def worker(self, rank: int, role: Role) -> CheckWorker:
        host, port = split_host_port(self.endpoints[rank])
        return CheckWorker(
            seat=Seat(
                role=role,
                rank=rank,
                local_rank=0,
                local_size=1,
                node_rank=rank,
                node=f"n{rank}",
                host=host,
                port=port or 0,
            ),
            store=self.store,
            gloo="",
            endpoints={Role.SERVER: (), Role.TRAINER: self.endpoints, Role.HETER: ()},
        )

    def member(
        self,
        rank: int,
        *,
        listens: bool = True,
        patience_s: float | None = None,
        role: Role = Role.TRAINER,
        **more: Any,
    ) -> None:
        if listens:
            self.open(self.endpoints[rank], f"n{rank}")
        CheckMember(
            self.loop,
            replace(self.worker(rank, role), **more),
            CheckTask(result_fd=-1, first="trainer.0", patience_s=patience_s or self.patience_s),
            FACTS,
            sockets.Addresses(),
            on_result=self.results.append,
            on_over=lambda: self.ended.append(rank),
        )

    def report(self, rank: int, /, **more: Any) -> Report:
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


class Stranger:
    """Another program at an address: it answers anyone who comes with these bytes, or hangs up."""

    def __init__(self, loop: Loop, held: HeldPorts, *answers: bytes | None) -> None:
        port = held.numbers[-1]
        held.release(port)
        self.endpoint = f"127.0.0.1:{port}"
        self._answers = list(answers)
        self._guests: list[socket.socket] = []
        self._sock = frames.listen("127.0.0.1", port)
        self._sock.setblocking(False)
        loop.on_readable(self._sock.fileno(), self._accept)

    def _accept(self) -> None:
        guest, _ = self._sock.accept()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            guest.close()
        else:
            self._guests.append(guest)
            with contextlib.suppress(ConnectionResetError):  # the caller wanted to see no more
                guest.sendall(answer)

    def close(self) -> None:
        for guest in self._guests:
            guest.close()


def said(message: object) -> bytes:
    return frames.frame(encode_tagged(message))


def test_members_and_collector(examine: Examine) -> None:
    exam = examine(3)
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


def test_a_worker_that_does_not_listen_is_refused(examine: Examine) -> None:
    exam = examine(2)
    exam.member(0)
    exam.member(1, listens=False)
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    port = exam.endpoints[1].rpartition(":")[2]
    assert [str(pair) for pair in exam.verdict.pairs] == [f"127.0.0.1 (node 0) -> 127.0.0.1:{port}: refused"]
    assert [result.problem.code for result in exam.results if result.problem] == ["UM-CHECK-001"]


def test_the_collector_does_not_wait_for_ever(examine: Examine) -> None:
    exam = examine(2, patience_s=0.5)
    exam.member(0)
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    assert [finding.code for finding in exam.verdict.findings] == ["UM-CHECK-101"]


def test_a_worker_that_came_too_late_is_told(examine: Examine) -> None:
    exam = examine(2, patience_s=0.2)
    exam.until(lambda: exam.over)
    exam.member(1, patience_s=30.0)
    exam.until(lambda: exam.ended)
    assert [result.final for result in exam.results] == [True]
    assert exam.results[0].problem is not None
    assert "the report of 127.0.0.1 arrived too late" in exam.results[0].problem.what
    assert exam.over == 1


def test_a_collector_that_is_not_there(examine: Examine) -> None:
    exam = examine(1)
    exam.member(0, store=exam.nowhere, patience_s=0.2)
    exam.until(lambda: exam.results)
    problem = exam.results[0].problem
    assert problem is not None
    assert (problem.code, problem.what) == ("UM-CHECK-002", f"127.0.0.1 can't reach {exam.nowhere}: refused")
    assert not exam.results[0].final
    exam.until(lambda: exam.ended)


def test_a_stranger_at_the_collector_s_address_that_says_nothing(examine: Examine, held: HeldPorts) -> None:
    exam = examine(1)
    stranger = Stranger(exam.loop, held, b"")
    exam.member(0, store=stranger.endpoint, patience_s=0.2)
    exam.until(lambda: exam.ended)
    assert [result.problem.what for result in exam.results if result.problem] == [
        f"127.0.0.1 can't reach {stranger.endpoint}: connected, but no answer"
    ]
    stranger.close()


def test_a_server_goes_on_trying_until_it_is_ended(examine: Examine) -> None:
    exam = examine(1)
    exam.member(0, store=exam.nowhere, patience_s=0.01, role=Role.SERVER)
    exam.until(lambda: exam.results)
    exam.open(exam.nowhere, "n9", exam.collector.welcome)
    # It is no seat of this job, so it is reached and turned away: that is the end.
    exam.until(lambda: len(exam.results) > 1)
    assert exam.results[-1].problem is not None
    assert "went away" in exam.results[-1].problem.what


def test_somebody_else_at_the_collector_s_address(examine: Examine, held: HeldPorts) -> None:
    exam = examine(1)
    stranger = Stranger(exam.loop, held, said(Here(node="n7", endpoint="10.9.9.9:1")), b"HTTP/1.1 400 Bad\r\n\r\n")
    exam.member(0, store=stranger.endpoint, patience_s=5.0)
    exam.until(lambda: len(exam.results) > 1)
    whats = [result.problem.what for result in exam.results if result.problem]
    assert whats[0].endswith(": 10.9.9.9:1 answers there")
    assert "a frame of " in whats[1]
    stranger.close()


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (300 * 1024).to_bytes(4, "big"),
        frames.frame([1, 2]),
        frames.frame({"is": "Report"}),
        frames.frame({"is": "Nonsense"}),
        frames.frame({"is": "Outcome", "ready": True, "summary": "fine"}),
        said(Probed(tried=0, failed=0, unreachable=())),
        b"\0\0\0\x05[[[[[",
    ],
    ids=["http", "large", "list", "empty-report", "nonsense", "outcome", "probed", "not-json"],
)
def test_what_makes_no_sense_is_hung_up_on(examine: Examine, words: bytes) -> None:
    exam = examine(1)
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
def test_a_report_from_no_seat_of_the_job_is_not_taken(examine: Examine, changed: dict[str, Any]) -> None:
    exam = examine(1)
    guest = exam.guest(said(exam.report(0, **changed)))
    exam.until(lambda: exam.is_hung_up_on(guest))
    guest.close()
    assert exam.verdict is None


def test_a_seat_reports_once(examine: Examine) -> None:
    exam = examine(2)
    first = exam.guest(said(exam.report(0)))
    second = exam.guest(said(AskTime()), said(exam.report(0)))
    exam.until(lambda: exam.is_hung_up_on(second))
    assert not exam.is_hung_up_on(first)
    for each in (first, second):
        each.close()


def test_a_node_that_goes_away_while_it_is_asked(examine: Examine) -> None:
    exam = examine(2)
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
        (Here(node="n2", endpoint="itself"), ""),
        (Here(node="me", endpoint="itself"), "this address leads back to the node itself"),
        (Here(node="n2", endpoint="10.9.9.9:1"), "10.9.9.9:1 answers there"),
        (frames.frame({"hello": 1}), "another program answers there"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "another program answers there (a frame of "),
        (None, "another program answers there (closed)"),
    ],
    ids=["right", "itself", "other", "no-banner", "ssh", "closed"],
)
def test_who_answers_matters(loop: Loop, held: HeldPorts, banner: Here | bytes | None, why: str) -> None:
    stranger = Stranger(loop, held, b"")
    if isinstance(banner, Here):
        banner = said(replace(banner, endpoint=banner.endpoint.replace("itself", stranger.endpoint)))
    stranger._answers = [banner]
    done: list[Probed] = []
    # As a launcher's port it is only connected to, so that works in any case.
    prober.Prober(
        loop, sockets.Addresses(), "me", done.append, workers=[stranger.endpoint], launchers=[stranger.endpoint]
    )
    run_until(loop, lambda: done)
    assert done[0].tried == 2
    assert done[0].failed == (1 if why else 0)
    assert [each.why.startswith(why) for each in done[0].unreachable] == [True] * done[0].failed
    stranger.close()


def test_names_that_nobody_knows(loop: Loop) -> None:
    done: list[Probed] = []
    names = ["no-such-host.invalid:1", "nonsense:port"]
    prober.Prober(loop, sockets.Addresses(), "me", done.append, workers=names, launchers=[])
    run_until(loop, lambda: done)
    assert done[0].failed == 2
    whys = sorted(each.why for each in done[0].unreachable)
    assert whys[0].startswith("not a port")
    assert whys[1].startswith("the name no-such-host.invalid is not known")


def test_ports_are_free_for_the_job_at_once(examine: Examine) -> None:
    """A port on which connections were made must be bindable without any special option when the check is over."""
    exam = examine(2)
    ports = {f"{int(endpoint.rpartition(':')[2]):04X}" for endpoint in (*exam.endpoints, exam.store)}

    def lingering() -> set[tuple[str, str]]:
        """Both ends of connections of these ports that are in TIME_WAIT."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {(row[1], row[2]) for row in rows if row[1].rpartition(":")[2] in ports and row[3] == "06"}

    before = lingering()  # of others, who had the ports a minute ago
    for rank in range(2):
        exam.member(rank)
    exam.until(lambda: exam.over)
    assert exam.verdict is not None
    assert exam.verdict.ready
    # All listeners live in this process; closing the loop's sockets is what the workers' end does.
    assert lingering() <= before
