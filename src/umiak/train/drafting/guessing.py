"""What the columns of a table are, from their names and what was seen in them. A decider.

draft = drafted(columns, label="click", rows=40_000)

label, time         by name and content
numbers             floats, and integers with many values that count something
ids                 texts, truths, integers with few values, or named as ids are
sequences           lists of texts or integers; with the table of the column whose values they are
left out            what has one value, none, or another in each row; what can't be read
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import value
from umiak.schema.findings import choices

FEW = 64
"""Integers with at most so many values are ids."""
ALL_DIFFERENT = 0.99
LEAST_ROWS = 200
"""In fewer rows it says nothing that all values differ."""
SKEWED = 4.0
"""The mean of numbers is so many times their median: their logarithm says more."""
LONGEST_SEQUENCE = 50
LABELS = ("click", "clicked", "is_click", "label", "clk", "target", "y", "conversion", "converted", "purchase", "buy")
TIMES = re.compile(r"(^|_)(time|timestamp|ts|datetime|date|dt|created_at|event_time)$")
IDS = re.compile(r"(^|_)(id|ids|uid|gid|code|zip|zipcode|category|cat|type|brand|key|no|hash)$|^(c|cat)_?\d+$|[a-z]Id$")
ROW_IDS = re.compile(
    r"^(id|idx|index|row|row_?id|row_?number|uuid|guid|request_?id|impression_?id|log_?id|event_?id|record_?id|sample_?id)$"
)
SECONDS = (946_684_800.0, 4_102_444_800.0)
"""From the year 2000 to 2100."""


@value
class ColumnLook:
    """What was seen of a column."""

    name: str
    kinds: tuple[str, ...] = ()
    """Of its values, in all files; none: nothing was seen."""
    is_list: bool = False
    refused: str | None = None
    """Why it can't be read."""
    rows: int = 0
    missing: int = 0
    """Rows without a value."""
    values: int = 0
    distinct: int = 0
    lengths: tuple[int, ...] = ()
    """Of lists, the shortest and the longest."""
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    median: float = 0.0
    is_whole: bool = False
    """Whether its numbers have no fractions."""
    infinite: int = 0
    """Numbers that are."""
    are_moments: bool = False
    """Whether its texts are days or moments, as ISO 8601 has them."""
    alike: str | None = None
    """Of a list, the column that has the same values."""

    @property
    def missing_rate(self) -> float:
        return self.missing / self.rows if self.rows else 0.0

    @property
    def are_numbers(self) -> bool:
        """Whether all its values are numbers."""
        return bool(self.kinds) and all(
            kind in ("integer", "unsigned integer", "float32", "float64") or kind.startswith("decimal")
            for kind in self.kinds
        )

    @property
    def are_times(self) -> bool:
        """Whether all its values are days or moments."""
        of_type = bool(self.kinds) and all(kind == "date" or kind.startswith("timestamp") for kind in self.kinds)
        return of_type or self.are_moments


@value
class Guess:
    """One feature, or a column that is left out."""

    name: str
    kind: str = ""
    """Empty: it is left out."""
    keys: tuple[tuple[str, str], ...] = ()
    """Further keys of it, as they are written."""
    why: str = ""


@value
class Draft:
    """What a config is made of."""

    label: str
    features: tuple[Guess, ...]
    left_out: tuple[Guess, ...]
    time: str | None = None
    time_range: tuple[float, float] | None = None
    """The first and the last time that were seen."""
    time_kind: str = ""
    group: str | None = None
    positives: float = 0.0
    """The mean of the label."""
    warnings: tuple[str, ...] = ()


