"""Elastic jobs on real hosts: nodes and masters are killed, cut off and powered off, and the job goes on, in one piece.

That no two formations ever lived at once is checked at the end of every test: see `launching.Stage.close`.
"""

from __future__ import annotations

import os
import signal
import time

import pytest

from testbed.pytest_support import NetworkFactory
from tests.support.launching import Launcher, Life, Stage, until

pytestmark = pytest.mark.netns

MASTER = "10.88.0.1:7000"
QUICK = "--elastic_timeout 20 --join_timeout 40 --failure_grace 2"
SILENCE_S = 6
"""A launcher that gets no processor for half of it is ended by its watchdog: machines that run tests may be busy."""
SILENCE = f"--heartbeat_timeout {SILENCE_S} {QUICK}"


def ranks(lives: list[Life]) -> dict[str, int]:
    """Which rank the worker of each host has."""
    return {life.host: life.rank for life in lives}


def finish(stage: Stage, *launchers: Launcher) -> None:
    """Let all workers end well, and with them the job."""
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0] * len(launchers)


# ---- nodes


def test_a_killed_node_shrinks_the_job_and_gets_its_old_rank_when_it_comes_back(
    stage: Stage, network: NetworkFactory
) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 2:3 --master {MASTER} {QUICK}"
    first = stage.launch(job, host=a)
    first.expect("no UMIAK_TOKEN")
    stage.launch(f"{job} --rank 1", host=b)
    third = stage.launch(f"{job} --rank 2", host=c)
    assert ranks(stage.story.until_alive(generation=1, world=3)) == {"node0": 0, "node1": 1, "node2": 2}

    b.kill()
    assert ranks(stage.story.until_alive(world=2)) == {"node0": 0, "node2": 1}
    assert "node 10.88.0.2 was lost: its connection was closed" in third.expect("was lost")

    b.start()
    again = stage.launch(job, host=b)
    assert ranks(stage.story.until_alive(generation=3, world=3)) == {"node0": 0, "node1": 1, "node2": 2}
    finish(stage, first, third, again)


