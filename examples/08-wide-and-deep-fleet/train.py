"""Wide and deep in the style of fleet: a static program, servers and trainers by the calls of paddle.distributed.fleet.

    umiak launch --server_num 2 --trainer_num 2 examples/08-wide-and-deep-fleet/train.py

Nothing of umiak is imported here: this is what scripts for Paddle's own parameter servers look like. The wide part is one weight
per id and per pair of user and item; the deep part is a row per id, and a tower above them.
"""

import argparse
import os
import sys

import data
import numpy as np
import paddle
from paddle.distributed import fleet

flags = argparse.ArgumentParser()
flags.add_argument("--mode", default="async", choices=["sync", "async", "geo"])
flags.add_argument("--epochs", type=int, default=4)
flags.add_argument("--samples", type=int, default=100_000, help="in an epoch, divided among the trainers")
flags.add_argument("--batch", type=int, default=500, help="samples of a trainer's step")
flags.add_argument("--files", default="clicks", help="directory for the samples, which trainer 0 makes")
flags.add_argument("--save", default="", help="directory for the trained parameters and the inference model")
flags.add_argument("--at_least", type=float, default=0.0, help="fail if the AUC is below this in the end")
args = flags.parse_args()

BUCKETS = 1000
WIDTH = 8

paddle.enable_static()
paddle.seed(7)
fleet.init(fleet.PaddleCloudRoleMaker())

# ---- the model

slots = [paddle.static.data(name, [None, 1], "int64") for name in data.SLOTS]
numbers = paddle.static.data("numbers", [None, data.NUMBERS], "float32")
click = paddle.static.data("click", [None, 1], "float32")


def embedding(slot, width: int, table: str, initializer):
    """Rows of a table that all slots share."""
    attributes = paddle.ParamAttr(name=table, initializer=initializer)
    return paddle.static.nn.sparse_embedding(slot, [data.KEYS, width], param_attr=attributes)


wide = paddle.add_n([embedding(slot, 1, "wide", paddle.nn.initializer.Constant(0.0)) for slot in slots])
rows = [embedding(slot, WIDTH, "deep", paddle.nn.initializer.Uniform(-0.1, 0.1)) for slot in slots[:-1]]
deep = paddle.concat([*rows, numbers], axis=1)
for size in (64, 32):
    deep = paddle.static.nn.fc(deep, size, activation="relu")
logit = paddle.static.nn.fc(deep, 1) + wide
chance = paddle.nn.functional.sigmoid(logit)
loss = paddle.mean(paddle.nn.functional.binary_cross_entropy_with_logits(logit, click))
judging = paddle.static.default_main_program().clone(for_test=True)

# ---- servers and trainers

strategy = fleet.DistributedStrategy()
strategy.a_sync = args.mode != "sync"
if args.mode == "geo":
    strategy.a_sync_configs = {"k_steps": 10}
optimizer = fleet.distributed_optimizer(paddle.optimizer.Adam(0.003, lazy_mode=True), strategy)
optimizer.minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    sys.exit()

executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(paddle.static.default_startup_program())
fleet.init_worker()

# ---- training

if fleet.is_first_worker():
    data.write(args.files, args.samples)
fleet.barrier_worker()
files = sorted(os.path.join(args.files, name) for name in os.listdir(args.files))

dataset = paddle.distributed.QueueDataset()
dataset.init(batch_size=args.batch, use_var=[*slots, numbers, click], pipe_command="cat", thread_num=1)
dataset.set_filelist(fleet.util.get_file_shard(files))

test_ids, test_numbers, test_clicks, chances = data.samples(20_000, seed=2)
own = slice(fleet.worker_index(), None, fleet.worker_num())
test_keys = data.keys(test_ids[own])


def auc() -> float:
    """Of all trainers, each of which scores its part of the test samples."""
    feed = {name: column[:, None] for name, column in zip(data.SLOTS, test_keys.T, strict=True)}
    feed |= {"numbers": test_numbers[own], "click": test_clicks[own, None]}
    (scores,) = executor.run(judging, feed=feed, fetch_list=[chance])
    bucket = np.minimum((scores[:, 0] * BUCKETS).astype("int64"), BUCKETS - 1)
    clicked = np.bincount(bucket, weights=test_clicks[own], minlength=BUCKETS)
    shown = np.bincount(bucket, weights=1 - test_clicks[own], minlength=BUCKETS)
    clicked, shown = (np.asarray(fleet.util.all_reduce(each, "sum")) for each in (clicked, shown))
    below = np.cumsum(shown) - shown / 2
    return float((clicked * below).sum() / (clicked.sum() * shown.sum()))


best, reached = data.auc(test_clicks, chances), 0.0
for epoch in range(1, args.epochs + 1):
    executor.train_from_dataset(
        paddle.static.default_main_program(), dataset, fetch_list=[loss], fetch_info=["loss"], print_period=50
    )
    fleet.barrier_worker()
    reached = auc()
    if fleet.is_first_worker():
        print(f"epoch {epoch}/{args.epochs}  auc {reached:.4f} of {best:.4f}", flush=True)

if args.save and fleet.is_first_worker():
    fleet.save_persistables(executor, os.path.join(args.save, "parameters"), paddle.static.default_main_program())
fleet.barrier_worker()
fleet.stop_worker()
if reached < args.at_least:
    sys.exit(f"auc {reached:.4f} is below {args.at_least}")
