"""Reads plain JSON with a table of fields: what is right comes out, what is wrong becomes a problem with its path.
A decider.

    notes = FieldNotes()
    read = object_of(FIELDS, manifest.get("spec"), "spec", notes)     {"withGloo": 1, "worker": {...}}

Whatever the JSON is, nothing is raised: a field that can't be read is left out, and all problems are found at once.
"""

from __future__ import annotations

import json

from umiak.core.nearest import nearest
from umiak.core.problem import Problem
from umiak.core.shown import one_line
from umiak.core.value import replace
from umiak.kube import times
from umiak.paddlejob.fields import FieldKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.paddlejob.fields import ResourceField

LONGEST_SHOWN = 60
MOST_ITEMS = 255
LONGEST_TEXT = 253
"""Of a field that is one word or name."""


class FieldNotes:
    """Problems, which keep a job from being started, and warnings, which do not. The only thing here that changes."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def problem(self, code: str, where: str, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        self.problems.append(Problem(code=code, where=where, what=what, why=why, hint=hint))

    def warning(self, code: str, where: str, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        self.warnings.append(Problem(code=code, where=where, what=what, why=why, hint=hint))


def shown(item: object) -> str:
    """A value in a message, in one short line."""
    try:
        text = json.dumps(item, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(item).__name__}"
    return one_line(text, LONGEST_SHOWN)


def text_in(item: object) -> str:
    """A text; empty for anything else."""
    return item if isinstance(item, str) else ""


def time_in(item: object) -> float | None:
    """The seconds of a time such as 2026-01-31T12:00:00Z; None for anything else."""
    try:
        return times.maybe(item) if isinstance(item, str) else None
    except (OverflowError, TypeError):
        return None


def object_of(
    fields: Iterable[ResourceField],
    item: object,
    path: str,
    notes: FieldNotes,
    *,
    misspelled: dict[str, str] | None = None,
) -> JsonObject:
    """The fields of an object that can be read, by name. None and a missing object are an empty one."""
    known = {field.name: field for field in fields}
    values: JsonObject = {}
    if item is not None and not isinstance(item, dict):
        notes.problem("UM-PDJ-001", path, f"must be an object: {shown(item)}")
        item = None
    for name, value in (item or {}).items():
        field = known.get(name)
        if field is None or name in (misspelled or {}):
            _unknown(str(name), known, path, notes, misspelled or {})
        elif value is not None:
            read = _read(field, value, f"{path}.{name}", notes)
            if read is not None:
                values[name] = read
    for field in known.values():
        if field.required and (item or {}).get(field.name) is None:
            notes.problem("UM-PDJ-002", f"{path}.{field.name}", "is required", hint=f"it must be {field.kind.value}")
    return values


def _unknown(
    name: str, known: dict[str, ResourceField], path: str, notes: FieldNotes, misspelled: dict[str, str]
) -> None:
    meant = misspelled.get(name) or nearest(name, known)
    notes.warning(
        "UM-PDJ-010",
        f"{path}.{one_line(name, LONGEST_SHOWN)}",
        "unknown field: it has no effect",
        hint=f"did you mean `{meant}`?" if meant else None,
    )


def _read(field: ResourceField, item: object, path: str, notes: FieldNotes) -> object:
    """The value of a field; None if it has none that can be used."""
    if field.unused:
        notes.warning("UM-PDJ-011", path, "has no effect", why=field.unused)
        return None
    if field.kind is FieldKind.INTEGER:
        return _integer(field, item, path, notes)
    if field.kind is FieldKind.TEXT:
        return _text(field, item, path, notes)
    if field.kind is FieldKind.BOOLEAN:
        return item if isinstance(item, bool) else _wrong(field, item, path, notes)
    if field.kind is FieldKind.OBJECT:
        return object_of(field.fields, item, path, notes)
    if field.kind is FieldKind.QUANTITIES:
        return _quantities(field, item, path, notes)
    if field.kind is FieldKind.TEMPLATE:
        return item if isinstance(item, dict) else _wrong(field, item, path, notes)
    if field.kind in (FieldKind.LIST, FieldKind.WORDS, FieldKind.CODES):
        return _list(field, item, path, notes)
    raise AssertionError(field.kind)  # the other kinds stand in status only, which `report` reads


def _list(field: ResourceField, items: object, path: str, notes: FieldNotes) -> tuple[object, ...] | None:
    """Its items that can be read."""
    if not isinstance(items, list):
        _wrong(field, items, path, notes)
        return None
    if len(items) > MOST_ITEMS:
        notes.problem("UM-PDJ-003", path, f"has more than {MOST_ITEMS} items: {len(items)}")
        return None
    found: list[object] = []
    for number, item in enumerate(items):
        where = f"{path}[{number}]"
        if field.kind is FieldKind.LIST:
            found.append(object_of(field.fields, item, where, notes))
        else:
            one = replace(field, kind=FieldKind.TEXT if field.kind is FieldKind.WORDS else FieldKind.INTEGER)
            found.append(_read(one, item, where, notes))
    return tuple([each for each in found if each is not None])


def _wrong(field: ResourceField, item: object, path: str, notes: FieldNotes) -> Any:
    """None: there is no value that could be used."""
    notes.problem("UM-PDJ-001", path, f"must be {field.kind.value}: {shown(item)}")


def _integer(field: ResourceField, item: object, path: str, notes: FieldNotes) -> int | None:
    if isinstance(item, bool) or not isinstance(item, int):
        _wrong(field, item, path, notes)
        return None
    if field.least is not None and item < field.least:
        notes.problem("UM-PDJ-003", path, f"must be {field.least} or more: {shown(item)}")
        return field.least
    if field.most is not None and item > field.most:
        notes.problem("UM-PDJ-003", path, f"must be at most {field.most}: {shown(item)}")
        return field.most
    return item


def _text(field: ResourceField, item: object, path: str, notes: FieldNotes) -> str | None:
    if not isinstance(item, str):
        _wrong(field, item, path, notes)
        return None
    if len(item) > LONGEST_TEXT:
        notes.problem("UM-PDJ-003", path, f"is longer than {LONGEST_TEXT} characters: {shown(item)}")
        return None
    if field.words and item and item not in field.words:
        _unknown_word(field, item, path, notes)
        return None
    return item


def _unknown_word(field: ResourceField, item: str, path: str, notes: FieldNotes) -> None:
    by_lower = {word.lower(): word for word in field.words}
    meant = nearest(item.lower(), by_lower)
    every = f"it is one of {', '.join(field.words)}"
    hint = f"did you mean `{by_lower[meant]}`? {every}" if meant else every
    if field.is_old:
        why = f"the default counts instead: {field.default}" if field.default else None
        notes.warning("UM-PDJ-009", path, f"unknown word: {shown(item)}", why=why, hint=hint)
    else:
        notes.problem("UM-PDJ-009", path, f"unknown word: {shown(item)}", hint=hint)


def _quantities(field: ResourceField, item: object, path: str, notes: FieldNotes) -> tuple[tuple[str, str], ...] | None:
    if not isinstance(item, dict):
        _wrong(field, item, path, notes)
        return None
    quantities = []
    for name, amount in sorted(item.items()):
        if isinstance(amount, bool) or not isinstance(amount, (str, int, float)):
            notes.problem(
                "UM-PDJ-001", f"{path}.{one_line(name, LONGEST_SHOWN)}", f"must be a quantity: {shown(amount)}"
            )
        else:
            quantities.append((name, amount if isinstance(amount, str) else shown(amount)))
    return tuple(quantities)
