"""What a part of a file stands for where the file is a table. An adapter: it looks at files.

    places = TablePlaces(TextReading())
    places.parts(Part(path="day.parquet", start=0, end=5_000_000))   ->  (TablePart(group=0, until=65536), ...)

Tables are divided as slot text is, by `umiak.train.reading.dividing` and `shuffling`: a part is a range of bytes, and means the rows that begin in it. A row of Parquet has no
place of its own: row number r of n is taken to begin at byte r * size / n. Both ends of a part are moved to the next place where the file can be cut, by the same rule; so parts that
together are a whole file are each row of it once:

    Parquet                 a row group, or a sixteenth of a large one: pages before it are passed over without being unpacked
    CSV                     rows at every 64 KiB to 16 MiB, found in one reading of the file; where no value has a newline, any row
    JSON lines              any row
    compressed as a whole   nowhere
"""

from __future__ import annotations

import bisect

from umiak.core.value import value
from umiak.data.parts import Part
from umiak.data.tables import Format, TableFile, TablePart, TextReading, look
from umiak.data.tables.sources import cuts, next_row

PIECES_PER_GROUP = 16
LEAST_PIECE_ROWS = 1024
LARGEST_CUT = 16 << 20
SMALLEST_CUT = 64 << 10
CUTS_PER_FILE = 256


@value
class Cuttable:
    """A table, and where it can be cut."""

    table: TableFile
    places: tuple[int, ...] | None
    """Rows of Parquet, bytes of CSV, the beginning and the end among them; None: at any row."""


class TablePlaces:
    """The tables of a dataset, each looked at once."""

    def __init__(self, reading: TextReading) -> None:
        self._reading = reading
        self._known: dict[str, Cuttable] = {}

    def table(self, path: str) -> TableFile:
        """What a file is."""
        return self._cuttable(path).table

    def parts(self, part: Part) -> tuple[TablePart, ...]:
        """The rows that a part of a file stands for, in order. It may be nothing."""
        found = self._cuttable(part.path)
        table = found.table
        if table.packed:
            return (TablePart(table=table, weight=table.size),) if part.start == 0 else ()
        start, end = self._snapped(found, part.start), self._snapped(found, part.end)
        if start >= end:
            return ()
        if table.format is Format.PARQUET:
            return _row_groups(table, start, end)
        return (TablePart(table=table, start=start, end=end if end < table.size else None, weight=end - start),)

    def _cuttable(self, path: str) -> Cuttable:
        if path not in self._known:
            self._known[path] = _looked_at(look(path, self._reading))
        return self._known[path]

    def _snapped(self, found: Cuttable, place: int | None) -> int:
        """The next place where a file can be cut. It never becomes less when ``place`` becomes more."""
        table = found.table
        last = table.rows if table.rows is not None else table.size
        if place is None or place >= table.size:
            return last
        if place <= 0:
            return 0
        if found.places is None:
            return place if table.format is Format.JSON else next_row(table, place)
        at = place if table.rows is None else place * table.rows // table.size
        return found.places[bisect.bisect_left(found.places, at)]


def _looked_at(table: TableFile) -> Cuttable:
    if table.packed:
        return Cuttable(table=table, places=None)
    if table.format is Format.PARQUET:
        return Cuttable(table=table, places=_rows(table))
    if table.format is Format.JSON or not table.reading.newlines or table.reading.quote is None:
        return Cuttable(table=table, places=None)
    piece = max(SMALLEST_CUT, min(LARGEST_CUT, table.size // CUTS_PER_FILE))
    return Cuttable(table=table, places=(0, *cuts(table, piece), table.size))


def _rows(table: TableFile) -> tuple[int, ...]:
    """The rows at which a file of Parquet can be cut."""
    places, begin = [0], 0
    for rows, _ in table.groups:
        step = max(LEAST_PIECE_ROWS, -(-rows // PIECES_PER_GROUP))
        places += [begin + at for at in range(step, rows, step)]
        begin += rows
        if rows:
            places.append(begin)
    return tuple(places)


def _row_groups(table: TableFile, start: int, end: int) -> tuple[TablePart, ...]:
    """Rows from ``start`` to ``end`` of a whole file, row group by row group."""
    made, begin = [], 0
    for group, (rows, size) in enumerate(table.groups):
        first, until = max(start - begin, 0), min(end - begin, rows)
        if first < until:
            weight = size * (until - first) // rows
            made.append(
                TablePart(table=table, group=group, first=first, until=until if until < rows else None, weight=weight)
            )
        begin += rows
    return tuple(made)
