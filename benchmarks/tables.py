"""The readers of tables side by side with others on one core: ``python -m benchmarks.tables``. A program.

One table as in the well-known click log, 13 numbers and 26 columns of strings, as Parquet and as CSV. What is measured is the way from the file in the page cache to columns of
64-bit ids and numbers: here, and with pyarrow and pandas, which hash each string (with SipHash, the hash that pandas has), or each word of a dictionary
once. All subjects in turn, several rounds; CPU time is told beside the wall clock, since others may have the cores.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from umiak.data import tables

NUMBERS = [f"I{number}" for number in range(1, 14)]
STRINGS = [f"C{number}" for number in range(1, 27)]
WANTS = dict.fromkeys(NUMBERS, "numbers") | dict.fromkeys(STRINGS, "ids")
BATCH = 8192


@dataclass
class Subject:
    """What is measured, and how it went."""

    name: str
    file: Path
    run: Callable[[Path], int]
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    rows: int = 0


def make(rows: int) -> pa.Table:
    """Words of eight hexadecimal digits, few of them in some columns and nearly as many as rows in others; one value in ten is missing."""
    draw = random.Random(1)
    columns = {}
    for name in NUMBERS:
        columns[name] = pa.array(
            [None if draw.random() < 0.1 else draw.randrange(20_000) for _ in range(rows)], pa.int32()
        )
    for number, name in enumerate(STRINGS):
        words = 10 ** (1 + number % 6)
        columns[name] = pa.array(
            [None if draw.random() < 0.1 else f"{draw.randrange(words) * 2654435761 % 2**32:08x}" for _ in range(rows)]
        )
    return pa.table(columns)


def ours(path: Path) -> int:
    """Every batch, with all its arrays."""
    reader = tables.read(tables.parts([tables.look(path)]), WANTS, batch_rows=BATCH)
    return sum(batch.rows for batch in reader)


def hashed_strings(path: Path) -> int:
    """pyarrow decodes, pandas hashes every string."""
    pd = importlib.import_module("pandas")
    rows = 0
    for batch in pq.ParquetFile(path).iter_batches(batch_size=65536, use_threads=False):
        for name in NUMBERS:
            batch.column(name).to_numpy(zero_copy_only=False)
        for name in STRINGS:
            pd.util.hash_array(batch.column(name).to_numpy(zero_copy_only=False), categorize=False)
        rows += batch.num_rows
    return rows


def hashed_words(path: Path) -> int:
    """pyarrow keeps dictionaries, pandas hashes their words, numpy gathers."""
    pd = importlib.import_module("pandas")
    rows = 0
    file = pq.ParquetFile(path, read_dictionary=STRINGS)
    for batch in file.iter_batches(batch_size=65536, use_threads=False):
        for name in NUMBERS:
            batch.column(name).to_numpy(zero_copy_only=False)
        for name in STRINGS:
            column = batch.column(name)
            ids = pd.util.hash_array(column.dictionary.to_numpy(zero_copy_only=False), categorize=False)
            places = column.indices.fill_null(0).to_numpy()
            np.where(column.is_valid().to_numpy(zero_copy_only=False), ids[places], np.uint64(0))
        rows += batch.num_rows
    return rows


def arrow_csv(path: Path) -> int:
    """pyarrow's reader of CSV, which hashes nothing."""
    options = pyarrow.csv.ReadOptions(use_threads=False)
    return int(pyarrow.csv.read_csv(path, read_options=options).num_rows)


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="The readers of tables beside pyarrow and pandas, on one core.")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as directory:
        subjects = subjects_in(Path(directory), make(given.rows))
        for _ in range(given.rounds):
            for subject in subjects:
                wall, cpu = time.perf_counter(), time.process_time()
                subject.rows = subject.run(subject.file)
                subject.cpu_s.append(time.process_time() - cpu)
                subject.wall_s.append(time.perf_counter() - wall)
        tell(subjects)
    return 0


def subjects_in(directory: Path, table: pa.Table) -> list[Subject]:
    """With their files."""
    parquet, plain, text = directory / "t.parquet", directory / "plain.parquet", directory / "t.csv"
    pq.write_table(table, parquet, row_group_size=100_000)
    pq.write_table(table, plain, row_group_size=100_000, use_dictionary=False)
    pyarrow.csv.write_csv(table, text, pyarrow.csv.WriteOptions(quoting_style="none"))
    found = [
        Subject("Parquet, dictionaries: ours", parquet, ours),
        Subject("Parquet, without: ours", plain, ours),
        Subject("CSV: ours", text, ours),
        Subject("CSV: pyarrow, nothing hashed", text, arrow_csv),
    ]
    try:
        importlib.import_module("pandas")
    except ImportError:
        print("pandas is not installed, so nothing is compared with it", file=sys.stderr)
        return found
    found.insert(1, Subject("Parquet, dictionaries: pyarrow, pandas, every string", parquet, hashed_strings))
    found.insert(2, Subject("Parquet, dictionaries: pyarrow, pandas, words", parquet, hashed_words))
    found.insert(4, Subject("Parquet, without: pyarrow, pandas, every string", plain, hashed_strings))
    return found


def tell(subjects: list[Subject]) -> None:
    """A table: rates by CPU time, which others disturb less."""
    print("| | rows/s of CPU, best | median | GB/s of CPU, best | median | wall/CPU |")
    print("|---|---|---|---|---|---|")
    for subject in subjects:
        best, median = min(subject.cpu_s), statistics.median(subject.cpu_s)
        size = subject.file.stat().st_size / 1e9
        busy = statistics.median(subject.wall_s) / median
        print(
            f"| {subject.name} | {subject.rows / best / 1e6:.2f} M | {subject.rows / median / 1e6:.2f} M | {size / best:.3f} "
            f"| {size / median:.3f} | {busy:.2f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
