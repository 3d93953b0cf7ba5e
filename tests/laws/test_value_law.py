"""Values are equal when all their fields are, are never changed, and a replaced field is the only difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umiak.core.value import fields, replace, value


@value
class Thing:
    name: str
    size: int = 1
    parts: tuple[str, ...] = ()


@value
class OtherThing:
    name: str
    size: int = 1
    parts: tuple[str, ...] = ()


contents = st.fixed_dictionaries(
    {"name": st.text(max_size=3)},
    optional={"size": st.integers(0, 3), "parts": st.lists(st.sampled_from("ab"), max_size=2).map(tuple)},
)
filled = st.builds(lambda given: {"size": 1, "parts": (), **given}, contents)


@given(contents, contents)
def test_two_values_are_equal_exactly_if_all_fields_are(one: dict, other: dict) -> None:
    same_fields = {"size": 1, "parts": (), **one} == {"size": 1, "parts": (), **other}
    assert (Thing(**one) == Thing(**other)) is same_fields
    if same_fields:
        assert hash(Thing(**one)) == hash(Thing(**other))


@given(filled)
def test_another_class_with_the_same_fields_is_another_value(given_fields: dict) -> None:
    assert Thing(**given_fields) != OtherThing(**given_fields)


@given(filled)
def test_what_a_value_shows_makes_it_again(given_fields: dict) -> None:
    thing = Thing(**given_fields)
    assert eval(repr(thing), {"Thing": Thing}) == thing


@given(filled, contents)
def test_replace_changes_the_named_fields_only(given_fields: dict, changes: dict) -> None:
    thing = Thing(**given_fields)
    changed = replace(thing, **changes)
    for name in fields(Thing):
        assert getattr(changed, name) == changes.get(name, given_fields[name])
    assert thing == Thing(**given_fields)


@given(filled, st.sampled_from(["name", "size", "parts", "unknown"]))
def test_no_field_can_be_set_or_deleted(given_fields: dict, name: str) -> None:
    thing = Thing(**given_fields)
    with pytest.raises(AttributeError):
        setattr(thing, name, "other")
    with pytest.raises(AttributeError):
        delattr(thing, name)
    assert thing == Thing(**given_fields)