def test_nodes_that_come_back_in_another_order_sit_where_they_sat(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 1:3 --master {MASTER} {QUICK}"
    first = stage.launch(job, host=a)
    for host, rank in ((b, 1), (c, 2)):
        stage.launch(f"{job} --rank {rank}", host=host)
    stage.story.until_alive(generation=1, world=3)
    b.kill()
    stage.story.until_alive(generation=2, world=2)
    c.kill()
    stage.story.until_alive(generation=3, world=1)
    c.start()
    third = stage.launch(job, host=c)
    assert ranks(stage.story.until_alive(generation=4, world=2)) == {"node0": 0, "node2": 1}
    b.start()
    second = stage.launch(job, host=b)
    assert ranks(stage.story.until_alive(generation=5, world=3)) == {"node0": 0, "node1": 1, "node2": 2}
    finish(stage, first, second, third)


def test_one_of_two_goes_on_alone_and_grows_again(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    job = f"--nnodes 1:2 --master {MASTER} --nproc_per_node 2 {QUICK}"
    first = stage.launch(job, host=a)
    stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=4)
    b.kill()
    assert {life.host for life in stage.story.until_alive(generation=2, world=2)} == {"node0"}
    b.start()
    second = stage.launch(job, host=b)
    grown = stage.story.until_alive(generation=3, world=4)
    assert [life.host for life in grown] == ["node0", "node0", "node1", "node1"]
    assert {life.restarts for life in grown} == {0}, "a change of nodes is no restart after a failure"
    finish(stage, first, second)


@pytest.mark.parametrize("half", [0, 1], ids=["the one that was started", "the one that works"])
def test_a_launcher_that_is_killed_and_started_again_at_once_replaces_itself(
    stage: Stage, network: NetworkFactory, half: int
) -> None:
    a, b = network(2).hosts
    job = f"--nnodes 1:2 --master {MASTER} {QUICK}"
    first, second = stage.launch(job, host=a), stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    os.kill(second.halves()[half], signal.SIGKILL)
    again = stage.launch(job, host=b)
    again.expect("Run Pod")
    lives = until(
        lambda: [life for life in stage.story.lives(host="node1", world=2) if life.generation > 1], "node1 is back"
    )
    assert lives[0].rank == 1
    finish(stage, first, again)


def test_a_late_joiner_grows_the_job(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 1:3 --master {MASTER} {QUICK} --elastic_timeout 0.3"
    first = stage.launch(job, host=a)
    stage.story.until_alive(generation=1, world=1)
    second = stage.launch(job, host=b)
    assert ranks(stage.story.until_alive(generation=2, world=2)) == {"node0": 0, "node1": 1}
    third = stage.launch(job, host=c)
    assert ranks(stage.story.until_alive(generation=3, world=3)) == {"node0": 0, "node1": 1, "node2": 2}
    assert "growing from 2 to 3 nodes: 10.88.0.3 joined" in second.said
    finish(stage, first, second, third)


def test_a_surplus_node_stands_by_and_takes_the_place_of_a_lost_one(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 1:2 --master {MASTER} {QUICK}"
    first, _ = stage.launch(job, host=a), stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    third = stage.launch(job, host=c)
    third.expect("standing by: the job has 2 of 2 nodes")
    b.kill()
    assert ranks(stage.story.until_alive(generation=2, world=2)) == {"node0": 0, "node2": 1}
    finish(stage, first, third)


def test_a_node_that_stands_by_ends_with_the_job(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    job = f"--nnodes 1:2 --master {MASTER} {QUICK}"
    first, second = stage.launch(job, host=a), stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    third = stage.launch(job, host=b)
    third.expect("standing by")
    finish(stage, first, second, third)


def test_below_the_minimum_it_waits_for_a_node_and_goes_on_with_it(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 2:3 --master {MASTER} {QUICK} --elastic_timeout 40"
    first, _, third = (stage.launch(job, host=host) for host in (a, b, c))
    stage.story.until_alive(generation=1, world=3)
    b.kill()
    stage.story.until_alive(world=2)
    c.kill()
    first.expect("node 10.88.0.3 was lost")
    until(lambda: not first.workers(), "the last worker is stopped", talk=stage.transcript)
    c.start()
    third = stage.launch(job, host=c)
    assert ranks(stage.story.until_alive(generation=3, world=2)) == {"node0": 0, "node2": 1}
    finish(stage, first, third)


def test_below_the_minimum_it_ends_with_1_after_the_elastic_timeout(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    job = f"--nnodes 2:3 --master {MASTER} {QUICK} --elastic_timeout 1"
    first = stage.launch(job, host=a)
    stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    b.kill()
    assert first.wait() == 1
    assert "error: waiting for 1 of 2 nodes: have 10.88.0.1; gave up after --elastic_timeout" in first.stderr


def test_a_node_that_is_told_to_stop_leaves_and_the_others_go_on(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 1:3 --master {MASTER} {QUICK}"
    first, second, third = (stage.launch(job, host=host) for host in (a, b, c))
    stage.story.until_alive(generation=1, world=3)
    third.signal(signal.SIGTERM)
    assert third.wait() == 143
    assert "node2" not in ranks(stage.story.until_alive(generation=2, world=2))
    # The same for the node that runs the master.
    first.signal(signal.SIGTERM)
    assert first.wait() == 143
    assert ranks(stage.story.until_alive(generation=3, world=1)) == {"node1": 0}
    finish(stage, second)


# ---- cuts


def test_the_minority_of_a_cut_stops_and_the_majority_goes_on(stage: Stage, network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    job = f"--nnodes 2:3 --master {MASTER} {SILENCE}"
    first, second, third = (stage.launch(job, host=host) for host in (a, b, c))
    stage.story.until_alive(generation=1, world=3)
    net.isolate(c)
    assert third.wait() == 3  # and none of its workers is left
    assert "node2" not in ranks(stage.story.until_alive(generation=2, world=2))
    assert "cut off from 10.88.0." in third.stderr
    assert "this side has no majority of generation 1" in third.stderr
    assert f"node 10.88.0.3 was lost: silent for {SILENCE_S} s" in second.expect("was lost")

    net.rejoin(c)
    again = stage.launch(job, host=c)
    stage.story.until_alive(generation=3, world=3)
    finish(stage, first, second, again)


def test_a_short_cut_changes_nothing(stage: Stage, network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    job = f"--nnodes 1:2 --master {MASTER} --heartbeat_timeout 20 {QUICK}"
    first, second = stage.launch(job, host=a), stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    net.cut(a, b)
    stage.story.order("say told while the hosts were cut off", rank=1)
    second.expect("told while the hosts were cut off")
    net.heal(a, b)
    finish(stage, first, second)
    assert {life.generation for life in stage.story.lives()} == {1}


def test_at_a_tie_the_side_with_the_master_goes_on(stage: Stage, network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    job = f"--nnodes 1:2 --master {MASTER} {SILENCE}"
    first, second = stage.launch(job, host=a), stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    net.cut(a, b)
    assert second.wait() == 3
    assert ranks(stage.story.until_alive(generation=2, world=1)) == {"node0": 0}
    assert "cut off from 10.88.0.1" in second.stderr
    net.heal(a, b)
    finish(stage, first)


def test_a_master_in_the_minority_stops_and_the_others_find_another(stage: Stage, network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    job = f"--nnodes 1:3 --master {MASTER} {SILENCE}"
    first, second, third = (stage.launch(job, host=host) for host in (a, b, c))
    stage.story.until_alive(generation=1, world=3)
    net.isolate(a)
    assert first.wait() == 3
    assert "this side has no majority of generation 1" in first.stderr
    assert set(ranks(stage.story.until_alive(generation=2, world=2))) == {"node1", "node2"}

    net.rejoin(a)
    again = stage.launch(job, host=a)
    assert ranks(stage.story.until_alive(generation=3, world=3))["node0"] == 0
    finish(stage, again, second, third)


def test_a_node_that_only_the_master_cannot_hear_stops(stage: Stage, network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    job = f"--nnodes 1:3 --master {MASTER} {SILENCE}"
    first, second, third = (stage.launch(job, host=host) for host in (a, b, c))
    stage.story.until_alive(generation=1, world=3)
    net.cut(a, c)
    assert third.wait() == 3
    assert "node2" not in ranks(stage.story.until_alive(generation=2, world=2))
    finish(stage, first, second)


def test_nodes_that_do_not_hear_one_another_go_on_while_both_hear_the_master(
    stage: Stage, network: NetworkFactory
) -> None:
    net = network(3)
    a, b, c = net.hosts
    job = f"--nnodes 1:3 --master {MASTER} {SILENCE}"
    launchers = [stage.launch(job, host=host) for host in (a, b, c)]
    stage.story.until_alive(generation=1, world=3)
    net.cut(b, c)
    cut = time.monotonic()
    until(
        lambda: stage.story.lives(rank=2)[0].last > cut + 1.5 * SILENCE_S, "more than the heartbeat timeout has passed"
    )
    finish(stage, *launchers)


# ---- masters


def test_survivors_of_a_killed_master_agree_on_the_next_and_take_the_old_one_in(
    stage: Stage, network: NetworkFactory
) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 1:3 --master {MASTER} {QUICK} --elastic_timeout 10"
    stage.launch(job, host=a).expect("no UMIAK_TOKEN")
    stage.launch(f"{job} --rank 1", host=b)
    third = stage.launch(f"{job} --rank 2", host=c)
    stage.story.until_alive(generation=1, world=3)
    a.kill()
    assert set(ranks(stage.story.until_alive(generation=2, world=2))) == {"node1", "node2"}
    assert "the master node 10.88.0.1 was lost: its connection was closed" in third.stderr

    # At the same address, by the same command: it must join the running job, not form one of its own.
    a.start()
    again = stage.launch(job, host=a)
    assert ranks(stage.story.until_alive(generation=3, world=3)) == {"node0": 0, "node1": 1, "node2": 2}
    again.expect("the job is led by 10.88.0.")

    # And the next master dies as well.
    b.kill()
    assert set(ranks(stage.story.until_alive(generation=4, world=2))) == {"node0", "node2"}
    finish(stage, again, third)


def test_the_last_survivor_of_a_master_and_a_node_goes_on(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 1:3 --master {MASTER} {QUICK}"
    for host in (a, b):
        stage.launch(job, host=host)
    third = stage.launch(job, host=c)
    stage.story.until_alive(generation=1, world=3)
    a.begin_end()
    b.begin_end()
    assert ranks(stage.story.until_alive(world=1)) == {"node2": 0}
    finish(stage, third)


def test_a_master_that_is_killed_while_the_job_forms_again_leaves_nothing(
    stage: Stage, network: NetworkFactory
) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 1:3 --master {MASTER} {SILENCE}"
    first = stage.launch(job, host=a)
    for host in (b, c):
        stage.launch(job, host=host)
    stage.story.until_alive(generation=1, world=3)
    b.power_off()
    first.expect(f"node 10.88.0.2 was lost: silent for {SILENCE_S} s")
    first.signal(signal.SIGKILL)
    first.until_nobody_is_left()


def test_survivors_of_a_master_without_power_go_on(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    job = f"--nnodes 2:3 --master {MASTER} {SILENCE}"
    stage.launch(job, host=a)
    second, third = stage.launch(job, host=b), stage.launch(job, host=c)
    stage.story.until_alive(generation=1, world=3)
    a.power_off()
    assert set(ranks(stage.story.until_alive(generation=2, world=2))) == {"node1", "node2"}
    assert f"the master node 10.88.0.1 was lost: silent for {SILENCE_S} s" in second.stderr
    finish(stage, second, third)


def test_the_other_half_of_two_stops_when_the_master_loses_power(stage: Stage, network: NetworkFactory) -> None:
    """It can't know that it is not a cut, and at a cut the master's side goes on."""
    a, b = network(2).hosts
    job = f"--nnodes 1:2 --master {MASTER} {SILENCE}"
    stage.launch(job, host=a)
    second = stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    a.power_off()
    assert second.wait() == 3
    assert "cut off from 10.88.0.1" in second.stderr


def test_a_job_of_fixed_size_ends_when_its_master_is_killed(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    job = f"--nnodes 2 --master {MASTER} {QUICK}"
    stage.launch(job, host=a)
    second = stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    a.kill()
    assert second.wait() == 1
    assert "error: the master node 10.88.0.1 was lost: its connection was closed" in second.stderr


def test_a_job_of_fixed_size_ends_when_a_node_is_killed(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    job = f"--nnodes 2 --master {MASTER} {QUICK}"
    first = stage.launch(job, host=a)
    stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    b.kill()
    assert first.wait() == 1
    assert "error: node 10.88.0.2 was lost: its connection was closed" in first.stderr


def test_a_job_of_fixed_size_that_may_restart_waits_for_a_lost_node(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    job = f"--nnodes 2 --max_restart 1 --master {MASTER} {QUICK}"
    first = stage.launch(job, host=a)
    stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    b.kill()
    first.expect("node 10.88.0.2 was lost")
    b.start()
    again = stage.launch(job, host=b)
    lives = stage.story.until_alive(generation=2, world=2)
    assert ranks(lives) == {"node0": 0, "node1": 1}
    assert {life.restarts for life in lives} == {1}
    finish(stage, first, again)


def test_a_job_of_fixed_size_that_may_restart_waits_for_its_lost_master(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    job = f"--nnodes 2 --max_restart 1 --master {MASTER} {QUICK}"
    stage.launch(job, host=a)
    second = stage.launch(job, host=b)
    stage.story.until_alive(generation=1, world=2)
    a.kill()
    second.expect("the master node 10.88.0.1 was lost")
    a.start()
    again = stage.launch(job, host=a)
    assert ranks(stage.story.until_alive(generation=2, world=2)) == {"node0": 0, "node1": 1}
    finish(stage, again, second)
