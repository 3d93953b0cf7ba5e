"""A job whose program is fed by a loader, and one that only reads what the first has saved. Nothing of umiak is imported.

fleet_loader.py OUT train|infer
"""

import json
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
from paddle.distributed.fleet.utils.ps_util import DistributedInfer

IDS, DIM, BATCH, BATCHES = 50, 4, 16, 6
out, mode = Path(sys.argv[1]), sys.argv[2]
paddle.enable_static()


def samples():
    for number in range(BATCH * BATCHES):
        draw = np.random.default_rng(number)
        ids = draw.integers(0, IDS, 2)
        yield ids[:1], ids[1:], np.array([ids.sum() % 2])


def network():
    first = paddle.static.data("first", [None, 1], "int64")
    second = paddle.static.data("second", [None, 1], "int64")
    click = paddle.static.data("click", [None, 1], "int64")
    loader = paddle.io.DataLoader.from_generator(feed_list=[first, second, click], capacity=8, iterable=False)
    parts = [
        paddle.static.nn.sparse_embedding(ids, [IDS, DIM], param_attr=paddle.ParamAttr(name="rows"))
        for ids in (first, second)
    ]
    predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(paddle.concat(parts, axis=1), 1))
    loss = paddle.mean(paddle.nn.functional.log_loss(predict, paddle.cast(click, "float32")))
    return loader, predict, loss


def predictions(program):
    found = []
    loader.set_sample_generator(samples, batch_size=BATCH, drop_last=True)
    loader.start()
    try:
        while True:
            found.append(executor.run(program, fetch_list=[predict.name])[0])
    except paddle.framework.core.EOFException:
        loader.reset()
    return np.concatenate(found).tolist()


executor = paddle.static.Executor(paddle.CPUPlace())
if mode == "infer":
    loader, predict, loss = network()
    infer = DistributedInfer(paddle.static.default_main_program(), paddle.static.default_startup_program())
    infer.init_distributed_infer_env(executor, loss, dirname=str(out / "saved"))
    if fleet.is_worker():
        (out / f"infer.{fleet.worker_index()}").write_text(json.dumps(predictions(infer.get_dist_infer_program())))
        fleet.barrier_worker()
        fleet.stop_worker()
    sys.exit()

fleet.init(is_collective=False)
loader, predict, loss = network()
test = paddle.static.default_main_program().clone(for_test=True)
strategy = fleet.DistributedStrategy()
strategy.a_sync = True
fleet.distributed_optimizer(paddle.optimizer.Adam(0.05), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    loader.set_sample_generator(samples, batch_size=BATCH, drop_last=True)
    steps = 0
    for _ in range(2):
        loader.start()
        try:
            while True:
                executor.run(fetch_list=[loss])
                steps += 1
        except paddle.framework.core.EOFException:
            loader.reset()
    assert steps == 2 * BATCHES
    fleet.barrier_worker()
    fleet.save_persistables(executor, str(out / "saved"))
    fleet.barrier_worker()
    (out / f"train.{fleet.worker_index()}").write_text(json.dumps(predictions(test)))
    fleet.stop_worker()
