"""What stands between the marks of pages is fresh and complete."""

from __future__ import annotations

import importlib.util
import json
import re
import types
from pathlib import Path

import pytest

from docs import protocol_tables, tables, worker_environment
from tests.support.paths import ROOT
from tools import extras
from umiak.contracts import start
from umiak.launch import protocol, supervisor
from umiak.launch.links import handshake

DOCS = ROOT / "docs"
PROTOCOL = DOCS / "reference" / "protocol.md"


def generator() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert generator().main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_page_is_named_and_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    generate = generator()
    text = "Before.\n\n<!-- begin: generated numbers {} -->\n\n{}\n\n<!-- end -->\n\nAfter.\n"
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(generate, "SOURCE", tmp_path / "src")
    monkeypatch.setitem(generate.BLOCKS, "numbers", lambda which: f"| {which} |")
    pages = tmp_path / "docs" / "reference"
    pages.mkdir(parents=True)
    (pages / "one.md").write_text(text.format("one", "| one |"))
    (pages / "two.md").write_text(text.format("two words", "| old |"))
    assert generate.main(["--check"]) == 1
    printed = capsys.readouterr().err
    assert "docs/reference/two.md" in printed
    assert "one.md" not in printed
    assert (pages / "two.md").read_text() == text.format("two words", "| old |")
    assert generate.main([]) == 0
    assert (pages / "two.md").read_text() == text.format("two words", "| two words |")
    assert generate.main(["--check"]) == 0


def test_a_mark_that_nobody_knows_ends_the_program() -> None:
    with pytest.raises(SystemExit, match=r"expected one of command, .* in a mark, got flag"):
        generator().filled("<!-- begin: generated flag launch -->\n<!-- end -->\n")


def test_a_variable_without_a_description_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    described = dict(worker_environment.DESCRIPTIONS)
    del described["UMIAK_RANK"]
    monkeypatch.setattr(worker_environment, "DESCRIPTIONS", described)
    with pytest.raises(SystemExit, match="UMIAK_RANK"):
        worker_environment.variables("native")


def test_the_supervisor_sets_no_variable_that_the_page_does_not_know() -> None:
    source = Path(supervisor.__file__).read_text(encoding="utf-8")
    assert re.findall(r'environ(?:\.setdefault\(|\[)"(\w+)"', source) == []
    assert set(worker_environment.DESCRIPTIONS) >= start.NAMES


def marks_of(page: Path, kind: str) -> list[str]:
    """What the marks of a page name, of those that begin with this word."""
    return re.findall(rf"^<!-- begin: generated {kind} (.+) -->$", page.read_text(encoding="utf-8"), re.MULTILINE)


def test_marks_come_in_pairs_and_name_what_is_made() -> None:
    for page in sorted(DOCS.rglob("*.md")):
        marks = re.findall(r"^<!-- (begin: generated \w+|end)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert marks[1::2] == ["end"] * (len(marks) // 2), page
        assert {mark.rpartition(" ")[2] for mark in marks[::2]} <= set(tables.BLOCKS), page


def test_every_family_of_variables_has_its_table() -> None:
    families = worker_environment.families(frozenset(worker_environment.sightings()))
    assert set(marks_of(DOCS / "reference" / "worker-environment.md", "variables")) == set(families)


def test_every_message_between_launchers_is_on_the_page() -> None:
    page = PROTOCOL.read_text(encoding="utf-8")
    assert set(marks_of(PROTOCOL, "messages")) == {*protocol_tables.UNIONS, "parts", "check"}
    names = [message.__name__ for message in (*protocol.FROM_NODE, *protocol.FROM_MASTER)]
    assert [name for name in names if f"\n### {name}\n" not in page] == []


def test_the_page_about_the_protocol_has_its_version() -> None:
    versions = re.findall(r'"umiak"(?::|,) (\d+)', PROTOCOL.read_text(encoding="utf-8"))
    assert versions == [str(handshake.VERSION)] * 3


def test_the_page_about_installing_has_every_extra_with_its_measured_size() -> None:
    measured = json.loads(extras.RESULTS.read_text(encoding="utf-8"))
    assert {
        name: row["needs"] for name, row in measured.items()
    } == extras.extras()  # otherwise: python -m tools.extras NAME
    page = (DOCS / "how-to" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| ([\d.]+) MB \|$", page, re.MULTILINE)
    assert {name: float(size) for name, size in rows} == {name: row["megabytes"] for name, row in measured.items()}


def test_there_is_an_extra_for_what_the_readme_installs() -> None:
    known = extras.extras()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = {name for names in re.findall(r"'\.\[([\w,]+)\]'", readme) for name in names.split(",")}
    assert named >= {"submit", "ssh", "run", "operator", "ps", "train"}
    assert named <= set(known)
    assert known["submit"] == [
        "pyyaml>=6",
        "tomli>=2; python_version < '3.11'",
    ]  # job.yaml, and umiak.toml on Python 3.10
