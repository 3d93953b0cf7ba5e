"""Reads with a reader of PaddleRec's form in one process beside, by umiak or by Paddle's DataLoader, and says how long it took. A program.

    python -m benchmarks.rec_reading umiak FILE ...         {"samples": 51200, "seconds": 3.1, "cpu_s": 3.3, "here_cpu_s": 0.2}
    python -m benchmarks.rec_reading paddle FILE ...

Each gives batches of tensors. The first batch is not counted: until then processes start and import what they need. CPU time is that of this
process and its reader process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paddle

from benchmarks import measure
from umiak.adapters import process

BATCH = 512
READER = Path(__file__).with_name("programs") / "rec_reader.py"


def by_umiak(paths: list[str]) -> Iterator[list[Any]]:
    """As the engine for models of PaddleRec 2 does it."""
    from umiak.train.reading.datasets.processes import DatasetProcesses
    from umiak.train.reading.pool import ReaderClass

    pool = DatasetProcesses(ReaderClass(file=str(READER), name="RecDataset"))
    question = {"files": paths, "first": 0, "step": 1, "turn": 0, "turns": 1, "skip": 0, "batch": BATCH}
    (stream,) = pool.read([{**question, "drop": True, "ready": False, "seed": 1, "epoch": 0}])
    while (batch := stream.next()) is not None:
        yield [paddle.to_tensor(each) for each in batch.arrays]
    pool.close()


def by_paddle(paths: list[str]) -> Iterator[list[Any]]:
    """As PaddleRec's trainer does it, with a process."""
    from benchmarks.programs.rec_reader import RecDataset

    yield from paddle.io.DataLoader(RecDataset(paths, {}), batch_size=BATCH, drop_last=True, num_workers=1)


def main() -> int:
    """Read everything, print one line of JSON."""
    kind, *paths = sys.argv[1:]
    paddle.set_device("cpu")
    batches = (by_umiak if kind == "umiak" else by_paddle)(paths)
    next(batches)
    pids = [os.getpid(), *(pid for pid, _ in process.descendants(os.getpid()))]
    began, used, here = time.perf_counter(), measure.cpu_s(pids), time.process_time()
    count = 0
    last_cpu = used
    for count, _ in enumerate(batches, 1):  # noqa: B007 - the reader process may be gone after the last one
        last_cpu = max(last_cpu, measure.cpu_s(pids))
    seconds = time.perf_counter() - began
    found = {"samples": count * BATCH, "seconds": seconds, "cpu_s": last_cpu - used}
    print(json.dumps({**found, "here_cpu_s": time.process_time() - here}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
