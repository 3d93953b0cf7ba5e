"""A program of fluid on parameter servers, as it was written for 1.8: fluid_served.py DIRECTORY STRATEGY [--kill-server] [--kill-trainer]."""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

STEPS, BATCH, IDS, HELD = 60, 32, 60, 1024
STRATEGIES = {
    "sync": StrategyFactory.create_sync_strategy,
    "async": StrategyFactory.create_async_strategy,
    "half_async": StrategyFactory.create_half_async_strategy,
    "geo": lambda: StrategyFactory.create_geo_strategy(5),
}


def build(rate=0.05):
    ids = fluid.layers.data(name="ids", shape=[3], dtype="int64")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    flat = fluid.layers.reshape(ids, [-1, 3, 1])
    attribute = fluid.ParamAttr(name="rows", initializer=fluid.initializer.Uniform(-0.05, 0.05))
    rows = fluid.layers.embedding(flat, size=[IDS, 4], is_sparse=True, padding_idx=0, param_attr=attribute)
    hidden = fluid.layers.fc(fluid.layers.reshape(rows, [-1, 12]), size=8, act="relu")
    predict = fluid.layers.fc(hidden, size=2, act="softmax")
    cost = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    rate = fluid.layers.exponential_decay(rate, 20, 0.9)
    decay = fluid.regularizer.L2Decay(1e-4)
    hidden.block.program.global_block().var("fc_0.w_0").regularizer = decay
    clip = fluid.clip.GradientClipByValue(0.5)
    return predict, cost, fluid.optimizer.Adam(rate, lazy_mode=True, grad_clip=clip)


WEIGHTS = np.random.default_rng(11).normal(size=IDS)


def batches(count=STEPS, seed=3, size=BATCH):
    chance = np.random.default_rng(seed)
    for _ in range(count):
        ids = chance.integers(0, IDS, (size, 3))
        yield {"ids": ids, "label": (WEIGHTS[ids].sum(1, keepdims=True) > 0).astype("int64")}


def alone(first):
    """One process with whole batches, beginning with the same parameters: its loss on the last batch."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        _, cost, optimizer = build()
        test = main.clone(for_test=True)
        optimizer.minimize(cost)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for name, array in first.items():
            fluid.global_scope().find_var(name).get_tensor().set(array, fluid.CPUPlace())
        for batch in batches():
            exe.run(main, feed=batch)
        (batch,) = batches(1, seed=4, size=HELD)
        return float(exe.run(test, feed=batch, fetch_list=[cost])[0][0])


def kill_once(directory, what):
    """A server, or this trainer, in the middle of it; a second life goes on."""
    mark = Path(directory) / what
    if mark.exists():
        return
    mark.touch()
    if what == "trainer":
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(int((Path(directory) / "server.1").read_text()), signal.SIGKILL)


def train(directory, words):
    # In async and geo what both trainers have learned is applied as it comes, each like a step of its own.
    predict, cost, optimizer = build(0.02 if words[0] in ("async", "geo") else 0.05)
    test = fluid.default_main_program().clone(for_test=True)
    strategy = STRATEGIES[words[0]]()
    optimizer = fleet.distributed_optimizer(optimizer, strategy)
    fluid.default_startup_program().random_seed = 5
    optimizer.minimize(cost)
    if fleet.is_server():
        (Path(directory) / f"server.{fleet.server_index()}").write_text(str(os.getpid()))
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    rank, count = fleet.worker_index(), fleet.worker_num()
    scope = fluid.global_scope()
    dense = [each.name for each in fleet.main_program.all_parameters() if each.name != "rows"]
    (held,) = batches(1, seed=4, size=HELD)
    before = float(exe.run(test, feed=held, fetch_list=[cost])[0][0])
    fleet.save_persistables(exe, str(Path(directory) / "first"))
    first = {name: np.array(scope.find_var(name).get_tensor()) for name in dense}
    was_killed = rank == 1 and (Path(directory) / "trainer").exists()
    for number, batch in enumerate(batches()):
        if was_killed and number < 20:
            continue
        if number == 10 and rank == 0 and "--kill-server" in words:
            kill_once(directory, "server")
        if number == 20 and rank == 1 and "--kill-trainer" in words:
            kill_once(directory, "trainer")
        own = {name: array[rank * BATCH // count : (rank + 1) * BATCH // count] for name, array in batch.items()}
        exe.run(fleet.main_program, feed=own, fetch_list=[cost])
    fleet.barrier_worker()
    found = {"before": before, "after": float(exe.run(test, feed=held, fetch_list=[cost])[0][0])}
    found["holds"] = sorted(name for name in ("rows", "rows_moment1_0") if scope.find_var(name) is not None)
    fleet.save_persistables(exe, str(Path(directory) / "saved"))
    fleet.save_inference_model(exe, str(Path(directory) / "model"), ["ids"], [predict])
    expected = exe.run(test, feed=held, fetch_list=[predict])[0]
    if rank == 0:
        with fluid.scope_guard(fluid.Scope()):
            program, feeds, targets = fluid.io.load_inference_model(str(Path(directory) / "model"), exe)
            told = exe.run(program, feed={feeds[0]: held["ids"]}, fetch_list=targets)[0]
        found["model"] = float(np.abs(told - expected).max())
        if words[0] == "sync":
            with fluid.scope_guard(fluid.Scope()):
                fluid.io.load_vars(exe, str(Path(directory) / "first"), fluid.default_main_program(), ["rows"])
                first["rows"] = np.array(fluid.global_scope().find_var("rows").get_tensor())
            found["alone"] = alone(first)
    (Path(directory) / f"trainer.{rank}").write_text(json.dumps(found))
    fleet.stop_worker()


if __name__ == "__main__":
    fleet.init(role_maker.PaddleCloudRoleMaker())
    train(sys.argv[1], sys.argv[2:])
