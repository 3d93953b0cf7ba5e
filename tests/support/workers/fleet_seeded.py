"""A program that begins with random numbers of a seed: by plain Paddle, or by fleet with one trainer in sync. Nothing of umiak is imported.

fleet_seeded.py FILE plain|fleet
"""

import json
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

IDS, DIM, STEPS = 60, 4, 8
file, mode = Path(sys.argv[1]), sys.argv[2]


def batch(number):
    chance = np.random.default_rng(number)
    return {
        "ids": chance.integers(0, IDS, (16, 3)),
        "label": chance.integers(0, 2, (16, 1)).astype("float32"),
    }


paddle.enable_static()
paddle.seed(7)
if mode == "fleet":
    fleet.init(is_collective=False)
ids = paddle.static.data("ids", [None, 3], "int64")
label = paddle.static.data("label", [None, 1], "float32")
named = paddle.ParamAttr(name="rows", initializer=paddle.nn.initializer.Normal(0.0, 0.3))
rows = paddle.nn.Embedding(IDS, DIM, sparse=True, weight_attr=named)(ids)
hidden = paddle.static.nn.fc(paddle.reshape(rows, [-1, 3 * DIM]), 8, activation="relu")
predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(hidden, 1))
loss = paddle.mean(paddle.nn.functional.log_loss(predict, label))
optimizer = paddle.optimizer.SGD(0.5)
if mode == "fleet":
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    optimizer = fleet.distributed_optimizer(optimizer, strategy)
optimizer.minimize(loss)
if mode == "fleet" and fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    sys.exit()
executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(paddle.static.default_startup_program())
if mode == "fleet":
    fleet.init_worker()
losses = [float(executor.run(feed=batch(step), fetch_list=[loss])[0]) for step in range(STEPS)]
file.write_text(json.dumps(losses))
if mode == "fleet":
    fleet.stop_worker()
