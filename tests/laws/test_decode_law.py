"""What is encoded can be decoded, through JSON and back; and whatever else comes is Malformed, never another error."""

from __future__ import annotations

import functools
import json
import sys
import types
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from umiak.core.cluster import Cluster, Node
from umiak.core.decode import Malformed, decode, decode_tagged, encode, encode_tagged
from umiak.core.value import fields, is_value
from umiak.launch import events, journal, protocol

MESSAGES = (*protocol.FROM_NODE, *protocol.FROM_MASTER)
EVENTS = (*events.NODE_EVENTS, *events.RENDEZVOUS_EVENTS)
OTHERS = (events.NodeSetting, events.Lead, protocol.Terms, protocol.Offer, protocol.Failure, Cluster)

words = st.text(max_size=8)
numbers = st.integers(-(2**53), 2**53)
port_lists = st.one_of(
    st.lists(st.integers(1, 65535), max_size=4).map(tuple),
    st.tuples(st.integers(1, 60000), st.integers(0, 9)).map(lambda pair: tuple(range(pair[0], sum(pair)))),
)
reals = st.floats(allow_nan=False, allow_infinity=False)


@functools.cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of this type, made from the types of its fields."""
    plain = {int: numbers, float: reals, str: words, bool: st.booleans(), type(None): st.none()}
    if kind in plain:
        return plain[kind]
    if isinstance(kind, types.UnionType):
        return st.one_of([values_of(each) for each in kind.__args__])
    if isinstance(kind, types.GenericAlias) and kind.__args__[-1] is ...:
        return st.lists(values_of(kind.__args__[0]), max_size=3).map(tuple)
    if isinstance(kind, types.GenericAlias):
        return st.tuples(*(values_of(each) for each in kind.__args__))
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    if kind is Cluster:
        return clusters()
    assert is_value(kind)
    names = vars(sys.modules[kind.__module__])
    of_fields = {name: values_of(eval(kind.__annotations__[name], dict(names))) for name in fields(kind)}
    if kind is Node:
        of_fields["ports"] = port_lists
    return st.fixed_dictionaries(of_fields).map(lambda given_fields: kind(**given_fields))


def clusters() -> st.SearchStrategy[Cluster]:
    """Any cluster; no two of its nodes bear the same name."""
    nodes = st.lists(values_of(Node), max_size=3, unique_by=lambda node: node.name).map(tuple)
    return st.builds(Cluster, job_id=words, generation=numbers, nodes=nodes, coordinator=words, restarts=numbers)


def through_json(plain: Any) -> Any:
    return json.loads(json.dumps(plain))


def named(classes: tuple[type, ...]) -> list[Any]:
    return [pytest.param(cls, id=f"{cls.__module__.rsplit('.', 1)[-1]}-{cls.__name__}") for cls in classes]


@pytest.mark.parametrize("cls", named((*OTHERS, Node)))
@effort(0.15)
@given(st.data())
def test_a_value_is_the_same_after_a_journey(cls: type, data: st.DataObject) -> None:
    item = data.draw(values_of(cls))
    assert decode(cls, through_json(encode(item))) == item


@pytest.mark.parametrize("cls", named(MESSAGES))
@effort(0.15)
@given(st.data())
def test_a_message_is_the_same_after_a_journey(cls: type, data: st.DataObject) -> None:
    message = data.draw(values_of(cls))
    assert decode_tagged(MESSAGES, through_json(encode_tagged(message))) == message


@pytest.mark.parametrize("cls", named(EVENTS))
@effort(0.15)
@given(st.data())
def test_an_event_is_the_same_after_a_stay_in_the_journal(cls: type, data: st.DataObject) -> None:
    event = data.draw(values_of(cls))
    kinds = events.NODE_EVENTS if cls in events.NODE_EVENTS else events.RENDEZVOUS_EVENTS
    formations: dict[str, Any] = {}
    plain = journal.plain(event, lambda name, cluster: formations.update({name: encode(cluster)}))
    assert decode_tagged(kinds, journal.recalled(through_json(plain), through_json(formations))) == event


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
every_field = st.sampled_from(sorted({name for cls in (*MESSAGES, *EVENTS) for name in fields(cls)}))
nearly = st.builds(
    lambda kind, rest: {**rest, "is": kind.__name__},
    st.sampled_from([*MESSAGES, *EVENTS]),
    st.dictionaries(every_field, anything, max_size=4),
)


def decoded(kinds: tuple[type, ...], plain: Any) -> Any:
    """A value of one of these kinds, or None where the data is Malformed, with a reason."""
    try:
        return decode_tagged(kinds, plain)
    except Malformed as malformed:
        return None if str(malformed) else pytest.fail("malformed for no reason")


@effort(3)
@given(anything | nearly)
def test_garbage_is_malformed_and_nothing_else(garbage: Any) -> None:
    for kinds in (protocol.FROM_NODE, protocol.FROM_MASTER, events.NODE_EVENTS, events.RENDEZVOUS_EVENTS):
        item = decoded(kinds, garbage)
        assert item is None or type(item).__name__ == garbage["is"]


@pytest.mark.parametrize("cls", named((*MESSAGES, *OTHERS)))
@effort(0.15)
@given(st.data())
def test_a_message_with_one_piece_exchanged_is_malformed_or_well_formed(cls: type, data: st.DataObject) -> None:
    plain = through_json(encode_tagged(data.draw(values_of(cls))))
    inside = plain
    while True:  # walk to a random place in it
        places = list(inside) if isinstance(inside, dict) else range(len(inside))
        if not places:
            return
        place = data.draw(st.sampled_from(list(places)))
        if not isinstance(inside[place], (dict, list)) or data.draw(st.booleans()):
            break
        inside = inside[place]
    inside[place] = data.draw(anything)
    again = decoded((*MESSAGES, *OTHERS), plain)
    assert again is None or type(again).__name__ == plain["is"]
