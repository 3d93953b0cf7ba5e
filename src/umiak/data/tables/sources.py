"""What a file with a table is: its format, its columns and its parts. An adapter: it reads footers and first rows, never whole files
but CSV that is cut.

    look("day.parquet")                    -> TableFile(format=PARQUET, columns=(ColumnKind(name="user", kind="text"), ...), ...)
    parts([look("a.csv"), look("b.csv")])  -> (TablePart(table=..., start=0, end=67108865), ...)

The format is told by the content; where that leaves it open, by the name. Parts are row groups of Parquet and ranges of bytes of texts; what is
compressed as a whole is one part. A range of CSV begins where a row does: a newline between quotes ends no row, and whether a place is between
quotes is known only from all that is before it. So a CSV file is read through once where it is cut (at the speed of memory, on this machine), unless ``newlines``
is False: then every newline ends a row, and it is cut without being read. CSV behind a URL is not cut otherwise.
"""

from __future__ import annotations

import enum
import itertools
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import umiak_native

from umiak.adapters.stores import storage
from umiak.core.problem import UmiakError
from umiak.core.value import replace, value
from umiak.data.other_formats import HEAD_BYTES, other_format
from umiak.data.parts import is_packed
from umiak.data.tables import footers
from umiak.data.tables.faults import TableFault

PIECE_BYTES = 64 << 20
"""Texts are cut into parts of so many bytes."""
SAMPLE_ROWS = 100
"""So many rows of a text say of what kind its columns are."""

_INTEGER = re.compile(rb"[+-]?[0-9]+")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|NaN|[+-]?inf")
_SLOTS = re.compile(rb"[^\s:,;|\"]+:[^\s:,;|\"]+( [^\s:,;|\"]+:[^\s:,;|\"]+)+\s*")
_CSV_NAMES = ("CSV", "tab-separated", "text with columns")
_DELIMITERS = (",", "\t", ";", "|")
_NAMES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}


class Format(enum.Enum):
    """How a table is written."""

    PARQUET = "Parquet"
    CSV = "CSV"
    JSON = "JSON lines"


@value
class TextReading:
    """How texts are to be read, where they don't say so themselves."""

    delimiter: str | None = None
    """Between fields of CSV; None looks at the first row."""
    quote: str | None = '"'
    """Around fields of CSV; None takes quotes for letters."""
    names: tuple[str, ...] | None = None
    """Of a CSV file's columns; None takes them from its first row."""
    newlines: bool = True
    """Whether a quoted value of CSV may have a newline in it. False cuts files at any newline, also behind URLs."""
    missing: tuple[str, ...] = ()
    """Texts that mean that nothing is there, where ids or numbers are asked for. An empty one always does."""


@value
class ColumnKind:
    """One column. Of texts the kind is that of the first rows' values."""

    name: str
    kind: str
    is_list: bool = False
    refused: str | None = None
    """Why it can't be read."""


@value
class TableFile:
    """A file, as far as reading needs to know it."""

    path: str
    size: int
    format: Format
    columns: tuple[ColumnKind, ...]
    groups: tuple[tuple[int, int], ...] = ()
    """Of Parquet's row groups, their rows and bytes."""
    packed: bool = False
    """Whether it is compressed as a whole, and so can't be cut."""
    delimiter: str = ","
    reading: TextReading = TextReading()
    content: bytes | None = None
    """All of it, where it is no file: messages of a stream. Then ``path`` says where they come from."""

    @property
    def rows(self) -> int | None:
        """How many there are, where the file says so."""
        return sum(rows for rows, _ in self.groups) if self.format is Format.PARQUET else None


@value
class TablePart:
    """A row group of a table, or the rows that begin in a range of its bytes."""

    table: TableFile
    group: int | None = None
    start: int = 0
    end: int | None = None
    weight: int = 0
    """How much work it is, in bytes."""
    first: int = 0
    """The row that it begins with, of the row group or range."""
    until: int | None = None
    """The row that it ends before; None: it goes to the end."""


def look(path: str | os.PathLike[str], reading: TextReading = TextReading()) -> TableFile:  # noqa: B008 - a frozen value
    """Look at a file: its footer, or its first rows."""
    path = os.fspath(path)
    try:
        return _look(path, reading)
    except umiak_native.TableError as error:
        raise TableFault(error) from error


def parts(tables: Sequence[TableFile], piece_bytes: int = PIECE_BYTES) -> tuple[TablePart, ...]:
    """All parts in order, the same for everybody who asks for them with the same files and size."""
    made: list[TablePart] = []
    for table in tables:
        if table.format is Format.PARQUET:
            made += [TablePart(table=table, group=at, weight=size) for at, (_, size) in enumerate(table.groups)]
            continue
        begins = [0, *cuts(table, piece_bytes)]
        ends: list[int | None] = [*begins[1:], None]
        for start, end in zip(begins, ends, strict=True):
            made.append(TablePart(table=table, start=start, end=end, weight=(end or table.size) - start))
    return tuple(made)


