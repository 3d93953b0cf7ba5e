"""Whether a table has the columns that are read. An adapter: it is asked about tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from umiak.core.problem import Problem, UmiakError
from umiak.schema.findings import choices

if TYPE_CHECKING:
    from umiak.data.tables import TableFile
    from umiak.schema.features.section import FeatureSection

FIRST_ROWS = 1000
"""So many rows are looked at before training begins."""


def check_columns(table: TableFile, wanted: Iterable[str]) -> None:
    """UmiakError with everything that is missing, or can't be read."""
    known = {column.name: column for column in table.columns}
    problems = []
    for name in wanted:
        if name not in known:
            hint = choices(name, [*known])
            problems.append(Problem(code="UM-DATA-113", what=f"{table.path}: there is no column {name!r}", hint=hint))
        elif known[name].refused:
            what = f"{table.path}: column {name!r} can't be read: {known[name].refused}"
            problems.append(Problem(code="UM-DATA-111", what=what))
    UmiakError.raise_any(problems)


def columns_of(section: FeatureSection) -> tuple[str, ...]:
    """All columns that a section reads."""
    named = [each.column for each in section.features]
    named += [*section.labels.values(), section.weight or "", section.group or "", section.time or ""]
    return tuple(dict.fromkeys(filter(None, named)))
