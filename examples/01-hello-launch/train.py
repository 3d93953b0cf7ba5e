"""A small network, trained data-parallel by every worker that `umiak launch` starts.

    umiak launch --nproc_per_node 2 examples/01-hello-launch/train.py

Nothing in here knows about umiak: ranks and addresses are in the environment, where Paddle looks for them.
"""

import hashlib
import os
import time

import numpy as np
import paddle
import paddle.distributed as dist

STEPS, BATCH, FEATURES, CLASSES = 200, 256, 32, 4


def main() -> None:
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(7)
    network = paddle.nn.Sequential(paddle.nn.Linear(FEATURES, 128), paddle.nn.Tanh(), paddle.nn.Linear(128, CLASSES))
    model = paddle.DataParallel(network)
    optimizer = paddle.optimizer.Adam(learning_rate=0.01, parameters=model.parameters())
    # Every worker draws its own samples of the same task.
    truth = np.random.default_rng(0).normal(size=(FEATURES, CLASSES))
    samples = np.random.default_rng(1000 + rank)
    began = time.monotonic()
    for step in range(1, STEPS + 1):
        x = samples.normal(size=(BATCH, FEATURES)).astype("float32")
        y = (x @ truth).argmax(axis=1)
        loss = paddle.nn.functional.cross_entropy(model(paddle.to_tensor(x)), paddle.to_tensor(y))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 40 == 0:
            rate = step * BATCH * world / (time.monotonic() - began)
            print(
                f"step {step}/{STEPS}  loss {float(loss):.3f}  {rate:,.0f} samples/s over {world} workers", flush=True
            )
    weights = b"".join(parameter.numpy().tobytes() for parameter in network.parameters())
    print(
        f"worker {rank} of {world} (pid {os.getpid()}): weights {hashlib.sha256(weights).hexdigest()[:12]}", flush=True
    )


if __name__ == "__main__":
    main()
