"""The training script of the benchmarks: says when its first line ran and who it is, then ends, or stays if told to."""

import time

BEGAN = time.monotonic()

import os  # noqa: E402 - the clock comes first
import sys  # noqa: E402

rank = os.environ.get("PADDLE_TRAINER_ID") or os.environ.get("RANK") or "0"
world = os.environ.get("PADDLE_TRAINERS_NUM") or os.environ.get("WORLD_SIZE") or "1"
reports = os.open(os.environ["BENCH_REPORTS"], os.O_WRONLY)
os.write(reports, f"{BEGAN} {os.getpid()} {rank} {world}\n".encode())
if sys.argv[1:] == ["stay"]:
    time.sleep(3600)
