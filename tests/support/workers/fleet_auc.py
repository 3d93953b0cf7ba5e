"""A program with sparse_embedding and dense layers in the style that people have: what it reaches on test data. Nothing of umiak is imported.

    fleet_auc.py OUT alone              in plain Paddle, one process: every step takes what two trainers take together
    fleet_auc.py OUT sync|async|geo     a server or a trainer

Two halves of the ids are learned one after the other, each from scratch: the first from files through a QueueDataset, the second by
Executor.run. So neither way can live on what the other has learned.
"""

import json
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

IDS, DIM, SLOTS, BATCH, SAMPLES, EPOCHS, TRAINERS = 30, 4, 3, 32, 6144, 6, 2
HALVES = ("queue", "run")
out, mode = Path(sys.argv[1]), sys.argv[2]
is_alone = mode == "alone"


def samples(half, kind, count):
    """Ids of one half of all, and clicks that follow from them: what is reached is near 1, and hardly depends on the order of steps."""
    weights = np.random.default_rng(3).normal(0, 1.0, (SLOTS, len(HALVES) * IDS))
    draw = np.random.default_rng([HALVES.index(half), len(kind)])
    ids = draw.integers(0, IDS, size=(count, SLOTS)) + IDS * HALVES.index(half)
    return ids, (weights[np.arange(SLOTS), ids].sum(axis=1, keepdims=True) > 0).astype("int64")


def fed(ids, clicks):
    return {**{f"slot{place}": ids[:, [place]] for place in range(SLOTS)}, "click": clicks}


def rows(slot, place):
    first = np.random.default_rng(8).uniform(-0.1, 0.1, (len(HALVES) * IDS, DIM)).astype("float32")
    attribute = paddle.ParamAttr(name=f"rows{place}", initializer=paddle.nn.initializer.Assign(first))
    if is_alone:  # plain Paddle has no server to look sparse_embedding's rows up on
        layer = paddle.nn.Embedding(*first.shape, sparse=True, weight_attr=attribute)
        return paddle.reshape(layer(slot), [-1, DIM])
    return paddle.static.nn.sparse_embedding(slot, [*first.shape], param_attr=attribute)


def auc(half):
    """Exactly, from all scores; ties count half."""
    ids, clicks = samples(half, "test", 4000)
    (scores,) = executor.run(test, feed=fed(ids, clicks), fetch_list=[predict])
    _, place, count = np.unique(scores[:, 0], return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    positive = clicks[:, 0] == 1
    above = rank[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return float(above / (positive.sum() * (~positive).sum()))


def learn_alone(half):
    ids, clicks = samples(half, "train", SAMPLES)
    for start in range(0, SAMPLES, TRAINERS * BATCH):
        part = slice(start, start + TRAINERS * BATCH)
        executor.run(main, feed=fed(ids[part], clicks[part]))


def learn_from_files():
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=BATCH, thread_num=1, use_var=[*slots, click], pipe_command="cat")
    dataset.set_filelist(fleet.util.get_file_shard(sorted(map(str, (out / "parts").iterdir()))))
    executor.train_from_dataset(main, dataset)


def learn_by_run():
    ids, clicks = samples("run", "train", SAMPLES)
    ids, clicks = (each[fleet.worker_index() :: TRAINERS] for each in (ids, clicks))
    for start in range(0, len(ids), BATCH):
        executor.run(main, feed=fed(ids[start : start + BATCH], clicks[start : start + BATCH]))


def write_parts():
    """What the queue reads: the first half's samples in MultiSlot text, in as many files as there are trainers."""
    ids, clicks = samples("queue", "train", SAMPLES)
    (out / "parts").mkdir(parents=True, exist_ok=True)
    for part in range(TRAINERS):
        lines = np.concatenate([ids, clicks], axis=1)[part::TRAINERS]
        text = "".join(" ".join(f"1 {number}" for number in line) + "\n" for line in lines.tolist())
        (out / "parts" / str(part)).write_text(text)


paddle.enable_static()
if not is_alone:
    fleet.init(fleet.PaddleCloudRoleMaker())
paddle.seed(5)
slots = [paddle.static.data(f"slot{place}", [None, 1], "int64") for place in range(SLOTS)]
click = paddle.static.data("click", [None, 1], "int64")
hidden = paddle.concat([rows(slot, place) for place, slot in enumerate(slots)], axis=1)
hidden = paddle.static.nn.fc(hidden, 16, activation="relu")
predict = paddle.static.nn.fc(hidden, 1, activation="sigmoid")
loss = paddle.mean(paddle.nn.functional.log_loss(predict, paddle.cast(click, "float32")))
main = paddle.static.default_main_program()
test = main.clone(for_test=True)
optimizer = paddle.optimizer.Adagrad(0.1)
if is_alone:
    optimizer.minimize(loss)
else:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    if mode == "geo":
        strategy.a_sync_configs = {"k_steps": 2}
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        sys.exit()

executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(paddle.static.default_startup_program())
found = {}
if is_alone:
    write_parts()
    for half in HALVES:
        found[f"{half} before"] = auc(half)
        for _ in range(EPOCHS):
            learn_alone(half)
        found[half] = auc(half)
    (out / "alone").write_text(json.dumps(found))
    sys.exit()
fleet.init_worker()
for half, learn in zip(HALVES, (learn_from_files, learn_by_run), strict=True):
    found[f"{half} before"] = auc(half)
    fleet.barrier_worker()  # nobody learns while another one is still looking
    for _ in range(EPOCHS):
        learn()
    fleet.barrier_worker()
    found[half] = auc(half)
    fleet.barrier_worker()
(out / f"{mode}.{fleet.worker_index()}").write_text(json.dumps(found))
fleet.stop_worker()
