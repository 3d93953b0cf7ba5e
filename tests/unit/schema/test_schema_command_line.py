"""How a command line is read: words and environment in, settings and problems out."""

from __future__ import annotations

import pytest

from umiak.core.nearest import nearest
from umiak.core.shown import without_password
from umiak.schema.command_line import convert, parse
from umiak.schema.flags import Flag, FlagKind, FlagSource

FLAGS = (
    Flag(name="nnodes", help="h", group="g", default="1", env=("NNODES", "OLD_NNODES"), old=("np",)),
    Flag(name="rank", help="h", group="g", kind=FlagKind.NUMBER, default=-1, least=-1, env=("RANK",)),
    Flag(name="devices", help="h", group="g", aliases=("gpus",), env=("DEVICES",)),
    Flag(name="sort_ip", help="h", group="g", kind=FlagKind.TRUTH, default=False, env=("SORT_IP",)),
    Flag(name="check", help="h", group="g", kind=FlagKind.SWITCH, default=False),
    Flag(
        name="grace", help="h", group="g", kind=FlagKind.SECONDS, default=30.0, least=0, elsewhere=("shutdown_timeout",)
    ),
    Flag(
        name="mode",
        help="h",
        group="g",
        kind=FlagKind.CHOICE,
        choices=("group", "alone"),
        synonyms=(("solo", "alone"),),
    ),
)


def read(line: str, **environ: str):
    return parse(FLAGS, line.split(), environ, command="tool")


def codes(parsed) -> list[str]:
    return [problem.code for problem in parsed.problems]


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("--nnodes 2 x.py", "nnodes", "2"),
        ("--nnodes=2:4 x.py", "nnodes", "2:4"),
        ("--np 3 x.py", "nnodes", "3"),
        ("--gpus 0,1 x.py", "devices", "0,1"),
        ("--sort-ip x.py", "sort_ip", True),
        ("--sort_ip True x.py", "sort_ip", True),
        ("--sort_ip false x.py", "sort_ip", False),
        ("--sort_ip=0 x.py", "sort_ip", False),
        ("--check x.py", "check", True),
        ("--check=no x.py", "check", False),
        ("--rank -1 x.py", "rank", -1),
        ("--rank=-1 x.py", "rank", -1),
        ("--grace 1.5 x.py", "grace", 1.5),
        ("--mode ALONE x.py", "mode", "alone"),
        ("--mode solo x.py", "mode", "alone"),
        ("--nnodes 2 --nnodes 3 x.py", "nnodes", "3"),
    ],
)
def test_every_way_of_writing_a_flag(line: str, name: str, expected: object) -> None:
    parsed = read(line)
    assert parsed.problems == ()
    assert parsed[name].value == expected
    assert parsed[name].source is FlagSource.COMMAND
    assert parsed.program == ("x.py",)


def test_a_bare_truth_takes_no_program_for_its_value_and_a_switch_takes_no_word_at_all() -> None:
    assert read("--sort_ip x.py true").program == ("x.py", "true")
    assert read("--check true").program == ("true",)


def test_everything_after_the_program_belongs_to_it() -> None:
    parsed = read("--nnodes 2 x.py --nnodes 3 --help -m --unknown --")
    assert parsed.program == ("x.py", "--nnodes", "3", "--help", "-m", "--unknown", "--")
    assert parsed["nnodes"].value == "2"
    assert not parsed.wants_help
    assert not parsed.is_module


def test_module_and_double_dash_end_the_flags() -> None:
    module = read("--nnodes 2 -m a.b --x")
    assert (module.program, module.is_module) == (("a.b", "--x"), True)
    dashed = read("--nnodes 2 -- --strange --x")
    assert (dashed.program, dashed.is_module) == (("--strange", "--x"), False)
    assert dashed.problems == ()


def test_values_know_where_they_come_from() -> None:
    parsed = read("--rank 1 x.py", NNODES="2")
    assert [parsed[name].source for name in ("rank", "nnodes", "devices")] == [
        FlagSource.COMMAND,
        FlagSource.ENVIRONMENT,
        FlagSource.DEFAULT,
    ]
    assert parsed["nnodes"].spoken == "NNODES=2"
    assert parsed["rank"].spoken == "--rank 1"


