"""Parameter-server mode with real processes: servers first, trainers when every server is there, an end, restarts in place."""

from __future__ import annotations

import os
import signal

import pytest

from testbed import etcd
from testbed.pytest_support import NetworkFactory
from tests.support.launching import WORKERS, Launcher, Life, Stage, freeze, until

PROGRAM = WORKERS / "parameter_server.py"
THERE = "all servers are there"


def moment(life: Life, what: str) -> float:
    when = life.moment(what)
    assert when is not None, f"{life} never told: {what}"
    return when


def open_server(stage: Stage, rank: int) -> None:
    """Let a late server open its port."""
    (stage.story.directory / f"open.{rank}").touch()


def finish(stage: Stage, *launchers: Launcher) -> None:
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0] * len(launchers)


@pytest.mark.netns
def test_trainers_start_when_the_last_server_of_all_nodes_accepts_connections(
    stage: Stage, network: NetworkFactory
) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 2 --server_num 1 --trainer_num 2 --master 10.88.0.1:7000"
    launchers = [stage.launch(flags, PROGRAM, "--late", host=host) for host in (a, b)]
    until(lambda: len(stage.story.lives(role="server")) == 2, "two servers live", talk=stage.transcript)
    open_server(stage, 0)
    stage.story.until_told("listens", rank=0)
    open_server(stage, 1)
    trainers = stage.story.until_told(THERE, count=4, role="trainer")
    last = max(moment(life, "listens") for life in stage.story.lives(role="server"))
    assert min(life.first for life in trainers) > last
    finish(stage, *launchers)


def test_servers_get_sigterm_when_the_trainers_are_done_and_are_gone(stage: Stage) -> None:
    launcher = stage.launch("--server_num 2 --trainer_num 2", PROGRAM)
    stage.story.until_told(THERE, count=2)
    finish(stage, launcher)
    done = max(moment(life, "done") for life in stage.story.lives(role="trainer"))
    assert all(moment(life, "asked to end") > done for life in stage.story.lives(role="server"))


def test_a_server_that_stays_is_killed_after_the_grace(stage: Stage) -> None:
    launcher = stage.launch("--server_num 1 --trainer_num 1 --grace 0.5", PROGRAM, "--stays")
    stage.story.until_told(THERE)
    finish(stage, launcher)
    assert stage.story.until_told("asked to end", role="server")
    assert "killed: server.0" in launcher.stderr


@pytest.mark.parametrize("token", [None, "one that a person has chosen"])
def test_servers_and_trainers_are_given_a_token_that_is_nowhere_else(stage: Stage, token: str | None) -> None:
    env = {"UMIAK_TOKEN": token} if token else {}
    launcher = stage.launch("--server_num 1 --trainer_num 2", PROGRAM, env=env)
    stage.story.until_told(THERE, count=2)
    given = {life.env["UMIAK_TOKEN"] for life in stage.story.lives()}
    finish(stage, launcher)
    assert len(given) == 1
    (secret,) = given
    assert secret == token if token else len(secret) == 32
    files = [path for path in launcher.log_dir.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret in path.read_text(errors="replace")]
    assert secret not in launcher.stdout + launcher.stderr


