"""Trainer 0 takes a step more than trainer 1, which waits at a barrier. Nothing of umiak is imported.

fleet_deadlock.py static|dynamic
"""

import sys

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

mode = sys.argv[1]
if mode == "static":
    paddle.enable_static()
fleet.init(is_collective=False)
strategy = fleet.DistributedStrategy()
strategy.a_sync = False
ids = np.arange(4).reshape(-1, 1)
if mode == "static":
    rows = paddle.static.nn.sparse_embedding(paddle.static.data("ids", [None, 1], "int64"), [10, 4])
    loss = paddle.mean(paddle.static.nn.fc(rows, 1))
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
else:
    model = paddle.nn.Sequential(paddle.nn.Embedding(10, 4, sparse=True), paddle.nn.Linear(4, 1))
    optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.1, parameters=model.parameters()), strategy)
    model = fleet.distributed_model(model)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    sys.exit()
if mode == "static":
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
fleet.init_worker()
for _ in range(3 if fleet.worker_index() == 0 else 2):
    if mode == "static":
        executor.run(feed={"ids": ids}, fetch_list=[loss])
    else:
        paddle.mean(model(paddle.to_tensor(ids))).backward()
        optimizer.step()
        optimizer.clear_grad()
fleet.barrier_worker()
fleet.stop_worker()
