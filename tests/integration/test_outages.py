"""Outages of every length, for every place in line: nodes that keep the majority train on, and the healed one joins or ends with 3.

The same law is tried on thousands of simulated outages in tests/laws/test_rendezvous_law.py; here the network, TCP and its
retries are real. `launching.Stage.close` checks that no two formations ever lived at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from testbed import hosts
from testbed.pytest_support import NetworkFactory
from tests.support import effort
from tests.support.launching import Launcher, Stage, until

pytestmark = pytest.mark.netns

TIMEOUT_S = 5.0
"""A launcher that gets no processor for half of it is ended by its watchdog: machines that run tests may be busy."""
ELASTIC = (
    f"--nnodes 1:3 --master 10.88.0.1:7000 --heartbeat_timeout {TIMEOUT_S:g} --elastic_timeout 60 --join_timeout 120 "
    "--failure_grace 1 --max_restart 100"
)
FIXED = ELASTIC.replace("1:3", "3")


def isolated(number: int) -> Callable[[hosts.Network, bool], None]:
    def change(net: hosts.Network, is_cut: bool) -> None:
        (net.isolate if is_cut else net.rejoin)(net.hosts[number])

    return change


def pair(one: int, other: int) -> Callable[[hosts.Network, bool], None]:
    def change(net: hosts.Network, is_cut: bool) -> None:
        (net.cut if is_cut else net.heal)(net.hosts[one], net.hosts[other])

    return change


def one_way(sender: int, receiver: int) -> Callable[[hosts.Network, bool], None]:
    def change(net: hosts.Network, is_cut: bool) -> None:
        (net.cut_one_way if is_cut else net.heal_one_way)(net.hosts[sender], net.hosts[receiver])

    return change


# What is cut, and which of the nodes (0 leads, then 1, then 2) must train on.
OUTAGES = {
    "the next in line": (isolated(1), {0, 2}),
    "the last in line": (isolated(2), {0, 1}),
    "the master": (isolated(0), {1, 2}),
    "master and next": (pair(0, 1), {0, 2}),
    "next to master, one way": (one_way(1, 0), {0, 2}),
    "master to next, one way": (one_way(0, 1), {0, 2}),
}


def until_settled(stage: Stage, launchers: list[Launcher], after: float) -> None:
    """Wait until everybody who has not ended trains in one formation."""

    def look() -> bool:
        lives = stage.story.lives()
        newest = [life for life in lives if life.generation == max(each.generation for each in lives)]
        running = [launcher for launcher in launchers if launcher.process.poll() is None]
        ranks = {life.rank for life in newest if life.last > after}
        return bool(running) and len(ranks) == len(running) == newest[0].world

    until(look, "everybody trains, or has ended", talk=stage.transcript)


LENGTHS = (1.2, 2.0, 3.1)
"""Of outages, in timeouts."""
CELLS = [(outage, LENGTHS[(row + column) % 3]) for row, outage in enumerate(OUTAGES) for column in range(3)]
"""Each outage in each length; those that `make test` tries come first in their row, so that each length is tried twice."""


@pytest.mark.parametrize(("outage", "timeouts"), CELLS if effort.MATRIX else CELLS[::3])
def test_nodes_that_keep_the_majority_train_on(
    stage: Stage, network: NetworkFactory, outage: str, timeouts: float
) -> None:
    net = network(3)
    launchers = [stage.launch(f"{ELASTIC} --rank {rank}", host=host) for rank, host in enumerate(net.hosts)]
    stage.story.until_alive(generation=1, world=3)
    change, majority = OUTAGES[outage]
    change(net, True)
    time.sleep(timeouts * TIMEOUT_S)  # no verdict: how long the outage lasts
    change(net, False)
    until_settled(stage, launchers, time.monotonic())
    assert all(launchers[number].process.poll() is None for number in majority), stage.transcript()
    stage.story.order("end")
    statuses = [launcher.wait() for launcher in launchers]
    assert all(statuses[number] == 0 for number in majority), stage.transcript()
    assert set(statuses) <= {0, 3}, stage.transcript()


def test_a_job_of_fixed_size_takes_the_healed_node_in_again(stage: Stage, network: NetworkFactory) -> None:
    net = network(3)
    launchers = [stage.launch(f"{FIXED} --rank {rank}", host=host) for rank, host in enumerate(net.hosts)]
    stage.story.until_alive(generation=1, world=3)
    net.isolate(net.hosts[1])
    time.sleep(2.0 * TIMEOUT_S)  # no verdict: how long the outage lasts
    net.rejoin(net.hosts[1])
    stage.story.until_alive(generation=2, world=3)
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0, 0, 0], stage.transcript()


def test_a_node_whose_address_is_not_its_own_is_refused(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    first, second = stage.launch(ELASTIC, host=a), stage.launch(ELASTIC, host=b)
    first.expect("waiting for")
    wrong = stage.launch(f"{ELASTIC} --host 10.88.0.2", host=c)
    assert wrong.wait() == 3
    assert "does not answer at its address 10.88.0.2 port" in wrong.stderr
    assert "[UM-MEET-010]" in wrong.stderr
    assert "--host" in wrong.stderr
    first.expect("was refused: the launcher of this node does not answer at its address 10.88.0.2")
    third = stage.launch(ELASTIC, host=c)
    stage.story.until_alive(generation=1, world=3)
    stage.story.order("end")
    assert [launcher.wait() for launcher in (first, second, third)] == [0, 0, 0]


def test_a_node_with_another_heartbeat_timeout_is_refused(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    first = stage.launch(ELASTIC, host=a)
    other = stage.launch(ELASTIC.replace(f"--heartbeat_timeout {TIMEOUT_S:g}", "--heartbeat_timeout 20"), host=b)
    assert other.wait() == 2
    assert "--heartbeat_timeout 20 here, 5 on the master" in other.stderr
    first.signal(15)
    assert first.wait() == 143
