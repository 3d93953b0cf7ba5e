"""What people have: a script for fleet's servers that trains from datasets. A row of the table counts how often its id was learned.

It is given a directory: ``parts/`` has the files (``id label`` per line). Nothing of umiak is imported here.
"""

import argparse
import glob
import os
import sys
from typing import Any

import numpy as np
import paddle
from paddle.distributed import fleet

flags = argparse.ArgumentParser()
flags.add_argument("directory")
flags.add_argument("--sync", action="store_true")
flags.add_argument(
    "--commands", nargs="+", default=[], help="programs to train with; errors of all but the last are told"
)
args = flags.parse_args()

GENERATOR = f"{sys.executable} {os.path.join(os.path.dirname(__file__), 'fleet_generator.py')}"
QUICK = """awk '{ print 2, $1, 1, 1, $2 }'"""

paddle.enable_static()
fleet.init(fleet.PaddleCloudRoleMaker())

ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
label = paddle.static.data("label", [None, 1], "float32")
attributes = paddle.ParamAttr(name="counts", initializer=paddle.nn.initializer.Constant(0.0))
rows = paddle.static.nn.sparse_embedding(ids, [10_000, 1], param_attr=attributes)
total = paddle.sum(rows)
loss = total + 0.0 * paddle.mean(paddle.static.nn.fc(label, 1))
judging = paddle.static.default_main_program().clone(for_test=True)

strategy = fleet.DistributedStrategy()
strategy.a_sync = not args.sync
fleet.distributed_optimizer(paddle.optimizer.SGD(1.0), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    sys.exit()

executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(paddle.static.default_startup_program())
fleet.init_worker()
files = fleet.util.get_file_shard(sorted(glob.glob(os.path.join(args.directory, "parts", "*"))))
main = paddle.static.default_main_program()


def say(text: str) -> None:
    print(f"said: {text}", flush=True)


def counts() -> str:
    """How often each id was learned: of ids in the files, which are 2 to 101, and of the one that all share."""
    fleet.barrier_worker()
    numbers = np.arange(1, 102).reshape(-1, 1)
    tensor = paddle.base.create_lod_tensor(numbers, [[1] * 101], paddle.CPUPlace())
    found = executor.run(judging, feed={"ids": tensor, "label": np.zeros([101, 1], "float32")}, fetch_list=[rows])[0]
    fleet.barrier_worker()
    learned = -np.asarray(found).reshape(-1)
    return f"{sorted(set(learned[1:].round(3).tolist()))} {learned[0]:.3f}"


def train(dataset: Any) -> None:
    executor.train_from_dataset(
        main, dataset, fetch_list=[total, label], fetch_info=["total", "labels"], print_period=2, debug=False
    )


def from_queue(command: str) -> None:
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=8, thread_num=2, use_var=[ids, label], pipe_command=command)
    dataset.set_filelist(files)
    train(dataset)


for command in args.commands[:-1]:
    try:
        from_queue(command)
    except RuntimeError as error:
        say(f"error {error}")
from_queue(args.commands[-1] if args.commands else GENERATOR)
say(f"queue {counts()}")
if args.sync:
    fleet.stop_worker()
    sys.exit()

memory = paddle.base.DatasetFactory().create_dataset("InMemoryDataset")
memory.set_batch_size(8)
memory.set_thread(2)
memory.set_use_var([ids, label])
memory.set_pipe_command(QUICK)
memory.set_filelist(files)
memory.set_fleet_send_batch_size(16)
memory.load_into_memory()
say(f"loaded {memory.get_memory_data_size(fleet)}")
memory.global_shuffle(fleet, 2)
say(f"shuffled {memory.get_shuffle_data_size(fleet)}, own {memory.get_memory_data_size()}")
train(memory)
say(f"memory {counts()}")
executor.infer_from_dataset(judging, memory, fetch_list=[total], fetch_info=["judged"], print_period=1)
say(f"inferred {counts()}")
memory.release_memory()
say(f"released {memory.get_memory_data_size(fleet)}")

newer = paddle.distributed.InMemoryDataset()
newer.init(batch_size=8, thread_num=1, use_var=[ids, label], pipe_command=QUICK)
newer.update_settings(parse_ins_id=False)
newer.set_filelist(files)
newer.preload_into_memory(2)
newer.wait_preload_done()
newer.local_shuffle()
train(newer)
say(f"newer {counts()}")
fleet.stop_worker()
