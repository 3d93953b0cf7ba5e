"""The reference page of places: every backend of ours, every key that it takes."""

from __future__ import annotations

from umiak.cli.texts import reference_places
from umiak.schema.keys import known
from umiak.submit import registry


def test_every_backend_has_its_section_with_every_key() -> None:
    page = reference_places.places_reference()
    assert {name for name, _, _ in reference_places.SECTIONS} == set(registry.OURS) - {"local"}
    for name, _, tables in reference_places.SECTIONS:
        part = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for _, keys in tables:
            assert [key.name for key in keys if known(key) and f"\n| `{key.name}` | " not in part] == []


def test_values_defaults_and_bounds_are_told() -> None:
    page = reference_places.places_reference()
    assert "| `hosts` | a list of hosts | required | Hosts in the order" in page
    assert "| `requeue` | a boolean | `true` |" in page
    assert "| `export` | `all`, `none` | `all` |" in page
    assert "| `parallel` | an integer, 1 or more | `64` |" in page
