"""Why a table can't be read, as problems. A decider: from what the native core says."""

from __future__ import annotations

import umiak_native

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line

CODES = {
    "file": "UM-DATA-002",
    "damaged": "UM-DATA-110",
    "unsupported": "UM-DATA-111",
    "value": "UM-DATA-112",
    "asked": "UM-DATA-113",
}
HINTS = {
    "damaged": "was it copied to its end? a newer copy, or writing it again, fixes it",
    "unsupported": "write it again with snappy, zstd, gzip or lz4, and without what the message names",
    "value": "correct the file, read the column as ids or values, or allow a share of bad rows: `bad_rows`",
}


class TableFault(UmiakError):
    """A table can't be read. Where a value is to blame, the fields say which one; else they are None."""

    def __init__(self, error: umiak_native.TableError, hint: str | None = None) -> None:
        problem = Problem(code=CODES[error.kind], what=one_line(error.message), hint=hint or HINTS.get(error.kind))
        super().__init__(problem, exit_status=Exit.REFUSED if error.kind == "file" else Exit.BAD_REQUEST)
        self.file = error.file
        self.group = error.group
        self.row = error.row
        self.line = error.line
        self.column = error.column
        self.value = error.value
        self.reason = error.reason


def too_many(bad: int, read: int, allowed: float, example: str) -> UmiakError:
    """More bad rows than were allowed."""
    return UmiakError.of(
        "UM-DATA-114",
        f"{bad} of {read} rows are bad, and {allowed:.2%} are allowed",
        why=f"the last: {one_line(example)}" if example else None,
        hint="correct the files, or allow more: `bad_rows`",
    )
