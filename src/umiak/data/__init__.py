"""Samples for training: files of ``slot:value`` lines to batches of numpy arrays. A package.

    from umiak import data

    reader = data.SlotReader("train.txt", sparse=["click", "1", "2"], dense={"dense_feature": 13}, batch_size=512)
    for batch in reader:
        ids, offsets = batch.sparse["1"]
        features = batch.dense["dense_feature"]

Parsing, unpacking, shuffling and caching are native (``umiak_native``); here they have names, defaults and errors.
The format is described in docs/reference/slot-format.md.
"""

from __future__ import annotations

import umiak.data.native_core  # noqa: F401 - first: it says what is missing
from umiak.data.hashing import stable_hash
from umiak.data.parts import Part, split
from umiak.data.reader import Batch, ReadError, SlotReader
from umiak.data.statistics import BadLine, SlotTimes, Statistics

__all__ = ["BadLine", "Batch", "Part", "ReadError", "SlotReader", "SlotTimes", "Statistics", "split", "stable_hash"]
