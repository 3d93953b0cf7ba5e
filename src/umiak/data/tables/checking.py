"""Looks at the files of a data set before they are trained on: are they all there, do their columns fit together, can they be read? An adapter.

    checked = check(names_of(["logs/*.parquet"]), TextReading())
    checked.problems        everything that is wrong, each with file and column

All footers and first rows are read; with ``whole`` all rows.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from umiak.adapters.stores import storage
from umiak.core.nearest import nearest
from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import one_line, without_password
from umiak.core.value import value
from umiak.data.tables.columns import BadRow, TableBatch
from umiak.data.tables.reading import TableReader
from umiak.data.tables.sources import TableFile, TextReading, look, parts

FIRST_ROWS = 100
MOST_BAD_SHOWN = 10


@value
class Checked:
    """What was found. Counts are those of the rows that were read."""

    tables: tuple[TableFile, ...]
    problems: tuple[Problem, ...]
    rows: int
    bad: int
    bad_examples: tuple[BadRow, ...]
    missing: Mapping[str, int]
    """Of each column, the values that are missing."""


def names_of(given: Sequence[str]) -> list[str]:
    """All files that paths, patterns, directories and URLs stand for, each once. Names that begin with a dot are left aside."""
    found: list[str] = []
    problems = []
    for path in given:
        try:
            names = _names_at(path)
        except OSError as error:
            what = f"{error.filename or path}: it can't be read: {error.strerror}"
            raise UmiakError.refused("UM-DATA-002", what) from error
        if not names:
            problems.append(Problem(code="UM-DATA-006", what=f"no files: {without_password(path)}"))
        found += names
    if problems:
        raise UmiakError(*problems)
    return list(dict.fromkeys(found))


def _names_at(path: str) -> list[str]:
    if storage.is_url(path):
        is_pattern = any(mark in path for mark in "*?[")
        # A place without listings has files all the same; one that can't be reached says why when it is read.
        return storage.names_of(path) or ([] if is_pattern else [path])
    if os.path.isdir(path):
        return sorted(str(each) for each in Path(path).rglob("*") if each.is_file() and not _is_hidden(each, path))
    if os.path.exists(path):
        return [path]
    return [each for each in sorted(glob.glob(path, recursive=True)) if os.path.isfile(each)]


def check(names: Sequence[str], reading: TextReading, *, numbers: Sequence[str] = (), whole: bool = False) -> Checked:
    """Look at all files, the first of which says which columns the others need. Columns of ``numbers`` are read as such."""
    tables: list[TableFile] = []
    problems: list[Problem] = []
    for name in names:
        try:
            tables.append(look(name, reading))
        except UmiakError as error:
            problems += error.problems
    if tables:
        known = [column.name for column in tables[0].columns]
        problems += [_no_such(name, known, tables[0].path) for name in numbers if name not in known]
        problems += [problem for table in tables[1:] for problem in _differences(tables[0], table)]
    tally = _Tally()
    for table in tables:
        try:
            _read(table, numbers, whole, tally)
        except UmiakError as error:
            problems += error.problems
    return Checked(
        tables=tuple(tables),
        problems=tuple(problems),
        rows=tally.rows,
        bad=tally.bad,
        bad_examples=tuple(tally.examples),
        missing=tally.missing,
    )


class _Tally:
    def __init__(self) -> None:
        self.rows, self.bad = 0, 0
        self.examples: list[BadRow] = []
        self.missing: dict[str, int] = {}

    def add(self, batch: TableBatch) -> None:
        self.rows += batch.read
        self.bad += batch.bad
        self.examples += batch.bad_examples[: max(0, MOST_BAD_SHOWN - len(self.examples))]
        for name, column in batch.columns.items():
            gone = column.missing if column.missing_lists is None else column.missing_lists
            self.missing[name] = self.missing.get(name, 0) + int(gone.sum())


def _read(table: TableFile, numbers: Sequence[str], whole: bool, tally: _Tally) -> None:
    wants = {}
    for column in table.columns:
        if column.refused is None:
            want = "numbers" if column.name in numbers else "ids"
            wants[column.name] = want + "[]" if column.is_list else want
    reader = TableReader(parts([table]), wants, batch_rows=8192 if whole else FIRST_ROWS, bad_rows=1.0)
    for batch in reader:
        tally.add(batch)
        if not whole:
            break


def _differences(first: TableFile, table: TableFile) -> list[Problem]:
    """What readers of all files would trip over: columns that are not there, or of another kind."""
    kinds = {column.name: column for column in table.columns}
    problems = []
    for column in first.columns:
        here = kinds.pop(column.name, None)
        if here is None:
            what = f"{table.path}: column {column.name!r} is missing, which {first.path} has"
            near = nearest(column.name, kinds)
            problems.append(
                Problem(code="UM-DATA-116", what=what, hint=f"is it called {near!r} here?" if near else None)
            )
        elif _family(column.kind, here.kind) or column.is_list != here.is_list:
            had, has = (_kind(one.kind, one.is_list) for one in (column, here))
            what = f"{table.path}: column {column.name!r} has the type {has}; in {first.path} it is {had}"
            problems.append(Problem(code="UM-DATA-116", what=what))
    if kinds:
        names = ", ".join(map(repr, list(kinds)[:5]))
        what = f"{table.path}: it has columns that {first.path} does not have: {names}"
        problems.append(Problem(code="UM-DATA-116", what=one_line(what)))
    return problems


def _family(one: str, other: str) -> bool:
    """Whether two kinds do not go together. In texts, the first rows alone say what a column has."""
    numbers = {"integer", "unsigned integer", "float32", "float64", "empty", "null"}
    return one != other and not {one, other} <= numbers and not {one, other} & {"empty", "null"}


def _kind(kind: str, is_list: bool) -> str:
    return f"list of {kind}" if is_list else kind


def known_columns(names: Sequence[str], known: Sequence[str], path: str) -> None:
    """UmiakError with all names that are no columns."""
    problems = [_no_such(name, known, path) for name in names if name not in known]
    if problems:
        raise UmiakError(*problems)


def _no_such(name: str, known: Sequence[str], path: str) -> Problem:
    near = nearest(name, known)
    hint = f"is it {near!r}?" if near else None
    return Problem(code="UM-DATA-113", what=f"{path}: there is no column {name!r}", hint=hint)


def _is_hidden(path: Path, below: str) -> bool:
    return any(part.startswith(".") for part in path.relative_to(below).parts)
