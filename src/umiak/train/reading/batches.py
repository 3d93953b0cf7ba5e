"""Batches: what a model gets, whichever reader made them; and steps that trainers take together with them. Values.

The native reader's batches are handed on as they are; those of a user's reader class are `Arrays`, which look the same:

    batch.size                      samples
    batch.dense["price"]            float32, a row for each sample
    ids, offsets = batch.sparse["1"]    int64 ids, one sample after the other, and where each sample's ids begin
    batch.matrix(["click", "1"])    slots with exactly one id in every sample, side by side

A reader in the form of PaddleRec 2 (class RecDataset) names no slots: its batches are `StackedBatch`, what Paddle's DataLoader would give.

In a step in common all trainers take part. One that has run out does so without samples, until nobody has any; so nobody waits for somebody who has left,
and no sample is dropped. A trainer's gradient, a mean over its own samples, counts by its share:

    sizes of the batches    512 512 40    (trainer 2's last one)
    shares                  0.481 0.481 0.038
    sizes of the next       512 90 0
    shares                  0.850 0.150 0.0

The sum of shares times means is the mean over all samples of the step, as if one trainer had them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from umiak.core.value import value

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray

Ids = tuple[NDArray[Any], NDArray[np.int64]]
"""Ids and offsets; the last offset is the number of ids."""


class Batch(Protocol):
    """Some samples."""

    @property
    def size(self) -> int: ...
    @property
    def dense(self) -> Mapping[str, NDArray[np.float32]]: ...
    @property
    def sparse(self) -> Mapping[str, Ids]: ...
    def matrix(self, slots: Sequence[str]) -> AnyArray:
        """A row for each sample, a column for each slot. ValueError: not one id in each; KeyError: no such slot."""


@value
class Arrays:
    """A batch that was put together in Python."""

    size: int
    dense: Mapping[str, NDArray[np.float32]]
    sparse: Mapping[str, Ids]
    kept: Mapping[str, AnyArray] = {}
    """Columns of a table as they are, for who predicts: numbers, masked where nothing is there; or texts, None where nothing is there."""

    def matrix(self, slots: Sequence[str]) -> AnyArray:
        """A row for each sample, a column for each slot."""
        made = np.empty((self.size, len(slots)), np.result_type(np.int64, *(self.sparse[slot][0] for slot in slots)))
        one_each = np.arange(self.size + 1)
        for column, slot in enumerate(slots):
            ids, offsets = self.sparse[slot]
            if not np.array_equal(offsets, one_each):
                raise ValueError(f"slot {slot} has not exactly one id in every sample")
            made[:, column] = ids
        return made


@value
class StackedBatch:
    """A batch without slots: what Paddle's DataLoader makes of samples that are lists of arrays."""

    size: int
    arrays: tuple[Any, ...]
    """Field by field: an array with a row for each sample; where fields are lists or dictionaries themselves, lists and dictionaries of arrays."""

    @property
    def dense(self) -> Mapping[str, NDArray[np.float32]]:
        return {}

    @property
    def sparse(self) -> Mapping[str, Ids]:
        return {}

    def matrix(self, slots: Sequence[str]) -> AnyArray:
        """It has no slots: KeyError."""
        raise KeyError(next(iter(slots), ""))


def column(batch: Batch, name: str) -> AnyArray:
    """One number for each sample: of a slot with one id each, of a dense slot that is one wide, or of a field without a name by its number.

    KeyError: there is no such slot. ValueError: it has not one number for each sample.
    """
    if isinstance(batch, StackedBatch):
        if not name.isdecimal() or int(name) >= len(batch.arrays):
            raise KeyError(name)
        field = batch.arrays[int(name)]
        if not isinstance(field, np.ndarray) or field.size != batch.size:
            raise ValueError(f"field {name} has not exactly one number in every sample")
        return field.reshape(-1)
    if name in batch.dense:
        numbers = batch.dense[name]
        if numbers.shape[1] != 1:
            raise ValueError(f"slot {name} has {numbers.shape[1]} numbers in every sample")
        return numbers[:, 0]
    ids: AnyArray = batch.matrix([name])[:, 0]
    return ids


def mask_of(column: AnyArray) -> NDArray[np.bool_]:
    """Where nothing is there."""
    mask = column.mask if isinstance(column, np.ma.MaskedArray) else False
    return np.broadcast_to(np.asarray(mask, np.bool_), column.shape)


def empty(sparse: Sequence[str] = (), dense: Mapping[str, int] | None = None) -> Arrays:
    """A batch without samples: for a trainer that has run out while others have not."""
    return Arrays(
        size=0,
        dense={name: np.empty((0, width), np.float32) for name, width in (dense or {}).items()},
        sparse={name: (np.empty(0, np.int64), np.zeros(1, np.int64)) for name in sparse},
    )


def padded(ids: AnyArray, offsets: NDArray[np.int64], padding: int) -> NDArray[np.int64]:
    """A row for each sample, as wide as the longest, filled up behind its last id."""
    lengths = np.diff(offsets)
    present = np.arange(max(1, int(lengths.max(initial=1)))) < lengths[:, None]
    matrix = np.full(present.shape, padding, np.int64)
    matrix[present] = ids
    return matrix


@value
class Step:
    """One trainer's part in a step of all."""

    batch: Batch | None
    """None: this trainer has run out."""
    sizes: tuple[int, ...]
    """Samples of every trainer in this step."""
    rank: int
    following: Batch | None = None
    """This trainer's batch in the step that comes next, where it was read already."""

    @property
    def size(self) -> int:
        return self.sizes[self.rank]

    @property
    def total(self) -> int:
        """Samples of all trainers."""
        return sum(self.sizes)

    @property
    def share(self) -> float:
        """What this trainer's gradient counts where gradients are summed."""
        return self.size / self.total