def test_the_command_line_beats_the_environment_and_says_so() -> None:
    parsed = read("--nnodes 2 --rank 1 --sort_ip x.py", NNODES="3", RANK="1", SORT_IP="no")
    assert parsed["nnodes"].value == "2"
    assert parsed.notes == (
        "--nnodes 2 is used; the environment says NNODES=3",
        "--sort_ip is used; the environment says SORT_IP=no",
    )


def test_agreement_is_not_mentioned_even_if_it_is_written_otherwise() -> None:
    assert read("--rank 1 --sort_ip x.py", RANK="+1", SORT_IP="on").notes == ()


def test_a_variable_that_nobody_can_read_does_not_harm_a_flag() -> None:
    parsed = read("--rank 1 x.py", RANK="one")
    assert parsed.problems == ()
    assert parsed.notes == ("--rank 1 is used; the environment says RANK=one",)


def test_the_first_variable_that_is_set_counts_and_an_empty_one_is_not_set() -> None:
    assert read("x.py", NNODES="", OLD_NNODES="4")["nnodes"].value == "4"
    both = read("x.py", NNODES="2", OLD_NNODES="4")
    assert both["nnodes"].value == "2"
    assert both.notes == ("NNODES=2 is used; the environment says OLD_NNODES=4",)


def test_a_value_from_an_empty_shell_variable_says_nothing() -> None:
    parsed = read("--devices= x.py")
    assert parsed.problems == ()
    assert not parsed.said("devices")
    assert codes(read("--rank= x.py")) == ["UM-CLI-003"]
    assert codes(read("--sort_ip= x.py")) == ["UM-CLI-003"]


def test_all_mistakes_are_found_at_once() -> None:
    parsed = read("--nnode 2 --rank two --mode grup --grace soon --devices --check --sort-ip=perhaps x.py", RANK="3")
    assert [(problem.code, problem.what) for problem in parsed.problems] == [
        ("UM-CLI-001", "unknown flag: --nnode"),
        ("UM-CLI-002", "missing value: --devices"),
        ("UM-CLI-003", "not an integer: --rank two"),
        ("UM-CLI-003", "not a boolean: --sort-ip perhaps"),
        ("UM-CLI-003", "not a number of seconds: --grace soon"),
        ("UM-CLI-003", "unknown value: --mode grup"),
    ]
    assert parsed.program == ("x.py",)
    assert parsed["rank"].source is FlagSource.DEFAULT
    assert all(problem.hint for problem in parsed.problems)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--nnode", "--nnodes"),
        ("--nndoes", "--nnodes"),
        ("--dev", "--devices"),
        ("--shutdown-timeout", "--grace"),
        ("-rank", "--rank"),
    ],
)
def test_an_unknown_flag_names_the_one_that_was_meant(typed: str, meant: str) -> None:
    (problem,) = read(f"{typed}=1 x.py").problems
    assert problem.what == f"unknown flag: {typed}"
    assert problem.hint is not None
    assert f"did you mean `{meant}`?" in problem.hint
    assert "`tool --help`" in problem.hint


def test_nothing_is_suggested_for_a_word_like_no_other() -> None:
    (problem,) = read("--quux x.py").problems
    assert problem.hint == "`tool --help` lists all flags"


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("--quux x.py --rank 1", ("x.py", "--rank", "1")),
        ("--quux program", ("program",)),
        ("--quux value --rank 1 x.py", ("x.py",)),
        ("--quux=value x.py", ("x.py",)),
        ("--nnode 2 x.py", ("x.py",)),
        ("--sort x.py", ("x.py",)),
    ],
)
def test_reading_goes_on_behind_an_unknown_flag(line: str, program: tuple[str, ...]) -> None:
    parsed = read(line)
    assert codes(parsed) == ["UM-CLI-001"]
    assert parsed.program == program


