"""TOML as a tree with places."""

from __future__ import annotations

import pytest

from umiak.schema import toml_tree
from umiak.schema.findings import Findings
from umiak.schema.yaml_tree import Section, free

pytest.importorskip("tomllib", reason="of Python 3.11")

TEXT = """\
name = "ctr"  # a comment
[place.lab]
backend = "ssh"
hosts = [
  "a",
  "b",
]
options = { port = 22, "user name" = "x" }
[place."two words"]
  backend = 'slurm'
  time.limit = 2026-01-31
[empty]
on = true
"""


def parsed(text: str) -> tuple[Section | None, list[str]]:
    findings = Findings()
    tree = toml_tree.parse(text, "umiak.toml", findings)
    return tree, [f"{each.code} {each.where} {each.what}" for each in findings.problems]


def test_the_same_data_as_the_library_reads() -> None:
    tree, problems = parsed(TEXT)
    assert tree is not None
    assert problems == []
    assert free(tree) == {
        "name": "ctr",
        "place": {
            "lab": {"backend": "ssh", "hosts": ("a", "b"), "options": {"port": 22, "user name": "x"}},
            "two words": {"backend": "slurm", "time": {"limit": "2026-01-31"}},
        },
        "empty": {"on": True},
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("name", "umiak.toml:1:1"),
        ("place/lab", "umiak.toml:2:1"),
        ("place/lab/backend", "umiak.toml:3:1"),
        ("place/lab/hosts", "umiak.toml:4:1"),
        ("place/lab/options/port", "umiak.toml:8:1"),
        ("place/two words", "umiak.toml:9:1"),
        ("place/two words/backend", "umiak.toml:10:3"),
        ("place/two words/time/limit", "umiak.toml:11:3"),
        ("empty/on", "umiak.toml:13:1"),
    ],
)
def test_places(path: str, expected: str) -> None:
    node, _ = parsed(TEXT)
    for part in path.split("/"):
        assert isinstance(node, Section)
        entry = node.get(part)
        assert entry is not None
        node = entry.node  # type: ignore[assignment]
    assert str(entry.place) == expected


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a = \n", "umiak.toml:1:5"),
        ("a = 1\na = 2\n", "umiak.toml:2:6"),
        ("[a", "umiak.toml:1:"),
        ("x = [\n1,\n", "umiak.toml:"),
    ],
)
def test_what_is_no_toml_has_its_place(text: str, where: str) -> None:
    tree, problems = parsed(text)
    assert tree is None
    assert problems[0].startswith(f"UM-CONFIG-003 {where}")
    assert "not TOML: " in problems[0]


def test_no_depth_is_too_much() -> None:
    tree, problems = parsed("a = " + "[" * 100_000)
    assert tree is None
    assert len(problems) == 1
