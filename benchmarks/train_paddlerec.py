"""Click-through training as PaddleRec's own trainer for the dynamic graph does it, written for the comparison. A program.

    python -m benchmarks.train_paddlerec SAMPLES LAZY FILE ...

A Python reader that splits lines, Paddle's DataLoader with one process, one table of 1,000,001 rows and Adam over all of it in every step, or
with LAZY 1 over the rows of the batch, Paddle's AUC. The last
line is JSON: samples, seconds and the CPU time of both processes, from the first batch on.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import paddle

SLOTS = [str(slot) for slot in range(1, 27)]
DENSE, DIM, ROWS, BATCH = 13, 9, 1_000_001, 512
LAYERS = (512, 256, 128, 32)


class Reader(paddle.io.IterableDataset):  # type: ignore[misc]
    """Samples as arrays, line by line."""

    def __init__(self, paths: list[str], samples: int) -> None:
        super().__init__()
        self.paths = paths
        self.samples = samples

    def __iter__(self) -> Iterator[list[np.ndarray[Any, Any]]]:
        given = 0
        for path in self.paths:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    found: dict[str, list[str]] = {}
                    for token in line.split():
                        slot, _, number = token.partition(":")
                        found.setdefault(slot, []).append(number)
                    sample = [np.array(found["click"]).astype("int64")]
                    sample += [np.array(found.get(slot, ["0"])).astype("int64") for slot in SLOTS]
                    sample.append(np.array(found["dense_feature"]).astype("float32"))
                    yield sample
                    given += 1
                    if given == self.samples:
                        return


class Net(paddle.nn.Layer):  # type: ignore[misc]
    """One table for all slots, then fully connected layers, then two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = paddle.nn.Embedding(ROWS, DIM, sparse=True)
        sizes = [len(SLOTS) * DIM + DENSE, *LAYERS]
        layers: list[Any] = []
        for narrow, wide in itertools.pairwise(sizes):
            layers += [paddle.nn.Linear(narrow, wide), paddle.nn.ReLU()]
        self.tower = paddle.nn.Sequential(*layers, paddle.nn.Linear(sizes[-1], 2))

    def forward(self, sparse: list[Any], dense: Any) -> Any:
        rows = [self.embedding(ids).sum(axis=1) for ids in sparse]
        return self.tower(paddle.concat([*rows, dense], axis=1))


def main() -> int:
    """Train once through, and tell."""
    samples, is_lazy, paths = int(sys.argv[1]), sys.argv[2] == "1", sys.argv[3:]
    paddle.base.core.set_num_threads(1)
    net = Net()
    adam = paddle.optimizer.Adam(1e-3, parameters=net.parameters(), lazy_mode=is_lazy)
    auc = paddle.metric.Auc("ROC")
    loader = paddle.io.DataLoader(Reader(paths, samples), batch_size=BATCH, num_workers=1, drop_last=True)
    seen, began, cpu_s = 0, time.monotonic(), os.times()
    for label, *sparse, dense in loader:
        answers = net(sparse, dense)
        loss = paddle.nn.functional.cross_entropy(answers, label)
        loss.backward()
        adam.step()
        adam.clear_grad()
        auc.update(paddle.nn.functional.softmax(answers).numpy(), label.numpy())
        if not seen:
            began, cpu_s = time.monotonic(), os.times()
        seen += BATCH
    ended = os.times()
    used = sum(after - before for before, after in zip(cpu_s[:4], ended[:4], strict=True))
    print(
        json.dumps(
            {"samples": seen - BATCH, "seconds": time.monotonic() - began, "cpu_s": used, "auc": auc.accumulate()}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
