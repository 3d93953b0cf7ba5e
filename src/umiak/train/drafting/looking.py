"""Samples of all columns of some tables. An adapter: footers and some rows of a few files are read, never whole files."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from umiak.adapters.stores import storage
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace, value
from umiak.data.tables import Format, TableColumn, TableFile, TablePart, TableReader, TextReading, look
from umiak.data.tables.sources import next_row
from umiak.train.drafting.guessing import ColumnLook

MOST_FILES = 8
"""So many files are looked into, among them the first and the last."""
ROWS_PER_PIECE = 2000
"""So many rows are read at the beginning, in the middle and at the end of a file."""
FIRST_TEXTS = 100
"""So many texts of a column are tried as days and moments."""
END_BYTES = 1 << 18
"""The end of a text: times are there that are not at its beginning."""
PACKED_GROWTH = 4
PACKED_ROW_BYTES = 100.0
WHOLE = 2.0**53

Piece = dict[str, tuple[TableColumn, "TableColumn | None"]]
"""Some rows, column by column: as ids, and as numbers where they can be."""


@value
class TablesLook:
    """What was seen of some tables."""

    columns: tuple[ColumnLook, ...]
    files: int
    rows: int
    """That were looked at."""
    rows_in_all: int
    """About how many there are."""
    formats: tuple[str, ...]


def look_at(names: Sequence[str], reading: TextReading) -> TablesLook:
    """Look at some of these files. UmiakError if none has a row, or they do not fit together."""
    tables = [look(name, reading) for name in _spread(names, MOST_FILES)]
    filled = [table for table in tables if table.columns]
    if filled:
        _check_alike(filled)
    pieces = [_pieces(table) for table in filled]
    rows = sum(_count(piece) for own in pieces for piece in own)
    if not rows:
        what = f"there is no row in {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        raise UmiakError.of("UM-NEW-001", what, hint="a config is made from tables that have rows")
    seen = [piece for own in pieces for piece in own]
    estimates = [_rows_in_all(table, own) for table, own in zip(filled, pieces, strict=True)]
    moments = set.intersection(*(_moments(table) for table in filled))
    columns = [_column(column.name, filled, seen, moments) for column in filled[0].columns]
    return TablesLook(
        columns=tuple(_with_overlaps(columns, seen)),
        files=len(names),
        rows=rows,
        rows_in_all=max(rows, round(sum(estimates) / len(tables) * len(names))),
        formats=tuple(dict.fromkeys(table.format.value for table in filled)),
    )


def _spread(names: Sequence[str], most: int) -> list[str]:
    if len(names) <= most:
        return list(names)
    return [names[round(number * (len(names) - 1) / (most - 1))] for number in range(most)]


def _check_alike(tables: Sequence[TableFile]) -> None:
    """Every table has the columns of the first."""
    first = {column.name for column in tables[0].columns}
    problems = []
    for table in tables[1:]:
        lacking = sorted(first - {column.name for column in table.columns})
        if lacking:
            what = f"{table.path} has no column {lacking[0]!r}, and {tables[0].path} has"
            problems.append(Problem(code="UM-NEW-002", what=what, hint="`umiak data check` looks at all files"))
    UmiakError.raise_any(problems)


def _pieces(table: TableFile) -> list[Piece]:
    """Some rows of a table."""
    readable = [column for column in table.columns if column.refused is None and not _twice(table, column.name)]
    ids = {column.name: "ids[]" if column.is_list else "ids" for column in readable}
    moments = _moments(table)
    numbers = {
        column.name: "numbers[]" if column.is_list else "numbers" for column in readable if is_number(column.kind)
    }
    made = []
    for part in _parts(table) if ids else ():
        first, values = _batch(part, ids), _batch(part, numbers)
        for name in sorted(moments):  # each by itself: a row with a text that is none is left out
            values |= _batch(part, {name: "numbers"})
        if first:
            made.append({name: (column, values.get(name)) for name, column in first.items()})
    return made


def _moments(table: TableFile) -> set[str]:
    """Columns of texts whose first ones are all days or moments."""
    found = set()
    for column in table.columns:
        if column.kind == "text" and not column.is_list and not column.refused and not _twice(table, column.name):
            texts = TableReader((_parts(table)[0],), {column.name: "numbers"}, batch_rows=FIRST_TEXTS, bad_rows=1.0)
            batch = next(iter(texts), None)
            if batch is not None and not batch.bad and not batch.columns[column.name].missing.all():
                found.add(column.name)
    return found


def _parts(table: TableFile) -> list[TablePart]:
    """Its beginning, its middle and its end, none of them twice."""
    if table.format is not Format.PARQUET:
        made = [TablePart(table=table, until=ROWS_PER_PIECE)]
        # The end may begin within quotes: rows that can't be read are passed over.
        if not table.packed and table.size > 4 * END_BYTES and not storage.is_url(table.path):
            made.append(TablePart(table=table, start=next_row(table, table.size - END_BYTES), until=ROWS_PER_PIECE))
        return made
    rows = table.rows or 0
    begins = {0, max(0, rows // 2 - ROWS_PER_PIECE // 2), max(0, rows - ROWS_PER_PIECE)}
    begins = {0} if rows <= 3 * ROWS_PER_PIECE else begins
    most = rows if len(begins) == 1 else ROWS_PER_PIECE
    made, first = [], 0
    for group, (count, _) in enumerate(table.groups):
        for begin in sorted(begins):
            start, end = max(begin - first, 0), min(begin + most - first, count)
            if start < end:
                made.append(TablePart(table=table, group=group, first=start, until=end))
        first += count
    return made


def _batch(part: TablePart, wanted: dict[str, str]) -> dict[str, TableColumn]:
    if not wanted:
        return {}
    reader = TableReader((part,), wanted, batch_rows=3 * ROWS_PER_PIECE, bad_rows=1.0)
    batch = next(iter(reader), None)
    return dict(batch.columns) if batch is not None and batch.rows else {}


def _count(piece: Piece) -> int:
    column = next(iter(piece.values()))[0]
    return len(column.offsets) - 1 if column.offsets is not None else len(column.missing)


def _rows_in_all(table: TableFile, pieces: Sequence[Piece]) -> float:
    """About how many rows a table has."""
    if table.rows is not None:
        return table.rows
    if not pieces or _count(pieces[0]) < ROWS_PER_PIECE:
        return sum(map(_count, pieces))
    if table.packed:
        return table.size * PACKED_GROWTH / PACKED_ROW_BYTES
    return table.size / _row_bytes(table)


def _row_bytes(table: TableFile) -> float:
    """About how long a row of a text is."""
    if storage.is_url(table.path):
        head = storage.start_of(table.path, 1 << 16)[1]
    else:
        with open(table.path, "rb") as file:
            head = file.read(1 << 16)
    return len(head) / max(1, head.count(b"\n"))


def _twice(table: TableFile, name: str) -> bool:
    return sum(column.name == name for column in table.columns) > 1


def is_number(kind: str) -> bool:
    """Whether a column can be read as numbers."""
    return kind in ("integer", "unsigned integer", "float32", "float64", "bool", "date") or kind.startswith(
        ("timestamp", "decimal")
    )


def _column(name: str, tables: Sequence[TableFile], seen: Sequence[Piece], moments: Collection[str]) -> ColumnLook:
    """What all tables say about a column."""
    said = [column for table in tables for column in table.columns if column.name == name]
    kinds = tuple(dict.fromkeys(column.kind for column in said if column.kind != "empty"))
    refused = next((column.refused for column in said if column.refused), None)
    if any(_twice(table, name) for table in tables):
        refused = "two columns have this name"
    elif len({column.is_list for column in said if column.kind != "empty"}) > 1:
        refused = "it has lists in some files, and single values in others"
    made = ColumnLook(name=name, kinds=kinds, is_list=any(column.is_list for column in said), refused=refused)
    found = [columns[name] for columns in seen if name in columns]
    if refused or not found:
        return made
    here = [ids.values[~ids.missing] for ids, _ in found]
    lengths = [np.diff(ids.offsets) for ids, _ in found if ids.offsets is not None]
    numbers = [values.values[~values.missing] for _, values in found if values is not None]
    known = np.concatenate(numbers) if len(numbers) == len(found) else np.zeros(0)
    infinite = int(np.isinf(known).sum())
    known = known[np.isfinite(known)]
    rows = sum(len(ids.offsets) - 1 if ids.offsets is not None else len(ids.missing) for ids, _ in found)
    empty = sum(
        int((np.diff(ids.offsets) == 0).sum()) if ids.offsets is not None else int(ids.missing.sum())
        for ids, _ in found
    )
    made = replace(
        made,
        rows=rows,
        missing=empty,
        values=sum(map(len, here)),
        distinct=len(np.unique(np.concatenate(here))),
        infinite=infinite,
        are_moments=name in moments and sum(map(len, numbers)) == sum(map(len, here)),
        lengths=(int(np.concatenate(lengths).min()), int(np.concatenate(lengths).max())) if lengths else (),
    )
    if not known.size:
        return made
    return replace(
        made,
        low=float(known.min()),
        high=float(known.max()),
        is_whole=bool((known == np.floor(known)).all() and np.abs(known).max() < WHOLE),
        mean=float(known.mean()),
        median=float(np.median(known)),
    )


def _with_overlaps(columns: list[ColumnLook], seen: Sequence[Piece]) -> list[ColumnLook]:
    """Lists whose elements are values of another column: a history of items, and the item."""
    known = {
        each.name: np.unique(np.concatenate([read[each.name][0].values for read in seen if each.name in read]))
        for each in columns
        if each.values
    }
    made = []
    for each in columns:
        if each.is_list and each.values:
            shares = {
                other.name: float(np.isin(known[each.name], known[other.name]).mean())
                for other in columns
                if not other.is_list and other.name in known and other.kinds == each.kinds
            }
            best = max(shares, key=lambda name: shares[name], default=None)
            each = replace(each, alike=best if best is not None and shares[best] >= 0.3 else None)  # noqa: PLW2901
        made.append(each)
    return made
