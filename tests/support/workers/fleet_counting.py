"""A server or a trainer whose rows count shows and clicks, in the style that people have. Nothing of umiak is imported.

    fleet_counting.py OUT sync|async

Every trainer learns the same ids in each step; clicks are those of its rank. In the end it writes what the first columns of the rows are.
"""

import json
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

STEPS, IDS, DIM = 5, 20, 7
out, mode = Path(sys.argv[1]), sys.argv[2]

paddle.enable_static()
fleet.init(fleet.PaddleCloudRoleMaker())
ids = paddle.static.data("ids", [None, 1], "int64")
show = paddle.static.data("show", [None, 1], "float32")
click = paddle.static.data("click", [None, 1], "float32")
entry = paddle.distributed.ShowClickEntry("show", "click")
wide = paddle.static.nn.sparse_embedding(ids, [IDS, 1], entry=entry, param_attr=paddle.ParamAttr(name="wide"))
rows = paddle.static.nn.sparse_embedding(ids, [IDS, DIM], entry=entry, param_attr=paddle.ParamAttr(name="deep"))
counted = paddle.static.nn.continuous_value_model(rows, paddle.concat([show, click], axis=1), True)
predict = paddle.static.nn.fc(counted, 1, activation="sigmoid") + 0.1 * wide
loss = paddle.mean(paddle.nn.functional.square_error_cost(predict, click))
test = paddle.static.default_main_program().clone(for_test=True)
strategy = fleet.DistributedStrategy()
strategy.a_sync = mode != "sync"
fleet.distributed_optimizer(paddle.optimizer.Adam(0.01, lazy_mode=True), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    sys.exit()

executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(paddle.static.default_startup_program())
fleet.init_worker()
numbers = np.arange(IDS).reshape(-1, 1)
batch = {
    "ids": numbers,
    "show": (1 + numbers % 3).astype("float32"),
    "click": np.full((IDS, 1), fleet.worker_index(), "float32"),
}
for _ in range(STEPS):
    executor.run(paddle.static.default_main_program(), feed=batch)
fleet.barrier_worker()
(found,) = executor.run(test, feed=batch, fetch_list=[rows])
(out / f"{mode}.{fleet.worker_index()}").write_text(json.dumps(found[:, :2].tolist()))
fleet.barrier_worker()
fleet.stop_worker()
