"""A job that begins with what an earlier one saved, and takes no steps. What goes slow or is killed on the way is said by words.

fleet_beginning.py OUT [--load PATH] [--slow-mark] [--late] [--kill-server] [--kill-trainer]
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
import umiak_native

IDS, DIM = 40, 4
out, *words = sys.argv[1:]
out = Path(out)


def slow_mark():
    """The first server makes the table that says what to load, and writes the path into it when trainer 0 has come and looked."""
    theirs = umiak_native.Client

    class SlowClient:
        def __init__(self, *given):
            self._client = theirs(*given)

        def set_dense(self, *given, **named):
            while not (out / "came").exists():
                time.sleep(0.05)
            time.sleep(2)
            return self._client.set_dense(*given, **named)

        def __getattr__(self, name):
            return getattr(self._client, name)

    umiak_native.Client = SlowClient


def kill_while_loading(find):
    """Server 1 stands still from the moment at which the load is asked for, so it is under way when somebody is killed."""
    from umiak.ps import checkpoint

    theirs = checkpoint.load

    def load(*given, **named):
        if not (out / "killed").exists():
            (out / "killed").touch()
            server = int((out / "server.1").read_text())
            os.kill(server, signal.SIGSTOP)
            threading.Timer(1.0, end, [server]).start()
        return theirs(*given, **named)

    def end(server):
        if find() != server:
            os.kill(server, signal.SIGCONT)
        os.kill(find(), signal.SIGKILL)

    checkpoint.load = load


paddle.enable_static()
fleet.init(fleet.PaddleCloudRoleMaker())
ids = paddle.static.data("ids", [None, 1], "int64")
rows = paddle.static.nn.sparse_embedding(
    ids, [IDS, DIM], param_attr=paddle.ParamAttr(name="rows", initializer=paddle.nn.initializer.Uniform(-1, 1))
)
predict = paddle.static.nn.fc(rows, 1)
loss = paddle.mean(predict * predict)
test = paddle.static.default_main_program().clone(for_test=True)
strategy = fleet.DistributedStrategy()
strategy.a_sync = True
fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
if fleet.is_server():
    (out / f"server.{fleet.server_index()}").write_text(str(os.getpid()))
    if "--slow-mark" in words:
        slow_mark()
    fleet.init_server(words[words.index("--load") + 1] if "--load" in words else None)
    fleet.run_server()
    sys.exit()

rank = fleet.worker_index()
executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(paddle.static.default_startup_program())
if rank == 0 and "--kill-server" in words:
    kill_while_loading(lambda: int((out / "server.1").read_text()))
if rank == 0 and "--kill-trainer" in words:
    kill_while_loading(os.getpid)
if rank == 1 and "--late" in words:
    time.sleep(3)
if rank == 0:
    (out / "came").touch()
fleet.init_worker()
found = executor.run(test, feed={"ids": np.arange(IDS).reshape(-1, 1)}, fetch_list=[predict])[0]
(out / f"trainer.{rank}").write_text(json.dumps(found.tolist()))
if "--load" not in words:
    for _ in range(3):
        executor.run(feed={"ids": np.arange(IDS).reshape(-1, 1)}, fetch_list=[loss])
    fleet.barrier_worker()
    fleet.save_persistables(executor, str(out / "saved"))
    found = executor.run(test, feed={"ids": np.arange(IDS).reshape(-1, 1)}, fetch_list=[predict])[0]
    (out / "learned").write_text(json.dumps(found.tolist()))
fleet.barrier_worker()
fleet.stop_worker()
