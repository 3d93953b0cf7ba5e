"""A trainer's samples of tables. An adapter.

A chunk of rows stands where a line of slot text does: it has a place, and several samples. The place has the number of the table's part and of the row in it; going on from a position, the
chunk is read again, and samples that were given out are left out. A row that is bad is no sample; where a share of them is allowed, they are counted.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import Problem
from umiak.core.value import replace
from umiak.data.parts import Part
from umiak.data.tables import BadRow, TableReader, TextReading
from umiak.train.reading import checking, finding
from umiak.train.reading.batches import Arrays, Batch
from umiak.train.reading.finding import Files
from umiak.train.reading.pool import Result
from umiak.train.reading.positions import Position, Share
from umiak.train.reading.samples import WindowedSamples
from umiak.train.reading.shuffling.windows import ReadPosition
from umiak.train.reading.tables import kept, looking
from umiak.train.reading.tables.places import TablePlaces

if TYPE_CHECKING:
    from umiak.data.tables import TablePart
    from umiak.train.reading.tables.encoding import RowEncoder

CHUNK_ROWS = 4096
"""So many rows are read at a time."""
_ROW_BITS = 40
MOST_EXAMPLES = 3


class RowSource:
    """How the tables of a dataset are read: for all epochs and parts."""

    def __init__(
        self, encoder: RowEncoder, reading: TextReading, *, bad_rows: float = 0.0, kept: Sequence[str] = ()
    ) -> None:
        """``bad_rows``: the share of rows that may be bad. ``kept``: columns that every batch has as they are, besides its slots; no row may be bad then."""
        self.encoder = encoder
        self.kept = tuple(kept)
        self.places = TablePlaces(reading)
        self.bad_rows = bad_rows

    def row_bytes(self, found: Files) -> float:
        """About how many bytes of a file a row takes; the same for every trainer."""
        for file in found.files:
            if file.size and not file.packed:
                table = self.places.table(file.path)
                if table.rows is None:
                    break
                if table.rows:
                    return max(1.0, table.size / table.rows)
        return finding.line_bytes(found)

    def check(self, found: Files, *, whole: bool = False) -> None:
        """UmiakError if a file has not the columns that are read, or its first rows are not as they should be; ``whole``: of every file, else of the first."""
        files = [file for file in found.files if file.size]
        for file in files if whole else files[:1]:
            looking.check_columns(self.places.table(file.path), [*self.encoder.wanted, *self.kept])
        for file in files[:1]:
            part = replace(self.places.parts(Part(path=file.path))[0], until=looking.FIRST_ROWS)
            for batch in TableReader((part,), self.encoder.wanted, bad_rows=self.bad_rows):
                self.encoder.arrays(batch)

    def samples(
        self, batch_size: int, own: tuple[Part, ...], of: Share, begin: Position | None, *, shuffle: int = 0
    ) -> TableSamples:
        """Those of some parts."""
        return TableSamples(batch_size, own, of, begin, rows=self, shuffle=shuffle)


class TableSamples(WindowedSamples):
    """Samples that are rows of tables."""

    def __init__(
        self,
        batch_size: int,
        own: tuple[Part, ...],
        of: Share,
        begin: Position | None,
        *,
        rows: RowSource,
        shuffle: int = 0,
    ) -> None:
        """``shuffle``: samples are permuted in windows of so many; 0: they come in order."""
        super().__init__(batch_size, own, of, begin, shuffle=shuffle)
        self._rows = rows
        self._bad = 0
        self._examples: list[BadRow] = []
        self.columns = rows.encoder.columns
        self._start()

    def seen(self) -> checking.Seen:
        return checking.Seen(samples=self.given, bad_lines=self._bad)

    def warnings(self) -> Sequence[Problem]:
        return tuple([_passed_over(each) for each in self._examples])

    def close(self) -> None:
        self._results.close()
        self._waiting = []

    def _results_from(self, place: ReadPosition) -> Generator[Result, None, None]:
        for number in range(place.part, len(self._own)):
            parts = self._rows.places.parts(self._own[number])
            at, skip = (place.offset or 0, place.samples) if number == place.part else (0, 0)
            first, row = at >> _ROW_BITS, at & ((1 << _ROW_BITS) - 1)
            for piece in range(first, len(parts)):
                begins = replace(parts[piece], first=row) if piece == first and at else parts[piece]
                for result in self._of_part(number, piece, begins):
                    yield without(result, skip)
                    skip = 0

    def _of_part(self, number: int, piece: int, part: TablePart) -> Generator[Result, None, None]:
        reader = TableReader((part,), self._rows.encoder.wanted, batch_rows=CHUNK_ROWS, bad_rows=self._rows.bad_rows)
        kept_columns = kept.columns_of(part, self._rows.kept, CHUNK_ROWS)
        for batch in reader:
            self._bad += batch.bad
            self._examples += batch.bad_examples[: MOST_EXAMPLES - len(self._examples)]
            arrays, count = self._rows.encoder.arrays(batch)
            places = np.empty((count, 2), np.int64)
            places[:, 0] = piece << _ROW_BITS | batch.first
            places[:, 1] = np.arange(1, count + 1)
            own = next(kept_columns) if self._rows.kept else ()
            yield Result(part=number, places=places, arrays=(*arrays, *((column, None) for column in own)))

    def _batch(self, taken: list[Result]) -> Batch:
        made = super()._batch(taken)
        if not self._rows.kept:
            return made
        found = {
            name: kept.joined([result.arrays[len(self.columns) + at][0] for result in taken])
            for at, name in enumerate(self._rows.kept)
        }
        return Arrays(size=made.size, dense=made.dense, sparse=made.sparse, kept=found)

    def _spoken(self, place: ReadPosition) -> ReadPosition:
        return replace(place, file=self._own[place.part].path)


def without(result: Result, skip: int) -> Result:
    """What is left of a chunk whose first samples were given out before."""
    if not skip:
        return result
    arrays = tuple(
        [
            (values[skip:], None) if lengths is None else (values[int(lengths[:skip].sum()) :], lengths[skip:])
            for values, lengths in result.arrays
        ]
    )
    return Result(part=result.part, places=result.places[skip:], arrays=arrays)


def _passed_over(bad: BadRow) -> Problem:
    at = f"row group {bad.group}, row {bad.row}" if bad.group is not None else f"line {bad.line}"
    which = f", column {bad.column}" if bad.column else ""
    return Problem(code="UM-DATA-112", what=f"{bad.file}: {at}{which}: a bad row is left out", why=bad.reason)