def drafted(columns: Sequence[ColumnLook], label: str | None, *, are_all: bool = False) -> Draft:
    """All of it; ``are_all``: every row was looked at. UmiakError if there is no label that can be learned."""
    target = _label(columns, label)
    time = next((each for each in columns if each is not target and _is_time(each)), None)
    features: list[Guess] = []
    left_out: list[Guess] = []
    warnings: list[str] = []
    for each in columns:
        if each is target:
            continue
        found = _guessed(each, is_time=each is time, are_all=are_all)
        (features if found.kind else left_out).append(found)
    if target.low == target.high:
        warnings.append(
            f"label {target.name} is {target.low:g} in all rows that were looked at: there is nothing to learn"
        )
    if not features:
        what = "no column besides the label can be a feature"
        raise UmiakError.of(
            "UM-NEW-003", what, why="; ".join(f"{each.name}: {each.why}" for each in left_out[:5]) or None
        )
    features = _with_shared_tables(features, columns)
    return Draft(
        label=target.name,
        features=tuple(features),
        left_out=tuple(left_out),
        time=time.name if time else None,
        time_range=(time.low, time.high) if time and time.high > time.low else None,
        time_kind="timestamp" if time and time.are_moments else time.kinds[0] if time else "",
        group=_group(features),
        positives=target.mean,
        warnings=tuple(warnings),
    )


def _label(columns: Sequence[ColumnLook], said: str | None) -> ColumnLook:
    names = [each.name for each in columns]
    if said is None:
        lower = {each.name.lower(): each for each in reversed(columns) if not _why_no_label(each)}
        found = next((lower[name] for name in LABELS if name in lower), None)
        if found is None:
            two = [each.name for each in columns if not _why_no_label(each) and (each.low, each.high) == (0.0, 1.0)]
            hint = f"`--label {two[0]}`" if two else choices("", names[:20])
            near = [(each.name, _why_no_label(each)) for each in columns if each.name.lower() in LABELS]
            why = "; ".join(f"{name} can't be: {because}" for name, because in near) or None
            raise UmiakError.of("UM-NEW-004", "nothing says which column is the label", why=why, hint=hint)
        return found
    chosen = next((each for each in columns if each.name == said), None)
    if chosen is None:
        raise UmiakError.of("UM-NEW-004", f"--label: there is no column {said!r}", hint=choices(said, names))
    if why := _why_no_label(chosen):
        hint = "a label is a number in each row: 0 and 1 for clicks"
        raise UmiakError(Problem(code="UM-NEW-004", what=f"--label: {said} can't be a label: {why}", hint=hint))
    return chosen


def _why_no_label(column: ColumnLook) -> str | None:
    if column.refused:
        return column.refused
    if column.is_list:
        return "it has lists"
    if not column.values:
        return "nothing is in it"
    if not (column.are_numbers or column.kinds == ("bool",)):
        return f"it is {', '.join(column.kinds)}"
    if column.low < 0.0 or column.high > 1.0:
        return f"its numbers go from {column.low:g} to {column.high:g}, and a model of clicks wants 0 to 1"
    return None


def _is_time(column: ColumnLook) -> bool:
    if column.refused or column.is_list or not column.values:
        return False
    if column.are_times:
        return True
    scaled = any(SECONDS[0] * unit <= column.low and column.high <= SECONDS[1] * unit for unit in (1, 1e3, 1e6, 1e9))
    return column.are_numbers and scaled and bool(TIMES.search(column.name.lower()))


def _guessed(column: ColumnLook, *, is_time: bool, are_all: bool) -> Guess:
    name = column.name
    if column.refused:
        return Guess(name=name, why=column.refused)
    if name != name.strip() or not name:
        return Guess(name=name, why="its name begins or ends with a blank")
    if not column.values:
        return Guess(name=name, why="nothing is in it")
    if is_time:
        return Guess(name=name, why="it is the time of a row")
    if column.is_list:
        return _of_list(column)
    if column.distinct == 1 and not column.missing:
        return Guess(name=name, why="it has one value only")
    is_unique = column.rows >= LEAST_ROWS and column.distinct >= ALL_DIFFERENT * column.values
    if is_unique and (ROW_IDS.match(name.lower()) or (column.kinds == ("uuid",))):
        return Guess(name=name, why="it has another value in each row")
    if column.are_times:
        return Guess(name=name, why="it is another time")
    if is_unique and are_all and column.kinds == ("text",):
        why = "its texts are others in each row, so as ids they say nothing; a price or a share is a number if it is written as one, 1234.5"
        return Guess(name=name, why=why)
    return _of_scalar(column)


