"""A click-through model on umiak's parameter servers: the script of the end-to-end figures. An adapter.

    umiak launch --server_num 2 --trainer_num 2 benchmarks/programs/ps_train.py --strategy async --steps 300 FILE ...

Every trainer takes its share of the files, trains `--steps` batches after a warm-up, and appends one line of JSON to the file
BENCH_TOLD: when it began and ended, how many samples it trained, where its time went, and how much CPU time it took; the first
one also how much the servers of its own host took, whose process numbers are in the same file.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import clicks, measure, ps_net
from umiak import ps
from umiak.ps import Session

Batch = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.uint64]]


class Clock:
    """Where time goes: the seconds since the last look belong to what is named."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}
        self._last = time.perf_counter()

    def spent(self, name: str) -> None:
        now = time.perf_counter()
        self.shares[name] = self.shares.get(name, 0.0) + now - self._last
        self._last = now


def batches(paths: list[str], *, memory: bool) -> Iterator[Batch]:
    """Labels, dense features and ids of one batch after the other, for ever."""
    if memory:
        label, dense, sparse = clicks.samples(40 * ps_net.BATCH, seed=len(paths))
        parts = [
            (
                label[at : at + ps_net.BATCH, None].astype(np.float32),
                dense[at : at + ps_net.BATCH].astype(np.float32),
                keys,
            )
            for at in range(0, len(label), ps_net.BATCH)
            for keys in [np.ascontiguousarray(sparse[at : at + ps_net.BATCH]).astype(np.uint64)]
        ]
        yield from itertools.cycle(parts)
    data: Any = importlib.import_module("umiak.data")
    slots = [str(slot) for slot in range(1, clicks.SLOTS + 1)]
    while True:
        reader = data.SlotReader(
            paths, sparse=["click", *slots], dense={"dense_feature": clicks.DENSE}, batch_size=ps_net.BATCH
        )
        for batch in reader:
            # Every slot has one id per sample here, so that the ids of a batch are a matrix.
            yield batch.matrix(["click"]).astype(np.float32), batch.dense["dense_feature"], batch.matrix(slots)


def main() -> int:
    """Serve or train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", default="async")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warm-up", type=int, default=30)
    parser.add_argument("--durability-ms", type=int)
    parser.add_argument("--wire", default="float32")
    parser.add_argument("--prefetch", type=int, default=1, help="0: rows are pulled when their batch is there")
    parser.add_argument("--memory", action="store_true", help="batches that are there already, instead of files")
    parser.add_argument("files", nargs="*")
    asked = parser.parse_args()
    job = ps.init(asked.strategy, durability_ms=asked.durability_ms, wire=asked.wire, prefetch=asked.prefetch)
    if job.is_server:
        _tell({"server": os.getpid(), "host": platform.node()})
        return job.serve()
    paddle: Any = importlib.import_module("paddle")
    paddle.set_device("cpu")
    paddle.seed(1)
    embedding = ps.paddle.Embedding(ps_net.DIM, init=ps.Uniform(low=-0.01, high=0.01))
    model = paddle.nn.LayerList([embedding, ps_net.perceptron(paddle)])
    optimizer = ps.paddle.optimizer(model, "adam", learning_rate=1e-3)
    source = batches(asked.files[job.rank :: job.world], memory=asked.memory)
    _train(job, model, optimizer, source, asked.warm_up)
    job.barrier()
    here = [each for each in told() if each.get("host") == platform.node()]
    servers = [each["server"] for each in here] if job.is_first else []
    served, used = measure.whole_cpu_s(servers), time.process_time()
    began, clock = time.monotonic(), Clock()
    loss = _train(job, model, optimizer, source, asked.steps, clock)
    ended, used = time.monotonic(), time.process_time() - used
    job.barrier()
    found = {"begin": began, "end": ended, "samples": asked.steps * ps_net.BATCH, "shares": clock.shares, "loss": loss}
    _tell({"rank": job.rank, **found, "cpu_s": used, "served_cpu_s": measure.whole_cpu_s(servers) - served})
    job.finish()
    return 0


def told() -> list[dict[str, Any]]:
    """What servers and trainers have said so far."""
    return [json.loads(line) for line in Path(os.environ["BENCH_TOLD"]).read_text().splitlines()]


def _tell(facts: dict[str, Any]) -> None:
    with open(os.environ["BENCH_TOLD"], "a") as lines:
        lines.write(json.dumps(facts) + "\n")


def _train(
    job: Session, model: Any, optimizer: Any, source: Iterator[Batch], steps: int, clock: Clock | None = None
) -> float:
    paddle: Any = importlib.import_module("paddle")
    clock = clock or Clock()
    embedding, net = model
    for label, dense, ids in job.prefetch(itertools.islice(source, steps), lambda batch: {embedding: batch[2]}):
        clock.spent("read")
        rows = embedding(ids)
        clock.spent("pull")
        flat = paddle.reshape(rows, [len(ids), clicks.SLOTS * ps_net.DIM])
        loss = ps_net.loss_of(paddle, net, flat, paddle.to_tensor(dense), paddle.to_tensor(label))
        clock.spent("forward")
        loss.backward()
        clock.spent("backward")
        optimizer.step()
        optimizer.clear_grad()
        clock.spent("push and dense")
    return float(loss)


if __name__ == "__main__":
    sys.exit(main())