def native_source(path: str) -> str | tuple[int, Callable[[int, int], bytes]]:
    """What the native core reads from: a path of this machine, or pieces of what lies behind a URL."""
    if not storage.is_url(path):
        return path
    return storage.pieces_of(path)


def rows_of(
    part: TablePart, columns: Sequence[tuple[str, str]], *, first: int = 0, pass_bad: bool = False
) -> umiak_native.TableRows:
    """The native reader of a part, from a row on."""
    table, reading = part.table, part.table.reading
    missing = [word.encode() for word in reading.missing]
    if table.format is Format.PARQUET:
        file = footers.opened(table.path)
        return file.rows(part.group or 0, _without_brackets(columns), missing, first, pass_bad)
    source = native_source(table.path) if table.content is None else _pieces_of(table.content)
    csv = None
    if table.format is Format.CSV:
        names = table.reading.names
        csv = (ord(table.delimiter), _quote(reading), None if names is None else list(names))
    return umiak_native.text_rows(
        table.path, source, columns, csv, part.start, part.end, missing=missing, first=first, pass_bad=pass_bad
    )


def _pieces_of(content: bytes) -> tuple[int, Callable[[int, int], bytes]]:
    return len(content), lambda at, count: content[at : at + count]


def _without_brackets(columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Parquet's schema says itself what is a list."""
    return [(name, want.partition("[")[0]) for name, want in columns]


def _look(path: str, reading: TextReading) -> TableFile:
    size, first = _first_bytes(path)
    if first == b"PAR1":
        file = footers.looked_at(path)
        kinds = tuple(
            ColumnKind(name=name, kind=kind, is_list=lists, refused=why) for name, kind, lists, why in file.columns
        )
        return TableFile(
            path=path, size=size, format=Format.PARQUET, columns=kinds, groups=tuple(file.groups), reading=reading
        )
    source = native_source(path)
    packed = is_packed(first)
    lines = _first_lines(path, source)
    kind = _NAMES.get(_ending(path))
    begins = lines[0].lstrip()[:1] if lines else b""
    if kind == "parquet":
        umiak_native.ParquetFile(path, source)  # which says what is wrong with it
    if begins == b"{" and kind not in ("csv", "tsv"):
        columns = _json_columns(lines)
        return TableFile(path=path, size=size, format=Format.JSON, columns=columns, packed=packed, reading=reading)
    _refuse_others(path, b"\n".join(lines)[:HEAD_BYTES], kind)
    delimiter = reading.delimiter or _delimiter(lines[0] if lines else b"", kind)
    table = TableFile(
        path=path, size=size, format=Format.CSV, columns=(), packed=packed, delimiter=delimiter, reading=reading
    )
    return _with_csv_columns(table, source)


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""What programs for tables put before such a text."""


def _refuse_others(path: str, head: bytes, kind: str | None) -> None:
    """What is no CSV: by its name, or by its first bytes where the name does not say that it is."""
    if head[:2] in _UTF_16:
        hint = "write it as UTF-8: `iconv -f UTF-16 -t UTF-8 FILE > FILE.utf8`"
        raise UmiakError.of("UM-DATA-115", f"{path}: its texts are UTF-16, and UTF-8 is read", hint=hint)
    other = None if kind in ("csv", "tsv") else other_format(head)
    got = other.name if other and not other.name.startswith(_CSV_NAMES) else ""
    if not got and kind is None and _SLOTS.fullmatch(head.partition(b"\n")[0]):
        got = "slot text, which `SlotReader` reads"
    if kind == "json" or got:
        what = f"{path}: expected a table, got {got or 'something else than an object per line'}"
        hint = "Parquet, CSV, TSV and JSON lines are read, also compressed with gzip or zstd"
        raise UmiakError.of("UM-DATA-115", what, hint=hint)


def _ending(path: str) -> str:
    name = path.rpartition("/")[2].lower()
    for packed in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(packed)
    return os.path.splitext(name)[1]


def _first_bytes(path: str) -> tuple[int, bytes]:
    if storage.is_url(path):
        return storage.start_of(path, 4)
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size, file.read(4)
    except OSError as error:
        raise UmiakError.refused("UM-DATA-002", f"{path}: it can't be read: {error.strerror}") from error


def _first_lines(path: str, source: Any) -> list[bytes]:
    """Unpacked."""
    # A delimiter that no text has: each line is one field.
    rows = umiak_native.text_rows(path, source, [("line", "values")], (1, None, ["line"]), pass_bad=True)
    batch = rows.next_batch(SAMPLE_ROWS)
    if batch is None:
        return []
    offsets, text = batch[4][0][0]
    raw, ends = text.tobytes(), offsets.tolist()
    return [raw[start:end] for start, end in itertools.pairwise(ends)]


def _delimiter(line: bytes, kind: str | None) -> str:
    if kind == "tsv":
        return "\t"
    counts = {each: line.count(each.encode()) for each in _DELIMITERS}
    most = max(counts, key=lambda each: counts[each])
    return most if counts[most] else ","


def _quote(reading: TextReading) -> int | None:
    return None if reading.quote is None else ord(reading.quote)


def _with_csv_columns(table: TableFile, source: Any) -> TableFile:
    reading = table.reading
    delimiter, quote = ord(table.delimiter), _quote(reading)
    names = reading.names
    if names is None:
        names = tuple(umiak_native.csv_names(table.path, source, delimiter, quote))
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        what = f"{table.path}: two columns have one name: {', '.join(map(repr, twice[:5]))}"
        raise UmiakError.of("UM-DATA-115", what, hint="has it no header? then name its columns: `names`")
    found = replace(table, columns=tuple(ColumnKind(name=name, kind="empty") for name in names))
    rows = rows_of(TablePart(table=found), [(name, "values") for name in names], pass_bad=True)
    batch = rows.next_batch(SAMPLE_ROWS)
    kinds = []
    for name, column in zip(names, batch[4] if batch else [None] * len(names), strict=True):
        kinds.append(ColumnKind(name=name, kind=_kind_of(_texts(column)) if column else "empty"))
    return replace(table, columns=tuple(kinds))


def _texts(column: Any) -> list[bytes]:
    offsets, text = column[0]
    raw, ends = text.tobytes(), offsets.tolist()
    return [raw[start:end] for start, end in itertools.pairwise(ends) if end > start]


def _kind_of(texts: list[bytes]) -> str:
    if not texts:
        return "empty"
    if all(_INTEGER.fullmatch(text.strip()) for text in texts):
        return "integer"
    if all(_NUMBER.fullmatch(text.strip()) for text in texts):
        return "float64"
    return "bool" if all(text.lower() in (b"true", b"false") for text in texts) else "text"


def _json_columns(lines: list[bytes]) -> tuple[ColumnKind, ...]:
    seen: dict[str, list[Any]] = {}
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the reader says so, with its place
        for name, found in row.items() if isinstance(row, dict) else ():
            seen.setdefault(name, []).append(found)
    return tuple(_json_kind(name, [each for each in found if each is not None]) for name, found in seen.items())


def _json_kind(name: str, found: list[Any]) -> ColumnKind:
    lists = [each for each in found if isinstance(each, list)]
    flat = [one for each in lists for one in each if one is not None] if lists else found
    refused = None
    if any(isinstance(one, list) for one in flat):
        refused = "lists of lists are not read"
    elif any(isinstance(one, dict) for one in flat):
        refused = "objects in a row are not read"
    elif lists and len(lists) < len(found):
        refused = "it has lists in some rows, and single values in others"
    types = {type(one) for one in flat}
    words = {str: "text", bool: "bool", int: "integer", float: "float64"}
    kind = "empty" if not types else words.get(next(iter(types)), "text") if len(types) == 1 else "text"
    return ColumnKind(
        name=name, kind="float64" if types == {int, float} else kind, is_list=bool(lists), refused=refused
    )


def next_row(table: TableFile, place: int) -> int:
    """Where the first row begins at or behind a place, in a text in which every newline ends a row; the file's size if none does."""
    found = _at_newlines(table.path, [place])
    return found[0] if found else table.size


def cuts(table: TableFile, piece_bytes: int) -> list[int]:
    """Where the parts of a text after the first one begin."""
    if table.packed or table.size <= piece_bytes:
        return []
    even = list(range(piece_bytes, table.size, piece_bytes))
    if table.format is Format.JSON:
        return even
    reading, source = table.reading, native_source(table.path)
    if reading.newlines and reading.quote is not None:
        if storage.is_url(table.path):
            return []
        try:
            return umiak_native.csv_cuts(table.path, source, ord(table.delimiter), ord(reading.quote), piece_bytes)
        except umiak_native.TableError as error:
            raise TableFault(error) from error
    return _at_newlines(table.path, even)


def _at_newlines(path: str, places: list[int]) -> list[int]:
    """The first row at or behind each place, where every newline ends one."""
    read = storage.pieces_of(path)[1] if storage.is_url(path) else None
    size = _first_bytes(path)[0]
    found: list[int] = []
    for place in places:
        at = max(place - 1, found[-1] if found else 0)
        while at < size:
            count = min(64 << 10, size - at)
            if read is not None:
                piece = read(at, count)
            else:
                with open(path, "rb") as file:
                    file.seek(at)
                    piece = file.read(count)
            newline = piece.find(b"\n")
            if newline >= 0:
                at += newline + 1
                break
            at += count
        if place <= at < size and (not found or at > found[-1]):
            found.append(at)
    return found