def test_help_and_version_are_seen_among_mistakes() -> None:
    parsed = read("--quux --help --version")
    assert parsed.wants_help
    assert parsed.wants_version


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (FlagKind.NUMBER, "12", 12),
        (FlagKind.NUMBER, " 12 ", 12),
        (FlagKind.SECONDS, "90s", 90.0),
        (FlagKind.SECONDS, "1.5m", 90.0),
        (FlagKind.SECONDS, "2H", 7200.0),
        (FlagKind.SECONDS, ".5", 0.5),
        (FlagKind.SIZE, "1000", 1000),
        (FlagKind.SIZE, "10M", 10 << 20),
        (FlagKind.SIZE, "1.5g", 3 << 29),
        (FlagKind.SIZE, "512KiB", 512 << 10),
        (FlagKind.SIZE, "1TB", 1 << 40),
    ],
)
def test_numbers_with_units(kind: FlagKind, text: str, expected: float) -> None:
    assert convert(Flag(name="x", help="h", group="g", kind=kind), text) == expected


@pytest.mark.parametrize("kind", [FlagKind.NUMBER, FlagKind.SECONDS, FlagKind.SIZE])
@pytest.mark.parametrize("text", ["", " ", "x", "nan", "inf", "1_0", "--1", "1e3", "1 2", "0x1", "-", "+", "."])
def test_what_is_no_number(kind: FlagKind, text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        convert(Flag(name="x", help="h", group="g", kind=kind), text)


def test_the_least_number() -> None:
    flag = Flag(name="x", help="h", group="g", kind=FlagKind.NUMBER, least=1)
    assert convert(flag, "1") == 1
    with pytest.raises(ValueError, match="less than 1"):
        convert(flag, "0")


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("lunch", ("launch", "train"), "launch"),
        ("la", ("launch", "train"), "launch"),
        ("nproc", ("nproc_per_node", "nnodes"), "nproc_per_node"),
        ("x", ("0", "all"), None),
        ("submit", ("launch", "train"), None),
        ("anything", (), None),
        ("launch" * 20, ("launch", "launch" * 20), None),
    ],
)
def test_nearest(word: str, known: tuple[str, ...], expected: str | None) -> None:
    assert nearest(word, known) == expected


def test_passwords_are_covered() -> None:
    assert without_password("etcd://me:secret@host:2379") == "etcd://***@host:2379"
    assert without_password("me:secret@host:2379") == "***@host:2379"
    assert without_password("etcd://host:2379") == "etcd://host:2379"
    parsed = read("--nnodes 2 x.py", NNODES="me:secret@host")
    assert "secret" not in parsed.notes[0]


# ---- a command that has flags only

ONLY_FLAGS = (
    Flag(name="model", help="h", group="g", letter="m"),
    Flag(name="override", help="h", group="g", letter="o", many=True),
    Flag(name="explain", help="h", group="g", kind=FlagKind.SWITCH, default=False),
)


def only_flags(*argv: str):
    return parse(ONLY_FLAGS, argv, {}, command="umiak train", starts_program=False)


def test_letters() -> None:
    parsed = only_flags("-m", "config.yaml", "--explain")
    assert parsed.problems == ()
    assert parsed.text("model") == "config.yaml"
    assert parsed.truth("explain")
    assert parsed["model"].spoken == "-m config.yaml"
    assert (parsed.program, parsed.is_module) == ((), False)
    assert only_flags("--model=x").text("model") == "x"


def test_a_flag_that_may_be_said_often() -> None:
    parsed = only_flags("-o", "a=1", "b=-2", "--explain", "--override=c=3", "-o", "d=[x, y]")
    assert parsed.problems == ()
    assert parsed.texts == {"override": ("a=1", "b=-2", "c=3", "d=[x, y]")}
    assert only_flags().texts == {}


def test_a_word_that_belongs_to_no_flag() -> None:
    (problem,) = only_flags("config.yaml", "--explain").problems
    assert problem.code == "UM-CLI-005"
    assert problem.hint == "did you mean `umiak train -m config.yaml`? `umiak train --help` lists all flags"


def test_letters_mean_nothing_where_a_program_follows() -> None:
    parsed = parse((Flag(name="nnodes", help="h", group="g"),), ["-n", "2", "x.py"], {})
    assert [problem.what for problem in parsed.problems] == ["unknown flag: -n"]
