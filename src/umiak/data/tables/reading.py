"""Parts of tables divided among trainers, and read as batches. An adapter to ``umiak_native``.

    mine = share(parts, 0, 4)                            the parts of trainer 0 of 4: each row is in exactly one share
    reader = TableReader(mine, {"user": "ids"})          goes through them in order
    TableReader(mine, ..., position=reader.position())   goes on behind the last batch

What a column is read as: ``ids`` (XXH64 of the canonical text), ``numeric_ids`` (of texts that are numbers, so that "1.0" and 1 are one id),
``numbers`` (float64) or ``values``. In texts, which have no types, ``ids[]`` says that each value is a list, and ``ids[|]`` that ``|`` stands
between its elements; Parquet says itself what is a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import umiak_native

from umiak.core.problem import UmiakError
from umiak.data.tables.columns import BadRow, TableBatch, TableColumn
from umiak.data.tables.faults import TableFault, too_many
from umiak.data.tables.sources import TablePart, rows_of

FEWEST_ROWS = 10_000
"""A share of bad rows is one of so many rows at least: the first of ten is not yet a tenth."""


def share(parts: Sequence[TablePart], number: int, of: int) -> tuple[TablePart, ...]:
    """The parts of one of several readers, in order, each about the same number of bytes. A reader may get nothing."""
    if not 0 <= number < of:
        raise UmiakError.of("UM-DATA-004", f"there is no share {number} of {of}")
    total = sum(part.weight for part in parts) or 1
    before, mine = 0, []
    for part in parts:
        middle = (2 * before + part.weight) * of // (2 * total)
        if min(of - 1, middle) == number:
            mine.append(part)
        before += part.weight
    return tuple(mine)


def read(
    parts: Sequence[TablePart], columns: Mapping[str, str], *, batch_rows: int = 8192, bad_rows: float = 0.0
) -> Iterator[TableBatch]:
    """All batches of these parts."""
    return iter(TableReader(parts, columns, batch_rows=batch_rows, bad_rows=bad_rows))


class TableReader:
    """An iterator of batches. A batch never goes beyond its part.

    ``columns``     what is read, by name: ids, numeric_ids, numbers or values
    ``bad_rows``    the share of rows with bad values that are left out, and counted in `bad`
    ``position``    where an earlier reader of the same parts was, from its ``position()``
    """

    def __init__(
        self,
        parts: Sequence[TablePart],
        columns: Mapping[str, str],
        *,
        batch_rows: int = 8192,
        bad_rows: float = 0.0,
        position: str | None = None,
    ) -> None:
        if batch_rows < 1 or not 0.0 <= bad_rows <= 1.0:
            what = f"batch_rows is {batch_rows!r} and bad_rows {bad_rows!r}: 1 or more, and a share from 0 to 1, are expected"
            raise UmiakError.of("UM-DATA-004", what)
        self._parts = tuple(parts)
        self._columns = list(columns.items())
        self._batch_rows = batch_rows
        self._allowed = bad_rows
        self._part, self._read, self.bad = 0, 0, 0
        self._row = self._first()
        self._rows: umiak_native.TableRows | None = None
        if position is not None:
            self._go_to(position)

    def __iter__(self) -> TableReader:
        return self

    def __next__(self) -> TableBatch:
        try:
            while self._part < len(self._parts):
                if self._rows is None:
                    pass_bad = self._allowed > 0
                    self._rows = rows_of(self._parts[self._part], self._columns, first=self._row, pass_bad=pass_bad)
                until = self._parts[self._part].until
                wanted = self._batch_rows if until is None else min(self._batch_rows, until - self._row)
                found = self._rows.next_batch(wanted) if wanted > 0 else None
                if found is not None:
                    return self._batch(*found)
                self._part, self._rows = self._part + 1, None
                self._row = self._first()
        except umiak_native.TableError as error:
            raise TableFault(error) from error
        raise StopIteration

    def position(self) -> str:
        """JSON from which another reader of the same parts goes on behind the last batch."""
        return json.dumps(
            {"part": self._part, "row": self._row, "read": self._read, "bad": self.bad, "of": self._mark()}
        )

    def _batch(
        self, first: int, read: int, bad: int, told: list[umiak_native.TableError], columns: list[umiak_native._Column]
    ) -> TableBatch:
        self._row = first + read
        self._read += read
        self.bad += bad
        if bad and self.bad > self._allowed * max(self._read, FEWEST_ROWS):
            raise too_many(self.bad, self._read, self._allowed, told[-1].message if told else "")
        named = {name: _column(found) for (name, _), found in zip(self._columns, columns, strict=True)}
        examples = tuple(_bad_row(each) for each in told)
        return TableBatch(
            part=self._part,
            first=first,
            read=read,
            columns=named,
            bad=bad,
            bad_examples=examples,
            place=_place(self._parts[self._part]),
        )

    def _first(self) -> int:
        """The row that a part begins with."""
        return self._parts[self._part].first if self._part < len(self._parts) else 0

    def _mark(self) -> list[object]:
        """What the parts are, so that a position is not taken for that of others."""
        return [
            [part.table.path, part.table.size, part.group, part.start, part.end, part.first, part.until]
            for part in self._parts
        ]

    def _go_to(self, position: str) -> None:
        try:
            told = json.loads(position)
            fits = told["of"] == self._mark()
            self._part, self._row = int(told["part"]), int(told["row"])
            self._read, self.bad = int(told["read"]), int(told["bad"])
        except (ValueError, KeyError, TypeError) as error:
            what = f"a position can't be gone on from: {error}"
            raise UmiakError.of("UM-DATA-003", what, hint="read from the beginning, or with the same files") from error
        if not fits:
            what = "a position belongs to other parts, or a file has changed since"
            raise UmiakError.of("UM-DATA-003", what, hint="read from the beginning, or with the same files")


def _place(part: TablePart) -> str:
    if part.group is not None:
        return f"{part.table.path}: row group {part.group}"
    return part.table.path if not part.start else f"{part.table.path}: behind byte {part.start}"


def _column(found: umiak_native._Column) -> TableColumn:
    values, state, offsets, missing_lists = found
    missing = state.view(np.bool_)
    lists = None if missing_lists is None else missing_lists.view(np.bool_)
    if isinstance(values, tuple):
        return TableColumn(
            values=values[1], missing=missing, offsets=offsets, missing_lists=lists, text_offsets=values[0]
        )
    return TableColumn(values=values, missing=missing, offsets=offsets, missing_lists=lists)


def _bad_row(error: umiak_native.TableError) -> BadRow:
    return BadRow(
        file=error.file,
        group=error.group,
        row=error.row,
        line=error.line,
        column=error.column,
        value=error.value,
        reason=error.reason,
    )
