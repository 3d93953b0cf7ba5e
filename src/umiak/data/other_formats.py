"""What a file is that is no slot text, told by its first bytes. A decider.

    other_format(b"PAR1...")                        -> OtherFormat(name="a Parquet file", ...)
    other_format(b"click,age\\n1,34\\n")              -> OtherFormat(name="CSV, whose first line is: click, age", ...)
    other_format(b"click:1 age:34\\n")               -> None

It is asked once a line could not be read, never before: slot text is read without a second look.
"""

from __future__ import annotations

import csv
import re

from umiak.core.shown import one_line
from umiak.core.value import value

HEAD_BYTES = 4096
"""So many of its first bytes tell."""
PAGE = "docs/how-to/use-my-own-data.md"
AS_TEXT = (
    f"read it with a reader class (`data_converter`), or convert it to lines of slot:value; both are shown in {PAGE}"
)
AS_TABLE = f"convert it to lines of slot:value first, with pyarrow or pandas; {PAGE} shows how"

_MAGIC = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow (Feather) file",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"\x89HDF\r\n": "an HDF5 file",
    b"\x93NUMPY": "a numpy array",
    b"SQLite format 3": "an SQLite database",
}
_DELIMITERS = {
    ",": "CSV",
    "\t": "tab-separated text (TSV)",
    ";": "CSV with semicolons",
    "|": "text with columns between |",
}
_LIBSVM = re.compile(r"[-+]?[0-9.]+( +[0-9]+:[-+0-9.eE]+)+ *")
_MOST_SHOWN = 100


@value
class OtherFormat:
    """A format that the slot reader does not read."""

    name: str
    hint: str


def other_format(head: bytes) -> OtherFormat | None:
    """What begins with these bytes, uncompressed; None where it may be slot text, or is nothing that is known here."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return OtherFormat(name=name, hint=AS_TABLE)
    lines = [line for line in head.decode("utf-8-sig", errors="replace").split("\n") if line.strip()]
    if not lines:
        return None
    if lines[0].lstrip()[0] in "{[":
        return OtherFormat(name="JSON", hint=AS_TEXT)
    if ":" in lines[0].split()[0].partition(",")[0]:
        return None
    if len(head) >= HEAD_BYTES and len(lines) > 1:
        lines.pop()  # it may be cut
    lines = [line.rstrip("\r") for line in lines]
    if _LIBSVM.fullmatch(lines[0]):
        hint = "write a slot before each label: `sed 's/^/click:/'`, and name the features' numbers as slots"
        return OtherFormat(name="LibSVM text, whose label has no slot", hint=hint)
    return _columns(lines)


def _columns(lines: list[str]) -> OtherFormat | None:
    """Text with as many columns in each of its first lines, by the delimiter that makes the most of them."""
    tables: dict[str, list[str]] = {}
    for delimiter in _DELIMITERS:
        try:
            rows = list(csv.reader(lines[:5], delimiter=delimiter))
        except csv.Error:
            continue
        if len(rows[0]) > 1 and len({len(row) for row in rows}) == 1:
            tables[delimiter] = rows[0]
    if not tables:
        return None
    delimiter = max(tables, key=lambda each: len(tables[each]))
    columns = one_line(", ".join(tables[delimiter]), _MOST_SHOWN)
    return OtherFormat(name=f"{_DELIMITERS[delimiter]}, whose first line is: {columns}", hint=AS_TEXT)
