"""A server or a trainer in the style that people have: fleet's calls, a static program, `Executor.run`. Nothing of umiak is imported.

fleet_training.py OUT sync|async|geo [--load PATH] [--kill-server | --kill-trainer]
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
import paddle.distributed.fleet.base.role_maker as role_maker

IDS, DIM, SLOTS, STEPS, BATCH = 60, 4, 3, 40, 64
out, mode, *words = sys.argv[1:]
out = Path(out)
kills = set(words) & {"--kill-server", "--kill-trainer"}


def samples(number):
    weights = np.random.default_rng(3).normal(0, 1.5, (SLOTS, IDS))
    draw = np.random.default_rng([11, number])
    ids = draw.integers(0, IDS, size=(BATCH, SLOTS))
    clicks = weights[np.arange(SLOTS), ids].sum(axis=1, keepdims=True) > 0
    return {**{f"slot{place}": ids[:, [place]] for place in range(SLOTS)}, "click": clicks.astype("int64")}


def network(is_plain=False):
    paddle.seed(5)
    first = np.random.default_rng(8).uniform(-0.1, 0.1, (IDS, DIM)).astype("float32")
    slots = [paddle.static.data(f"slot{place}", [None, 1], "int64") for place in range(SLOTS)]
    click = paddle.static.data("click", [None, 1], "int64")
    parts = []
    for place, slot in enumerate(slots):
        attribute = paddle.ParamAttr(name=f"rows{place}", initializer=paddle.nn.initializer.Assign(first))
        if is_plain:
            layer = paddle.nn.Embedding(IDS, DIM, sparse=True, weight_attr=attribute)
            parts.append(paddle.reshape(layer(slot), [-1, DIM]))
        else:
            parts.append(paddle.static.nn.sparse_embedding(slot, [IDS, DIM], param_attr=attribute))
    hidden = paddle.static.nn.fc(paddle.concat(parts, axis=1), 8, activation="relu")
    predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(hidden, 1))
    loss = paddle.mean(paddle.nn.functional.log_loss(predict, paddle.cast(click, "float32")))
    auc, _, states = paddle.static.auc(paddle.concat([1 - predict, predict], axis=1), click)
    return slots, click, predict, loss, auc, states


def alone():
    """The loss that plain Paddle has in the end: every step takes what the trainers take together."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.scope_guard(paddle.static.Scope()), paddle.static.program_guard(main, startup):
        *_, loss, _, _ = network(is_plain=True)
        test = main.clone(for_test=True)
        paddle.optimizer.Adagrad(0.3).minimize(loss)
        executor.run(startup)
        for step in range(STEPS):
            both = [samples(step * world + each) for each in range(world)]
            executor.run(main, feed={name: np.concatenate([each[name] for each in both]) for name in both[0]})
        return float(executor.run(test, feed=samples(1000), fetch_list=[loss])[0])


def as_saved():
    """The loss of the model that was saved for inference, computed by plain Paddle and numpy."""
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, fetches = paddle.static.load_inference_model(str(out / "model" / "model"), executor)
        given = samples(1000)
        chance = executor.run(program, feed={name: given[name] for name in feeds}, fetch_list=fetches)[0]
    clicked = given["click"] > 0
    return float(-np.where(clicked, np.log(chance + 1e-4), np.log(1 - chance + 1e-4)).mean())


def kill_once(step):
    mark = out / "killed"
    if step != STEPS // 2 or not kills or mark.exists() or fleet.worker_index() != 1:
        return
    mark.touch()
    found = int((out / "server.1").read_text()) if "--kill-server" in kills else os.getpid()
    os.kill(found, signal.SIGKILL)


paddle.enable_static()
fleet.init(role_maker.PaddleCloudRoleMaker())
slots, click, predict, loss, auc, states = network()
test = paddle.static.default_main_program().clone(for_test=True)
strategy = fleet.DistributedStrategy()
strategy.a_sync = mode != "sync"
if mode == "geo":
    strategy.a_sync_configs = {"k_steps": 2}
fleet.distributed_optimizer(paddle.optimizer.Adagrad(0.3), strategy).minimize(loss)
if fleet.is_server():
    (out / f"server.{fleet.server_index()}").write_text(str(os.getpid()))
    fleet.init_server(words[words.index("--load") + 1] if "--load" in words else None)
    fleet.run_server()
    sys.exit()

executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(paddle.static.default_startup_program())
fleet.init_worker()
rank, world = fleet.worker_index(), fleet.worker_num()
before = float(executor.run(test, feed=samples(1000), fetch_list=[loss])[0])
for step in range(STEPS):
    kill_once(step)
    executor.run(feed=samples(step * world + rank), fetch_list=[loss])
fleet.barrier_worker()
scope = paddle.static.global_scope()
counted = sum(fleet.util.all_reduce(np.array(scope.find_var(states[at].name).get_tensor())).sum() for at in (2, 3))
fleet.save_persistables(executor, str(out / "saved"))
fleet.save_inference_model(executor, str(out / "model"), [each.name for each in slots], [predict])
if rank == 0:
    paddle.static.save_inference_model(str(out / "static" / "model"), slots, [predict], executor)
    given = samples(1000)
    expected = executor.run(test, feed=given, fetch_list=[predict])[0]
    np.savez(out / "expected.npz", predict=expected, **{name: given[name] for name in given if name != "click"})
fleet.barrier_worker()
after = float(executor.run(test, feed=samples(1000), fetch_list=[loss])[0])
found = {
    "before": before,
    "after": after,
    "counted": int(counted),
    "servers": fleet.server_num(),
    "ranks": fleet.util.all_gather(rank),
}
if mode == "sync" and rank == 0:
    found["alone"] = alone()
if rank == 0:
    found["saved"] = as_saved()
(out / f"trainer.{rank}").write_text(json.dumps(found))
fleet.stop_worker()
