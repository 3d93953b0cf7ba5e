"""A trainer's samples of tables: every row is read once, however files are divided, shuffled, and gone on with."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.data import tables
from umiak.data.tables import TableBatch, TextReading
from umiak.train import reading
from umiak.train.config.values import Dataset
from umiak.train.reading import dividing, finding
from umiak.train.reading.columns import Column
from umiak.train.reading.shuffling import pieces
from umiak.train.reading.tables.places import TablePlaces
from umiak.train.reading.tables.samples import RowSource

FORMATS = ("parquet", "csv", "jsonl", "csv.gz", "mixed")


class Numbers:
    """Rows of a number, and of a text that may have newlines, as they are."""

    wanted: Mapping[str, str] = {"row": "numbers", "text": "ids"}
    columns = (Column(name="text", width=None), Column(name="row", width=1))

    def arrays(self, batch: TableBatch):
        ids = batch.columns["text"].values.view(np.int64)
        rows = batch.columns["row"].values.astype(np.float32).reshape(-1, 1)
        return ((ids, np.ones(len(ids), np.int64)), (rows, None)), len(ids)


def texts(row: int) -> str:
    return f'a "{row}"\n,b' if row % 7 == 0 else f"plain {row}"


def write(path: Path, rows: Iterable[int], *, group: int = 2500) -> None:
    rows = list(rows)
    if path.suffix == ".parquet":
        made = pa.table({"row": pa.array(rows, pa.int64()), "text": [texts(row) for row in rows]})
        parquet.write_table(made, path, row_group_size=group, data_page_size=4096)
        return
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        if ".jsonl" in path.name:
            file.writelines(json.dumps({"row": row, "text": texts(row)}) + "\n" for row in rows)
        else:
            csv.writer(file).writerows([("row", "text"), *((row, texts(row)) for row in rows)])


def source(**more: object) -> RowSource:
    return RowSource(Numbers(), TextReading(), **more)


def tables_in(directory: Path, kind: str, files: tuple[int, ...] = (20_000, 0, 7_000)) -> Dataset:
    """Files with so many rows, numbered from 0 on."""
    first = 0
    for number, rows in enumerate(files):
        ending = ("parquet", "csv", "jsonl")[number % 3] if kind == "mixed" else kind
        write(directory / f"part-{number}.{ending}", range(first, first + rows))
        first += rows
    return Dataset(name="train", data_path=str(directory), batch_size=512)


def rows_of(samples: Iterable) -> list[int]:
    return [int(row) for batch in samples for row in batch.dense["row"][:, 0]]


def drain(dataset: Dataset, found: finding.Files, **how: object) -> list[int]:
    with reading.read(dataset, found, rows=source(), **how) as samples:
        return rows_of(samples)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("world", "shuffle"), [(1, 0), (3, 0), (4, 3000)])
def test_trainers_together_read_every_row_once(tmp_path: Path, kind: str, world: int, shuffle: int) -> None:
    dataset = tables_in(tmp_path, kind)
    found = reading.find(dataset)
    shares = [drain(dataset, found, rank=rank, world=world, shuffle=shuffle, seed=3) for rank in range(world)]
    assert sorted(row for share in shares for row in share) == list(range(27_000))
    if kind == "parquet" and not shuffle:
        assert min(map(len, shares)) > 27_000 / world * 0.7, "row groups are divided, too"
    if world == 1:
        assert shares[0] == list(range(27_000)), "in the order of the files"
    if shuffle:
        again = drain(dataset, found, rank=0, world=world, shuffle=shuffle, seed=3)
        other = drain(dataset, found, rank=0, world=world, shuffle=shuffle, seed=4)
        assert again == shares[0] != other


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("shuffle", [0, 2000])
def test_parts_that_are_handed_out_are_every_row_once(tmp_path: Path, kind: str, shuffle: int) -> None:
    dataset = tables_in(tmp_path, kind)
    found = reading.find(dataset)
    rows = source()
    if shuffle:
        how = reading.shuffle_of(found, shuffle, rows)
        handed = pieces.groups(found.files, how, world=3, part_bytes=20_000, seed=1, epoch=2)
    else:
        handed = dividing.hand(found.files, world=3, piece_bytes=20_000)
    read = []
    for part in handed:
        with reading.read_part(dataset, found, part, rows=rows, shuffle=shuffle, epoch=2, seed=1) as samples:
            read += rows_of(samples)
    assert sorted(read) == list(range(27_000))
    assert len(handed) > 5 or kind == "csv.gz"


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("shuffle", [0, 700, 5000])
def test_going_on_from_any_batch_gives_the_batches_that_would_have_come_next(
    tmp_path: Path, kind: str, shuffle: int
) -> None:
    dataset = replace(tables_in(tmp_path, kind, (9_000, 4_001)), batch_size=300)
    found = reading.find(dataset)
    how = {"rank": 1, "world": 2, "shuffle": shuffle, "seed": 5, "epoch": 1}
    whole, places = [], []
    with reading.read(dataset, found, rows=source(), **how) as samples:
        places.append(samples.position())
        for batch in samples:
            whole.append(batch)
            places.append(samples.position())
    for number in random.Random(kind).sample(range(len(places)), 6):
        with reading.read(dataset, found, rows=source(), position=places[number], **how) as samples:
            rest = list(samples)
            assert samples.given == sum(batch.size for batch in whole)
        assert len(rest) == len(whole) - number
        for batch, expected in zip(rest, whole[number:], strict=True):
            assert np.array_equal(batch.dense["row"], expected.dense["row"])
            assert np.array_equal(batch.sparse["text"][0], expected.sparse["text"][0])


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_any_cut_of_a_file_is_whole(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    write(path, range(12_345), group=5000)
    size = path.stat().st_size
    draw = random.Random(kind)
    for _ in range(8):
        ends = sorted({0, size, *(draw.randrange(size) for _ in range(draw.randrange(30)))})
        places = TablePlaces(TextReading())
        read: Counter[int] = Counter()
        for start, end in itertools.pairwise(ends):
            for part in places.parts(tables_part(path, start, end if end < size else None)):
                for batch in tables.read([part], {"row": "numbers"}):
                    read.update(batch.columns["row"].values.astype(int).tolist())
        assert read == Counter(range(12_345))


def tables_part(path: Path, start: int, end: int | None):
    from umiak.data.parts import Part

    return Part(path=str(path), start=start, end=end)


def test_a_promise_that_no_value_has_a_newline_cuts_csv_at_any_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("row,text\n" + "".join(f"{row},x\n" for row in range(5000)))
    dataset = Dataset(name="train", data_path=str(path), batch_size=100)
    found = reading.find(dataset)
    rows = RowSource(Numbers(), TextReading(newlines=False))
    shares = []
    for rank in range(7):
        with reading.read(dataset, found, rows=rows, rank=rank, world=7) as samples:
            shares.append(rows_of(samples))
    assert [row for share in shares for row in share] == list(range(5000))
    assert min(map(len, shares)) > 500


def test_bad_rows_are_left_out_and_counted_up_to_the_share_that_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"{'x' if row % 1000 == 5 else row},t\n" for row in range(6000)]
    path.write_text("row,text\n" + "".join(lines))
    dataset = Dataset(name="train", data_path=str(path), batch_size=1000)
    found = reading.find(dataset)
    with pytest.raises(UmiakError) as raised, reading.read(dataset, found, rows=source()) as samples:
        rows_of(samples)
    assert raised.value.problems[0].code == "UM-DATA-112"
    assert f"{path}" in raised.value.problems[0].what
    with reading.read(dataset, found, rows=source(bad_rows=0.01)) as samples:
        read = rows_of(samples)
        assert read == [row for row in range(6000) if row % 1000 != 5]
        assert samples.seen().bad_lines == 6
        assert {each.code for each in samples.warnings()} == {"UM-DATA-112"}
        assert "line 7" in samples.warnings()[0].what


def test_a_column_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("rows,text\n1,a\n")
    dataset = Dataset(name="train", data_path=str(path), batch_size=1000)
    with pytest.raises(UmiakError) as raised:
        reading.check(dataset, reading.find(dataset), rows=source())
    (problem,) = raised.value.problems
    assert problem.code == "UM-DATA-113"
    assert (problem.hint or "").startswith("did you mean `rows`?")
