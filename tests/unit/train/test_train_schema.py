"""The JSON schema of configs: it has every key, accepts what the trainer accepts, and marks what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.paths import ROOT
from tests.support.train_helpers import (
    ASYNC_CLUSTER,
    COLLECTIVE_CLUSTER,
    FLAT,
    PS_CLUSTER,
    SINGLE,
    dataset_text,
    problems,
    runner_text,
    small,
)
from umiak import train
from umiak.cli import main
from umiak.schema import kinds, sections, yaml_tree
from umiak.schema.findings import Findings
from umiak.schema.keys import Key
from umiak.schema.yaml_tree import Entry, Section
from umiak.train.config import flat_keys, json_schema, keys, optimizers, tables
from umiak.train.config.evaluating import settings as evaluation
from umiak.train.config.kinds import DAY, DENSE, DEVICES, SPARSE, TIME
from umiak.train.config.objectives import retrieval
from umiak.train.config.objectives import settings as objective
from umiak.train.config.streams import settings as streams

FILE = Path(train.__file__).parent / json_schema.FILE
SCHEMA = json_schema.schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
ZOO = sorted((ROOT / "src" / "umiak" / "models").rglob("config.yaml"))
TABLES = {
    "older_layout": keys.GLOBAL,
    "runner": keys.RUNNER,
    "phase": keys.PHASE,
    "dataset": keys.DATASET,
    "stream": streams.STREAM,
    "newer_layout": flat_keys.FLAT_GLOBAL,
    "newer_runner": flat_keys.FLAT,
    "optimizer": optimizers.OPTIMIZER,
    "schedule": optimizers.SCHEDULE,
    "evaluation": evaluation.EVALUATION,
    "metric": evaluation.METRIC,
    "objective": objective.OBJECTIVE,
    "retrieval": retrieval.RETRIEVAL,
    "table": tables.TABLE,
    "accessor": tables.ACCESSOR,
    "counts": tables.COUNTS,
    "row_rule": tables.SGD,
    "row_rule_settings": tables.RULE,
}


def data(text: str) -> Any:
    """A config as plain data, as the trainer's own reader understands YAML."""
    findings = Findings()
    root = yaml_tree.parse(text, "config.yaml", findings)
    assert not findings.problems
    assert root is not None
    return plain(root)


def plain(node: yaml_tree.Node) -> Any:
    """As JSON has it: lists instead of tuples."""
    return json.loads(json.dumps(yaml_tree.free(node)))


def complaints(text: str) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(data(text))]


def page_configs() -> list[tuple[str, str]]:
    """Every whole config that a page shows."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        whole = [block for block in blocks if re.search(r"^runner:", block, re.MULTILINE)]
        found += [(f"{page.name}-{number}", block) for number, block in enumerate(whole)]
    return found


# ---- the file


def test_it_is_a_schema_and_names_every_key() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert {*TABLES, "hyper_parameters"} == {*SCHEMA["definitions"]}
    for name, table in TABLES.items():
        assert [*SCHEMA["definitions"][name]["properties"]] == [key.name for key in table]


def test_it_comes_with_the_package_and_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["train", "--schema"]) == 0
    assert capsys.readouterr().out == FILE.read_text(encoding="utf-8")


def test_a_mistake_beside_the_flag_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["train", "--schema", "--nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def said(schema: Any, word: str) -> list[str]:
    """The texts that a schema has for a word, wherever."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = [schema[word]] if isinstance(schema, dict) and isinstance(schema.get(word), str) else []
    return own + [text for each in inner for text in said(each, word)]


def test_patterns_are_understood_by_editors() -> None:
    """Their regular expressions are JavaScript's with the flag u, which knows fewer escapes than Python's."""
    patterns = said(json.loads(FILE.read_text(encoding="utf-8")), "pattern")
    assert len(patterns) > 10
    escapes = {escape for pattern in patterns for escape in re.findall(r"\\.", pattern)}
    assert escapes <= {r"\s", r"\S", r"\[", r"\]"}


def test_descriptions_are_sentences_without_links() -> None:
    described = said(json.loads(FILE.read_text(encoding="utf-8")), "description")
    assert len(described) > 100
    assert [each for each in described if "](" in each] == []


