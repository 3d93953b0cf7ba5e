"""The network of the end-to-end figures on Paddle 3.3, and what it computes per second when nobody has to be asked for rows.

    python -m benchmarks.ps_net SECONDS [adam] [dnn]       one process with one thread: samples per second, and per second of CPU

Three layers of 400 over 26 embeddings of 16 and 13 numbers. The bound is forward and backward with rows that are already
there; with `adam` the dense parameters are also updated here, which in a job with parameter servers the servers do. `dnn` is the
network of the model zoo instead: 512-256-128-32 over embeddings of 9.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import numpy as np

from benchmarks import clicks

DIM = 16
WIDTHS = (400, 400, 400)
BATCH = 512


def perceptron(paddle: Any, dim: int = DIM, widths: tuple[int, ...] = WIDTHS) -> Any:
    """Everything above the embeddings."""
    layers, width = [], clicks.SLOTS * dim + clicks.DENSE
    for wide in widths:
        layers += [paddle.nn.Linear(width, wide), paddle.nn.ReLU()]
        width = wide
    return paddle.nn.Sequential(*layers, paddle.nn.Linear(width, 1))


def loss_of(paddle: Any, net: Any, rows: Any, dense: Any, label: Any) -> Any:
    """Rows (batch, slots * dim), dense (batch, 13), label (batch, 1)."""
    logit = net(paddle.concat([rows, dense], axis=1))
    return paddle.nn.functional.binary_cross_entropy_with_logits(logit, label)


def compute_only(
    seconds: float, *, adam: bool, dim: int = DIM, widths: tuple[int, ...] = WIDTHS
) -> tuple[float, float]:
    """Samples per second of one process, and per second of its CPU time."""
    paddle: Any = importlib.import_module("paddle")
    paddle.set_device("cpu")
    net = perceptron(paddle, dim, widths)
    optimizer = paddle.optimizer.Adam(1e-3, parameters=net.parameters())
    random = np.random.default_rng(0)
    dense = paddle.to_tensor(random.random((BATCH, clicks.DENSE), np.float32))
    label = paddle.to_tensor((random.random((BATCH, 1)) < 0.3).astype(np.float32))
    rows = random.random((BATCH, clicks.SLOTS * dim), np.float32)
    done, began, used = 0, 0.0, 0.0
    for number in range(1_000_000):
        if number == 20:
            began, used = time.perf_counter(), time.process_time()
        leaf = paddle.to_tensor(rows, stop_gradient=False)
        loss_of(paddle, net, leaf, dense, label).backward()
        if adam:
            optimizer.step()
        net.clear_gradients()
        done += BATCH if number >= 20 else 0
        if number > 20 and time.perf_counter() - began > seconds:
            break
    return done / (time.perf_counter() - began), done / (time.process_time() - used)


if __name__ == "__main__":
    sizes: dict[str, Any] = {"dim": 9, "widths": (512, 256, 128, 32)} if "dnn" in sys.argv[2:] else {}
    print(*compute_only(float(sys.argv[1]), adam="adam" in sys.argv[2:], **sizes))
