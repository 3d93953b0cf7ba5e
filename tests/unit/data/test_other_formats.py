"""Files of other formats given as slot text: the error says what the file is, and what reads it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import chance
from tests.support.paths import ROOT
from umiak import data
from umiak.data import other_formats
from umiak.data.other_formats import other_format

TEXTS = {
    "click,age,city\n1,34,Berlin\n0,22,Paris\n": "CSV, whose first line is: click, age, city",
    '"click","seen at"\n1,"2026-01-01 10:00:00"\n': "CSV, whose first line is: click, seen at",
    "1\t34\tberlin\r\n0\t22\t\r\n": "tab-separated text (TSV), whose first line is: 1, 34, berlin",
    "1;34,5;x\n0;2,5;y\n": "CSV with semicolons, whose first line is: 1, 34,5, x",
    '{"click": 1, "age": 34}\n': "JSON",
    "1 3:0.5 7:1\n0 4:1\n": "LibSVM text, whose label has no slot",
}


@pytest.mark.parametrize(("text", "name"), TEXTS.items())
@pytest.mark.parametrize("packed", [False, True])
def test_text_of_another_format_is_named(tmp_path: Path, text: str, name: str, packed: bool) -> None:
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(data.ReadError) as caught:
        list(data.SlotReader(path, sparse=["click"]))
    (problem,) = caught.value.problems
    assert problem.code == "UM-DATA-095"
    assert problem.what == f"{path}: expected slot text (lines of slot:value), got {name}"
    assert problem.hint


def test_a_table_is_named_whatever_its_bytes_say(tmp_path: Path) -> None:
    path = tmp_path / "part-0"
    draw = chance()
    pq.write_table(pa.table({"click": [draw.randrange(2) for _ in range(1000)]}), path)
    with pytest.raises(data.ReadError, match="got a Parquet file") as caught:
        list(data.SlotReader(path, sparse=["click"]))
    assert "use-my-own-data.md" in str(caught.value)


def test_the_page_that_is_named_is_there() -> None:
    assert (ROOT / other_formats.PAGE).is_file()


@pytest.mark.parametrize("first", ["click:1 age:34", "click:1,2 age:3", "click:x", "click 1", "10:00,a,b", "", "click"])
def test_slot_text_with_a_mistake_stays_a_mistake_of_its_line(tmp_path: Path, first: str) -> None:
    assert other_format(f"{first}\nclick:0 age:2\n".encode()) is None
    path = tmp_path / "data"
    path.write_text(f"click:1 age:1\n{first or 'nothing'}\nage\n")
    with pytest.raises(data.ReadError) as caught:
        list(data.SlotReader(path, sparse=["click"], unknown="skip"))
    assert caught.value.problems[0].code == "UM-DATA-001"


def test_nothing_that_a_file_says_steers_a_terminal() -> None:
    found = other_format(b"a\x1b]0;title\x07,b\n1,2\n")
    assert found is not None
    assert found.name.isprintable()