# ---- configs that are right


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.parent.name)
def test_the_configs_of_the_zoo(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert complaints(text) == []
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", text.splitlines()[0])
    assert named, "the line that makes editors use the schema"
    assert (path.parent / named[1]).resolve() == FILE.resolve()


def test_the_zoo_is_found() -> None:
    assert len(ZOO) >= 15


@pytest.mark.parametrize(
    "text",
    [SINGLE, ASYNC_CLUSTER, PS_CLUSTER, COLLECTIVE_CLUSTER, FLAT, *(text for _, text in page_configs())],
    ids=["single", "async", "ps", "collective", "newer", *(name for name, _ in page_configs())],
)
def test_the_configs_of_documents(text: str) -> None:
    assert complaints(text) == []


@pytest.mark.parametrize(
    "text",
    [
        small(head="workspace: .\nmode: r\nread_by_my_model: [1, {a: b}]"),
        runner_text(something_of_a_reader="yes"),
        FLAT + "  my_own: 3\n",
        FLAT.replace("epochs: 3", "epochs: 3\n  criteo_seed: 4"),
    ],
    ids=["top", "runner", "hyper_parameters", "newer runner"],
)
def test_keys_that_only_a_model_reads(text: str) -> None:
    assert problems(text) == []
    assert complaints(text) == []


# ---- configs that are wrong


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (small(head="mode: r"), "$: 'workspace' is a required property"),
        (runner_text(epochs="many"), "$.runner[0].epochs: 'many' is not of type 'integer'"),
        (runner_text(epochs=0), "$.runner[0].epochs: 0 is less than the minimum of 1"),
        (runner_text(class_="trian"), "$.runner[0].class: 'trian' is not valid"),
        (runner_text(instance_class_path="a.py"), "$.runner[0].instance_class_path: 'a.py' is not of type 'null'"),
        (dataset_text(dense_slots="price"), "$.dataset[0].dense_slots: 'price' is not valid"),
        (FLAT.replace("epochs: 3", "epochs: three"), "$.runner.epochs: 'three' is not of type 'integer'"),
        (FLAT.replace("0.001", "fast"), "$.hyper_parameters: "),
        (FLAT.replace("0.001", "0"), "$.hyper_parameters: "),
        (FLAT + "table_parameters: {e: {accessor: {embedx_dim: 0}}}", "$.table_parameters.e.accessor: "),
        (
            "workspace: .\nmode: r\nrunner: {epochs: 1}\nphase: []\ndataset: []",
            "$.runner: {'epochs': 1} is not of type",
        ),
    ],
)
def test_what_is_marked(text: str, at: str) -> None:
    assert problems(text) != []
    assert any(each.startswith(at) for each in complaints(text)), complaints(text)


# ---- one key at a time: the schema against the reader

VALUES = [
    *(
        "null",
        "true",
        "false",
        "on",
        "0",
        "1",
        "-1",
        "2",
        "60",
        "0.5",
        "1.0",
        "-3.5",
        "1e-3",
        ".inf",
        "9007199254740993",
    ),
    *('""', '" "', "word", '"1"', '"0,1"', '"0, 1"', '"0,x"', "20260131", "2026-01-31", '"20261331"', "20260131x"),
    *('"a b"', '"a:1"', '"a:[2,3] b:1"', '"a:[2, 3]"', '"a:2,3"', '"a:x"', '"a,b"', '"[a"'),
    *(
        "[]",
        "[1, 2]",
        "[-10.0, 10.0]",
        "[a, b]",
        "[1, true]",
        '["a:1", b]',
        '[""]',
        "[{}]",
        "[{name: x}]",
        "{}",
        "{a: 1}",
    ),
    *("Adam", "ADAGRAD", "std-adagrad", "gpu", "GPU", "pslib", "ssdsparsetable", "cosine", "CosineAnnealingDecay"),
]
NUMBERS = {"0", "1", "-1", "2", "60", "0.5", "1.0", "-3.5", "1e-3", ".inf", "9007199254740993", "20260131"}
FINER = {
    kinds.WHOLE: {"1.0"},  # an integer in JSON
    kinds.CHOICE: {"1.0"},
    kinds.NUMBER: {".inf"},  # not in JSON
    DAY: {*NUMBERS, '"20261331"'},
    TIME: {".inf", *(word for word in VALUES if word not in NUMBERS)},
    streams.PLACE: {word for word in VALUES if word not in NUMBERS},
    DENSE: {*NUMBERS, "[1, 2]", "[-10.0, 10.0]", "[a, b]", '["a:1", b]'},
    SPARSE: {'["a:1", b]'},
    DEVICES: {*NUMBERS, "[a, b]", "[-10.0, 10.0]", '["a:1", b]'},
}
"""Values that the reader refuses and the schema can't, or need not."""
CHECKED_LATER = {*optimizers.ABOVE_ZERO, *optimizers.BELOW_ONE, *tables.ABOVE_ZERO, *tables.BELOW_ONE}
"""Their ranges are not the reader's, but of those who ask it."""


def node(written: str) -> yaml_tree.Node:
    findings = Findings()
    root = yaml_tree.parse(f"key: {written}", "config.yaml", findings)
    assert isinstance(root, Section)
    return root.entries[0].node


NODES = {written: node(written) for written in VALUES}


def reader_takes(key: Key, written: str) -> bool:
    findings = Findings()
    entry = Entry(key=key.name, place=NODES[written].place, node=NODES[written])
    sections.read((key,), Section(place=entry.place, entries=(entry,)), "section", findings, keys.UNKNOWN)
    return not findings.problems


@pytest.mark.parametrize("name", TABLES)
def test_the_schema_accepts_what_the_reader_accepts(name: str) -> None:
    marked = 0
    for key in TABLES[name]:
        if key.kind in (kinds.MAPPING, kinds.SECTIONS):  # what is inside is read with other tables
            continue
        validator = VALIDATOR.evolve(schema=SCHEMA["definitions"][name]["properties"][key.name])
        for written in VALUES:
            takes, valid = reader_takes(key, written), validator.is_valid(plain(NODES[written]))
            marked += not valid
            if takes and key.name not in CHECKED_LATER:
                assert valid, f"{key.name}: {written}: refused by the schema alone"
            if not takes and written not in FINER.get(key.kind, ()):
                assert not valid, f"{key.name}: {written}: refused by the reader alone"
    assert marked > 10
