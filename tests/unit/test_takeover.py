"""Two launchers that lead one job find out which of them goes on."""

from __future__ import annotations

import pytest

from tests.support import terms
from umiak.core.cluster import Cluster, Node
from umiak.launch import takeover
from umiak.launch.events import TakeoverCalled
from umiak.launch.takeover import Reply
from umiak.testing.simulation import World

OWN = Cluster(
    job_id="ctr",
    generation=4,
    coordinator="a",
    restarts=0,
    lineage="l",
    nodes=tuple(Node(name=name, host=f"host-{name}", home=home, ports=(1, 2)) for home, name in enumerate("abc")),
)


def called(generation: int = 4, *, formed: bool = False, ready: bool = False) -> TakeoverCalled:
    return TakeoverCalled(call=1, host="host-b", port=7, generation=generation, lineage="l", formed=formed, ready=ready)


@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_what_was_formed_counts_before_what_may_be(ready: bool, first: bool) -> None:
    def reply(call: TakeoverCalled, *, formed: bool) -> Reply:
        return takeover.reply(call, OWN, formed=formed, ready=ready, first=first)

    assert reply(called(), formed=True) is Reply.COME_HERE
    assert reply(called(ready=True), formed=True) is Reply.COME_HERE
    assert reply(called(5, formed=True), formed=True) is Reply.GIVE_WAY
    assert reply(called(5, formed=True), formed=False) is Reply.GO_THERE
    assert reply(called(formed=True), formed=False) is Reply.IGNORE
    assert reply(called(3), formed=False) is Reply.IGNORE


@pytest.mark.parametrize(
    ("ready", "first", "call_ready", "expected"),
    [
        (True, False, False, Reply.COME_HERE),
        (True, True, True, Reply.COME_HERE),
        (False, True, False, Reply.COME_HERE),
        (False, True, True, Reply.IGNORE),
        (False, False, False, Reply.IGNORE),
        (False, False, True, Reply.IGNORE),
    ],
)
def test_of_two_that_have_taken_over_one_goes_on(ready: bool, first: bool, call_ready: bool, expected: Reply) -> None:
    """A majority counts first, then the place in line."""
    assert takeover.reply(called(ready=call_ready), OWN, formed=False, ready=ready, first=first) is expected


def test_two_nodes_that_took_over_find_each_other() -> None:
    """The second in line is cut off while the third asks it who leads; neither of them has a majority alone."""
    world = World(terms("5", max_restart=3), seed=3, latency_s=0.02)
    for name in "abcde":
        world.start(name)
    world.run(20)
    line = world.nodes["a"].cluster.names  # type: ignore[union-attr]
    second, third, fourth, fifth = line[1:]
    world.cut({second, fourth}, {third, fifth})
    world.kill("a")
    world.run(2.5)
    leading = [name for name in line[1:] if world.nodes[name].coordinator]
    assert leading == [second, third]
    world.heal()
    world.start("a")
    world.run(60)
    assert {*world.running()} == {*line[1:], "a'"}
