"""The native reader of Parquet gives what pyarrow gives: whatever the encoding, the packing, the pages and the steps. Damaged files are an
error, never a panic, and take no memory that their bytes do not justify."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
import random
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import umiak_native

from tests.support import chance, table_samples
from tests.support.effort import times

DELTA = {
    "int64": "DELTA_BINARY_PACKED",
    "uint32": "DELTA_BINARY_PACKED",
    "text": "DELTA_BYTE_ARRAY",
    "bytes": "DELTA_LENGTH_BYTE_ARRAY",
    "short": "DELTA_BYTE_ARRAY",
    "tags.list.element": "DELTA_BYTE_ARRAY",
    "hist.list.element": "DELTA_BINARY_PACKED",
    "truth": "RLE",
}
SPLIT = dict.fromkeys(("float32", "float64", "int64", "uint32", "short", "half"), "BYTE_STREAM_SPLIT")


def opened(content: bytes) -> umiak_native.ParquetFile:
    return umiak_native.ParquetFile("x.parquet", (len(content), lambda at, count: content[at : at + count]))


def written(whole: pa.Table, dice: random.Random) -> bytes:
    """In one of the ways in which pyarrow writes."""
    how: dict[str, Any] = dice.choice(
        [
            {"use_dictionary": True},
            {"use_dictionary": True, "dictionary_pagesize_limit": 1000},
            {"use_dictionary": False},
            {"use_dictionary": False, "column_encoding": DELTA},
            {"use_dictionary": False, "column_encoding": SPLIT},
        ]
    )
    out = io.BytesIO()
    pq.write_table(
        whole,
        out,
        compression=dice.choice(["none", "snappy", "gzip", "zstd", "lz4"]),
        data_page_version=dice.choice(["1.0", "2.0"]),
        data_page_size=dice.choice([500, 20_000, 1 << 20]),
        row_group_size=dice.choice([100, 1000, 1 << 20]),
        write_page_checksum=dice.random() < 0.5,
        use_deprecated_int96_timestamps=dice.random() < 0.2,
        **how,
    )
    return out.getvalue()


def listed(column: Any) -> list[Any]:
    """A column as Python's values, None where nothing is there."""
    values, state, offsets, missing = column
    if isinstance(values, tuple):
        ends, text = values
        raw = text.tobytes()
        plain: list[Any] = [raw[start:end] for start, end in itertools.pairwise(ends)]
    else:
        plain = values.tolist()
    plain = [None if gone else value for value, gone in zip(plain, state.tolist(), strict=True)]
    if offsets is None:
        return plain
    rows = zip(missing.tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return [None if gone else plain[start:end] for gone, start, end in rows]


def read(file: umiak_native.ParquetFile, want: str, dice: random.Random, first: int = 0) -> dict[str, list[Any]]:
    """All that can be read, in steps of any size; of the rows of the first group, those from `first` on."""
    names = [name for name, _, _, refused in file.columns if refused is None]
    got: dict[str, list[Any]] = {name: [] for name in names}
    for number, (rows, _) in enumerate(file.groups):
        reader = file.rows(number, [(name, want) for name in names], first=min(first, rows) if number == 0 else 0)
        while (batch := reader.next_batch(dice.choice([1, 7, 500, 100_000]))) is not None:
            for name, column in zip(names, batch[4], strict=True):
                got[name] += listed(column)
    return got


def flat(values: list[Any]) -> list[Any]:
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def same(got: list[Any], expected: list[Any], name: str) -> None:
    if name in ("short", "long"):
        got = [None if each is None else table_samples.Decimal(each.decode()) for each in got]
        assert got == expected, name
        return
    texts = [each.encode() if isinstance(each, str) else each for each in flat(expected)]
    assert [repr(each) for each in flat(got)] == [repr(each) for each in texts], name
    assert [len(each) if isinstance(each, list) else each is None for each in got] == [
        len(each) if isinstance(each, list) else each is None for each in expected
    ], name


def test_values_are_those_of_pyarrow() -> None:
    dice = chance()
    for _ in range(times(12)):
        whole = table_samples.table(dice, dice.choice([0, 1, 50, 2500]))
        content = written(whole, dice)
        file = opened(content)
        whole = pq.read_table(io.BytesIO(content))  # INT96 has other units
        assert sum(rows for rows, _ in file.groups) == whole.num_rows
        for name, values in read(file, "values", dice).items():
            same(values, table_samples.plain_values(whole, name), name)


def test_ids_are_hashes_of_canonical_texts_and_numbers_are_exact() -> None:
    dice = chance()
    for _ in range(times(8)):
        whole = table_samples.table(dice, 400)
        file = opened(written(whole, dice))
        kinds = {name: kind for name, kind, _, _ in file.columns}
        for name, ids in read(file, "ids", dice).items():
            kind = whole.schema.field(name.split(".")[0]).type
            kind = kind.value_type if pa.types.is_list(kind) else kind
            expected = flat(table_samples.plain_values(whole, name))
            if name == "instant" and "UTC" not in kinds[name]:
                continue  # INT96 has no zone
            assert flat(ids) == [table_samples.id_of(each, kind) for each in expected], name
        numbers = [(name, "numbers") for name in ("int64", "uint64", "float32", "float64", "truth", "short", "hist")]
        for number, (rows, _) in enumerate(file.groups):
            batch = file.rows(number, numbers).next_batch(rows)
            assert batch is not None
            start = sum(before for before, _ in file.groups[:number])
            for (name, _), column in zip(numbers, batch[4], strict=True):
                plain = flat(table_samples.plain_values(whole, name)[start : start + rows])
                plain = [None if each is None or math.isnan(each) else float(each) for each in plain]
                assert flat(listed(column)) == plain, name


def test_reading_goes_on_at_any_row() -> None:
    dice = chance()
    for _ in range(times(8)):
        whole = table_samples.table(dice, 700)
        content = written(whole, dice)
        first = dice.randrange(min(700, pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).num_rows) + 1)
        expected = read(opened(content), "ids", dice)
        for name, ids in read(opened(content), "ids", dice, first).items():
            assert ids == expected[name][first:], (name, first)


