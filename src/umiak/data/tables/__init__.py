"""Tables: Parquet, CSV and TSV, and JSON lines, read natively into columns of ids, numbers or values.

    table = tables.look("logs/day.parquet")
    for batch in tables.read(tables.parts([table]), {"user": "ids", "price": "numbers"}):
        batch.columns["user"].values       # uint64: XXH64 of the canonical text

What a file is, its columns and its parts: `sources`. What is read: `columns`. How parts are divided and read: `reading`. What is wrong
with a file: `faults`.
"""

from __future__ import annotations

from umiak.data import native_core  # noqa: F401 - the check that the native core is there
from umiak.data.tables.columns import BadRow, TableBatch, TableColumn
from umiak.data.tables.faults import TableFault
from umiak.data.tables.reading import TableReader, read, share
from umiak.data.tables.sources import ColumnKind, Format, TableFile, TablePart, TextReading, look, parts

__all__ = [
    "BadRow",
    "ColumnKind",
    "Format",
    "TableBatch",
    "TableColumn",
    "TableFault",
    "TableFile",
    "TablePart",
    "TableReader",
    "TextReading",
    "look",
    "parts",
    "read",
    "share",
]
