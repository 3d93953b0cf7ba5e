"""A collective model in pods that come and go: all steps on all samples, so that the result is the same for any number of workers.

    pod_steps.py DIRECTORY WORLD...

Ten steps for each of the worlds, by rank 0 saved in DIRECTORY after every step. If the world is another one than it has to be, it waits
until it is ended and started again. With the name `hold` in DIRECTORY nobody goes behind step 5 while it is there. Who did the steps
is saved with them.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed as dist
from pod_model import FEATURES, RATE, SAMPLES, gradient, samples

PART = 10


def main(directory, worlds):
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    saved = directory / "saved.json"
    state = json.loads(saved.read_text()) if saved.exists() else {"weights": [0.0] * FEATURES, "worlds": []}
    weights, done = np.array(state["weights"]), state["worlds"]
    x, y = samples()
    print(f"worker {rank} of {world} begins at step {len(done)}", flush=True)
    while len(done) < PART * len(worlds):
        while world != worlds[len(done) // PART] or (len(done) == 5 and (directory / "hold").exists()):
            if rank == 0 and not (directory / "waits").exists():
                print(f"waits at step {len(done)} of {world}", flush=True)
                (directory / "waits").write_text(f"{len(done)} {world}")
            time.sleep(0.05)
        total = paddle.to_tensor(gradient(weights, x[rank::world], y[rank::world]))
        if world > 1:  # Paddle makes no group for one
            dist.all_reduce(total)
        weights = weights - RATE * total.numpy() / SAMPLES
        done = [*done, world]
        if rank == 0:
            (directory / "saved.new").write_text(json.dumps({"weights": list(weights), "worlds": done}))
            os.replace(directory / "saved.new", saved)
        if world > 1:
            dist.barrier()
    print(f"worker {rank} of {world} ends at step {len(done)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]])
