"""However a job is torn apart, at most one part of it goes on; and what is not torn apart may go on."""

from __future__ import annotations

import string
from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from tests.support import formation
from umiak.core.cluster import Cluster
from umiak.launch import quorum


def may_go_on(cluster: Cluster, *, here: set[str], dead: Collection[str]) -> bool:
    return quorum.may_go_on([quorum.line_of_succession(cluster)], here=here, dead=dead)


@st.composite
def formations(draw: st.DrawFn) -> Cluster:
    """Any generation of up to nine nodes, led by any of them."""
    names = string.ascii_lowercase[: draw(st.integers(1, 9))]
    return formation(names, coordinator=draw(st.sampled_from(names)))


@st.composite
def torn(draw: st.DrawFn) -> tuple[Cluster, list[tuple[set[str], set[str]]]]:
    """A generation, and its sides: who is there, and which of the dead they know of. Newcomers may be on any side."""
    cluster = draw(formations())
    fate = {name: draw(st.integers(0, 4)) for name in cluster.names}  # 0: dead; else the side that it is on
    dead = {name for name, side in fate.items() if side == 0}
    sides = []
    for number in range(1, 5):
        here = {name for name, side in fate.items() if side == number}
        if here:
            known = {name for name in dead if draw(st.booleans())}
            newcomers = {f"new-{number}-{each}" for each in range(draw(st.integers(0, 3)))}
            sides.append((here | newcomers, known))
    return cluster, sides


@given(torn())
def test_at_most_one_side_goes_on(story: tuple[Cluster, list[tuple[set[str], set[str]]]]) -> None:
    cluster, sides = story
    going_on = [here for here, known in sides if may_go_on(cluster, here=here, dead=known)]
    assert len(going_on) <= 1


@given(formations(), st.data())
def test_survivors_go_on_if_every_other_node_is_known_to_be_dead(cluster: Cluster, data: st.DataObject) -> None:
    survivors = data.draw(st.sets(st.sampled_from(cluster.names), min_size=1))
    dead = set(cluster.names) - survivors
    assert may_go_on(cluster, here=survivors, dead=dead)


@given(formations(), st.data())
def test_who_has_no_majority_does_not_go_on(cluster: Cluster, data: st.DataObject) -> None:
    here = data.draw(st.sets(st.sampled_from(cluster.names), max_size=(len(cluster.names) - 1) // 2))
    assert not may_go_on(cluster, here=here, dead=())


@given(formations(), st.data())
def test_to_know_of_more_deaths_never_hinders(cluster: Cluster, data: st.DataObject) -> None:
    here = data.draw(st.sets(st.sampled_from(cluster.names), min_size=1))
    others = sorted(set(cluster.names) - here)
    dead = data.draw(st.sets(st.sampled_from(others))) if others else set()
    fewer = {name for name in dead if data.draw(st.booleans())}
    if may_go_on(cluster, here=here, dead=fewer):
        assert may_go_on(cluster, here=here, dead=dead)


@given(formations())
def test_the_line_of_succession_names_everyone_once_and_the_master_first(cluster: Cluster) -> None:
    line = quorum.line_of_succession(cluster)
    assert line[0] == cluster.coordinator
    assert sorted(line) == sorted(cluster.names)
    others = [name for name in line if name != cluster.coordinator]
    assert others == [name for name in cluster.names if name != cluster.coordinator]
