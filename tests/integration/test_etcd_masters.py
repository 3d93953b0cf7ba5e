"""Jobs that meet through a real etcd: forming, growing, shrinking, losing the leader, and losing etcd for a while."""

from __future__ import annotations

import signal

import pytest

from testbed import etcd
from testbed.ports import free_port
from testbed.pytest_support import NetworkFactory
from tests.support.launching import WORKERS, Launcher, Life, Stage, freeze, thaw, until

pytestmark = [pytest.mark.etcd, pytest.mark.usefixtures("etcd_here")]

QUICK = "--elastic_timeout 20 --join_timeout 40 --failure_grace 2"
SILENCE_S = 6
"""A launcher that gets no processor for half of it is ended by its watchdog: machines that run tests may be busy."""
FACTS = WORKERS / "facts.py"


def ranks(lives: list[Life]) -> dict[str, int]:
    return {life.host: life.rank for life in lives}


def until_leads(stage: Stage, launcher: Launcher) -> None:
    until(lambda: any("lead" in entry for entry in launcher.events()), "it leads", talk=stage.transcript)


def finish(stage: Stage, *launchers: Launcher) -> None:
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0] * len(launchers)


# ---- hosts; etcd has the first one to itself


@pytest.mark.netns
def test_hosts_meet_through_etcd_at_addresses_that_reach_them(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    with etcd.server(a) as store:
        flags = f"--nnodes 2 --nproc_per_node 2 --job_id meeting --master etcd://{store.endpoint}"
        launchers = [stage.launch(flags, WORKERS / "neighbours.py", host=host) for host in (b, c)]
        assert [launcher.wait() for launcher in launchers] == [0, 0]
    lives = sorted(stage.story.lives(), key=lambda life: life.rank)
    assert len(lives) == 4
    for life in lives:
        assert life.env["PADDLE_TRAINER_ENDPOINTS"].split(",")[life.rank] == life.env["PADDLE_CURRENT_ENDPOINT"]
        assert life.env["POD_IP"] == {"node1": "10.88.0.2", "node2": "10.88.0.3"}[life.host]
        assert life.env["PADDLE_JOB_ID"] == "meeting"


@pytest.mark.netns
def test_an_elastic_job_shrinks_and_grows_through_etcd(stage: Stage, network: NetworkFactory) -> None:
    a, b, c, d = network(4).hosts
    with etcd.server(a) as store:
        job = f"--nnodes 1:3 {QUICK} --master etcd://{store.endpoint}"
        first = stage.launch(job, host=b)
        until_leads(stage, first)
        second = stage.launch(f"{job} --rank 1", host=c)
        stage.launch(f"{job} --rank 2", host=d)
        stage.story.until_alive(generation=1, world=3)
        d.kill()
        stage.story.until_alive(generation=2, world=2)
        d.start()
        third = stage.launch(job, host=d)
        assert ranks(stage.story.until_alive(generation=3, world=3)) == {"node1": 0, "node2": 1, "node3": 2}
        finish(stage, first, second, third)


@pytest.mark.netns
@pytest.mark.parametrize("end", ["kill", "power_off"])
def test_survivors_of_the_leader_agree_on_the_next(stage: Stage, network: NetworkFactory, end: str) -> None:
    a, b, c, d = network(4).hosts
    with etcd.server(a) as store:
        job = f"--nnodes 1:3 {QUICK} --heartbeat_timeout {SILENCE_S} --master etcd://{store.endpoint}"
        until_leads(stage, stage.launch(job, host=b))
        second, third = stage.launch(job, host=c), stage.launch(job, host=d)
        stage.story.until_alive(generation=1, world=3)
        getattr(b, end)()
        assert set(ranks(stage.story.until_alive(generation=2, world=2))) == {"node2", "node3"}
        b.start()
        again = stage.launch(job, host=b)
        assert ranks(stage.story.until_alive(generation=3, world=3))["node1"] == 0
        finish(stage, again, second, third)


@pytest.mark.netns
def test_a_leader_that_is_cut_off_from_everybody_stops(stage: Stage, network: NetworkFactory) -> None:
    net = network(4)
    a, b, c, d = net.hosts
    with etcd.server(a) as store:
        job = f"--nnodes 1:3 {QUICK} --heartbeat_timeout {SILENCE_S} --master etcd://{store.endpoint}"
        first = stage.launch(job, host=b)
        until_leads(stage, first)
        second, third = stage.launch(job, host=c), stage.launch(job, host=d)
        stage.story.until_alive(generation=1, world=3)
        net.isolate(b)
        assert first.wait() == 3
        assert set(ranks(stage.story.until_alive(generation=2, world=2))) == {"node2", "node3"}
        net.rejoin(b)
        finish(stage, second, third)


@pytest.mark.netns
def test_a_frozen_leader_stops_when_it_wakes_up(stage: Stage, network: NetworkFactory) -> None:
    stage.formations_may_overlap = True  # as long as it stands still nobody can stop its workers
    a, b, c, d = network(4).hosts
    with etcd.server(a) as store:
        job = f"--nnodes 1:3 {QUICK} --heartbeat_timeout {SILENCE_S} --master etcd://{store.endpoint}"
        first = stage.launch(job, host=b)
        until_leads(stage, first)
        second, third = stage.launch(job, host=c), stage.launch(job, host=d)
        stage.story.until_alive(generation=1, world=3)
        halves = first.halves()
        freeze(*halves)
        assert set(ranks(stage.story.until_alive(generation=2, world=2))) == {"node2", "node3"}
        thaw(*halves)
        assert first.wait() == 3
        finish(stage, second, third)


@pytest.mark.netns
def test_a_leader_that_is_cut_off_from_etcd_alone_goes_on(stage: Stage, network: NetworkFactory) -> None:
    net = network(4)
    a, b, c, d = net.hosts
    with etcd.server(a) as store:
        job = f"--nnodes 1:3 {QUICK} --heartbeat_timeout {SILENCE_S} --master etcd://{store.endpoint}"
        first = stage.launch(job, host=b)
        until_leads(stage, first)
        second = stage.launch(job, host=c)
        born = stage.story.until_alive(generation=1, world=2)[0].first
        net.cut(a, b)
        until(lambda: stage.story.lives(rank=0)[0].last > born + 1.5 * SILENCE_S, "the leader's lease has run out")
        net.heal(a, b)
        third = stage.launch(job, host=d)
        assert set(ranks(stage.story.until_alive(world=3))) == {"node1", "node2", "node3"}
        assert len(stage.story.lives(generation=1)) == 2, "nothing happened meanwhile"
        finish(stage, first, second, third)


# ---- loopback


@pytest.mark.parametrize("how", ["restart", "wipe"])
def test_etcd_may_be_restarted_while_a_job_runs_and_a_node_joins_afterwards(
    stage: Stage, etcd_server: etcd.Server, how: str
) -> None:
    job = f"--nnodes 1:2 {QUICK} --elastic_timeout 4 --heartbeat_timeout {SILENCE_S} --master etcd://{etcd_server.endpoint}"
    first = stage.launch(job)
    stage.story.until_alive(generation=1, world=1)
    getattr(etcd_server, how)()
    second = stage.launch(job)
    stage.story.until_alive(generation=2, world=2)
    finish(stage, first, second)


def test_a_job_that_was_formed_once_more_because_etcd_forgot_the_first_one_gives_way(
    stage: Stage, etcd_server: etcd.Server
) -> None:
    stage.formations_may_overlap = True  # nobody can know of the first one as long as it does not know of the second
    job = f"--nnodes 1:2 {QUICK} --elastic_timeout 0 --heartbeat_timeout {SILENCE_S} --master etcd://{etcd_server.endpoint}"
    first = stage.launch(job)
    stage.story.until_alive(generation=1, world=1)
    freeze(*first.halves())
    etcd_server.wipe()
    second = stage.launch(job)
    until(lambda: len(stage.story.lives(generation=1)) == 2, "it is formed once more", talk=stage.transcript)
    thaw(*first.halves())
    assert second.wait() == 3
    assert "the job goes on at 127.0.0.1, and this side was cut off from it or started it once more" in second.stderr
    finish(stage, first)


def test_a_job_goes_on_while_etcd_is_away_for_long_and_takes_a_node_in_when_it_is_back(
    stage: Stage, etcd_server: etcd.Server
) -> None:
    job = f"--nnodes 1:2 {QUICK} --elastic_timeout 0.2 --heartbeat_timeout {SILENCE_S} --master etcd://{etcd_server.endpoint}"
    first = stage.launch(job)
    (life,) = stage.story.until_alive(generation=1, world=1)
    etcd_server.stop()
    second = stage.launch(job)
    until(lambda: stage.story.lives()[0].last > life.first + 1.5 * SILENCE_S, "more than the lease has passed")
    etcd_server.start()
    stage.story.until_alive(generation=2, world=2)
    finish(stage, first, second)


def test_a_job_ends_well_while_etcd_is_down_or_hangs(stage: Stage, etcd_server: etcd.Server) -> None:
    job = f"--nnodes 2 --master etcd://{etcd_server.endpoint} {QUICK} --job_id"
    launchers = [stage.launch(f"{job} {name}") for name in ("down", "down", "hangs", "hangs")]
    until(lambda: len(stage.story.lives()) == 4, "both jobs run", talk=stage.transcript)
    etcd_server.pause()
    stage.story.order("end")
    assert {launcher.wait() for launcher in launchers} == {0}
    etcd_server.resume()


def test_the_first_endpoint_may_be_dead(stage: Stage, etcd_server: etcd.Server) -> None:
    job = f"--nnodes 2 {QUICK} --master etcd://127.0.0.1:{free_port()},{etcd_server.endpoint}"
    launchers = [stage.launch(job) for _ in range(2)]
    stage.story.until_alive(generation=1, world=2)
    finish(stage, *launchers)


def test_jobs_with_different_names_share_an_etcd(stage: Stage, etcd_server: etcd.Server) -> None:
    flags = f"--nnodes 2 --master etcd://{etcd_server.endpoint} --job_id"
    launchers = [stage.launch(f"{flags} {name}", FACTS) for name in ("one", "other", "one", "other")]
    assert {launcher.wait() for launcher in launchers} == {0}
    formed = {(life.env["UMIAK_JOB_ID"], life.env["UMIAK_TRAINERS"]) for life in stage.story.lives()}
    assert sorted(name for name, _ in formed) == ["one", "other"]


def test_a_job_that_has_ended_leaves_no_key_that_would_hold_the_next_up(stage: Stage, etcd_server: etcd.Server) -> None:
    flags = f"--nnodes 2 --master etcd://{etcd_server.endpoint} --heartbeat_timeout 60"
    for _ in range(2):
        launchers = [stage.launch(flags, FACTS) for _ in range(2)]
        assert [launcher.wait() for launcher in launchers] == [0, 0]
    # Not even if its launchers were killed: a node that nobody answers for does not wait for the lease to end.
    launchers = [stage.launch(flags) for _ in range(2)]
    stage.story.until_alive(world=2, count=2)
    for launcher in launchers:
        launcher.signal(signal.SIGKILL)
        launcher.until_nobody_is_left()
    launchers = [stage.launch(flags, FACTS) for _ in range(2)]
    assert [launcher.wait() for launcher in launchers] == [0, 0]


def test_without_any_etcd_it_gives_up_after_the_join_timeout(stage: Stage) -> None:
    port = free_port()
    launcher = stage.launch(f"--nnodes 2 --master etcd://127.0.0.1:{port} --join_timeout 1", FACTS)
    assert launcher.wait() == 3
    assert f"etcd at 127.0.0.1:{port} does not answer" in launcher.stderr
    assert "--join_timeout 1" in launcher.stderr.rpartition("error: ")[2]


def test_a_missing_node_is_named_with_etcd_too(stage: Stage, etcd_server: etcd.Server) -> None:
    launcher = stage.launch(f"--nnodes 2 --master etcd://{etcd_server.endpoint} --join_timeout 1", FACTS)
    assert launcher.wait() == 3
    assert "waiting for 1 of 2 nodes: have 127.0.0.1" in launcher.stderr.rpartition("error: ")[2]
