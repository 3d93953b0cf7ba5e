"""What a launcher writes down about itself: restarting from the first sign until workers run again, and how it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import formation
from umiak.adapters import report_file
from umiak.core import node_report
from umiak.core.cluster import Role
from umiak.core.node_report import NodeReport
from umiak.core.status import State
from umiak.launch import events
from umiak.launch.node.phases import NodePhase
from umiak.launch.node.reporting import NodeReporting
from umiak.launch.protocol import Failure, FailureKind, Finish, Form, RestartWorker, Stop

CLUSTER = formation("ab", generation=1)
START = events.StartWorkers(cluster=CLUSTER, seats=CLUSTER.seats_on("a"), restarts=0)
FORM = events.MessageFromMaster(message=Form(cluster=CLUSTER))
FAILED = events.WorkerExited(
    key="trainer.0",
    generation=1,
    failure=Failure(kind=FailureKind.EXITED, at=1.0, node="a", host="10.0.0.1", role=Role.TRAINER, rank=0, exit_code=7),
)


def stop(*, reform: bool) -> events.MessageFromMaster:
    return events.MessageFromMaster(
        message=Stop(generation=1, why="trainer 0 failed, restart 1 of 3", grace_s=5, reform=reform)
    )


def again(restarts: int) -> events.StartWorkers:
    return events.StartWorkers(cluster=CLUSTER, seats=CLUSTER.seats_on("a"), restarts=restarts)


def running(*, restarts: bool = True) -> NodeReporting:
    reporting = NodeReporting(host="10.0.0.1", restarts=restarts)
    assert reporting.step(NodePhase.JOINED, events.LinkUp(host="10.0.0.1"), ()) is None
    assert reporting.report.state is State.STARTING
    reporting.step(NodePhase.RUNNING, FORM, (START,))
    assert reporting.report.state is State.RUNNING
    return reporting


def test_a_job_that_restarts_says_so_until_its_workers_run_again() -> None:
    reporting = running()
    states = []
    for phase, event, actions in (
        (NodePhase.RUNNING, FAILED, ()),
        (NodePhase.STOPPING, stop(reform=True), ()),
        (NodePhase.JOINED, events.PortsHeld(ports=(1,)), ()),
        (NodePhase.JOINED, events.Tick(), ()),
        (NodePhase.RUNNING, FORM, (again(1),)),
    ):
        reporting.step(phase, event, actions)
        states.append(reporting.report.state)
    assert states == [*4 * [State.RESTARTING], State.RUNNING]
    assert reporting.report.restarts == 1
    assert reporting.report.story == "restarted once: trainer 0 failed, restart 1 of 3"
    assert reporting.step(NodePhase.RUNNING, events.Tick(), ()) is None, "nothing has changed"


def test_trainers_that_wait_for_their_servers_have_not_started_again() -> None:
    reporting = running()
    reporting.step(NodePhase.STOPPING, stop(reform=True), ())
    reporting.step(NodePhase.RUNNING, FORM, ())
    assert reporting.report.state is State.RESTARTING
    reporting.step(NodePhase.RUNNING, events.MessageFromMaster(message=Form(cluster=CLUSTER)), (again(1),))
    assert reporting.report.state is State.RUNNING


def test_one_worker_that_is_started_again_in_its_place() -> None:
    reporting = running()
    report = reporting.step(NodePhase.RUNNING, FAILED, ())
    assert report is not None
    assert (report.state, report.reason) == (
        State.RESTARTING,
        "trainer 0 on node 10.0.0.1 failed with exit code 7",
    )
    assert reporting.step(NodePhase.RUNNING, events.Tick(), ()) is None
    restart = events.MessageFromMaster(message=RestartWorker(generation=1, key="trainer.0", restarts=1))
    reporting.step(NodePhase.RUNNING, restart, (again(1),))
    assert reporting.report.state is State.RUNNING


@pytest.mark.parametrize("restarts", [True, False])
def test_a_job_that_is_not_started_again_is_stopping(restarts: bool) -> None:
    reporting = running(restarts=restarts)
    reporting.step(NodePhase.RUNNING, FAILED, ())
    assert reporting.report.state is (State.RESTARTING if restarts else State.RUNNING)
    for phase, event in (
        (NodePhase.STOPPING, stop(reform=False)),
        (NodePhase.JOINED, events.PortsHeld(ports=(1,))),
        (NodePhase.STOPPING, events.MessageFromMaster(message=Finish(exit_status=7))),
    ):
        reporting.step(phase, event, ())
        assert reporting.report.state is State.STOPPING
    reporting.step(NodePhase.ENDED, events.Tick(), (events.Exit(status=7, words="trainer 0 failed"),))
    report = reporting.report
    assert (report.state, report.exit_code, report.reason) == (State.FAILED, 7, "trainer 0 failed")


def test_a_signal_is_the_reason() -> None:
    reporting = running()
    report = reporting.step(NodePhase.STOPPING, events.SignalReceived(number=15), ())
    assert report is not None
    assert (report.state, report.reason) == (State.STOPPING, "received SIGTERM (15)")
    reporting.step(NodePhase.STOPPING, stop(reform=True), ())
    assert reporting.report == report, "this node leaves, whatever the others do"


def test_a_good_end_has_no_reason() -> None:
    reporting = running()
    reporting.step(NodePhase.STOPPING, stop(reform=True), ())
    reporting.step(NodePhase.RUNNING, FORM, (again(1),))
    reporting.step(NodePhase.ENDED, events.Tick(), (events.Exit(status=0),))
    report = reporting.report
    assert (report.state, report.exit_code, report.reason) == (State.SUCCEEDED, 0, "")


def test_a_report_is_read_back_or_is_none(tmp_path: Path) -> None:
    report = NodeReport(state=State.RESTARTING, host="10.0.0.1", restarts=2, reason="why", changed_s=3.0)
    assert report_file.read(str(tmp_path)) is None
    report_file.write(str(tmp_path), report)
    assert report_file.read(str(tmp_path)) == report
    assert (tmp_path / node_report.FILE).stat().st_mode & 0o077 == 0
    for text in ("", "[]", '{"state": "dancing"}', '{"state": "running", "more": 1}'):
        (tmp_path / node_report.FILE).write_text(text)
        assert report_file.read(str(tmp_path)) is None
    report_file.write(str(tmp_path / "missing"), report)  # a job goes on without it


def test_a_launcher_in_a_pod_leaves_its_last_words(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    report_file.leave("UM-JOB-005", "node 1 was lost", str(path))
    assert not path.exists()  # this is no pod
    path.touch()
    report_file.leave("UM-JOB-005", "node 1 was lost", str(path))
    assert path.read_text() == "[UM-JOB-005] node 1 was lost"
    assert node_report.is_consequence(path.read_text())
    report_file.leave("UM-JOB-001", "worker 0 failed", str(path))
    assert node_report.is_consequence(path.read_text())
    assert not node_report.is_consequence(node_report.last_words("UM-JOB-001", "worker 0 failed"))
