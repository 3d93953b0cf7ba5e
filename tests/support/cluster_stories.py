"""What can happen to a simulated job, played, and what must hold afterwards. `test_rendezvous_law` draws stories with Hypothesis,
`campaign` draws them from seeds, for as long as one likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.simulated_cluster import LONGEST_RETRY_S, World
from tests.support.simulated_node import SimNode
from umiak.core.cluster import Role
from umiak.launch import events
from umiak.launch.master.phases import MasterPhase
from umiak.launch.node.phases import NodePhase
from umiak.launch.protocol import Terms

NAMES = "abcdef"
TOLD_WHO_LEADS_S = 1.5
"""After this time a launcher that is started at the first address has been told that the job is led from elsewhere."""

KINDS = ("kill", "start", "cut", "isolate", "heal", "freeze", "fail", "stubborn", "signal", "finish", "nothing")


@dataclass(frozen=True)
class Blow:
    """One thing that happens, to the node with this number, and the time that passes after it."""

    kind: str
    whom: int
    side: int
    pause_s: float


@dataclass(frozen=True)
class Story:
    terms: Terms
    seed: int
    latency_s: float
    servers: int
    blows: tuple[Blow, ...]


class WatchedWorld(World):
    """A world that looks, after every event, at what each node was ever told to run."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.last_generation: dict[str, int] = {}

    def check(self) -> None:
        super().check()
        for name, cluster in self.running().items():
            assert cluster.generation >= self.last_generation.get(name, 0), f"{name} went back to an older generation"
            self.last_generation[name] = cluster.generation
            assert name in cluster.names
            assert len(set(cluster.names)) == len(cluster.names)
            assert self.terms.least <= len(cluster.names) <= self.terms.most
            for role in Role:
                seats = cluster.seats(role)
                assert [seat.rank for seat in seats] == list(range(len(seats)))


def play(story: Story) -> WatchedWorld:
    world = WatchedWorld(story.terms, seed=story.seed, servers=story.servers, latency_s=story.latency_s)
    for name in NAMES[: story.terms.most]:
        world.start(name)
    for blow in story.blows:
        strike(world, blow)
        world.run(blow.pause_s)
    return world


def strike(world: WatchedWorld, blow: Blow) -> None:
    alive = [node for node in world.nodes.values() if node.alive]
    if not alive:
        return
    node = alive[blow.whom % len(alive)]
    match blow.kind:
        case "kill":
            world.kill(node.name)
        case "start":
            start_another(world, alive, blow.whom)
        case "cut":
            side = {name for number, name in enumerate(world.nodes) if blow.side >> number & 1}
            world.cut(side, set(world.nodes) - side)
        case "isolate":
            world.cut({node.name}, set(world.nodes))
        case "heal":
            world.heal()
        case _:
            strike_node(world, node, blow)


def strike_node(world: WatchedWorld, node: SimNode, blow: Blow) -> None:
    match blow.kind:
        case "freeze" if world.gets_through:
            # Not during a cut: a launcher that is frozen just when it should notice one stops its workers so much later.
            world.freeze(node.name, blow.side / 10)
        case "fail":
            node.fail_worker(3)
        case "stubborn":
            node.stubborn = True
        case "signal":
            node.feed(events.SignalReceived(number=15))
        case "finish":
            for key in [key for key, seat in node.workers.items() if seat.role is not Role.SERVER]:
                node._worker_ends(key)


def start_another(world: WatchedWorld, alive: list[SimNode], whom: int) -> None:
    there = {node.name.rstrip("'") for node in alive}
    absent = [name for name in NAMES if name not in there]
    if not absent:
        return
    name = absent[whom % len(absent)]
    if name == NAMES[0]:
        world.heal()
        world.run(LONGEST_RETRY_S)  # until everyone knows of what happened during the cut
        if any(other.coordinator and other.coordinator.phase is MasterPhase.ENDED for other in alive):
            world.run(world.terms.grace_s)  # until a job that is over has ended; a launcher there starts the next one
    world.start(name)
    if name == NAMES[0]:
        world.run(TOLD_WHO_LEADS_S)


def check_story(story: Story) -> None:
    """Never two halves, which the world checks after each event; and in the end everyone trains, waits for that, or has ended."""
    world = play(story)
    world.heal()
    world.run(700)
    alive = [node for node in world.nodes.values() if node.alive]
    running = world.running()
    for node in alive:
        assert running, f"{node.name} is alive, and nobody runs anything: {node.machine.phase}, {node.said[-2:]}"
        if node.name in running:
            continue
        formed = next(iter(running.values()))
        is_done = node.machine.phase is NodePhase.RUNNING and node.machine.cluster == formed
        master = node if node.coordinator else world.nodes[node.master] if node.master else None
        waits = node.machine.phase is NodePhase.JOINED and master is not None and master.alive and master.coordinator
        assert is_done or waits, f"{node.name} is stuck: {node.machine.phase}, {node.said[-2:]}"


@dataclass(frozen=True)
class Outage:
    """These nodes can't reach the others, or only one of them, for so many heartbeat timeouts; then all is well for a while."""

    side: frozenset[str]
    only: str | None
    timeouts: float
    calm_s: float


@dataclass(frozen=True)
class OutageStory:
    terms: Terms
    seed: int
    latency_s: float
    outages: tuple[Outage, ...]


def who_must_go_on(job: Terms, outages: tuple[Outage, ...]) -> set[str]:
    """The nodes that could always reach one another, if they are a majority by themselves, and enough for the job.

    A cut between two nodes only hurts the one of them that follows the other, so it is taken for one of both.
    """
    kept = set(NAMES[: job.most])
    for outage in outages:
        if outage.only is not None:
            kept -= outage.side | {outage.only}
        else:
            others = set(NAMES[: job.most]) - outage.side
            kept &= outage.side if len(outage.side & kept) > len(others & kept) else others
    enough = 2 * len(kept) > job.most and (len(kept) >= job.least or job.least == job.most)
    return kept if enough else set()


def check_outages(story: OutageStory) -> None:
    """The nodes that kept a majority among themselves train in the end, all of them."""
    job = story.terms
    world = WatchedWorld(job, seed=story.seed, latency_s=story.latency_s)
    for name in NAMES[: job.most]:
        world.start(name)
    world.run(10)
    assert len(world.running()) == job.most
    for outage in story.outages:
        others = {outage.only} if outage.only else set(world.nodes) - outage.side
        world.cut(outage.side, others)
        world.run(outage.timeouts * job.heartbeat_timeout_s)
        world.heal()
        world.run(outage.calm_s)
    world.run(20 + 10 * job.heartbeat_timeout_s)
    must = who_must_go_on(job, story.outages)
    ended = {name: (node.exit_status, node.words) for name, node in world.nodes.items() if not node.alive}
    assert not must & set(ended), f"{sorted(must)} kept the majority, and of them ended: {ended}"
    assert {status for status, _ in ended.values()} <= {1, 3}
    if job.least < job.most or not ended:
        assert must <= set(world.running()), f"not all of {sorted(must)} run: {world.running().keys()}, ended {ended}"
