"""`python -m umiak.doctor.trials.collective FRAMEWORK BACKEND FILE
LIMIT_S`: one of the processes of an all-reduce. A program.

`umiak launch` starts two of them. Each gives its rank plus one, and each must get the sum of all.
What it got is written to ``FILE.RANK``.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from importlib import import_module


def main(framework: str, backend: str, path: str, limit_s: float) -> None:
    """Take part."""
    signal.alarm(max(1, math.ceil(limit_s)))
    rank, world, got = (_paddle if framework == "paddle" else _torch)(backend)
    with open(f"{path}.{rank}", "w", encoding="utf-8") as file:
        json.dump({"sum": got, "expected": world * (world + 1) / 2}, file)


def _paddle(backend: str) -> tuple[int, int, float]:
    paddle = import_module("paddle")
    together = import_module("paddle.distributed")
    if backend == "gloo":
        paddle.set_device("cpu")
    together.init_parallel_env()
    rank, world = together.get_rank(), together.get_world_size()
    given = paddle.to_tensor([rank + 1.0])
    together.all_reduce(given)
    return rank, world, float(given.numpy()[0])


def _torch(backend: str) -> tuple[int, int, float]:
    torch = import_module("torch")
    together = import_module("torch.distributed")
    device = "cpu" if backend == "gloo" else f"cuda:{os.environ['LOCAL_RANK']}"
    together.init_process_group(backend)
    rank, world = together.get_rank(), together.get_world_size()
    given = torch.tensor([rank + 1.0], device=device)
    together.all_reduce(given)
    together.destroy_process_group()
    return rank, world, float(given.cpu()[0])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
