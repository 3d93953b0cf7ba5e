"""The help text and the reference page: made from the tables of flags, so nothing may be missing from either."""

from __future__ import annotations

import shlex

import pytest

from umiak.cli.launch import read
from umiak.cli.launch_flags import FLAGS
from umiak.cli.texts import help_text
from umiak.cli.texts.reference import launch_reference
from umiak.core.value import fields
from umiak.schema.flags import FlagOrigin


def test_help_fits_into_a_hundred_columns() -> None:
    for line in [*help_text.launch().splitlines(), *help_text.commands({"launch": "word " * 40}).splitlines()]:
        assert len(line) <= 100, line
        assert line == line.rstrip()


def test_examples_come_first_and_work() -> None:
    text = help_text.launch()
    assert text.index("Examples:") < text.index("--nnodes N|MIN:MAX")
    for example, _ in help_text.EXAMPLES:
        words = shlex.split(example)
        assert words[:2] == ["umiak", "launch"]
        assert read(words[2:], {}).notes == ()


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_is_in_the_help_and_on_the_page(flag) -> None:
    help_words = " ".join(help_text.launch().split())
    page = launch_reference()
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
    assert f"default: {text}" in " ".join(help_text.launch().split())
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
    page = launch_reference()
    assert page.endswith("|\n")
    for heading in (
        "# `umiak launch`",
        "## Flags of Paddle's launcher",
        "## Flags of umiak",
        "## Flags of older launchers",
    ):
        assert f"\n{heading}\n" in page
    columns = 0
    for line in page.splitlines():
        if line.startswith("|"):
            here = line.replace("\\|", "").count("|")
            assert columns in (0, here), line
            columns = here
        else:
            columns = 0
