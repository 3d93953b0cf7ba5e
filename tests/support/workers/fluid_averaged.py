"""A program of fluid whose trainers average their gradients, as it was written for 1.8: fluid_averaged.py DIRECTORY. Says what one process computes besides."""

import json
import sys
from pathlib import Path

import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import DistributedStrategy, fleet

STEPS, BATCH = 8, 16


def mlp(input_x, input_y, ids, hid_dim=32, label_dim=2):
    rows = fluid.layers.embedding(ids, size=[20, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="rows"))
    fc_1 = fluid.layers.fc(input=[input_x, rows], size=hid_dim, act="tanh")
    fc_2 = fluid.layers.fc(input=fc_1, size=hid_dim, act="tanh")
    prediction = fluid.layers.fc(input=[fc_2], size=label_dim, act="softmax")
    cost = fluid.layers.cross_entropy(input=prediction, label=input_y)
    return fluid.layers.mean(x=cost)


def build():
    x = fluid.layers.data(name="x", shape=[32], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="int64")
    ids = fluid.layers.data(name="ids", shape=[1], dtype="int64")
    clip = fluid.clip.GradientClipByGlobalNorm(0.2)
    return mlp(x, y, ids), fluid.optimizer.SGD(learning_rate=0.1, grad_clip=clip)


def batches():
    chance = np.random.default_rng(3)
    for _ in range(STEPS):
        x = chance.random(size=(BATCH, 32)).astype("float32")
        ids = chance.integers(0, 20, (BATCH, 1))
        yield {"x": x, "y": (x.sum(1, keepdims=True) > 16).astype("int64"), "ids": ids}


def parameters(program):
    scope = fluid.global_scope()
    return {each.name: np.array(scope.find_var(each.name).get_tensor()) for each in program.all_parameters()}


def alone(first):
    """One process with whole batches, beginning with the same parameters."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        cost, optimizer = build()
        optimizer.minimize(cost)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for name, array in first.items():
            fluid.global_scope().find_var(name).get_tensor().set(array, fluid.CPUPlace())
        for batch in batches():
            exe.run(main, feed=batch, fetch_list=[cost])
        return parameters(main)


def main(directory):
    role = role_maker.PaddleCloudRoleMaker(is_collective=True)
    fleet.init(role)
    # Each trainer draws other first values; the first trainer's are everybody's.
    fluid.default_startup_program().random_seed = 5 + fleet.worker_index()
    cost, optimizer = build()
    optimizer = fleet.distributed_optimizer(optimizer, strategy=DistributedStrategy())
    optimizer.minimize(cost, fluid.default_startup_program())
    exe = fluid.Executor(fluid.CUDAPlace(0))
    exe.run(fluid.default_startup_program())
    first = parameters(fleet.main_program)
    program = fluid.CompiledProgram(fleet._origin_program).with_data_parallel(loss_name=cost.name)
    rank, count = fleet.worker_index(), fleet.worker_num()
    for batch in batches():
        own = {name: array[rank * BATCH // count : (rank + 1) * BATCH // count] for name, array in batch.items()}
        exe.run(program=program, feed=own, fetch_list=[cost.name])
    learned = parameters(fleet.main_program)
    fleet.save_persistables(exe, str(Path(directory) / "saved"))
    fleet.barrier_worker()
    expected = alone(first)
    found = {
        "apart": max(float(np.abs(expected[name] - learned[name]).max()) for name in expected),
        "moved": max(float(np.abs(first[name] - learned[name]).max()) for name in expected),
        "first": float(sum(np.abs(each).sum() for each in first.values())),
        "workers": [rank, count, fleet.is_first_worker(), fleet.split_files(["a", "b", "c"])],
        "own": [each["x"] for each in own_batches()],
    }
    (Path(directory) / f"trainer.{rank}").write_text(json.dumps(found))


def own_batches():
    """What `distributed_batch_reader` leaves this trainer of five batches."""
    return fluid.contrib.reader.distributed_batch_reader(lambda: ({"x": number} for number in range(5)))()


if __name__ == "__main__":
    main(sys.argv[1])
