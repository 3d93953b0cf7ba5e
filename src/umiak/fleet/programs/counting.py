"""Lookups into tables whose rows count shows and clicks: columns that the program sees, and what is pushed. An adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.fleet.programs.accessors import STATISTICS
from umiak.ps import specs
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from umiak.fleet.programs.accessors import RowCounting
    from umiak.fleet.programs.feeding import FedArray
    from umiak.ps.clients.protocol import Floats
    from umiak.ps.tables.lookup import EmbeddingTable, Keys

SLOT = 1
"""Columns in front of shows and clicks of a pushed row."""


class CountedLookup:
    """One look into such a table, of some lookups of a program one after the other."""

    def __init__(
        self,
        table: EmbeddingTable,
        counting: RowCounting,
        keys: Keys,
        arrays: Sequence[FedArray],
        slots: Sequence[int],
        *,
        padding: int | None,
    ) -> None:
        self._table = table
        self._counting = counting
        self._keys = keys.copy()
        self._arrays = arrays
        self._slots = np.repeat(np.asarray(slots, np.float32), [each.array.size for each in arrays])
        self._mask = None if padding is None else self._keys == np.int64(padding).view(np.uint64)

    def rows(self, *, create: bool) -> Floats:
        rows = columns(self._table.rows(self._keys, create=create), self._counting)
        if self._mask is not None:
            rows[self._mask] = 0
        return rows

    def collect(self, gradients: Floats, shows: Any = None, clicks: Any = None) -> None:
        """Gradients of what `rows` gave; ``shows`` and ``clicks`` are one number per sample, or None."""
        counting, count = self._counting, self._keys.size
        given = gradients.reshape(count, counting.columns)
        pushed = np.zeros((count, specs.push_width(self._table.spec)), np.float32)
        pushed[:, 0] = self._slots
        if counting.is_gradient:
            pushed[:, SLOT : SLOT + STATISTICS] = given[:, :STATISTICS]
        else:
            pushed[:, SLOT] = self._per_key(shows, 1.0, counting.shows)
            pushed[:, SLOT + 1] = self._per_key(clicks, 0.0, counting.clicks)
        learned = given[:, STATISTICS:] if counting.has_statistics else given
        scale = np.float32(samples(self._arrays[0]) if counting.times_samples else 1)
        pushed[:, SLOT + STATISTICS : SLOT + STATISTICS + learned.shape[1]] = learned * scale
        keys = self._keys
        if self._mask is not None:
            keys, pushed = keys[~self._mask], pushed[~self._mask]
        self._table.collect(keys, pushed)

    def _per_key(self, numbers: Any, default: float, name: str) -> Floats:
        """What each id counts: as its sample does."""
        if numbers is None:
            return np.full(self._keys.size, default, np.float32)
        flat = np.asarray(numbers, np.float32).reshape(-1)
        return np.concatenate([_repeated(flat, each, name) for each in self._arrays])


def columns(rows: Floats, counting: RowCounting) -> Floats:
    """What the program sees of pulled rows, which begin with show and click."""
    first = 0 if counting.has_statistics else STATISTICS
    return np.ascontiguousarray(rows[..., first : first + counting.columns])


def samples(ids: FedArray) -> int:
    """How many the ids of a lookup belong to."""
    return len(ids.array) if ids.offsets is None else len(ids.offsets) - 1


def _repeated(numbers: Floats, ids: FedArray, name: str) -> Floats:
    count = samples(ids)
    if numbers.size == 1:
        return np.full(ids.array.size, numbers[0], np.float32)
    if numbers.size != count:
        what = f"ShowClickEntry: {name} has {numbers.size} numbers, and the batch {count} samples"
        raise bad("UM-FLEET-022", what, "feed one number per sample")
    times = np.diff(ids.offsets) if ids.offsets is not None else ids.array.size // max(count, 1)
    return np.repeat(numbers, times)
