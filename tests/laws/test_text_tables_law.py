"""CSV and JSON lines are read as Python's own `csv` and `json` read them, whatever is quoted, cut, packed and left off; and the same row
gives the same ids and the same bits of numbers from CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import umiak_native

from tests.support import chance
from tests.support.effort import times
from tests.support.table_samples import WORDS
from umiak.core.problem import UmiakError
from umiak.data import stable_hash, tables

NAMES = ["a", "b b", 'c"c']


def word(dice: random.Random, words: Sequence[str] = WORDS) -> str:
    return dice.choice([*words, f"w{dice.randrange(40)}", "".join(dice.choices('a"\n\r, \té', k=dice.randrange(6)))])


def a_table(dice: random.Random, rows: int) -> list[list[str]]:
    return [[word(dice) for _ in NAMES] for _ in range(rows)]


def csv_text(rows: Sequence[Sequence[str]], dice: random.Random) -> bytes:
    out = io.StringIO(newline="")
    quoting = dice.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    # Where rows end with "\n" alone, QUOTE_MINIMAL leaves "\r" without quotes, which `csv` itself takes for the end of a row.
    ending = "\r\n" if quoting == csv.QUOTE_MINIMAL else dice.choice(["\n", "\r\n"])
    csv.writer(out, quoting=quoting, lineterminator=ending).writerows(rows)
    text = out.getvalue().encode()
    return text if dice.random() < 0.8 else text.rstrip(b"\r\n")


def packed(content: bytes, dice: random.Random) -> bytes:
    return gzip.compress(content) if dice.random() < 0.3 else content


def values(found: Sequence[tables.TableBatch], name: str) -> list[Any]:
    return [value for batch in found for value in batch.columns[name].plain()]


def test_csv_is_read_as_pythons_csv_reads_it(tmp_path: Path) -> None:
    dice = chance()
    for _ in range(times(60)):
        rows = a_table(dice, dice.choice([0, 1, 3, 40, 400]))
        content = csv_text([NAMES, *rows], dice)
        content = b"\xef\xbb\xbf" + content if dice.random() < 0.3 else content
        file = tmp_path / dice.choice(["t.csv", "t.txt", "t"])
        file.write_bytes(packed(content, dice))
        table = tables.look(file, tables.TextReading(delimiter=","))
        assert [column.name for column in table.columns] == NAMES
        whole = tables.parts([table], dice.choice([50, 500, 1 << 20]))
        expected = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))[1:]
        found = list(tables.read(whole, dict.fromkeys(NAMES, "values"), batch_rows=dice.choice([1, 7, 1000])))
        for place, name in enumerate(NAMES):
            assert values(found, name) == [row[place].encode() or None for row in expected if row], name


def test_every_row_is_in_one_part_and_reading_goes_on_at_any_row(tmp_path: Path) -> None:
    dice = chance()
    for number in range(times(30)):
        rows = [[str(row), word(dice), word(dice)] for row in range(dice.randrange(300))]
        file = tmp_path / f"{number}.any"
        kind = dice.choice(["csv", "json", "parquet"])
        if kind == "csv":
            file.write_bytes(csv_text([NAMES, *rows], dice))
        elif kind == "json":
            file.write_text("".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows))
        else:
            pq.write_table(
                pa.table(dict(zip(NAMES, zip(*rows, strict=True) if rows else [[], [], []], strict=True))),
                file,
                row_group_size=17,
            )
        if not rows and kind == "json":
            continue
        parts = tables.parts([tables.look(file, tables.TextReading(delimiter=","))], dice.choice([64, 1000]))
        of = dice.randrange(1, 6)
        shares = [tables.share(parts, each, of) for each in range(of)]
        assert [part for each in shares for part in each] == list(parts)
        found: list[int] = []
        for share in shares:
            position = None
            while True:
                reader = tables.TableReader(
                    share, {"a": "values"}, batch_rows=dice.choice([1, 5, 50]), position=position
                )
                stop = dice.randrange(1, 4)
                batches = [batch for _, batch in zip(range(stop), reader, strict=False)]
                found += [int(value) for value in values(batches, "a")]
                if len(batches) < stop:
                    break
                position = reader.position()
        assert found == list(range(len(rows))), kind


def test_one_row_gives_the_same_ids_and_numbers_from_every_format(tmp_path: Path) -> None:
    dice = chance()
    whole = [2**63 - 1, -(2**63), 0, 1, -1, 2**53 + 1, None]
    parts = [0.1, 1.0, -0.0, 1e300, 1e-7, 2.5, 123456789012345680.0, None]
    for _ in range(times(20)):
        rows = [
            {
                "text": dice.choice([None, word(dice)]),
                "whole": dice.choice(whole),
                "part": dice.choice([*parts, dice.random()]),
                "truth": dice.choice([True, False, None]),
                "tags": dice.choice(
                    [None, ["x"], [word(dice).replace("|", "") or "y" for _ in range(dice.randrange(1, 4))]]
                ),
            }
            for _ in range(dice.randrange(1, 60))
        ]
        arrow = pa.table(
            {
                "text": pa.array([row["text"] for row in rows], pa.string()),
                "whole": pa.array([row["whole"] for row in rows], pa.int64()),
                "part": pa.array([row["part"] for row in rows], pa.float64()),
                "truth": pa.array([row["truth"] for row in rows], pa.bool_()),
                "tags": pa.array([row["tags"] for row in rows], pa.list_(pa.string())),
            }
        )
        pq.write_table(arrow, tmp_path / "t.parquet")
        (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        cells = [
            [
                ""
                if v is None
                else "|".join(v)
                if isinstance(v, list)
                else str(v).lower()
                if isinstance(v, bool)
                else str(v)
                for v in row.values()
            ]
            for row in rows
        ]
        (tmp_path / "t.csv").write_bytes(csv_text([list(rows[0]), *cells], dice))
        wants = [
            {"text": "ids", "whole": "ids", "part": "numeric_ids", "truth": "ids", "tags": "ids[|]"},
            {"whole": "numbers", "part": "numbers", "truth": "numbers", "text": "ids"},
        ]
        for want in wants:
            found = []
            for name in ("t.parquet", "t.jsonl", "t.csv"):
                table = tables.look(tmp_path / name, tables.TextReading(delimiter=","))
                (batch,) = tables.read(tables.parts([table]), want)
                found.append({each: [repr(value) for value in batch.columns[each].plain()] for each in want})
            assert found[0] == found[1] == found[2]
        assert stable_hash("1") == stable_hash(1)


def test_json_lines_are_read_as_pythons_json_reads_them(tmp_path: Path) -> None:
    dice = chance()
    file = tmp_path / "t.jsonl"
    for _ in range(times(40)):
        rows = [
            {
                "s": word(dice),
                "skipped": {"deep": [1, {"x": [None]}]},
                "n": dice.choice([1, 1.5, -3e40, 0, None]),
                "l": [word(dice) for _ in range(dice.randrange(3))],
            }
            for _ in range(dice.randrange(1, 40))
        ]
        lines = [
            json.dumps(row, ensure_ascii=dice.random() < 0.5, indent=None) + dice.choice(["\n", "\r\n", "\n\n"])
            for row in rows
        ]
        file.write_bytes(packed("".join(lines).encode(), dice))
        table = tables.look(file)
        kinds = {column.name: (column.is_list, column.refused) for column in table.columns}
        assert kinds["skipped"] == (False, "objects in a row are not read")
        found = list(
            tables.read(tables.parts([table], 100), {"s": "values", "n": "numbers", "l": "values[]"}, batch_rows=9)
        )
        assert values(found, "s") == [row["s"].encode() for row in rows]  # type: ignore[attr-defined]
        assert values(found, "n") == [row["n"] for row in rows]
        assert values(found, "l") == [[each.encode() for each in row["l"]] for row in rows]  # type: ignore[union-attr]


def test_bad_rows_say_where_they_are_and_a_share_of_them_may_pass(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('n,s\n1,"a\nb"\nx,c\n3\n\n4,d\n5,e,f\n')
    parts = tables.parts([tables.look(file)])
    with pytest.raises(tables.TableFault, match=r't\.csv:4: column "n": a number is expected: "x"') as caught:
        list(tables.read(parts, {"n": "numbers"}))
    assert (caught.value.line, caught.value.column, caught.value.value) == (4, "n", "x")
    (batch,) = tables.read(parts, {"n": "numbers", "s": "values"}, bad_rows=0.5)
    assert (batch.read, batch.bad, values([batch], "n"), values([batch], "s")) == (5, 3, [1.0, 4.0], [b"a\nb", b"d"])
    assert [(bad.line, bad.reason) for bad in batch.bad_examples] == [
        (4, "a number is expected"),
        (5, "2 values are expected, and it has 1"),
        (8, "2 values are expected, and it has 3"),
    ]
    file = tmp_path / "many.csv"
    file.write_text("n\n" + "1\n" * 10_000 + "x\n" * 300 + "1\n" * 10_000)
    reader = tables.TableReader(tables.parts([tables.look(file)], 4000), {"n": "numbers"}, bad_rows=0.03)
    assert sum(batch.rows for batch in reader) == 20_000
    assert reader.bad == 300
    with pytest.raises(UmiakError, match=r"rows are bad, and 1.00% are allowed"):
        list(tables.read(tables.parts([tables.look(file)], 4000), {"n": "numbers"}, bad_rows=0.01))
    with pytest.raises(tables.TableFault, match=r"many.csv:10002: ") as caught:
        list(tables.read(tables.parts([tables.look(file)], 4000), {"n": "numbers"}))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"a": 1 "b": 2}', "a comma is expected"),
        ('{"b": [1}', "a comma is expected"),
        ('{"a": {"b": 1}}', "one value is expected, not an object"),
        ('{"a": [1]}', "one value is expected, not a list"),
        ('{"a": 1} x', "nothing more is expected"),
        ('{"a": 1, "a": 2}', "a name that comes twice"),
        ('{"a": 01}', "a number is damaged"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"a": "1', "a text is not closed"),
        ("[1]", "an object is expected"),
        ('{"a": "x"}', "a number is expected"),
        ('{"b":' + "[" * 500, "it is too deep"),
    ],
)
def test_what_is_no_json_says_so(line: str, words: str) -> None:
    content = f'{{"a": 1}}\n{{"a": 2}}\n{line}\n{{"a": 3}}\n'.encode()
    source = (len(content), lambda at, count: content[at : at + count])
    with pytest.raises(umiak_native.TableError, match=words) as caught:
        umiak_native.text_rows("t", source, [("a", "numbers")]).next_batch(10)
    assert caught.value.line == 3
    batch = umiak_native.text_rows("t", source, [("a", "numbers")], pass_bad=True).next_batch(10)
    assert batch is not None
    assert (batch[1:3], batch[4][0][0].tolist()) == ((4, 1), [1, 2, 3])  # type: ignore[union-attr]


def test_damaged_texts_are_an_error_or_bad_rows(tmp_path: Path) -> None:
    dice = chance()
    rows = [{"a": word(dice), "l": [word(dice)], "n": 1.5} for _ in range(30)]
    as_json = "".join(json.dumps(row) + "\n" for row in rows).encode()
    as_csv = csv_text([["a", "l", "n"], *([row["a"], "x|y", "1.5"] for row in rows)], dice)  # type: ignore[list-item]
    for _ in range(times(1500)):
        is_json = dice.random() < 0.5
        content = bytearray(packed(as_json if is_json else as_csv, dice))
        for _ in range(dice.choice([1, 3, 20])):
            content[dice.randrange(len(content))] = dice.choice([dice.randrange(256), *b'",\n\\[]{}'])
        if dice.random() < 0.3:
            del content[dice.randrange(len(content)) :]
        raw = bytes(content)
        source = (len(raw), lambda at, count, raw=raw: raw[at : at + count])
        wants = [("a", "ids"), ("l", dice.choice(["ids[|]", "values[|]"])), ("n", "numbers")]
        try:
            if is_json:
                rows_ = umiak_native.text_rows("t", source, wants, pass_bad=True, first=dice.randrange(3))
            else:
                rows_ = umiak_native.text_rows(
                    "t", source, wants, (44, 34, None), pass_bad=True, first=dice.randrange(3)
                )
            while (batch := rows_.next_batch(dice.choice([1, 10]))) is not None:
                lengths = {len(column[1]) if column[2] is None else len(column[2]) - 1 for column in batch[4]}
                assert lengths == {batch[1] - batch[2]}
        except umiak_native.TableError:
            pass
