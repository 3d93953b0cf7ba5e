"""A trainer that adds 1 to the same rows and parameters, twenty times: two of them make forty. Without a framework.

    counting.py DIRECTORY STRATEGY [--kill-server] [--kill-trainer] [--kill-done] [--no-log] [--fail] [--save PATH] [--load PATH]
                [--state PATH]

Alone it counts for both. Whatever is killed in the middle, the sum must be the same. With geo it is 30.625: each exchange
sends half of what is left.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

from umiak import ps
from umiak.ps import specs

STEPS, KEYS, MIDDLE = 20, np.arange(50, dtype=np.uint64), 10

flags = argparse.ArgumentParser()
flags.add_argument("directory", type=Path)
flags.add_argument("strategy")
flags.add_argument("--save")
flags.add_argument("--load")
flags.add_argument("--state")
for name in ("kill-server", "kill-trainer", "kill-done", "no-log", "fail"):
    flags.add_argument(f"--{name}", action="store_true")
args = flags.parse_args()

job = ps.init(
    args.strategy,
    durability_ms=None if args.no_log else 5,
    state_dir=args.state,
    timeout_s=3 if args.kill_done else 60,
    k_steps=5,
    max_merge_var_num=2,
    is_sgd_optimizer=1,
)
if job.is_server:
    if args.kill_server and job.rank == 1:
        (args.directory / "server.1").write_text(str(os.getpid()))
    sys.exit(job.serve())

rows = specs.SparseTable(dim=2, init=specs.Constant(value=0.0), rule=specs.Sgd(learning_rate=1.0))
dense = specs.DenseTable(arrays=(specs.Array(name="w", shape=(3, 100)),), rule=specs.Sgd(learning_rate=1.0))
strategy = job.communicator
table = strategy.open("rows", rows)
flat = strategy.open_dense("dense", dense, np.zeros(300, np.float32))
if args.load:
    job.load(args.load)
killed = args.directory / "killed"
done = args.directory / f"done.{job.rank}"
# Without steps on the servers, a trainer must remember by itself how far it is.
first = job.step or (int(done.read_text()) if done.exists() and args.kill_trainer else 0)
# A checkpoint brings the step with it: the loop goes on behind it.
for step in range(first, STEPS * (2 if job.world == 1 or args.load else 1)):
    if step == MIDDLE and job.rank == 1:
        if args.fail:
            sys.exit(7)
        if args.kill_server and not killed.exists():
            killed.touch()
            os.kill(int((args.directory / "server.1").read_text()), signal.SIGKILL)
        if args.kill_trainer and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    strategy.pull(table, KEYS)
    strategy.push(table, KEYS, np.full((50, 2), -1.0, np.float32), share=1.0)
    strategy.push_dense(flat, np.full(300, -1.0, np.float32), share=1.0)
    strategy.end_step()
    done.write_text(str(step + 1))
    strategy.pull_dense(flat)
job.barrier()
found = {*map(float, job.client.pull(table, KEYS, step=job.step if args.strategy in ("sync",) else 0).ravel())}
found |= {*map(float, job.client.pull_dense(flat).ravel())}
assert len(found) == 1, found
(args.directory / f"sum.{job.rank}").write_text(json.dumps(found.pop()))
if args.save:
    job.save(args.save, metadata={"sum": 40})
done.unlink(missing_ok=True)
if args.kill_done and job.rank == 1 and not killed.exists():
    killed.touch()
    job.finish()
    os.kill(os.getpid(), signal.SIGKILL)
