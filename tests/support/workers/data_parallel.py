"""Real data-parallel training with PaddlePaddle: every rank has data of its own, and all must end with the same parameters."""

import hashlib
import json
import os

import numpy as np
import paddle
import paddle.distributed as dist
from paddle import nn


def fingerprint(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.numpy().tobytes())
    return digest.hexdigest()


paddle.set_device("cpu")
env = dist.init_parallel_env()
rank, world = dist.get_rank(), dist.get_world_size()
paddle.seed(1000 + rank)  # different on purpose: DataParallel sends rank 0's parameters to all
model = paddle.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = paddle.optimizer.SGD(learning_rate=0.05, parameters=model.parameters())
before = fingerprint(model)
random = np.random.default_rng(rank)
for _ in range(3):
    inputs = paddle.to_tensor(random.normal(size=(16, 4)).astype("float32"))
    targets = paddle.to_tensor(random.normal(size=(16, 1)).astype("float32"))
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
told = {"rank": rank, "world": world, "before": before, "after": fingerprint(model)}
with open(os.path.join(os.environ["STORY_DIR"], f"trained.{rank}"), "w", encoding="utf-8") as file:
    json.dump(told, file)
print(json.dumps(told), flush=True)
