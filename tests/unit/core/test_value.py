"""Values: made by name, never changed, and told apart by their class and fields."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from tests.support import output_of
from umiak.core.value import fields, from_fields, is_value, replace, value
from umiak.ps import specs


@value
class Boat:
    """A boat."""

    name: str
    seats: int = 8
    crew: tuple[str, ...] = ()

    @property
    def is_full(self) -> bool:
        return len(self.crew) >= self.seats


def test_a_value_is_made_by_name_with_defaults() -> None:
    boat = Boat(name="umiak")
    assert (boat.name, boat.seats, boat.crew) == ("umiak", 8, ())
    assert repr(boat) == "Boat(name='umiak', seats=8, crew=())"
    assert not boat.is_full
    assert Boat.__doc__ == "A boat."


def test_positions_mean_nothing() -> None:
    with pytest.raises(TypeError):
        Boat("umiak")  # type: ignore[misc]


def test_a_missing_field_is_named() -> None:
    with pytest.raises(TypeError, match="Boat needs name="):
        Boat(seats=3)  # type: ignore[call-arg]


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(TypeError, match="Boat has no field colour"):
        Boat(name="umiak", colour="red")  # type: ignore[call-arg]


def test_nothing_can_be_changed_or_added_and_the_way_out_is_named() -> None:
    boat = Boat(name="umiak")
    with pytest.raises(AttributeError, match=r"use replace\(\)"):
        boat.seats = 9  # type: ignore[misc]
    with pytest.raises(AttributeError):
        boat.colour = "red"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        del boat.name
    assert not hasattr(boat, "__dict__")


def test_replace_makes_another_value() -> None:
    boat = Boat(name="umiak")
    assert replace(boat, seats=2) == Boat(name="umiak", seats=2)
    assert boat.seats == 8
    with pytest.raises(TypeError):
        replace(boat, colour="red")


def test_equal_values_are_one_key() -> None:
    assert {Boat(name="a"): 1}[Boat(name="a")] == 1
    assert len({Boat(name="a"), Boat(name="a"), Boat(name="a", seats=1)}) == 2
    assert Boat(name="a") != "a"


def test_values_can_be_matched_by_name() -> None:
    match Boat(name="umiak", seats=2):
        case Boat(name="umiak", seats=count):
            assert count == 2
        case _:
            pytest.fail("not matched")


def test_fields_are_told_in_their_order() -> None:
    assert fields(Boat) == fields(Boat(name="a")) == ("name", "seats", "crew")
    assert is_value(Boat)
    assert is_value(Boat(name="a"))
    assert not is_value("a")


def test_two_values_do_not_share_their_fields() -> None:
    @value
    class Raft:
        name: str

    assert Raft(name="a").name == "a"
    assert Boat(name="b").name == "b"
    with pytest.raises(TypeError):
        Raft(name="a", seats=1)  # type: ignore[call-arg]


def test_making_values_imports_neither_dataclasses_nor_inspect() -> None:
    code = "import sys; import umiak.launch.node.machine; print(sorted({'dataclasses', 'inspect', 'typing'} & set(sys.modules)))"
    assert output_of(code) == "[]\n"


def test_no_two_values_share_a_default_that_can_be_changed() -> None:
    @value
    class Crew:
        names: list[str] = ["anna"]
        seats: dict[str, int] = {}

    first, second, third = Crew(), Crew(), Crew(seats={"bo": 2})
    first.names.append("bo")
    first.seats["anna"] = 1
    assert (second.names, second.seats) == (["anna"], {})
    assert third == Crew(seats={"bo": 2})
    given = {"cy": 3}
    assert Crew(seats=given).seats is given


def test_values_can_be_copied_and_pickled() -> None:
    spec = specs.SparseTable(dim=4, rule=specs.Adam(learning_rate=0.5), accessor=specs.Accessor())
    for another in (copy.copy(spec), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert another == spec
        assert type(another) is specs.SparseTable


def test_fields_without_names_are_told_by_name() -> None:
    with pytest.raises(TypeError, match=re.escape("Boat takes its fields by name: Boat(name='umiak', seats=4)")):
        Boat("umiak", 4)  # type: ignore[misc]


def test_a_value_from_the_fields_of_another() -> None:
    @value
    class Raft:
        name: str
        logs: int
        seats: int = 1

    assert from_fields(Raft, Boat(name="a", seats=4), logs=3) == Raft(name="a", seats=4, logs=3)
    assert from_fields(Raft, Boat(name="a", seats=4), name="b", logs=3) == Raft(name="b", seats=4, logs=3)
    with pytest.raises(TypeError):
        from_fields(Raft, Boat(name="a"))
