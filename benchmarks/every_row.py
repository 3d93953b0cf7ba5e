"""What a step costs whose optimizer moves every row of a large embedding: by plain Paddle, by a table exactly so, and lazily. A program.

    python -m benchmarks.every_row [STEPS]

The model of PaddleRec's rank/dnn with random samples, ids after a Zipf law over a million rows, Paddle's Adam without `lazy_mode`, in one process with
one thread. Each way has the same batches, the first half of which are the warm-up. Told is the CPU time of a step, which other work on the machine changes least.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np
import paddle

from benchmarks.train_paddlerec import BATCH, DENSE, ROWS, SLOTS, Net
from umiak import ps
from umiak.ps import paddle_models
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

SKEW = 1.1


def batch(step: int) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Ids of each slot, numbers, labels."""
    chance = np.random.default_rng(step)
    places = np.arange(1, ROWS, dtype=np.float64) ** (1 - SKEW)
    ranks = np.searchsorted(-places, -chance.uniform(places[-1], 1.0, (len(SLOTS), BATCH, 1)))
    ids = (ranks * 7919 + np.arange(len(SLOTS))[:, None, None] * 104729) % (ROWS - 1) + 1
    return [*ids], chance.random((BATCH, DENSE), np.float32), chance.integers(0, 2, (BATCH, 1))


def cpu_of_a_step(way: str, steps: int) -> float:
    """Milliseconds."""
    paddle.seed(1)
    net = Net()
    optimizer: Any = paddle.optimizer.Adam(1e-3, parameters=net.parameters())
    if way != "paddle":
        choice = paddle_models.TableChoice(lazy=way == "lazy")
        plan = paddle_models.plan_of(net, optimizer, is_shared=False, choice=choice)
        session = ps.use(Session(PsSeat(), ps.Sync(), SessionOptions()))
        optimizer = paddle_models.carry_over(net, plan, session=session)
    used = 0.0
    for step in range(steps):
        ids, dense, labels = batch(step)
        began = sum(os.times()[:2])
        if way != "paddle":
            optimizer.expect(ids, is_one_pass=True)
        answers = net([paddle.to_tensor(each) for each in ids], paddle.to_tensor(dense))
        paddle.nn.functional.cross_entropy(answers, paddle.to_tensor(labels)).backward()
        optimizer.step()
        optimizer.clear_grad()
        if step >= steps // 2:
            used += sum(os.times()[:2]) - began
    return 1e3 * used / (steps - steps // 2)


def main() -> int:
    """Each way in a process of its own, one after the other."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    if len(sys.argv) > 2:
        paddle.base.core.set_num_threads(1)
        print(json.dumps(cpu_of_a_step(sys.argv[2], steps)))
        return 0
    import subprocess

    found = {}
    for way in ("paddle", "exact", "lazy"):
        command = [sys.executable, "-m", "benchmarks.every_row", str(steps if way != "paddle" else min(steps, 40)), way]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[way] = round(json.loads(told.stdout.splitlines()[-1]), 2)
    ratios = {
        "of Paddle": round(found["paddle"] / found["exact"], 2),
        "of lazy": round(found["lazy"] / found["exact"], 2),
    }
    print(json.dumps({"cpu_ms_of_a_step": found, "exact": ratios, "at": time.strftime("%Y-%m-%d")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
