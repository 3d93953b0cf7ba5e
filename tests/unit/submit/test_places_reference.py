"""The reference page of places: every backend of ours, every key that it takes."""

from __future__ import annotations

import re

from docs import tables
from tests.support.paths import ROOT
from umiak.submit import registry

PAGE = (ROOT / "docs" / "reference" / "places.md").read_text(encoding="utf-8")


def test_every_backend_has_its_section_with_its_keys() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(registry.OURS) - {"local"}
    for name, section in sections.items():
        marks = re.findall(r"<!-- begin: generated keys umiak\.submit\.backends\.(\w+)\.(\S+) -->", section)
        assert {backend for backend, _ in marks} == {name}
        for _, place in marks:
            assert tables.keys(f"umiak.submit.backends.{name}.{place}") in section


def test_values_defaults_and_bounds_are_told() -> None:
    assert "| `hosts` | a list of hosts | required | Hosts in the order" in PAGE
    assert "| `requeue` | a boolean | `true` |" in PAGE
    assert "| `export` | `all`, `none` | `all` |" in PAGE
    assert "| `parallel` | an integer, 1 or more | `64` |" in PAGE
