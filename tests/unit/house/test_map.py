"""The map of ARCHITECTURE.md leads somewhere: what it names exists, and the words of a change find the row of its file."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from importlinter.api import read_configuration

from tests.support.paths import ROOT
from tests.support.sources import SOURCE, tree

NAME = re.compile(r"`([\w./]+\.(?:pyi|py|rs))(?::(\w+))?`")
RUST = r"\b(?:fn|struct|enum|trait|const|static|type|mod|macro_rules!)\s+{}\b"
TOP = ("src", "native", "docs", "tests", "testbed", "tools", "benchmarks")
"""How the name of a file begins that does not lie beside the one before it."""


class Place(NamedTuple):
    """What a row names: a file, and what is in it."""

    path: str
    symbol: str


class Row(NamedTuple):
    """A row of the map: a kind of change, and where it begins."""

    change: str
    places: tuple[Place, ...]


def places_of(cell: str) -> tuple[Place, ...]:
    """A name without a folder at the top lies beside the last file that has one."""
    folder = Path()
    places = []
    for name, symbol in NAME.findall(cell):
        path = Path(name)
        if path.parts[0] in TOP:
            folder = path.parent
        else:
            path = folder / path
        places.append(Place(path.as_posix(), symbol))
    return tuple(places)


def rows_of_the_map() -> list[Row]:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = page.split("| a line that ... | belongs in |")[1].split("\n\n", maxsplit=1)[0]
    rows = [line.strip("| ").split(" | ", maxsplit=1) for line in table.splitlines()[2:] if not line.startswith("| **")]
    return [Row(change, places_of(cell)) for change, cell in rows]


ROWS = rows_of_the_map()


def exists(path: Path, symbol: str) -> bool:
    """Whether a file has a symbol: at the top of a Python module, anywhere in a Rust file."""
    if not path.is_file():
        return False
    if path.suffix == ".rs":
        return re.search(RUST.format(symbol), path.read_text(encoding="utf-8")) is not None
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == symbol:
            return True
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == symbol for target in targets):
            return True
    return False


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.change)
def test_the_map_leads_somewhere(row: Row) -> None:
    assert row.places, "names no file"
    assert row.places[0].symbol, "a row begins with path:symbol"
    assert [path for path, _ in row.places if not (ROOT / path).is_file()] == []
    assert [place for place in row.places if place.symbol and not exists(ROOT / place.path, place.symbol)] == []


def test_the_map_is_large_enough_and_can_be_read() -> None:
    assert 60 <= len(ROWS) <= 80
    assert len([row for row in ROWS if any(path.startswith("native/src") for path, _ in row.places)]) >= 8


def test_the_map_has_a_row_in_each_layer() -> None:
    contract = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"][0]
    layers = {name.strip().removeprefix("umiak.") for row in contract["layers"] for name in row.split("|")}
    named = {path.split("/")[2] for row in ROWS for path, _ in row.places if path.startswith("src")}
    assert layers - named == set()


def test_the_check_of_the_map_checks() -> None:
    assert exists(SOURCE / "launch" / "plan.py", "plan")
    assert not exists(SOURCE / "launch" / "plan.py", "plans")
    assert not exists(SOURCE / "launch" / "nowhere.py", "plan")
    assert exists(ROOT / "native" / "src" / "wire" / "frame.rs", "Op")
    assert not exists(ROOT / "native" / "src" / "wire" / "frame.rs", "Opera")
    assert places_of("`src/umiak/ps/specs.py:Table`, `own/values.py`; `native/src/a.rs`, `b.rs`") == (
        Place("src/umiak/ps/specs.py", "Table"),
        Place("src/umiak/ps/own/values.py", ""),
        Place("native/src/a.rs", ""),
        Place("native/src/b.rs", ""),
    )


# ---- the words of a change find its row

STEM = 5
"""So many letters of a word count: a person writes `restarts` where the map has `restart`."""


SMALL = {
    "and",
    "are",
    "does",
    "for",
    "from",
    "has",
    "have",
    "its",
    "new",
    "not",
    "only",
    "one",
    "the",
    "that",
    "what",
    "when",
    "where",
    "which",
    "who",
    "why",
    "with",
}
"""Words that say nothing of a change; each change is new, so the command `umiak new` is found by what it does."""


def stems(text: str) -> set[str]:
    words = set(re.findall(r"[a-z0-9]+", text.lower())) - SMALL
    return {word[:STEM] for word in words if len(word) > 2 or word.isdigit()}


def found_by(words: str) -> Row | None:
    """The row that has most of these words, a rare word counting for more; none if two rows have as many."""
    known = [stems(row.change) for row in ROWS]
    count = Counter(stem for each in known for stem in each)
    scores = [sum(1 / count[stem] for stem in stems(words) & each) for each in known]
    best = max(scores)
    return ROWS[scores.index(best)] if best > 0 and scores.count(best) == 1 else None


BACKENDS = "src/umiak/submit/backends"
CHANGES = [
    ("a new setting of a place", f"{BACKENDS}/kubernetes/settings.py"),
    ("a new optimizer on servers", "src/umiak/ps/specs.py"),
    ("a flag of several commands", "src/umiak/cli/shared_flags.py"),
    ("a flag of torchrun", "src/umiak/launch/command_line/torchrun_flags.py"),
    ("a new metric of training", "src/umiak/train/metrics/__init__.py"),
    ("a new kind of features", "src/umiak/schema/features/keys.py"),
    ("a new check of doctor", "src/umiak/doctor/checks.py"),
    ("a new field of the status of PaddleJob", "src/umiak/paddlejob/status_fields.py"),
    ("a new format of tables", "src/umiak/data/tables/sources.py"),
    ("a new platform", "src/umiak/platforms/__init__.py"),
    ("a new address of the dashboard", "src/umiak/dashboard/app.py"),
    ("a new name of paddle.fluid", "src/umiak/fluid/surface/names.py"),
    ("a new key of config.yaml", "src/umiak/train/config/values.py"),
    ("a new key of job.yaml", "src/umiak/submit/job_keys.py"),
    ("a schedule of the learning rate in a config", "src/umiak/train/config/optimizers.py"),
    ("a new message between launchers", "src/umiak/launch/protocol.py"),
    ("a variable that a worker gets", "src/umiak/contracts/paddle.py"),
    ("the operator restarts a job after failures", "src/umiak/operator/policies/restarts.py"),
    ("logs with --tail and --since", "src/umiak/submit/logs/reading.py"),
    ("umiak exec loses the last lines of a command", "src/umiak/submit/reach/command.py"),
    ("files that look like secrets travel with a job", "src/umiak/submit/payload/secret_files.py"),
    ("hosts need a key for ssh", f"{BACKENDS}/ssh/keys.py"),
    ("the disk is full", "src/umiak/core/problem.py"),
    ("a request is tried again", "src/umiak/core/backoff.py"),
    ("a model of the zoo", "src/umiak/models/rank/dnn/model.py"),
    ("training with --compare differs from plain Paddle", "src/umiak/train/compare/differences.py"),
    ("a checkpoint does not remember something", "src/umiak/train/checkpoints/progress.py"),
    ("a static program of fleet", "src/umiak/fleet/programs/rewriting.py"),
    ("samples are shuffled by reader classes", "src/umiak/train/reading/shuffling/pieces.py"),
    ("a bad line of a slot file", "native/src/reader/parser.rs"),
    ("kubectl umiak lists runs", "src/umiak/cli/kubectl/words.py"),
    ("infer_from_dataset of fleet", "src/umiak/fleet/datasets/calls.py"),
    ("the pipe to a reader process is closed too early", "src/umiak/train/reading/exchange.py"),
    ("rows of the scope of a static program", "src/umiak/fleet/programs/feeding.py"),
    ("weights of a model in infer", "src/umiak/train/engines/dygraph.py"),
    ("ids that a step of a Paddle model pulls", "src/umiak/ps/paddle_models/lookups.py"),
    ("a key of the newer layout of a config", "src/umiak/train/config/flat_keys.py"),
    ("DistributedInfer and loaders", "src/umiak/fleet/loaders.py"),
]
"""What somebody wants to change, in a user's words, and the file that must be named by the row which these words find."""


@pytest.mark.parametrize(("words", "path"), CHANGES, ids=lambda value: None if "/" in value else value)
def test_the_words_of_a_change_find_the_row_of_its_file(words: str, path: str) -> None:
    row = found_by(words)
    assert row is not None, f"no row, or no single one, for: {words}"
    assert path in [place.path for place in row.places], f"{words} leads to: {row.change}"


def test_words_that_no_row_has_find_none() -> None:
    assert found_by("xylophone") is None
    assert found_by("the") is None