def test_rows_with_bad_values_are_an_error_or_left_out_and_counted() -> None:
    words = [None if number % 7 == 3 else "x" if number % 10 == 4 else str(number) for number in range(100)]
    out = io.BytesIO()
    lists = pa.array([[word] * 2 for word in words])
    pq.write_table(pa.table({"n": words, "row": range(100), "lists": lists}), out, row_group_size=50)
    file = opened(out.getvalue())
    with pytest.raises(umiak_native.TableError) as caught:
        file.rows(1, [("row", "values"), ("n", "numbers")], first=1).next_batch(30)
    error = caught.value
    assert (error.kind, error.group, error.row, error.column, error.value) == ("value", 1, 4, "n", "x")
    assert str(error) == 'x.parquet: row group 1, row 4, column "n": a number is expected: "x"'
    for columns in ([("n", "numbers")], [("lists", "numeric_ids")]):
        batch = file.rows(0, [("row", "values"), *columns], pass_bad=True).next_batch(50)
        assert batch is not None
        first, count, bad, told, ((rows, *_), _) = batch
        assert (first, count, bad) == (0, 50, 4)  # 4, 14, 34, 44: at 24 there is none
        assert rows.tolist() == [number for number in range(50) if words[number] != "x"]
        assert [(each.row, each.value) for each in told] == [(4, "x")]


def test_what_is_not_read_says_so() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [[[1]], [[2], []]], "b": ["x", "y"]}), out, compression="brotli")
    file = opened(out.getvalue())
    assert file.columns == [("a", "integer", True, "lists of lists are not read"), ("b", "text", False, None)]
    for column, kind, words in [
        ("a", "unsupported", "lists of lists"),
        ("c", "asked", "no such"),
        ("b", "unsupported", "brotli"),
    ]:
        with pytest.raises(umiak_native.TableError, match=words) as caught:
            file.rows(0, [(column, "ids")])
        assert (caught.value.kind, caught.value.column, caught.value.group) == (kind, column, 0)
    with pytest.raises(umiak_native.TableError, match="PAR1"):
        opened(out.getvalue()[:-1])
    with pytest.raises(umiak_native.TableError, match="encrypted"):
        opened(out.getvalue()[:-4] + b"PARE")
    with pytest.raises(umiak_native.TableError, match="No such file"):
        umiak_native.ParquetFile("gone.parquet", "gone.parquet")


def test_a_failing_source_is_an_error_of_the_file(tmp_path: Path) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": range(10)}), out)
    content = out.getvalue()
    with pytest.raises(umiak_native.TableError, match="5 bytes of") as caught:
        umiak_native.ParquetFile("x", (len(content), lambda at, count: content[at : at + 5]))
    assert caught.value.kind == "file"

    def broken(_at: int, _count: int) -> bytes:
        raise OSError("the network is gone")

    with pytest.raises(umiak_native.TableError, match="the network is gone"):
        umiak_native.ParquetFile("x", (len(content), broken))


MUTATIONS = """
import sys
from tests.laws import test_parquet_law
test_parquet_law.read_damaged(int(sys.argv[1]), int(sys.argv[2]))
"""


def test_damaged_files_are_an_error_and_take_little_memory() -> None:
    """In a process of its own: a panic or too much memory would end this one."""
    seed = chance().getrandbits(32)
    done = subprocess.run(
        [sys.executable, "-c", MUTATIONS, str(seed), str(times(2000))],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, (seed, done.stderr[-3000:])


def read_damaged(seed: int, count: int) -> None:
    """Reads files with changes; anything but an error of a table ends the program."""
    dice = random.Random(seed)
    files = [written(table_samples.table(dice, 150), dice) for _ in range(10)]
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    for _ in range(count):
        with contextlib.suppress(umiak_native.TableError):
            read_some(opened(damaged(dice.choice(files), dice)), dice)
    # Far below what a lying count could ask for. Not ru_maxrss: that of the process that started this one counts in it.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    assert int(peak[1]) < 1 << 20


def read_some(file: umiak_native.ParquetFile, dice: random.Random) -> None:
    wants = ["values", "ids", "numbers", "numeric_ids"]
    names = [(name, dice.choice(wants)) for name, _, _, refused in file.columns if refused is None]
    for number in range(min(3, len(file.groups))):
        reader = file.rows(number, names, pass_bad=True)
        for _ in range(20):
            if reader.next_batch(100) is None:
                break


def damaged(content: bytes, dice: random.Random) -> bytes:
    """Changed in a few places, often near the end, where the footer is."""
    bytes_ = bytearray(content)
    for _ in range(dice.choice([1, 1, 3, 10])):
        at = dice.randrange(len(bytes_)) if dice.random() < 0.6 else max(0, len(bytes_) - 1 - dice.randrange(3000))
        match dice.randrange(4):
            case 0:
                bytes_[at] = dice.randrange(256)
            case 1:
                bytes_[at] ^= 1 << dice.randrange(8)
            case 2:
                bytes_[at : at + dice.randrange(1, 9)] = bytes(
                    dice.choices([0, 0xFF, 0x7F, 0x80], k=dice.randrange(1, 9))
                )
            case _:
                del bytes_[at : at + dice.randrange(1, 20)]
        if not bytes_:
            return b""
    return bytes(bytes_)
