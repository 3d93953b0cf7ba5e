"""Decoding: what is wrong is said with its place; nothing from outside gets past it, and nothing from outside breaks it."""

from __future__ import annotations

import json
from enum import Enum

import pytest

from tests.support import formation, output_of
from umiak.core.cluster import Cluster
from umiak.core.decode import Malformed, decode, decode_tagged, encode, encode_tagged
from umiak.core.value import value
from umiak.launch.protocol import FROM_MASTER, FROM_NODE, Done, Finish, Form, Go, Stop


class Wood(str, Enum):
    OAK = "oak"
    PINE = "pine"


@value
class Plank:
    wood: Wood
    length_m: float = 1.0


@value
class Boat:
    name: str
    planks: tuple[Plank, ...] = ()
    size: tuple[int, int] = (1, 2)
    owner: str | None = None
    by_place: dict[str, Plank] = {}
    afloat: bool = False


BOAT = Boat(name="umiak", planks=(Plank(wood=Wood.OAK), Plank(wood=Wood.PINE, length_m=2.5)), owner="me")


def test_a_value_becomes_plain_data_and_a_value_again() -> None:
    plain = encode(BOAT)
    assert plain["planks"] == [{"wood": "oak", "length_m": 1.0}, {"wood": "pine", "length_m": 2.5}]
    assert decode(Boat, json.loads(json.dumps(plain))) == BOAT


def test_fields_with_defaults_may_be_left_out() -> None:
    assert decode(Boat, {"name": "umiak"}) == Boat(name="umiak")


def test_a_whole_number_will_do_for_a_real_one() -> None:
    decoded = decode(Plank, {"wood": "oak", "length_m": 3})
    assert decoded.length_m == 3.0
    assert type(decoded.length_m) is float


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        ({}, "Boat needs name="),
        ({"name": 3}, "Boat.name: expected str, got 3"),
        ({"name": "a", "afloat": 1}, "Boat.afloat: expected bool, got 1"),
        ({"name": "a", "colour": "red"}, "unknown field 'colour'"),
        ({"name": "a", "planks": "oak"}, "Boat.planks: expected a list"),
        ({"name": "a", "planks": [{"wood": "ash"}]}, "expected one of oak, pine, got 'ash'"),
        ({"name": "a", "planks": [{"wood": ["oak"]}]}, "expected one of oak, pine"),
        ({"name": "a", "planks": [{"wood": "oak", "length_m": "long"}]}, "expected a number, got 'long'"),
        ({"name": "a", "planks": [{"wood": "oak", "length_m": True}]}, "expected a number, got True"),
        ({"name": "a", "planks": [{"wood": "oak", "length_m": 10**400}]}, "too large"),
        ({"name": "a", "size": [1]}, "expected 2 items"),
        ({"name": "a", "size": [1, True]}, "expected int, got True"),
        ({"name": "a", "owner": 7}, "expected str, got 7"),
        ({"name": "a", "by_place": []}, "expected an object"),
        ({"name": "a", "by_place": {"bow": {}}}, "Boat.by_place.bow: Plank needs wood="),
        ([], "Boat: expected an object, got []"),
        (None, "expected an object, got None"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(plain: object, told: str) -> None:
    with pytest.raises(Malformed) as error:
        decode(Boat, plain)
    assert told in str(error.value)


def test_a_long_value_is_told_in_short() -> None:
    with pytest.raises(Malformed) as error:
        decode(Boat, {"name": ["x" * 1000]})
    assert len(str(error.value)) < 120


def test_the_kind_chooses_the_class_from_the_callers_list_only() -> None:
    assert decode_tagged(FROM_MASTER, {"is": "Go", "generation": 2}) == Go(generation=2)
    for unknown in (
        {"is": "Done", "generation": 2},
        {"is": "Terms"},
        {"is": "os"},
        {"is": None},
        {"is": ["Go"]},
        {},
        [],
        "Go",
    ):
        with pytest.raises(Malformed):
            decode_tagged(FROM_MASTER, unknown)
    assert encode_tagged(Done(generation=3)) == {"is": "Done", "generation": 3}


def test_what_is_no_value_is_not_encoded() -> None:
    for stranger in (object(), {1, 2}, b"bytes"):
        with pytest.raises(TypeError):
            encode(stranger)


def test_data_as_deep_as_json_allows_is_malformed_and_no_crash() -> None:
    """In a process of its own, because it goes to the very end of the stack."""
    told = output_of(
        """
        import json
        from umiak.core.decode import Malformed, decode_tagged
        from umiak.launch.protocol import FROM_MASTER

        def deepest():
            depth = 2000
            while True:
                try:
                    return json.loads("[" * depth + "]" * depth)
                except RecursionError:
                    depth -= 1

        for deep in (deepest(), {"a": deepest()}):
            try:
                decode_tagged(FROM_MASTER, {"is": "Go", "generation": deep})
            except Malformed:
                print("malformed")
        """
    )
    assert told == "malformed\nmalformed\n"


def test_a_cluster_travels_as_columns() -> None:
    cluster = formation("abc", generation=4, restarts=2, servers=1, trainers=2)
    plain = json.loads(json.dumps(encode(Form(cluster=cluster))))
    assert plain["cluster"]["nodes"]["name"] == ["a", "b", "c"]
    assert decode(Form, plain) == Form(cluster=cluster)


def broken_clusters() -> list[tuple[str, dict[str, object]]]:
    good = json.loads(json.dumps(encode(formation("ab"))))

    def broken(**changes: object) -> dict[str, object]:
        return {**good, **changes}

    def broken_column(name: str, column: object) -> dict[str, object]:
        return {**good, "nodes": {**good["nodes"], name: column}}

    without = {key: item for key, item in good.items() if key != "restarts"}
    return [
        ("a head too few", without),
        ("a head too many", broken(colour="red")),
        ("no nodes", broken(nodes=[])),
        ("text for a number", broken(generation="1")),
        ("a number for text", broken(job_id=1)),
        ("true for a number", broken(restarts=True)),
        ("a column too short", broken_column("home", [0])),
        ("a column that is none", broken_column("host", 5)),
        ("more nodes than names", broken(size=10**12)),
        ("a wrong item", broken_column("home", [0, "1"])),
        ("ports that are none", broken_column("ports", [[1], 2])),
        ("a port that is none", broken_column("ports", [[1], ["2"]])),
    ]


@pytest.mark.parametrize(("plain"), [pytest.param(plain, id=what) for what, plain in broken_clusters()])
def test_a_broken_cluster_is_malformed(plain: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        decode(Cluster, plain)


def test_messages_with_fields_of_another_message_are_malformed() -> None:
    with pytest.raises(Malformed):
        decode_tagged(FROM_MASTER, {"is": "Go", "generation": 1, "why": "no"})
    with pytest.raises(Malformed, match=r"Stop needs"):
        decode_tagged(FROM_MASTER, {"is": "Stop", "generation": 1})
    assert decode_tagged(FROM_MASTER, {"is": "Stop", "generation": 1, "why": "x", "grace_s": 5}) == Stop(
        generation=1, why="x", grace_s=5.0
    )
    assert decode_tagged(FROM_MASTER, {"is": "Finish", "exit_status": 0, "failure": None}) == Finish(exit_status=0)
    with pytest.raises(Malformed, match=r"Failed\.failure"):
        decode_tagged(FROM_NODE, {"is": "Failed", "generation": 1, "failure": None})
