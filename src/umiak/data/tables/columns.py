"""What is read of a table: columns of some rows that follow one another. Values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umiak.core.value import value


@value
class TableColumn:
    """Values of one column, one per row or, with ``offsets``, any number in lists.

    ``values`` are uint64 (ids), float64 (numbers), or what the file has; of texts, bytes end to end, with ``text_offsets``.
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    """Of each value, whether nothing is there: then an id is 0, a number NaN."""
    offsets: NDArray[np.int64] | None = None
    """Where each row's values begin, and where the last one's end."""
    missing_lists: NDArray[np.bool_] | None = None
    """Of each row, whether it has no list at all, which is not an empty one."""
    text_offsets: NDArray[np.int64] | None = None

    def taken(self, rows: NDArray[np.bool_]) -> TableColumn:
        """The same of some rows."""
        inner, offsets = rows, None
        if self.offsets is not None:
            lengths = np.diff(self.offsets)
            inner, offsets = np.repeat(rows, lengths), _ends(lengths[rows])
        values, texts = self.values, None
        if self.text_offsets is not None:
            sizes = np.diff(self.text_offsets)
            values, texts = values[np.repeat(inner, sizes)], _ends(sizes[inner])
        return TableColumn(
            values=values[inner] if texts is None else values,
            missing=self.missing[inner],
            offsets=offsets,
            missing_lists=None if self.missing_lists is None else self.missing_lists[rows],
            text_offsets=texts,
        )

    def plain(self) -> list[Any]:
        """As Python has it: None where nothing is there, texts as bytes."""
        if self.text_offsets is None:
            whole = self.values.tolist()
        else:
            raw, ends = self.values.tobytes(), self.text_offsets.tolist()
            whole = [raw[start:end] for start, end in itertools.pairwise(ends)]
        whole = [None if gone else one for one, gone in zip(whole, self.missing.tolist(), strict=True)]
        if self.offsets is None or self.missing_lists is None:
            return whole
        ends, gone = self.offsets.tolist(), self.missing_lists.tolist()
        return [None if gone[row] else whole[ends[row] : ends[row + 1]] for row in range(len(gone))]


def _ends(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


@value
class BadRow:
    """A row that was left out. Lines count from 1, row groups and rows from 0."""

    file: str
    group: int | None
    row: int | None
    line: int | None
    column: str | None
    value: str | None
    reason: str


@value
class TableBatch:
    """Rows that follow one another in a part."""

    part: int
    """The part's number among those that are read."""
    first: int
    """The number of the first row in its part."""
    read: int
    """How many rows were read, with the bad ones, which are left out."""
    columns: Mapping[str, TableColumn]
    bad: int = 0
    bad_examples: tuple[BadRow, ...] = ()
    place: str = ""
    """What of which file the part is, for messages."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.read - self.bad

    def taken(self, rows: NDArray[np.bool_]) -> TableBatch:
        """Some of its rows; the bad ones were left out before."""
        columns = {name: column.taken(rows) for name, column in self.columns.items()}
        return TableBatch(part=self.part, first=self.first, read=int(rows.sum()), columns=columns, place=self.place)
