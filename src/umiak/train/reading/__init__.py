"""Data for training: a dataset of a config to batches for one trainer. A package.

finding    the files of a data_path, the same for every trainer
dividing   who reads what                                              work_queue  parts handed out on demand
batches    what comes out, and steps in common                         checking  do the declared slots fit?
samples    a trainer's batches of an epoch                             positions   where a reader stands
shuffling  samples in another order in each epoch                    tables      rows of tables as samples
base       a class for readers of users; pool, worker, exchange, lines and columns run them in processes

found = reading.find(dataset)
reading.check(dataset, found)
with reading.read(dataset, found, rank=0, world=2, epoch=0, seed=1) as samples:
    for batch in samples:
        ...
"""

from __future__ import annotations

from umiak.train.config.values import Dataset
from umiak.train.reading.batches import Arrays, Batch, Step
from umiak.train.reading.finding import Files, agree, find
from umiak.train.reading.opening import check, check_seen, processes, read, read_part, sample_bytes, shuffle_of
from umiak.train.reading.pool import UserCodeError
from umiak.train.reading.samples import Samples

__all__ = [
    "Arrays",
    "Batch",
    "Dataset",
    "Files",
    "Samples",
    "Step",
    "UserCodeError",
    "agree",
    "check",
    "check_seen",
    "find",
    "processes",
    "read",
    "read_part",
    "sample_bytes",
    "shuffle_of",
]
