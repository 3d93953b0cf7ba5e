"""A launcher that stands still for longer than the heartbeat timeout, and then goes on, with old messages waiting for it.

While it stands still its own workers can't be stopped by anybody, so that two formations overlap is unavoidable until it
wakes up. From then on there must be one again, and everybody must come to a clear end.
"""

from __future__ import annotations

import pytest

from testbed.pytest_support import NetworkFactory
from tests.support.launching import Stage, freeze, thaw, until

pytestmark = pytest.mark.netns

FLAGS = "--master 10.88.0.1:7000 --heartbeat_timeout 6 --elastic_timeout 20 --join_timeout 40 --failure_grace 2"


def test_a_frozen_master_that_lost_its_majority_stops_when_it_wakes_up(stage: Stage, network: NetworkFactory) -> None:
    stage.formations_may_overlap = True
    a, b, c = network(3).hosts
    first, second, third = (stage.launch(f"--nnodes 1:3 {FLAGS}", host=host) for host in (a, b, c))
    stage.story.until_alive(generation=1, world=3)
    halves = first.halves()
    freeze(*halves)
    assert {life.host for life in stage.story.until_alive(generation=2, world=2)} == {"node1", "node2"}
    thaw(*halves)
    assert first.wait() == 3
    stage.story.order("end")
    assert [second.wait(), third.wait()] == [0, 0]
    assert {life.host for life in stage.story.lives() if life.generation > 1} == {"node1", "node2"}


def test_a_frozen_master_of_two_goes_on_alone_because_the_other_side_has_stopped(
    stage: Stage, network: NetworkFactory
) -> None:
    a, b = network(2).hosts
    first, second = (stage.launch(f"--nnodes 1:2 {FLAGS}", host=host) for host in (a, b))
    stage.story.until_alive(generation=1, world=2)
    halves = first.halves()
    freeze(*halves)
    assert second.wait() == 3
    thaw(*halves)
    assert {life.host for life in stage.story.until_alive(generation=2, world=1)} == {"node0"}
    stage.story.order("end")
    assert first.wait() == 0


def test_a_frozen_node_stops_and_joins_again_when_it_wakes_up(stage: Stage, network: NetworkFactory) -> None:
    stage.formations_may_overlap = True
    a, b, c = network(3).hosts
    first, second, third = (stage.launch(f"--nnodes 1:3 {FLAGS}", host=host) for host in (a, b, c))
    stage.story.until_alive(generation=1, world=3)
    halves = third.halves()
    freeze(*halves)
    assert {life.host for life in stage.story.until_alive(generation=2, world=2)} == {"node0", "node1"}
    thaw(*halves)
    third.expect("gave this node up: it has not heard this node for 6 s; joining again")
    stage.story.until_alive(generation=3, world=3)
    stage.story.order("end")
    assert [first.wait(), second.wait(), third.wait()] == [0, 0, 0]


def test_a_machine_that_sleeps_with_its_workers_stops_when_it_wakes_up(stage: Stage, network: NetworkFactory) -> None:
    stage.formations_may_overlap = True  # for the moment between waking up and noticing it
    a, b, c = network(3).hosts
    first, second, third = (stage.launch(f"--nnodes 1:3 {FLAGS}", host=host) for host in (a, b, c))
    stage.story.until_alive(generation=1, world=3)
    everybody = [relative.pid for relative in first.family()]
    freeze(*everybody)
    stage.story.until_alive(generation=2, world=2)
    thaw(*everybody)
    assert first.wait() == 3
    stage.story.order("end")
    assert [second.wait(), third.wait()] == [0, 0]


def test_a_frozen_master_of_a_fixed_job_ends_the_job_on_both_nodes(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    first, second = (stage.launch(f"--nnodes 2 {FLAGS}", host=host) for host in (a, b))
    stage.story.until_alive(generation=1, world=2)
    halves = first.halves()
    freeze(*halves)
    assert second.wait() == 3
    assert "error: the master node 10.88.0.1 was lost: silent for 6 s" in second.stderr
    thaw(*halves)
    assert first.wait() in (1, 3)
    assert "10.88.0.2" in first.stderr.rpartition("error: ")[2]


def test_a_short_nap_changes_nothing(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = FLAGS.replace("--heartbeat_timeout 6", "--heartbeat_timeout 30")
    first, second = (stage.launch(f"--nnodes 1:2 {flags}", host=host) for host in (a, b))
    (life, _) = stage.story.until_alive(generation=1, world=2)
    halves = first.halves()
    freeze(*halves)
    until(lambda: stage.story.lives(rank=0)[0].last > life.first + 1, "a second has passed")
    thaw(*halves)
    stage.story.order("end")
    assert [first.wait(), second.wait()] == [0, 0]
    assert {life.generation for life in stage.story.lives()} == {1}
