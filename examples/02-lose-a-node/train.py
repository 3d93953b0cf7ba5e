"""Training that survives the loss of a node: it saves a checkpoint now and then, and goes on from the newest one.

When a node is lost, `umiak launch --nnodes 1:2` starts the workers of the remaining nodes again, in a smaller world; when
it comes back, in a larger one. All that a script needs for that is to load what was saved last.
"""

import os
import sys
import time

import numpy as np
import paddle
import paddle.distributed as dist

STEPS, BATCH, FEATURES = 200, 64, 16


def main(checkpoint: str) -> None:
    paddle.disable_signal_handler()  # being told to stop is no crash: no C++ traceback, please
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(7)
    network = paddle.nn.Linear(FEATURES, 1)
    first = 0
    if os.path.exists(checkpoint):
        saved = paddle.load(checkpoint)
        network.set_state_dict(saved["network"])
        first = int(saved["step"])
    model = paddle.DataParallel(network)
    optimizer = paddle.optimizer.SGD(learning_rate=0.01, parameters=model.parameters())
    truth = np.random.default_rng(0).normal(size=(FEATURES, 1)).astype("float32")
    samples = np.random.default_rng((1000 + rank, first))
    if rank == 0:
        print(f"{world} workers, from step {first}", flush=True)
    for step in range(first + 1, STEPS + 1):
        x = samples.normal(size=(BATCH, FEATURES)).astype("float32")
        error = model(paddle.to_tensor(x)) - paddle.to_tensor(x @ truth)
        loss = (error * error).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        time.sleep(0.05)  # a real model takes longer than this one
        if step % 20 == 0 and rank == 0:
            save(checkpoint, {"network": network.state_dict(), "step": step})
            print(f"step {step}/{STEPS}  loss {float(loss):.4f}  {world} workers", flush=True)


def save(path: str, content: dict) -> None:
    """Whole or not at all: a worker may be ended at any moment."""
    paddle.save(content, path + ".new")
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main(sys.argv[1])
