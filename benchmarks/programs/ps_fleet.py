"""A click-through model as a static program with `paddle.distributed.fleet`: one process of it, a server or a trainer. An adapter.

The same file runs on the parameter server that Paddle 2.6.2 had (in `.venv-paddle262`, started by `benchmarks.ps_peer`) and on umiak's,
with Paddle 3.3.1 under `umiak launch`. It imports nothing of this project. Role and addresses come from the environment. Asynchronous,
the only mode of 2.6.2 that works; and with Paddle's QueueDataset, the only reader with which 2.6.2 trains dense parameters: with
batches that are fed by hand their gradients go nowhere, and the loss stays where it was. A trainer takes its share of the files and
appends lines of JSON to the file BENCH_TOLD: when it begins and ends which part of them, and the CPU time so far, its
own with that of its pipe programs, and the servers'. A server of 2.6.2 never ends by itself.

Readers: `slots` puts a Python program between slot text and QueueDataset, as PaddleRec does; `plain` reads files that
were converted before, which leaves out the reading of slot text and is the best that it can do.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

SLOTS, DENSE, IDS, DIM = 26, 13, 1_000_000, 16
WIDTHS = (400, 400, 400)


def parse(line: str) -> tuple[int, list[float], list[int]]:
    """One line of slot text, with every slot exactly once."""
    label, dense, sparse = 0, [], [0] * SLOTS
    for token in line.split(" "):
        name, _, value = token.partition(":")
        if name == "dense_feature":
            dense.append(float(value))
        elif name == "click":
            label = int(value)
        else:
            sparse[int(name) - 1] = int(value)
    return label, dense, sparse


def convert() -> None:
    """Slot text in, counts and values out: the program between a file and QueueDataset."""
    for line in sys.stdin:
        label, dense, sparse = parse(line)
        floats = " ".join(map(str, dense))
        print(f"1 {label} {DENSE} {floats} {' '.join(f'1 {key}' for key in sparse)}")


def network(paddle: Any) -> tuple[list[Any], Any]:
    """Inputs and loss: embeddings of 26 slots beside 13 numbers, three layers of 400."""
    label = paddle.static.data("label", [None, 1], "int64")
    dense = paddle.static.data("dense", [None, DENSE], "float32")
    slots = [paddle.static.data(f"C{slot}", [None, 1], "int64") for slot in range(1, SLOTS + 1)]
    uniform = paddle.nn.initializer.Uniform(-0.01, 0.01)
    rows = [
        paddle.static.nn.sparse_embedding(
            slot, size=[IDS, DIM], param_attr=paddle.ParamAttr(name="embedding", initializer=uniform)
        )
        for slot in slots
    ]
    flat = [paddle.reshape(row, [-1, DIM]) for row in rows]
    hidden = paddle.concat([*flat, dense], axis=1)
    for width in WIDTHS:
        hidden = paddle.static.nn.fc(hidden, width, activation="relu")
    logit = paddle.static.nn.fc(hidden, 1)
    loss = paddle.nn.functional.binary_cross_entropy_with_logits(logit, paddle.cast(label, "float32"))
    return [label, dense, *slots], loss


def tell(**facts: object) -> None:
    """To the one who measures."""
    with open(os.environ["BENCH_TOLD"], "a") as told:
        told.write(json.dumps({"at": time.monotonic(), **facts}) + "\n")


def tell_progress(event: str, part: int) -> None:
    """Where a trainer is, and what it has cost."""
    with open(os.environ["BENCH_TOLD"]) as told:
        servers = [each["server"] for each in map(json.loads, told) if "server" in each]
    tell(event=event, part=part, cpu_s=sum(os.times()[:4]), served_cpu_s=sum(map(cpu_s, servers)))


def cpu_s(pid: int) -> float:
    """CPU time of another process."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Be a server or a trainer, or the program between a file and a trainer."""
    if sys.argv[1] == "convert":
        convert()
        return
    reader, size = sys.argv[1], int(sys.argv[2])
    paddle: Any = importlib.import_module("paddle")
    fleet: Any = importlib.import_module("paddle.distributed.fleet")
    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker())
    inputs, loss = network(paddle)
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    optimizer = fleet.distributed_optimizer(paddle.optimizer.Adam(1e-3, lazy_mode=True), strategy)
    optimizer.minimize(loss)
    if fleet.is_server():
        tell(server=os.getpid())
        fleet.init_server()
        fleet.run_server()
        return
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    paths = sys.argv[3 + fleet.worker_index() :: fleet.worker_num()]
    pipe = "cat" if reader == "plain" else f"{sys.executable} {os.path.abspath(__file__)} convert"
    for number, part in enumerate((paths[:1], paths[1:])):  # the first file is the warm-up
        dataset = paddle.distributed.QueueDataset()
        dataset.init(use_var=inputs, pipe_command=pipe, batch_size=size, thread_num=1)
        dataset.set_filelist(part)
        tell_progress("begin", number)
        program = paddle.static.default_main_program()
        executor.train_from_dataset(program, dataset, fetch_list=[loss], fetch_info=["loss"], print_period=20)
        tell_progress("end", number)
    if paddle.__version__.startswith("2."):
        os._exit(0)  # its own way to stop waits for servers that never do
    fleet.stop_worker()


if __name__ == "__main__":
    main()
