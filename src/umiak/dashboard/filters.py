"""Which runs a filter means, and their order. A decider.

    chosen(rows, "state:running auc ctr -old", sort="-started")

Words are looked for in everything that is text; ``field:text`` in one field, ``-`` before either leaves those runs out. All words have to fit.
"""

from __future__ import annotations

from umiak.dashboard.rows import RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FIELDS: dict[str, Callable[[RunRow], str]] = {
    "state": lambda row: row.state,
    "status": lambda row: row.state,
    "kind": lambda row: row.kind.value,
    "name": lambda row: row.name,
    "place": lambda row: row.place,
    "directory": lambda row: row.directory,
    "metric": lambda row: row.metric,
    "reason": lambda row: row.reason,
    "id": lambda row: row.id,
}
_TEXT: dict[str, Callable[[RunRow], str]] = {
    "state": lambda row: row.state,
    "name": lambda row: row.name,
    "place": lambda row: row.place,
    "kind": lambda row: row.kind.value,
}
_NUMBER: dict[str, Callable[[RunRow], float | None]] = {
    "started": lambda row: row.started_s,
    "changed": lambda row: row.changed_s,
    "step": lambda row: None if row.step is None else (row.epoch or 0) * 1e9 + row.step,
    "speed": lambda row: row.samples_per_s,
    "metric": lambda row: row.metric_value,
    "nodes": lambda row: row.nodes_up,
}
SORTS = (*_TEXT, *_NUMBER)
DEFAULT_SORT = "-started"
MOST_WORDS = 32


def chosen(rows: Iterable[RunRow], query: str = "", sort: str = DEFAULT_SORT) -> list[RunRow]:
    """The rows that fit, in order. An unknown order is the default one."""
    tests = [_test_of(word) for word in query.split()[:MOST_WORDS]]
    found = [row for row in rows if all(test(row) for test in tests)]
    return in_order(found, sort)


def in_order(rows: Sequence[RunRow], sort: str) -> list[RunRow]:
    """By one column; rows that have nothing there are last, whichever way."""
    name, is_down = (sort[1:], True) if sort.startswith("-") else (sort, False)
    if name in _TEXT:
        text = _TEXT[name]
        return sorted(rows, key=lambda row: text(row).lower(), reverse=is_down)
    number = _NUMBER.get(name)
    if number is None:
        return in_order(rows, DEFAULT_SORT)
    with_one = [row for row in rows if number(row) is not None]
    without = [row for row in rows if number(row) is None]
    return [*sorted(with_one, key=lambda row: number(row) or 0.0, reverse=is_down), *without]


def _test_of(word: str) -> Callable[[RunRow], bool]:
    if word.startswith("-") and len(word) > 1:
        other = _test_of(word[1:])
        return lambda row: not other(row)
    name, colon, wanted = word.lower().partition(":")
    if colon and name in FIELDS:
        field = FIELDS[name]
        return lambda row: wanted in field(row).lower()
    text = word.lower()
    return lambda row: text in row.text