def test_without_servers_workers_know_no_token(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 1", env={"UMIAK_TOKEN": "a secret of ours alone"})
    (life,) = stage.story.until_alive(world=1)
    stage.story.order("exit 0")
    assert launcher.wait() == 0
    assert "UMIAK_TOKEN" not in life.env


@pytest.mark.parametrize("order", ["signal 9", "exit 1"])
def test_a_dead_server_is_restarted_in_place(stage: Stage, order: str) -> None:
    launcher = stage.launch("--server_num 2 --trainer_num 1 --max_restart 1", PROGRAM)
    stage.story.until_told(THERE)
    before = stage.story.lives(role="server", rank=1)[0]
    stage.story.order(order, rank=1, role="server")
    until(lambda: len(stage.story.lives(role="server", rank=1)) == 2, "there is another server", talk=stage.transcript)
    again = stage.story.until_told("listens", count=2, role="server", rank=1)[-1]
    assert again.env["PADDLE_CURRENT_ENDPOINT"] == before.env["PADDLE_CURRENT_ENDPOINT"]
    assert (again.generation, again.restarts) == (1, 1)
    assert len(stage.story.lives(role="trainer")) == len(stage.story.lives(role="server", rank=0)) == 1
    finish(stage, launcher)


@pytest.mark.netns
def test_a_dead_server_is_restarted_in_place_on_its_own_node(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 2 --server_num 1 --trainer_num 1 --max_restart 1 --master 10.88.0.1:7000"
    launchers = [stage.launch(flags, PROGRAM, host=host) for host in (a, b)]
    stage.story.until_told(THERE, count=2)
    before = stage.story.lives(role="server", rank=1)[0]
    stage.story.order("signal 9", rank=1, role="server")
    again = stage.story.until_told("listens", count=2, role="server", rank=1)[-1]
    assert again.host == before.host == "node1"
    assert again.env["PADDLE_CURRENT_ENDPOINT"] == before.env["PADDLE_CURRENT_ENDPOINT"]
    finish(stage, *launchers)
    assert len(stage.story.lives()) == 5


def test_a_server_that_ends_well_by_itself_is_not_started_again(stage: Stage) -> None:
    """Paddle's servers do, as soon as the first trainer has told them to stop."""
    launcher = stage.launch("--server_num 2 --trainer_num 1 --max_restart 1", PROGRAM)
    stage.story.until_told(THERE)
    stage.story.order("exit 0", rank=1, role="server")
    until(lambda: len(launcher.workers()) == 2, "one server is gone", talk=stage.transcript)
    finish(stage, launcher)
    assert len(stage.story.lives(role="server", rank=1)) == 1


def test_a_server_that_dies_too_often_ends_the_job(stage: Stage) -> None:
    launcher = stage.launch("--server_num 1 --trainer_num 1 --max_restart 1 --failure_grace 2", PROGRAM)
    stage.story.until_told(THERE)
    stage.story.order("exit 5", rank=0, role="server")
    stage.story.until_told("listens", count=2, role="server")
    stage.story.order("exit 6", rank=0, role="server")
    assert launcher.wait() == 6
    assert "error: server 0 on node 127.0.0.1 failed with exit code 6" in launcher.stderr


def test_a_dead_trainer_is_restarted_alone_if_that_is_asked_for(stage: Stage) -> None:
    launcher = stage.launch("--server_num 1 --trainer_num 2 --trainer_restart alone --max_restart 1", PROGRAM)
    stage.story.until_told(THERE, count=2)
    stage.story.order("exit 8", rank=1)
    again = stage.story.until_told(THERE, count=2, rank=1)[-1]
    assert (again.generation, again.restarts) == (1, 1)
    assert len(stage.story.lives(role="trainer", rank=0)) == len(stage.story.lives(role="server")) == 1
    finish(stage, launcher)


def test_otherwise_the_whole_group_restarts_with_it(stage: Stage) -> None:
    launcher = stage.launch("--server_num 1 --trainer_num 2 --max_restart 1 --failure_grace 2", PROGRAM)
    stage.story.until_told(THERE, count=2)
    stage.story.order("exit 8", rank=1)
    stage.story.until_told(THERE, count=2, generation=2)
    assert len(stage.story.lives(generation=2)) == 3
    finish(stage, launcher)


def test_a_failed_trainer_ends_a_job_without_restarts(stage: Stage) -> None:
    launcher = stage.launch("--server_num 1 --trainer_num 2 --failure_grace 2", PROGRAM)
    stage.story.until_told(THERE, count=2)
    stage.story.order("exit 8", rank=1)
    assert launcher.wait() == 8


def test_a_server_that_fails_before_it_listens_ends_the_job_without_any_trainer(stage: Stage) -> None:
    launcher = stage.launch("--server_num 1 --trainer_num 1", WORKERS / "failing_at_once.py")
    assert launcher.wait() == 9
    assert {life.role for life in stage.story.lives()} == {"server"}


def test_a_server_that_never_listens_is_told_of_and_ends_the_job_in_time(stage: Stage) -> None:
    launcher = stage.launch("--server_num 1 --trainer_num 1 --join_timeout 6 --failure_grace 2", PROGRAM, "--late")
    assert launcher.wait() == 1
    (server,) = stage.story.lives()
    endpoint = server.env["PADDLE_CURRENT_ENDPOINT"]
    assert f"waiting for connections to be accepted by server 0 at {endpoint}" in launcher.stderr
    failed = f"could not be started: it did not accept connections at {endpoint} within 6 s (--join_timeout)"
    assert f"error: server 0 on node 127.0.0.1 {failed} [UM-JOB-003]" in launcher.stderr


def test_a_server_that_ends_well_before_it_listens_is_ready_and_done(stage: Stage) -> None:
    """Paddle's launcher accepts that as well."""
    launcher = stage.launch("--server_num 1 --trainer_num 1", PROGRAM, "--idle")
    (server,) = stage.story.until_told("nothing to do", role="server")
    (trainer,) = stage.story.until_alive(role="trainer", count=1)
    assert trainer.first > server.first
    assert launcher.wait() == 1  # this trainer wants to connect
    assert "trainer 0 on node 127.0.0.1 failed with exit code 1" in launcher.stderr


@pytest.mark.netns
def test_servers_and_trainers_may_stand_on_different_nodes(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 2 --master 10.88.0.1:7000"
    first = stage.launch(f"{flags} --server_num 2 --trainer_num 0", PROGRAM, host=a)
    second = stage.launch(f"{flags} --server_num 0 --trainer_num 2", PROGRAM, host=b)
    stage.story.until_told(THERE, count=2)
    assert {(life.role, life.host) for life in stage.story.lives()} == {("server", "node0"), ("trainer", "node1")}
    finish(stage, first, second)


@pytest.mark.netns
@pytest.mark.etcd
@pytest.mark.usefixtures("etcd_here")
def test_parameter_servers_with_etcd_get_the_variables_of_their_roles(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    with etcd.server(a) as store:
        flags = f"--nnodes 2 --server_num 1 --trainer_num 1 --master etcd://{store.endpoint}"
        launchers = [stage.launch(flags, PROGRAM, host=host) for host in (a, b)]
        stage.story.until_told(THERE, count=2)
        finish(stage, *launchers)
    servers = sorted(stage.story.lives(role="server"), key=lambda life: life.rank)
    trainers = sorted(stage.story.lives(role="trainer"), key=lambda life: life.rank)
    addresses = ",".join(life.env["PADDLE_CURRENT_ENDPOINT"] for life in servers)
    for life in (*servers, *trainers):
        assert life.env["PADDLE_PSERVERS_IP_PORT_LIST"] == addresses
        assert life.env["TRAINING_ROLE"] == life.env["PADDLE_ROLE"] == {"server": "PSERVER"}.get(life.role, "TRAINER")
        assert f"{life.env['POD_IP']}:{life.env['PADDLE_PORT']}" == life.env["PADDLE_CURRENT_ENDPOINT"]
        assert life.env["PADDLE_TRAINERS_NUM"] == "2"
    assert sorted(life.env["POD_IP"] for life in servers) == ["10.88.0.1", "10.88.0.2"]
    assert [life.env["PADDLE_TRAINER_ID"] for life in trainers] == ["0", "1"]
    assert not [life for life in servers if "PADDLE_TRAINER_ID" in life.env]


@pytest.mark.netns
@pytest.mark.parametrize("leads", ["servers", "trainers"])
@pytest.mark.parametrize("moment", ["registered", "running"])
def test_trainers_end_soon_when_the_launcher_of_the_servers_is_killed(
    stage: Stage, network: NetworkFactory, leads: str, moment: str
) -> None:
    """Both halves of it at once, so that nobody says a word; whichever of the two nodes leads, and before there is a job as well."""
    a, b = network(2).hosts
    flags = f"--nnodes {2 if moment == 'running' else 3} --master 10.88.0.1:7000 --lost_at_start fail"
    own = {"servers": f"{flags} --server_num 2 --trainer_num 0", "trainers": f"{flags} --server_num 0 --trainer_num 2"}
    other = "trainers" if leads == "servers" else "servers"
    launchers = {leads: stage.launch(own[leads], PROGRAM, host=a), other: stage.launch(own[other], PROGRAM, host=b)}
    trainers, servers = launchers["trainers"], launchers["servers"]
    if moment == "running":
        stage.story.until_told(THERE, count=2)
    else:
        launchers[other].expect("waiting for 1 of 3 nodes")
    halves = servers.halves()
    freeze(*halves)  # else the second one may hear of the first one's death, and end by itself
    for half in reversed(halves):
        os.kill(half, signal.SIGKILL)
    assert trainers.wait() == 1
    assert "UM-JOB-005" in trainers.stderr
    assert "was lost" in trainers.stderr
    trainers.until_nobody_is_left()
    servers.until_nobody_is_left()


@pytest.mark.netns
def test_an_elastic_job_with_servers_forms_again_without_a_lost_node(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 1:2 --server_num 1 --trainer_num 1 --failure_grace 2 --master 10.88.0.1:7000"
    first = stage.launch(flags, PROGRAM, host=a)
    stage.launch(flags, PROGRAM, host=b)
    stage.story.until_told(THERE, count=2)
    b.kill()
    stage.story.until_told(THERE, generation=2)
    assert len(stage.story.lives(generation=2)) == 2
    finish(stage, first)


def test_heter_workers_get_their_stage(stage: Stage) -> None:
    flags = "--run_mode ps-heter --server_num 1 --trainer_num 2 --heter_worker_num 2 --heter_devices cpu"
    launcher = stage.launch(flags, PROGRAM)
    stage.story.until_told(THERE, count=4)
    finish(stage, launcher)
    heters = sorted(stage.story.lives(role="heter"), key=lambda life: life.rank)
    trainers = stage.story.lives(role="trainer")
    addresses = ",".join(life.env["PADDLE_CURRENT_ENDPOINT"] for life in heters)
    for life in heters:
        assert life.env["TRAINING_ROLE"] == "HETER_TRAINER"
        assert (life.env["STAGE_ID"], life.env["STAGE_NUM"]) == ("2", "2")
        assert life.env["PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST"] == life.env["PADDLE_TRAINER_ENDPOINTS"]
        assert life.env["HETER_DEVICE_TYPE"] == "cpu"
    for life in trainers:
        assert life.env["STAGE_ID"] == "1"
        assert life.env["PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST"] == addresses
        assert life.env["PADDLE_STAGE_TRAINERS_NUM"] == "[2, 2]"
    assert {life.env["PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"] for life in stage.story.lives()} == {addresses}
