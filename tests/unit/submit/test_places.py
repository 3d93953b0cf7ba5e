"""Places in umiak.toml."""

from __future__ import annotations

import pytest

from umiak.schema.yaml_tree import free
from umiak.submit import places

pytest.importorskip("tomllib", reason="of Python 3.11")

BACKENDS = ("local", "ssh", "slurm")
LAB = '[place.lab]\nbackend = "ssh"\nhosts = ["a", "b"]\n'


def problems(text: str) -> list[str]:
    found = places.read([("umiak.toml", text)], BACKENDS).problems
    return [f"{each.code} {each.where} {each.what}" for each in found]


def test_this_machine_is_always_there() -> None:
    found = places.read([], BACKENDS)
    assert [*found.places] == ["local"]
    assert found.default == "local"


def test_the_nearer_file_counts() -> None:
    theirs = '[place.lab]\nbackend = "slurm"\n[place.hpc]\nbackend = "slurm"\n'
    found = places.read([("umiak.toml", 'default_place = "lab"\n' + LAB), ("config.toml", theirs)], BACKENDS)
    assert not found.problems
    assert found.default == "lab"
    assert {name: each.backend for name, each in found.places.items()} == {
        "lab": "ssh",
        "hpc": "slurm",
        "local": "local",
    }
    assert free(found.places["lab"].settings) == {"hosts": ("a", "b")}
    assert str(found.places["hpc"].settings.place) == "config.toml:3:1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[place.lab]\n", "UM-CONFIG-011 umiak.toml:1:1 place lab: backend is missing"),
        ('[place.lab]\nbackend = "shh"\n', "UM-CONFIG-014 umiak.toml:2:1 place lab: unknown backend: shh"),
        ("[place.lab]\nbackend = [1]\n", "UM-CONFIG-014 umiak.toml:2:1 place lab: unknown backend: nothing"),
        ('[place."a b"]\nbackend = "ssh"\n', "UM-CONFIG-014 umiak.toml:1:1 expected a name of a place, got a b"),
        ("place = 3\n", "UM-CONFIG-013 umiak.toml:1:1 place must be a table, not the number 3"),
        ("[place]\nlab = 3\n", "UM-CONFIG-013 umiak.toml:2:1 place lab must be a table"),
        ("[palce.lab]\n", "UM-CONFIG-012 umiak.toml:1:1 unknown table or key: palce"),
        (LAB + "[x]\n", "UM-CONFIG-012 umiak.toml:4:1 unknown table or key: x"),
        ('default_place = "lba"\n' + LAB, "UM-CONFIG-015 umiak.toml:1:1 default_place: there is no place named lba"),
    ],
)
def test_what_is_wrong_has_its_place(text: str, expected: str) -> None:
    assert problems(text) == [expected]
