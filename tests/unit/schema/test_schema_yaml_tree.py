"""YAML with places: every key and value knows its line and column, and nothing that a file holds is a crash."""

from __future__ import annotations

import builtins
import sys

import pytest

from umiak.core.problem import UmiakError
from umiak.schema import yaml_tree
from umiak.schema.findings import Findings, Place, choices
from umiak.schema.yaml_tree import Entry, Listing, Scalar, Section, parse


def parsed(text: str) -> tuple[yaml_tree.Node | None, list[str], list[str]]:
    findings = Findings()
    node = parse(text, "c.yaml", findings)
    return node, *(
        [f"{each.code} {each.where} {each.what}" for each in found] for found in (findings.problems, findings.warnings)
    )  # type: ignore[return-value]


def at(line: int, column: int) -> Place:
    return Place(source="c.yaml", line=line, column=column)


def test_everything_knows_its_place() -> None:
    node, problems, warnings = parsed('mode: [a, "b"]\nrunner:\n- name: x\n  epochs: 4\n')
    assert (problems, warnings) == ([], [])
    assert node == Section(
        place=at(1, 1),
        entries=(
            Entry(
                key="mode",
                place=at(1, 1),
                node=Listing(
                    place=at(1, 7),
                    items=(
                        Scalar(place=at(1, 8), data="a", text="a"),
                        Scalar(place=at(1, 11), data="b", text="b"),
                    ),
                ),
            ),
            Entry(
                key="runner",
                place=at(2, 1),
                node=Listing(
                    place=at(3, 1),
                    items=(
                        Section(
                            place=at(3, 3),
                            entries=(
                                Entry(key="name", place=at(3, 3), node=Scalar(place=at(3, 9), data="x", text="x")),
                                Entry(key="epochs", place=at(4, 3), node=Scalar(place=at(4, 11), data=4, text="4")),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    )
    assert str(at(3, 9)) == "c.yaml:3:9"
    assert str(Place(source="-o a=1")) == "-o a=1"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("4", 4),
        ("-1", -1),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("-2.5E3", -2500.0),
        ('"1e-3"', "1e-3"),
        ("e3", "e3"),
        ("1e", "1e"),
        ("--1e3", "--1e3"),
        ("true", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("2026-01-31", "2026-01-31"),
        ("=", "="),
        ("0x10", 16),
        ("text", "text"),
        ("'4'", "4"),
    ],
)
def test_scalars(text: str, data: object) -> None:
    node, problems, _ = parsed(f"key: {text}\n")
    assert problems == []
    assert isinstance(node, Section)
    scalar = node.entries[0].node
    assert isinstance(scalar, Scalar)
    assert (scalar.data, type(scalar.data)) == (data, type(data))


def test_a_scalar_keeps_its_text() -> None:
    node, _, _ = parsed("- 1:30\n- 007\n- 1_000\n")
    assert isinstance(node, Listing)
    assert [each.text for each in node.items if isinstance(each, Scalar)] == ["1:30", "007", "1_000"]


def test_a_key_that_is_there_twice_is_a_warning_and_the_last_one_counts() -> None:
    node, problems, warnings = parsed("nodes: 2\ntrainers: 2\nnodes: 3\n")
    assert problems == []
    assert warnings == ["UM-CONFIG-005 c.yaml:3:1 nodes is there twice: in line 1 and in line 3"]
    assert isinstance(node, Section)
    assert [(each.key, each.node.data) for each in node.entries if isinstance(each.node, Scalar)] == [
        ("trainers", 2),
        ("nodes", 3),
    ]


def test_three_times_is_two_warnings() -> None:
    _, _, warnings = parsed("a: 1\na: 2\na: 3\n")
    assert [each.split(": ")[-1] for each in warnings] == ["in line 1 and in line 2", "in line 2 and in line 3"]


def test_merged_keys_count_less_and_are_no_repetition() -> None:
    node, problems, warnings = parsed("base: &base {x: 1, y: 2}\nown: {<<: *base, x: 3}\nboth: {<<: [{z: 1}, *base]}\n")
    assert (problems, warnings) == ([], [])
    assert isinstance(node, Section)
    own, both = (entry.node for entry in node.entries[1:])
    assert isinstance(own, Section)
    assert isinstance(both, Section)
    assert {each.key: each.node.data for each in own.entries if isinstance(each.node, Scalar)} == {"y": 2, "x": 3}
    assert [each.key for each in both.entries] == ["z", "x", "y"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1\n", "UM-CONFIG-003 c.yaml:1:6 not YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n\tb: 2\n", "UM-CONFIG-003 c.yaml:2:1 not YAML: found character '\\t' that cannot start any token"),
        ("a: b: c\n", "UM-CONFIG-003 c.yaml:1:5 not YAML: mapping values are not allowed here"),
        ("a: 1\nb: \x07\n", "UM-CONFIG-003 c.yaml:2:4 not YAML: a character that is not allowed: U+0007"),
        ("a: *b\n", "UM-CONFIG-003 c.yaml:1:4 not YAML: found undefined alias 'b'"),
        ("--- 1\n--- 2\n", "UM-CONFIG-004 c.yaml:2:1 several documents in one file"),
        ("a: &a [*a]\n", "UM-CONFIG-004 c.yaml:1:4 a value that contains itself"),
        (
            "a: !!python/name:os.system x\n",
            "UM-CONFIG-004 c.yaml:1:4 a tag that means nothing here: !!python/name:os.system",
        ),
        ("a: !mine {}\n", "UM-CONFIG-004 c.yaml:1:4 a tag that means nothing here: !mine"),
        ("a: !mine []\n", "UM-CONFIG-004 c.yaml:1:4 a tag that means nothing here: !mine"),
        ("? [a]\n: 1\n", "UM-CONFIG-004 c.yaml:1:3 a key that is a list or a mapping"),
        ("a: !!int one\n", "UM-CONFIG-004 c.yaml:1:4 not a value that `!!int` has: one"),
        ("a: !!bool perhaps\n", "UM-CONFIG-004 c.yaml:1:4 not a value that `!!bool` has: perhaps"),
        ("a: {<<: 1}\n", "UM-CONFIG-004 c.yaml:1:9 `<<` with something else than a mapping"),
        ("[" * 150 + "]" * 150, "UM-CONFIG-004 c.yaml:1:1 nested too deeply"),
        ("[" * 5000, "UM-CONFIG-004 c.yaml:1:1 nested too deeply"),
    ],
)
def test_what_is_no_config(text: str, expected: str) -> None:
    _, problems, _ = parsed(text)
    assert problems == [expected]


def test_a_number_of_too_many_digits() -> None:
    _, problems, _ = parsed(f"a: {'9' * 5000}\n")
    assert len(problems) == 1
    assert len(problems[0]) < 200


def test_a_text_that_grows_without_measure() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    _, problems, _ = parsed(f"a0: &a0 [1]\n{levels}")
    assert problems == ["UM-CONFIG-004 c.yaml:1:1 more than 100000 values, counting aliases"]


def test_merges_that_grow_without_measure_or_merge_themselves_end() -> None:
    levels = "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9))
    _, problems, _ = parsed(f"a0: &a0 {{x: 1}}\n{levels}b: &b {{<<: *b, y: 1}}\n")
    assert problems == []


def test_hints_for_frequent_slips() -> None:
    findings = Findings()
    parse("a:\n\tb: 1\n", "c.yaml", findings)
    parse("a: {workspace}/data\n", "c.yaml", findings)
    assert [each.hint for each in findings.problems] == [
        "put quotes around a text that begins with {workspace}",
        "YAML is indented with blanks, never with tabs",
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n"])
def test_nothing_at_all(text: str) -> None:
    node, problems, _ = parsed(text)
    assert problems == []
    assert node is None or (isinstance(node, Scalar) and node.data is None)


def test_windows_and_marks_of_byte_order() -> None:
    node, problems, _ = parsed("\ufeffa: 1\r\nb: [\r\n")
    assert node is None
    assert problems == ["UM-CONFIG-003 c.yaml:2:5 not YAML: expected the node content, but found '<stream end>'"]


def test_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *more: object) -> object:
        if name == "yaml":
            raise ImportError("No module named 'yaml'")
        return real(name, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UmiakError) as caught:
        parse("a: 1", "c.yaml", Findings())
    (problem,) = caught.value.problems
    assert problem.code == "UM-CONFIG-006"
    assert problem.hint == "python -m pip install pyyaml"
    monkeypatch.setattr(sys, "version_info", (3, 10, 14))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UmiakError) as caught:
        parse("a: 1", "c.yaml", Findings())
    assert caught.value.problems[0].hint == "python -m pip install pyyaml tomli", "one command for both"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "a mapping"),
        ("[]", "a list"),
        ("~", "nothing"),
        ("on", "on, which means true"),
        ("no", "no, which means false"),
        ("word", 'the text "word"'),
        ("1.5", "the number 1.5"),
        (f'"{"x" * 80}"', f'the text "{"x" * 57}..."'),
    ],
)
def test_kinds_in_words(text: str, expected: str) -> None:
    node, _, _ = parsed(text)
    assert node is not None
    assert yaml_tree.kind_of(node) == expected


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("trian", ("train", "infer"), "did you mean `train`? it is one of train, infer"),
        (
            "QueueDataSets",
            ("DataLoader", "QueueDataset"),
            "did you mean `QueueDataset`? it is one of DataLoader, QueueDataset",
        ),
        ("zzz", ("train", "infer"), "it is one of train, infer"),
        ("phas1", ("phase1",), "did you mean `phase1`?"),
        ("zzz", ("phase1",), "there is only phase1"),
        ("zzz", (), "there is none"),
    ],
)
def test_hints_of_choices(word: str, known: tuple[str, ...], expected: str) -> None:
    assert choices(word, known) == expected
