"""Which rows of a table are meant: those of some times, or of a share of all. A decider with kernels of ``umiak_native``.

    choice = RowChoice(share=(0.0, 0.9))
    kept = choice.kept(batch, section)        True for each row that is one of them; None: all are

It looks at rows as they are in a file, so that rows can be left out before anything was fitted to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.core.value import value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.data.tables.columns import TableBatch, TableColumn
    from umiak.schema.features.section import FeatureSection

_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)
_NOTHING = np.uint64(0x5851_F42D_4C95_7F2D)
"""What stands for a value that is missing."""


@value
class RowChoice:
    """Of the times from ``after`` on and before ``before``, and of a share of the hashes of rows' contents. None: of all."""

    before: float | None = None
    after: float | None = None
    share: tuple[float, float] | None = None

    @property
    def is_all(self) -> bool:
        return self.before is None and self.after is None and self.share is None

    def wanted(self, section: FeatureSection) -> dict[str, str]:
        """What has to be read to decide it, besides the columns of features."""
        times = {} if section.time is None or self.is_all else {section.time: "numbers"}
        if self.share is None:
            return times
        numbers = [column for column in (*section.labels.values(), section.weight) if column is not None]
        return times | dict.fromkeys(numbers, "numbers")

    def kept(self, batch: TableBatch, section: FeatureSection) -> NDArray[np.bool_] | None:
        """Which rows of a batch are meant. It was read with all columns of features, and those that are ``wanted``."""
        kept = None
        if section.time is not None and (self.before is not None or self.after is not None):
            times = batch.columns[section.time].values
            kept = np.ones(batch.rows, np.bool_)
            if self.before is not None:
                kept &= times < self.before
            if self.after is not None:
                kept &= times >= self.after
        if self.share is not None:
            columns = {each.column for each in section.features if each.column} | self.wanted(section).keys()
            place = hash_of_columns({name: batch.columns[name] for name in columns}, batch.rows)
            low, high = self.share
            inside = (place >= low) & (place < high) if high < 1.0 else place >= low
            kept = inside if kept is None else kept & inside
        return kept


def hash_of_columns(columns: Mapping[str, TableColumn], rows: int) -> NDArray[np.float64]:
    """The same for columns of a file, in whatever order they come: a text and its id count alike."""
    found: list[tuple[AnyArray, NDArray[np.int64] | None]] = []
    for name in sorted(columns):
        column = columns[name]
        values = column.values
        if column.text_offsets is not None:
            values = umiak_native.feature_text_ids(column.text_offsets, values, column.missing)
        bits = values.astype(np.float64).view(np.uint64) if values.dtype.kind == "f" else values.view(np.uint64)
        bits = np.where(column.missing, _NOTHING, bits)
        found.append((bits, None if column.offsets is None else np.diff(column.offsets)))
    return hash_of_rows(found, rows)


def hash_of_rows(found: list[tuple[AnyArray, NDArray[np.int64] | None]], rows: int) -> NDArray[np.float64]:
    """A number from 0 up to 1 for each row that depends on everything in it: rows that are the same have the same."""
    total = np.zeros(rows, np.uint64)
    for number, (values, lengths) in enumerate(found):
        bits = np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else values.dtype).view(np.uint64)
        mixed = _mixed(bits + np.uint64(number))
        if lengths is None:
            own = mixed.reshape(rows, -1).sum(axis=1, dtype=np.uint64) if rows else total
        elif mixed.size == rows and (lengths == 1).all():
            own = mixed
        else:
            ends = np.cumsum(lengths)
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
            own = sums[ends] - sums[ends - lengths]
        total = _mixed(total * _ODD + own)
    places: NDArray[np.float64] = (total >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return places


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """As SplitMix64 does it."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    mixed: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return mixed
