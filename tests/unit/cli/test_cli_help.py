"""The help of every command and its reference page: made from one page and the tables of flags, so nothing may be missing from either."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.support.paths import ROOT
from umiak.cli.commands import COMMANDS
from umiak.cli.kubectl.words import PAGE as KUBECTL
from umiak.cli.texts import help_text
from umiak.core.value import fields
from umiak.launch.command_line.own import FLAGS
from umiak.launch.command_line.reading import read
from umiak.schema.flags import FlagOrigin

REFERENCE = ROOT / "docs" / "reference"
PAGES = {**{name: help_text.page_of(name) for name in COMMANDS}, "kubectl umiak": KUBECTL}


@pytest.mark.parametrize("name", PAGES)
def test_help_fits_into_a_hundred_columns(name: str) -> None:
    for line in [*help_text.rendered(PAGES[name]).splitlines(), *help_text.of_all().splitlines()]:
        assert len(line) <= 100, line
        assert line == line.rstrip()


@pytest.mark.parametrize("name", PAGES)
def test_help_begins_with_the_command_line_and_examples(name: str) -> None:
    page, text = PAGES[name], help_text.rendered(PAGES[name])
    assert text.startswith(f"usage: {'umiak ' if name in COMMANDS else ''}{name}")
    assert len(page.examples) >= 2
    lines = text.splitlines()
    first = lines.index("Examples:")
    assert lines[first + 1 : first + 1 + len(page.examples)] == [f"  {line}" for line in page.example_lines]
    words = " ".join(text.split())
    for flag in page.flags:
        assert f"--{flag.name}" in words
        assert flag.refused or " ".join(flag.help.split()) in words
    for title, names in page.lists:
        assert f"{title}:" in lines
        assert [meaning for _, meaning in names if " ".join(meaning.split()) not in words] == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if help_text.page_of(name).flags])
def test_every_flag_of_a_command_is_in_the_reference(name: str) -> None:
    mark = re.compile(f"<!-- begin: generated (command {name}|flags {name}|grouped_flags {name} umiak) -->")
    pages = [path for path in REFERENCE.glob("*.md") if mark.search(path.read_text(encoding="utf-8"))]
    assert len(pages) == 1
    page = pages[0].read_text(encoding="utf-8")
    assert [flag.name for flag in help_text.page_of(name).flags if f"--{flag.name}" not in page] == []


def test_a_list_stands_below_the_flags_of_its_group() -> None:
    lines = help_text.of("launch").splitlines()
    assert lines.index("Flags of older launchers:") < lines.index("  --worker_num            Now --trainer_num.")
    assert lines.index("  --worker_num            Now --trainer_num.") < lines.index("General:")


def test_examples_come_first_and_work() -> None:
    text = help_text.of("launch")
    assert text.index("Examples:") < text.index("--nnodes N|MIN:MAX")
    for example, _ in help_text.page_of("launch").examples:
        words = shlex.split(example)
        assert words[:2] == ["umiak", "launch"]
        assert read(words[2:], {}).notes == ()


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_is_in_the_help_and_on_the_page(flag) -> None:
    help_words = " ".join(help_text.of("launch").split())
    page = (REFERENCE / "launch.md").read_text(encoding="utf-8")
    for name in flag.spellings:
        assert f"--{name}" in help_words
        assert f"--{name}" in page
    for name in flag.env:
        assert name in page
        assert flag.refused or name in help_words
    assert flag.refused or " ".join(flag.help.split()) in help_words
    assert (flag.refused or flag.help).replace("|", "\\|") in page


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if help_text.default(flag)], ids=lambda flag: flag.name)
def test_saying_a_default_of_the_help_changes_nothing(flag) -> None:
    text = help_text.default(flag)
    assert f"default: {text}" in " ".join(help_text.of("launch").split())
    # A flag of torchrun brings torchrun's defaults with it, so both command lines have one.
    beside = ["--max_restarts=0"] if flag.origin is FlagOrigin.TORCHRUN else []
    plain = read([*beside, "x.py"], {}).options
    made = read([*beside, f"--{flag.name}={text}", "x.py"], {}).options
    # That something was said at all is known, and means something, for these.
    said = {
        "max_restart": "restart_wanted",
        "nnodes": "nodes_said",
        "start_port": "start_port",
        "gloo_port": "gloo_port",
    }
    differing = [field for field in fields(plain) if getattr(plain, field) != getattr(made, field)]
    # The command for other nodes is as typed, but for what is each node's own.
    command = [] if flag.name == "rank" else ["program_argv"]
    assert differing == [*([said[flag.name]] if flag.name in said else []), *command]


def test_the_page_is_well_formed() -> None:
    page = (REFERENCE / "launch.md").read_text(encoding="utf-8")
    for heading in (
        "# `umiak launch`",
        "## Flags of Paddle's launcher",
        "## Flags of umiak",
        "## Flags of older launchers",
    ):
        assert f"\n{heading}\n" in f"\n{page}"
    columns = 0
    for line in page.splitlines():
        if line.startswith("|"):
            here = line.replace("\\|", "").count("|")
            assert columns in (0, here), line
            columns = here
        else:
            columns = 0


DIFFERENT = {
    "nnodes": "a range for launchers and submissions, a number for configs",
    "devices": "indexes for a launcher, a number for a job",
    "host": "one address for a launcher, several hosts of a place",
    "role": "torchrun's is a name of logs",
    "backend": "Paddle's is gloo or nccl, PaddleRec's a file",
    "watch": "deploy: namespaces, as the operator has them",
    "data": "features: several files, others one path",
    "label": "deploy: labels of objects, new: the column that is learned",
}
"""Flags of one name that take something else in some command, with the reason."""


def test_a_flag_of_several_commands_takes_the_same_in_each() -> None:
    kinds: dict[str, set[tuple[str, bool]]] = {}
    for name in COMMANDS:
        for flag in help_text.page_of(name).flags:
            kinds.setdefault(flag.name, set()).add((flag.kind.name, flag.many))
    assert {name for name, found in kinds.items() if len(found) > 1} == set(DIFFERENT)
