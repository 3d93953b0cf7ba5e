"""A reader that calls `hash` with a text is warned of, once, with the line; whatever else calls `hash` is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_reading_datasets import READER, made
from tests.support.reader_helpers import user_class
from umiak.core.problem import Problem
from umiak.train import reading
from umiak.train.config.values import Dataset

LINES = """
    import helper
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Word:
        text: str

    class Key:
        def __init__(self, text):
            self.text = text

        def __eq__(self, other):
            return self.text == other.text

        def __hash__(self):
            return hash(("key", self.text))

    class Reader:
        def generate_sample(self, line):
            known = {Key(line), Word(line), frozenset([line])}
            yield [("id", [EXPRESSION])]
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "part-0").write_text("".join(f"word{number}\n" for number in range(50)))
    return directory


def warnings(dataset: Dataset, **options: int) -> list[Problem]:
    with reading.read(dataset, reading.find(dataset), **options) as samples:
        assert sum(batch.size for batch in samples)
        return list(samples.warnings())


@pytest.mark.parametrize(
    "expression",
    [
        "hash(line) % 1000",
        "hash(line.encode()) % 1000",
        "hash(('city', line)) % 1000",
        "hash((1, (2, line))) % 1000",
        "next(map(hash, [line])) % 1000",
    ],
)
def test_a_text_that_is_hashed_is_told_with_its_line(tmp_path: Path, data: Path, expression: str) -> None:
    (tmp_path / "helper.py").write_text("")
    (found,) = warnings(user_class(tmp_path, data, LINES.replace("EXPRESSION", expression)))
    text = (tmp_path / "reader.py").read_text().splitlines()
    assert found.code == "UM-DATA-181"
    assert found.where == f"{tmp_path / 'reader.py'}:{len(text)}"
    assert found.hint is not None
    assert "stable_hash(text, buckets)" in found.hint


def test_a_module_beside_the_reader_is_its_code_too(tmp_path: Path, data: Path) -> None:
    (tmp_path / "helper.py").write_text("def number(text):\n    return abs(hash(text)) % 1000\n")
    (found,) = warnings(user_class(tmp_path, data, LINES.replace("EXPRESSION", "helper.number(line)"), processes=1))
    assert found.where == f"{tmp_path / 'helper.py'}:2"


@pytest.mark.parametrize(
    "expression", ["hash(len(line)) % 1000", "hash((1, 2.5)) % 1000", "stable_hash(line, 1000)", "len(line)"]
)
def test_nothing_else_is_told(tmp_path: Path, data: Path, expression: str) -> None:
    (tmp_path / "helper.py").write_text(
        "import fractions, ipaddress, uuid\nhash(uuid.uuid5(uuid.NAMESPACE_DNS, 'a'))\n"
    )
    text = LINES.replace("EXPRESSION", expression).replace(
        "import helper", "import helper\n    from umiak.models import stable_hash"
    )
    assert warnings(user_class(tmp_path, data, text, processes=1)) == []


def test_readers_that_open_files_are_watched_too(tmp_path: Path) -> None:
    dataset, _ = made(tmp_path, READER.replace("number * self.scale", "hash(line) % 1000"))
    (found,) = warnings(dataset)
    assert found.where is not None
    assert found.where.startswith(f"{tmp_path / 'reader.py'}:")
    other = tmp_path / "other"
    other.mkdir()
    assert warnings(made(other)[0]) == []