def _of_scalar(column: ColumnLook) -> Guess:
    name, many = column.name, f"{_count(column)} values"
    # The same number may be 1 in one file and 1.0 in another.
    mixed = any(kind.startswith("float") for kind in column.kinds) or (len(column.kinds) > 1 and "text" in column.kinds)
    keys = (("numeric", "true"),) if mixed and all(_numeric_or_text(kind) for kind in column.kinds) else ()
    if not column.are_numbers:
        why = f"{', '.join(column.kinds)}; {many}"
        return Guess(name=name, kind="id", keys=keys, why=f"{why}{_missing(column)}")
    if column.is_whole and (column.distinct <= FEW or IDS.search(name) or IDS.search(name.lower())):
        return Guess(name=name, kind="id", keys=keys, why=f"integers; {many}{_missing(column)}")
    span = f"{column.low:g} to {column.high:g}"
    if column.is_whole and column.high >= 2**31 and column.distinct > ALL_DIFFERENT * column.values / 2:
        return Guess(name=name, kind="id", keys=keys, why=f"large integers; {many}{_missing(column)}")
    skewed = column.low >= 0.0 and column.high > 10.0 and column.mean > SKEWED * max(column.median, 0.25)
    steps = ["log1p", "zscore"] if skewed else ["zscore"]
    if column.infinite:
        steps.insert(0, f"{{clip: [{column.low!r}, {column.high!r}]}}")
    transform = steps[0] if len(steps) == 1 else f"[{', '.join(steps)}]"
    return Guess(
        name=name,
        kind="number",
        keys=(("missing", "mean"), ("transform", transform)) if column.missing else (("transform", transform),),
        why=f"{span}{'; most are small' if skewed else ''}{_missing(column)}{'; infinite ones are clipped' if column.infinite else ''}",
    )


def _of_list(column: ColumnLook) -> Guess:
    shortest, longest = column.lengths or (0, 0)
    fractions = column.are_numbers and not column.is_whole
    if fractions and shortest == longest:
        return Guess(
            name=column.name,
            kind="vector",
            keys=(("dim", str(longest)),),
            why=f"lists of {longest} numbers{_missing(column)}",
        )
    if fractions:
        return Guess(name=column.name, why=f"lists of {shortest} to {longest} numbers with fractions")
    keys: list[tuple[str, str]] = [("max_len", str(min(max(longest, 1), LONGEST_SEQUENCE)))]
    return Guess(
        name=column.name,
        kind="sequence",
        keys=tuple(keys),
        why=f"lists of up to {longest}; {_count(column)} values{_missing(column, 'empty')}",
    )


def _with_shared_tables(features: list[Guess], columns: Sequence[ColumnLook]) -> list[Guess]:
    """Sequences of what another feature has one of share its rows."""
    ids = {each.name: each for each in features if each.kind == "id"}
    alike = {each.name: each.alike for each in columns if each.alike}
    made = []
    for each in features:
        other = alike.get(each.name)
        if each.kind == "sequence" and other in ids:
            keys = (("of", other), *each.keys)
            each = Guess(name=each.name, kind=each.kind, keys=keys, why=f"{each.why}; of {other}")  # noqa: PLW2901
        made.append(each)
    return made


def _group(features: Sequence[Guess]) -> str | None:
    """Who samples belong to, for GAUC."""
    for each in features:
        if each.kind == "id" and re.match(r"^(user|uid|member|account|visitor|device)(_?id)?$", each.name.lower()):
            return None if ("numeric", "true") in each.keys else each.name
    return None


def _numeric_or_text(kind: str) -> bool:
    return kind in ("text", "integer", "unsigned integer", "float32", "float64")


def _count(column: ColumnLook) -> str:
    return f"{column.distinct:,}" if column.distinct < ALL_DIFFERENT * column.values else f"{column.distinct:,} or more"


def _missing(column: ColumnLook, word: str = "missing") -> str:
    return f"; {column.missing_rate:.1%} {word}" if column.missing else ""
