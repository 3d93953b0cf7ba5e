"""Two launchers that lead one job find out which of them goes on."""

from __future__ import annotations

import pytest

from tests.support import terms
from tests.support.simulated_cluster import World
from tests.support.simulated_node import SimNode
from umiak.core.cluster import Cluster, Node
from umiak.launch.events import TakeoverCalled
from umiak.launch.master import takeover
from umiak.launch.master.takeover import Reply
from umiak.launch.protocol import Form, FromMaster

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
    assert reply(called(3, formed=True), formed=False) is Reply.IGNORE


@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_of_two_that_have_taken_over_the_one_that_knows_more_goes_on(ready: bool, first: bool) -> None:
    assert takeover.reply(called(3, ready=True), OWN, formed=False, ready=ready, first=first) is Reply.COME_HERE
    assert takeover.reply(called(5), OWN, formed=False, ready=ready, first=first) is Reply.GO_THERE


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


def test_a_master_that_dies_before_it_says_a_word_may_have_formed_another_generation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """b and c come back to a after a cut, and a dies at that moment: it has formed a generation with d and e meanwhile."""
    world = World(terms("1:5", max_restart=3), seed=1, latency_s=0.0)
    for name in "abcde":
        world.start(name)
    world.run(10)
    world.cut({"b", "c"}, {"a", "d", "e"})
    world.run(8)
    assert {name: cluster.generation for name, cluster in world.running().items()} == dict.fromkeys("ade", 2)
    tell = SimNode._tell
    monkeypatch.setattr(SimNode, "_tell", lambda node, message: None)  # what they say does not get there in time
    world.heal()
    world.run(0.5)
    assert [world.nodes[name].master for name in "bc"] == ["a", "a"]
    world.kill("a")
    monkeypatch.setattr(SimNode, "_tell", tell)
    world.cut({"b", "c"}, {"d", "e"})
    world.run(60)
    assert set(world.running()) == {"d", "e"}
    assert [world.nodes[name].exit_status for name in "bc"] == [3, 3]


def test_a_node_that_is_found_dead_late_may_have_formed_another_generation() -> None:
    """e forms a generation with a and b, dies, and its host can be reached again: it still counts against c, d and f."""
    world = World(terms("1:6", max_restart=3), seed=1, latency_s=0.02)
    for name in "abcdef":
        world.start(name)
    world.run(10)
    world.cut({"a", "b", "e"}, {"c", "d", "f"})
    world.run(6.5)
    assert set(world.running()) == {"a", "b", "e"}
    world.kill("e")
    world.heal()
    world.cut({"a", "b"}, {"c", "d", "f"})
    world.run(60)
    assert set(world.running()) == {"a", "b"}
    assert [world.nodes[name].exit_status for name in "cdf"] == [3, 3, 3]


def test_two_nodes_that_die_at_once_are_both_known_to_be_dead() -> None:
    """Nobody can have formed anything meanwhile, so the last node is one of one."""
    world = World(terms("1:3", max_restart=3), seed=1, latency_s=0.02)
    for name in "abc":
        world.start(name)
    world.run(10)
    world.kill("a")
    world.kill("b")
    world.run(20)
    assert set(world.running()) == {"c"}


def test_a_generation_that_few_have_heard_of_does_not_end_the_majority(monkeypatch: pytest.MonkeyPatch) -> None:
    """a forms a second generation after a failure, f hears of it, and both are cut off before the others do."""
    world = World(terms("1:6", max_restart=3), seed=1, latency_s=0.0)
    for name in "abcdef":
        world.start(name)
    world.run(10)
    send = SimNode.send

    def send_to_few(node: SimNode, name: str, message: FromMaster) -> None:
        if name in "af" or not isinstance(message, Form):
            send(node, name, message)

    monkeypatch.setattr(SimNode, "send", send_to_few)
    world.nodes["b"].fail_worker()
    world.run(1)
    assert {name: cluster.generation for name, cluster in world.running().items()} == {"a": 2, "f": 2}
    monkeypatch.setattr(SimNode, "send", send)
    world.cut({"a", "f"}, {"b", "c", "d", "e"})
    world.run(8)
    world.heal()
    world.run(60)
    assert {"b", "c", "d", "e"} <= set(world.running())
    assert world.running()["b"].generation == 3
