"""Whatever happens to the launchers of a job, and in whatever order: never two halves, and never a node that is stuck.

A story is a job's terms and a list of blows: launchers killed, frozen and started, ways cut and healed, workers that fail, end, or
do not listen, signals, and pauses of any length in between. It is played in the simulation, which drives the real deciders.

Safety alone is not enough: a job that always ends at once is never in two pieces. So there is a law of its own for outages, after
which the nodes that could always reach one another, if they are a majority, must all be training again.

One thing no rule of this launcher promises, so no story holds it: a launcher that is started again at the first address knows
nothing of a job that went on elsewhere until it is told, so there is a pause after it and no cut before it, and a job that is
over has ended before.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support import formation, offer, setting, terms
from tests.support.cluster_stories import (
    KINDS,
    NAMES,
    Blow,
    Outage,
    OutageStory,
    Story,
    check_outages,
    check_story,
    play,
)
from tests.support.effort import effort
from umiak.core.cluster import Cluster, Role
from umiak.core.value import replace
from umiak.launch import events, protocol
from umiak.launch.master import rendezvous
from umiak.launch.master.phases import MasterPhase
from umiak.launch.protocol import Failure, FailureKind, Terms

pauses = st.sampled_from([0.0, 0.001, 0.02, 0.3, 1.0, 3.0, 5.0, 6.0, 12.0])


blows = st.builds(Blow, kind=st.sampled_from(KINDS), whom=st.integers(0, 5), side=st.integers(1, 62), pause_s=pauses)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    least = draw(st.integers(1, 3))
    most = draw(st.integers(least, 5))
    servers = draw(st.sampled_from([0, 0, 1]))
    job = terms(
        f"{least}:{most}",
        mode="ps" if servers else "collective",
        max_restart=draw(st.integers(0, 4)),
        restart_wanted=draw(st.booleans()) or least < most,
        elastic_timeout_s=20.0,
        trainer_restart=draw(st.sampled_from(["group", "alone"])),
    )
    return Story(
        terms=job,
        seed=draw(st.integers(0, 2**16)),
        latency_s=draw(st.sampled_from([0.0, 0.02, 0.5])),
        servers=servers,
        blows=tuple(draw(st.lists(blows, max_size=14))),
    )


@effort(4)
@given(stories())
def test_never_two_halves_and_nobody_is_stuck(story: Story) -> None:
    check_story(story)


# ---- outages: the way between two groups, or two nodes, is cut for a while


@st.composite
def outages(draw: st.DrawFn, size: int) -> Outage:
    names = NAMES[:size]
    side = draw(st.frozensets(st.sampled_from(names), min_size=1, max_size=size - 1))
    single = draw(st.booleans())
    others = [name for name in names if name not in side]
    return Outage(
        side=frozenset({min(side)}) if single else side,
        only=draw(st.sampled_from(others)) if single else None,
        timeouts=draw(
            st.floats(0.0, 4.0) | st.sampled_from([0.99, 1.0, 1.05, 1.1, 1.2, 1.25, 1.3, 2.0, 2.3, 3.0, 3.3])
        ),
        calm_s=draw(st.sampled_from([0.0, 0.1, 0.5, 2.0, 5.0, 40.0])),
    )


@st.composite
def outage_stories(draw: st.DrawFn) -> OutageStory:
    size = draw(st.integers(2, 5))
    least = draw(st.sampled_from([1, size]))
    job = terms(
        f"{least}:{size}",
        max_restart=1000,
        heartbeat_timeout_s=draw(st.sampled_from([1.0, 5.0])),
        elastic_timeout_s=60.0,
    )
    job = replace(job, fence_s=1.25 * min(1.0, job.heartbeat_timeout_s / 5))
    return OutageStory(
        terms=job,
        seed=draw(st.integers(0, 2**16)),
        latency_s=draw(st.sampled_from([0.0, 0.02, 0.2])),
        outages=tuple(draw(st.lists(outages(size), min_size=1, max_size=4))),
    )


@effort(4)
@given(outage_stories())
def test_nodes_that_keep_the_majority_go_on_after_any_outage(story: OutageStory) -> None:
    check_outages(story)


@effort(1)
@given(stories())
def test_the_same_story_always_goes_the_same_way(story: Story) -> None:
    one, other = play(story), play(story)
    for name, node in one.nodes.items():
        assert node.said == other.nodes[name].said
        assert node.exit_status == other.nodes[name].exit_status
        assert node.cluster == other.nodes[name].cluster


# ---- the master alone, with events that no real network would bring: doubled, forged, out of order

node_names = st.sampled_from("abcd")
generations = st.integers(0, 4)


def failure_of(name: str, key: str, kind: FailureKind, port_taken: bool, at: float) -> Failure:
    role = Role(key.split(".", maxsplit=1)[0])
    return Failure(
        kind=kind, at=at, node=name, host=f"host-{name}", role=role, rank=0, key=key, exit_code=3, port_taken=port_taken
    )


failures = st.builds(
    failure_of,
    node_names,
    st.sampled_from(["trainer.0", "server.0"]),
    st.sampled_from([FailureKind.EXITED, FailureKind.HUNG, FailureKind.NOT_STARTED]),
    st.booleans(),
    st.floats(0, 100),
)


def messages(job: Terms) -> st.SearchStrategy[Any]:
    def join(name: str, rank: int | None) -> events.MessageFromNode:
        return events.MessageFromNode(name=name, message=protocol.Join(offer=offer(name, rank=rank), terms=job))

    def said(name: str, message: protocol.FromNode) -> events.MessageFromNode:
        return events.MessageFromNode(name=name, message=message)

    others = st.one_of(
        st.builds(protocol.Ready, generation=generations),
        st.builds(protocol.Done, generation=generations),
        st.builds(protocol.Failed, generation=generations, failure=failures),
        st.builds(protocol.Stopped, generation=generations, ports=st.just((30000, 30001))),
        st.builds(protocol.Leaving, signal=st.sampled_from([2, 15])),
    )
    return st.one_of(
        st.builds(join, node_names, st.none() | st.integers(0, 3)),
        st.builds(said, node_names, others),
        st.builds(events.NodeClosed, name=node_names),
        st.builds(events.NodeSilent, name=node_names),
        st.builds(events.NodeRefused, name=node_names),
        st.builds(
            events.TakeoverCalled,
            call=st.just(1),
            host=st.just("10.0.0.9"),
            port=st.just(7000),
            generation=generations,
            lineage=st.sampled_from(["of-a", "other"]),
            formed=st.booleans(),
            proven=st.booleans(),
        ),
        st.just(events.TakeoverRefused(host="10.0.0.9", port=7000)),
        st.just(events.Tick()),
    )


@effort(3)
@given(st.data())
def test_the_master_takes_anything_and_forms_only_what_is_sound(data: st.DataObject) -> None:
    least, most = data.draw(st.sampled_from([(1, 1), (2, 2), (1, 3), (2, 3)]))
    mode = data.draw(st.sampled_from(["collective", "ps"]))
    level = data.draw(st.sampled_from([-1, 0]))
    job = replace(terms(f"{least}:{most}", mode=mode, max_restart=2), elastic_level=level)
    previous = data.draw(st.none() | st.just(formation("abcd", generation=1, coordinator="b")))
    master = rendezvous.Coordinator(setting(job), events.Lead(previous=previous), now=0.0)
    now, last_generation = 0.0, previous.generation if previous else 0
    for event in data.draw(st.lists(messages(job), max_size=30)):
        now += data.draw(st.sampled_from([0.0, 0.1, 1.0, 6.0, 31.0]))
        ended = master.phase is MasterPhase.ENDED
        actions = master.step(now, event)
        formed = [
            a.message.cluster for a in actions if isinstance(a, events.Send) and isinstance(a.message, protocol.Form)
        ]
        assert len(formed) <= 1
        assert not (ended and formed), "a job that has ended was formed again"
        for cluster in formed:
            assert cluster.generation == last_generation + 1
            last_generation = cluster.generation
            assert sound(cluster, least, most)
        if isinstance(event, events.Tick) and master.next_deadline is not None:
            assert master.next_deadline > now, "a tick was asked for, given, and is asked for again"


def sound(cluster: Cluster, least: int, most: int) -> bool:
    names = cluster.names
    return cluster.coordinator in names and len(set(names)) == len(names) and least <= len(names) <= most
