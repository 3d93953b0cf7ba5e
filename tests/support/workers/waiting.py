"""Trainers of which the first waits for the other at a barrier until a file appears. Without a framework.

waiting.py DIRECTORY
"""

import sys
import time
from pathlib import Path

import numpy as np

from umiak import ps
from umiak.ps import specs

directory = Path(sys.argv[1])
job = ps.init("async", durability_ms=50)
if job.is_server:
    sys.exit(job.serve())
table = job.communicator.open("ads", specs.SparseTable(dim=4, rule=ps.Sgd(0.5)))
keys = np.arange(100, dtype=np.uint64) + np.uint64(1000 * job.rank)
while job.rank == 1 and not (directory / "enough").exists():
    job.communicator.push(table, keys, np.ones((100, 4), np.float32))
    job.communicator.pull(table, keys)
    time.sleep(0.01)
job.barrier()
job.finish()
