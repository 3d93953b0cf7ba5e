"""Samples as a program is fed with them. A decider.

A dense slot is an array of its variable's shape, any other one a pair: its values, one row each, and where each sample's begin.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from umiak.ps.errors import bad

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray
    from umiak_native import MultiSlotSamples

    from umiak.fleet.datasets.settings import DatasetSettings, SlotSetting

    Feed = dict[str, Any]


def feed_of(samples: MultiSlotSamples, settings: DatasetSettings) -> Feed:
    """A batch."""
    feed: Feed = {}
    for slot, (values, offsets) in zip(settings.slots, samples.arrays(), strict=True):
        if slot.is_dense:
            feed[slot.name] = _dense(slot, values, 0 if settings.is_batch_per_line else _even(offsets))
            continue
        begins = np.arange(len(values) + 1, dtype=np.int64) if settings.is_batch_per_line else offsets
        feed[slot.name] = (values.reshape(-1, 1), begins)
    return feed


def _dense(slot: SlotSetting, values: NDArray[Any], samples: int) -> NDArray[Any]:
    shape = list(slot.shape) or [-1]
    unknown = [at for at, size in enumerate(shape) if size < 0]
    for at in unknown[:-1]:
        # Of several unknown ones the first is the number of samples, if all have as many values.
        shape[at] = samples if at == 0 and samples else 1
    if unknown:
        shape[unknown[-1]] = len(values) // (slot.width * math.prod(shape[at] for at in unknown[:-1]))
    elif len(values) != slot.width:
        what = f"slot {slot.name}: {len(values)} values in a batch, and its variable has the shape {slot.shape}"
        raise bad("UM-FLEET-043", what, "begin its shape with None, the number of samples")
    return values.reshape(shape)


def _even(offsets: NDArray[np.int64]) -> int:
    """How many samples there are, if each has as many values; else 0."""
    counts = np.diff(offsets)
    return len(counts) if len(counts) and (counts == counts[0]).all() else 0
