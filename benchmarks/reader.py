"""The slot reader side by side with its limit and with readers in Python: ``python -m benchmarks.reader``. A program.

One run, all subjects in turn, several rounds. Rates are of text bytes, so they can be compared: a reader that gives as many
samples per second has the same rate, whatever it really reads. Wall time and CPU time of all threads are both told: where
other work shares the cores, the latter says what the reader needs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import umiak_native

from benchmarks import measure
from umiak import data
from umiak.train import reading
from umiak.train.config.slots import DenseSlot
from umiak.train.config.values import Dataset

SPARSE = ["click", *map(str, range(1, 27))]
DENSE = {"dense_feature": 13}
BATCH = 512
GOALS = {"text, 1 thread": 1.2, "cache": 4.0}
"""Gigabytes of text per second."""


@dataclass
class Subject:
    """What is measured, and how it went."""

    name: str
    run: Callable[[], int]
    """Reads everything once and returns the number of samples."""
    share: float = 1.0
    """How much of the file it reads; slow ones read less."""
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    samples: int = 0
    note: str = ""


def line(draw: random.Random) -> str:
    """A sample like those of the well-known click log: label, 13 numbers of various lengths, 26 hashed ids."""
    tokens = [f"click:{draw.random() < 0.25:d}"]
    for _ in range(13):
        kind = draw.random()
        number = (
            0.0 if kind < 0.3 else draw.randrange(1, 100) / 100 if kind < 0.5 else draw.randrange(1, 20_000) / 20_100
        )
        tokens.append(f"dense_feature:{number:.12g}" if number else "dense_feature:0.0")
    tokens += [f"{slot}:{draw.randrange(1_000_001)}" for slot in range(1, 27)]
    return " ".join(tokens)


def make(path: Path, lines: int) -> None:
    """A file of so many lines, of which 20,000 are different."""
    draw = random.Random(1)
    different = [line(draw) for _ in range(min(lines, 20_000))]
    with path.open("w") as file:
        left = lines
        while left:
            draw.shuffle(different)
            file.writelines(text + "\n" for text in different[:left])
            left -= min(left, len(different))


def read_all(path: Path, **settings: object) -> int:
    """Every batch, with all its arrays made and touched by nobody."""
    count = 0
    reader = data.SlotReader(path, sparse=SPARSE, dense=DENSE, batch_size=BATCH, **settings)  # type: ignore[arg-type]
    for batch in reader:
        count += batch.size if batch.sparse and batch.dense else 0
    return count


def read_as_trainers_do(path: Path, shuffle: int) -> int:
    """The same file through `umiak.train.reading`, with the key `shuffle` of a runner."""
    dense = tuple([DenseSlot(name=name, shape=(width,)) for name, width in DENSE.items()])
    dataset = Dataset(
        name="train", data_path=str(path), batch_size=BATCH, sparse_slots=tuple(SPARSE), dense_slots=dense
    )
    count = 0
    with reading.read(dataset, reading.find(dataset), shuffle=shuffle) as samples:
        for batch in samples:
            count += batch.size if batch.sparse and batch.dense else 0
    return count


def in_python(path: Path, lines: int) -> int:
    """A reader as recommendation libraries in Python have it: a dictionary per line, an array per slot, then batches."""

    def samples() -> Iterator[list[np.ndarray]]:
        slots = [*SPARSE, *DENSE]
        with path.open() as file:
            for _, text in zip(range(lines), file, strict=False):
                found: dict[str, list[float]] = {}
                for token in text.strip().split(" "):
                    name, value = token.split(":")
                    found.setdefault(name, []).append(float(value) if name in DENSE else int(value))
                yield [
                    np.array(found.get(name) or [0]).astype("float32" if name in DENSE else "int64") for name in slots
                ]

    count = 0
    batch: list[list[np.ndarray]] = []
    for sample in samples():
        batch.append(sample)
        if len(batch) == BATCH:
            arrays = [np.concatenate(columns) for columns in zip(*batch, strict=True)]
            count += len(arrays[0])
            batch = []
    return count + len(batch)


def measured(subject: Subject) -> None:
    """One round of one subject."""
    cpu, wall = time.process_time(), time.perf_counter()
    subject.samples = subject.run()
    subject.wall_s.append(time.perf_counter() - wall)
    subject.cpu_s.append(time.process_time() - cpu)


def main(argv: list[str]) -> int:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader", description=__doc__)
    parser.add_argument("--lines", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="umiak-bench-") as directory:
        path = Path(directory, "train.txt")
        make(path, asked.lines)
        text = path.read_bytes()
        cache = Path(directory, "cache")
        few = min(asked.lines, 10_240)
        windows = {"shuffle": 50_000, "seed": 1}
        subjects = [
            Subject("memchr, counting lines in memory (limit)", lambda: umiak_native.count_lines(text)),
            Subject("text, 1 thread", lambda: read_all(path)),
            Subject("text, 2 threads", lambda: read_all(path, threads=2)),
            Subject("text, 1 thread, shuffled in windows of 50,000", lambda: read_all(path, **windows)),
            Subject("trainer, in the order of the file", lambda: read_as_trainers_do(path, 0)),
            Subject("trainer, `shuffle: 50000`", lambda: read_as_trainers_do(path, 50_000)),
            Subject("trainer, `shuffle: 1000`", lambda: read_as_trainers_do(path, 1_000)),
            Subject("cache", lambda: read_all(path, cache=cache)),
            Subject("cache, shuffled in blocks and windows", lambda: read_all(path, cache=cache, **windows)),
            Subject("Python, a dictionary per line, arrays per slot", lambda: in_python(path, few), few / asked.lines),
        ]
        read_all(path, cache=cache)  # made before the clock runs
        cache_bytes = sum(file.stat().st_size for file in cache.iterdir())
        batch = next(data.SlotReader(path, sparse=SPARSE, dense=DENSE, batch_size=BATCH))
        foreign = measure.Figure("reader", "", "")
        with measure.other_work(foreign):
            for _ in range(asked.rounds):
                for subject in subjects:
                    measured(subject)
        report(subjects, len(text), asked, cache_bytes, batch.bytes / BATCH, foreign.foreign[0])
    return 0


def report(
    subjects: list[Subject], size: int, asked: argparse.Namespace, cache_bytes: int, batch_bytes: float, foreign: float
) -> None:
    """All figures; the best round is what the work costs when nobody disturbs it."""
    rows = []
    limit = 0.0
    for subject in subjects:
        part = size * subject.share
        best, median = min(subject.wall_s), statistics.median(subject.wall_s)
        limit = limit or part / best
        rows.append(
            {
                "subject": subject.name,
                "gb_per_s_median": part / median / 1e9,
                "gb_per_s_best": part / best / 1e9,
                "gb_per_cpu_s_best": part / min(subject.cpu_s) / 1e9,
                "samples_per_s_best": subject.samples / best,
                "part_of_limit": part / best / limit,
            }
        )
    facts = {
        "machine": measure.machine(),
        "foreign_cores": foreign,
        "lines": asked.lines,
        "rounds": asked.rounds,
        "text_bytes_per_sample": size / asked.lines,
        "cache_bytes_per_sample": cache_bytes / asked.lines,
        "array_bytes_per_sample": batch_bytes,
        "rows": rows,
    }
    if asked.json:
        print(json.dumps(facts, indent=2))
        return
    print(
        f"{asked.lines:,} lines of {size / asked.lines:.0f} bytes in {os.cpu_count()} cores' page cache, batches of {BATCH}"
    )
    print(f"cache file: {cache_bytes / asked.lines:.0f} bytes per sample; arrays of a batch: {batch_bytes:.0f}")
    print(f"other work meanwhile: {foreign:.1f} cores; GB are of text, also for the cache")
    print(f"{'':48} {'GB/s median':>11} {'best':>8} {'per CPU s':>10} {'samples/s':>12} {'of limit':>9}")
    for row in rows:
        print(
            f"{row['subject']:48} {row['gb_per_s_median']:11.3f} {row['gb_per_s_best']:8.3f} {row['gb_per_cpu_s_best']:10.3f}"
            f" {row['samples_per_s_best']:12,.0f} {row['part_of_limit']:9.2%}"
        )
    served = next(row for row in rows if row["subject"] == "cache")
    rate = float(str(served["samples_per_s_best"]))
    print(
        f"cache, best: {rate * cache_bytes / asked.lines / 1e9:.2f} GB/s of its file, {rate * batch_bytes / 1e9:.2f} of arrays"
    )
    for name, goal in GOALS.items():
        row = next(row for row in rows if row["subject"] == name)
        met = [kind for kind in ("median", "best") if float(str(row[f"gb_per_s_{kind}"])) >= goal]
        print(f"goal {goal} GB/s, {name}: {'met' if 'median' in met else 'met by the best round' if met else 'MISSED'}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
