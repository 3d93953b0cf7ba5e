"""What a file with a table is taken for, its columns and parts, and what is said of files that are none."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from umiak.core.problem import UmiakError
from umiak.data import stable_hash, tables
from umiak.data.tables import Format, TextReading, checking, footers


def kinds(table: tables.TableFile) -> dict[str, str]:
    return {column.name: f"list of {column.kind}" if column.is_list else column.kind for column in table.columns}


@pytest.mark.parametrize(
    ("name", "text", "form", "delimiter"),
    [
        ("a", "x,y\n1,2\n", Format.CSV, ","),
        ("a.txt", "x\ty\n1\t2\n", Format.CSV, "\t"),
        ("a.csv", "x;y\n1;2\n", Format.CSV, ";"),
        ("a.tsv", "x,y\n", Format.CSV, "\t"),
        ("a", '{"x": 1}\n', Format.JSON, ","),
        ("a.csv", '{"x": 1}\n', Format.CSV, ","),
        ("a.csv", "x\n1\n", Format.CSV, ","),
    ],
)
def test_a_format_is_told_by_content_then_by_name(
    tmp_path: Path, name: str, text: str, form: Format, delimiter: str
) -> None:
    (tmp_path / name).write_text(text)
    table = tables.look(tmp_path / name)
    assert table.format is form
    assert form is Format.JSON or table.delimiter == delimiter


def test_kinds_of_texts_are_those_of_their_first_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("i,f,b,t,e\n1,1,true,x,\n-2,2.5e3,False,1,\n,,,,\n")
    table = tables.look(tmp_path / "t.csv")
    assert kinds(table) == {"i": "integer", "f": "float64", "b": "bool", "t": "text", "e": "empty"}
    rows = [{"i": 1, "m": 1, "l": [1], "s": "x", "o": {}, "ll": [[1]], "v": [1]}, {"i": None, "m": 1.5, "v": 1}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = tables.look(tmp_path / "t.jsonl")
    found = kinds(table)
    assert (found["i"], found["m"], found["l"], found["s"]) == ("integer", "float64", "list of integer", "text")
    refused = {column.name: column.refused for column in table.columns if column.refused}
    assert set(refused) == {"o", "ll", "v"}


def test_columns_of_a_file_without_a_header_are_named(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("1,NA\n2,x\n")
    table = tables.look(file, TextReading(names=("a", "b"), missing=("NA",)))
    (batch,) = tables.read(tables.parts([table]), {"a": "numbers", "b": "ids"})
    assert batch.columns["a"].plain() == [1.0, 2.0]
    assert batch.columns["b"].plain() == [None, stable_hash("x")]


@pytest.mark.parametrize(
    ("content", "name", "code"),
    [
        (b"a,a\n1,2\n", "t.csv", "UM-DATA-115"),
        (b"ORC" + b"\0" * 99, "t", "UM-DATA-115"),
        (b"ARROW1" + b"\0" * 99, "t", "UM-DATA-115"),
        (b"click:1 2:3 4:5\n", "t.txt", "UM-DATA-115"),
        (b"no json\n", "t.jsonl", "UM-DATA-115"),
        (b"no parquet", "t.parquet", "UM-DATA-110"),
        (b"PAR1" + b"\0" * 99, "t", "UM-DATA-110"),
        (b"\x1f\x8bxx", "t.csv.gz", "UM-DATA-002"),
    ],
)
def test_what_is_no_table_says_so(tmp_path: Path, content: bytes, name: str, code: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UmiakError) as caught:
        tables.look(tmp_path / name)
    assert [problem.code for problem in caught.value.problems] == [code]
    assert name in caught.value.problems[0].what


def test_what_lies_behind_a_url_is_read_by_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    store = fsspec.filesystem("memory")
    out = io.BytesIO()
    whole = pa.table({"a": [f"w{row}" for row in range(300_000)], "b": [f"other{row}" for row in range(300_000)]})
    pq.write_table(whole, out, row_group_size=100_000, use_dictionary=False, compression="none")
    store.pipe_file("/t.parquet", out.getvalue())
    store.pipe_file("/t.csv", b"a\n" + b"x\n" * 1000)
    fetched = []
    plain = type(store).cat_file

    def counted(self: object, path: str, start: int | None = None, end: int | None = None, **more: object) -> bytes:
        got: bytes = plain(self, path, start=start, end=end, **more)
        fetched.append(len(got))
        return got

    monkeypatch.setattr(type(store), "cat_file", counted)
    table = tables.look("memory://t.parquet")
    (batch,) = tables.read(tables.parts([table])[1:2], {"a": "values"}, batch_rows=100_000)
    assert batch.columns["a"].plain()[0] == b"w100000"
    assert sum(fetched) < len(out.getvalue()) / 3
    csv = tables.look("memory://t.csv")
    assert len(tables.parts([csv], 100)) == 1
    cut = tables.parts([tables.look("memory://t.csv", TextReading(newlines=False))], 100)
    assert len(cut) == 21
    assert sum(batch.rows for batch in tables.read(cut, {"a": "ids"})) == 1000


@pytest.mark.parametrize("room", [500_000, 0])
def test_a_footer_behind_a_url_is_fetched_once(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(footers, "_kept", footers._Kept(room))
    store = fsspec.filesystem("memory")
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [*range(600)], "b": [*range(600)]}), out, row_group_size=100)
    store.pipe_file("/footer.parquet", out.getvalue())
    size, ends = len(out.getvalue()), []
    plain = type(store).cat_file

    def counted(self: object, path: str, start: int | None = None, end: int | None = None, **more: object) -> bytes:
        ends.append(end)
        return bytes(plain(self, path, start=start, end=end, **more))

    monkeypatch.setattr(type(store), "cat_file", counted)
    table = tables.look("memory://footer.parquet")
    parts = tables.parts([table])
    assert len(parts) == 6
    found = [at for batch in tables.read(parts, {"a": "values"}) for at in batch.columns["a"].plain()]
    assert found == [*range(600)]
    assert ends.count(size) == (1 if room else 7), "one for each part, where nothing is kept"
    # Looked at again it is read again: it may be another file by now.
    pq.write_table(pa.table({"a": [7]}), out := io.BytesIO())
    store.pipe_file("/footer.parquet", out.getvalue())
    (batch,) = tables.read(tables.parts([tables.look("memory://footer.parquet")]), {"a": "values"})
    assert batch.columns["a"].plain() == [7]


def test_a_position_is_refused_for_other_parts(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x\n1\n2\n")
    first, second = (tables.parts([tables.look(tmp_path / name)]) for name in ("a.csv", "b.csv"))
    reader = tables.TableReader(first, {"x": "ids"}, batch_rows=1)
    next(reader)
    position = reader.position()
    assert sum(batch.rows for batch in tables.TableReader(first, {"x": "ids"}, position=position)) == 1
    for parts, place in [(second, position), (first, "{}"), (first, "x"), (first, "[]")]:
        with pytest.raises(UmiakError) as caught:
            tables.TableReader(parts, {"x": "ids"}, position=place)
        assert caught.value.problems[0].code == "UM-DATA-003"


def test_all_differences_between_files_are_told_at_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["a"], "price": [1], "tags": [["x"]]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"User": ["a"], "price": [1.5], "tags": ["x"]}), tmp_path / "2.parquet")
    (tmp_path / "3.parquet").write_bytes(b"PAR1")
    names = checking.names_of([str(tmp_path)])
    checked = checking.check(names, TextReading(), numbers=["prise"])
    assert [(problem.code, problem.what.rpartition("/")[2]) for problem in checked.problems] == [
        ("UM-DATA-110", "3.parquet: it is no Parquet file: it has 4 bytes"),
        ("UM-DATA-113", "1.parquet: there is no column 'prise'"),
        ("UM-DATA-116", "1.parquet has"),
        ("UM-DATA-116", "1.parquet it is list of text"),
        ("UM-DATA-116", "1.parquet does not have: 'User'"),
    ]
    assert (checked.rows, checked.bad) == (2, 0)
    with pytest.raises(UmiakError, match=r"no files: .*nowhere.*; no files: "):
        checking.names_of([str(tmp_path / "nowhere"), str(tmp_path / "*.csv")])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_told(tmp_path: Path, encoding: str) -> None:
    text = "click,city\n1,a\n"
    mark = "" if encoding == "utf-16" else "\ufeff"
    (tmp_path / "t.csv").write_bytes((mark + text).encode(encoding))
    with pytest.raises(UmiakError, match="its texts are UTF-16, and UTF-8 is read"):
        tables.look(tmp_path / "t.csv")
