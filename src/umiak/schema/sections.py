"""One section of a config, read with its table of keys: types, ranges, choices, unknown and missing keys. A decider.

    said = read(keys.RUNNER, section, "runner ps_cluster", findings, keys.UNKNOWN)
    said.number("epochs"), said.place("epochs")

A value that is wrong is told and then counts as not said, so that everything else is still found.
``null`` counts as not said.
"""

from __future__ import annotations

from umiak.core.nearest import few, nearest, surely
from umiak.core.value import value
from umiak.schema import kinds
from umiak.schema.findings import Findings, Place
from umiak.schema.keys import BadValue, Empty, Key, WrongType, known
from umiak.schema.yaml_tree import Entry, Scalar, Section, free, kind_of, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.schema.yaml_tree import Node

NAMED_KEYS = 3
"""So many known keys are named where one is unknown."""


@value
class UnknownKeys:
    """What is said about keys that a table does not have."""

    why: str = ""
    """Why such a key is a warning; empty: it is a problem."""
    page: str
    """Has every key."""
    short: Mapping[str, str]
    """What people write for short."""
    is_open: bool = False
    """Whether a section is for other readers as well:
    then only a key that is like a known one is told, as a warning.
    """


class Said:
    """What a section says: values of the right kinds, with their places."""

    def __init__(self, table: tuple[Key, ...], place: Place, label: str) -> None:
        self.label = label
        self._keys = {key.name: key for key in table}
        self._start = place
        self._values: JsonObject = {}
        self._entries: dict[str, Entry] = {}
        self._spoken: dict[str, str] = {}
        self.wrong: set[str] = set()
        """Keys that were said with a wrong value: what follows from them is not told as well."""

    def take(self, entry: Entry, found: Any) -> None:
        self._entries[entry.key] = entry
        self._values[entry.key] = found

    def hear(self, entry: Entry) -> None:
        """A key is there, whatever its value."""
        self._spoken[entry.key] = entry.spoken

    def said(self, name: str) -> bool:
        return name in self._values

    def place(self, name: str) -> Place:
        """Where a key's value stands; if it was not said, where the section begins."""
        return self._entries[name].node.place if name in self._entries else self._start

    def key_place(self, name: str) -> Place:
        return self._entries[name].place if name in self._entries else self._start

    def spoken(self, name: str) -> str:
        """The key as it was written, or as one would write it."""
        return self._spoken.get(name, name)

    def get(self, name: str) -> Any:
        """What was said, or the default."""
        return self._values.get(name, self._keys[name].default)

    def node(self, name: str) -> Node | None:
        return self._entries[name].node if name in self._entries else None

    def text(self, name: str) -> str | None:
        value = self.get(name)
        return None if value is None else str(value)

    def number(self, name: str) -> int:
        return int(self.get(name))

    def truth(self, name: str) -> bool:
        return bool(self.get(name))

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(self.get(name) or ())


def read(table: tuple[Key, ...], section: Section, label: str, findings: Findings, unknown: UnknownKeys) -> Said:
    """Everything that a section says; what is wrong with it goes to ``findings``."""
    said = Said(table, section.place, label)
    by_name = {key.name: key for key in table}
    for entry in section.entries:
        said.hear(entry)
        key = by_name.get(entry.key)
        if key is None:
            _unknown(entry, said, table, findings, unknown)
        elif entry.excused:
            said.wrong.add(key.name)
        elif isinstance(entry.node, Scalar) and entry.node.data is None:
            continue
        elif key.refused:
            findings.problem("UM-CONFIG-017", entry.place, f"{label}: not supported: {entry.spoken}", why=key.refused)
        elif key.settled:
            continue
        elif key.ignored:
            if free(entry.node):  # False, 0 and nothing ask for nothing.
                findings.warning("UM-CONFIG-018", entry.place, f"{label}: no effect: {entry.spoken}", why=key.ignored)
        else:
            _take(said, key, entry, findings)
    for key in table:
        if key.required and not said.said(key.name) and key.name not in said.wrong:
            missing = said.spoken(key.name)
            findings.problem(
                "UM-CONFIG-011",
                section.place,
                f"{label}: {missing} is missing",
                hint=f"write `{missing}:` with {key.kind.phrase}",
            )
    return said


def _unknown(entry: Entry, said: Said, table: tuple[Key, ...], findings: Findings, unknown: UnknownKeys) -> None:
    names = [key.name for key in table if known(key)]
    what = f"{said.label}: unknown key: {shortened(entry.spoken)}"
    meant = surely(entry.key, names) or unknown.short.get(entry.key.lower())
    if unknown.is_open:
        if meant in names and not said.said(str(meant)):
            hint = f"if `{meant}` was meant, write that"
            findings.warning("UM-CONFIG-012", entry.place, what, why=unknown.why, hint=hint)
        return
    if meant in names:
        said.wrong.add(str(meant))
        findings.problem("UM-CONFIG-012", entry.place, what, hint=f"did you mean `{meant}`?")
        return
    near = nearest(entry.key.lower(), names)
    like = dict.fromkeys([*([near] if near else []), *few(entry.key, names)])
    tell = findings.warning if unknown.why else findings.problem
    hint = f"{_meant([*like][:NAMED_KEYS])}all keys: {unknown.page}"
    tell("UM-CONFIG-012", entry.place, what, why=unknown.why or None, hint=hint)


def _meant(names: list[str]) -> str:
    return f"if {' or '.join([f'`{name}`' for name in names])} was meant, write that; " if names else ""


def _take(said: Said, key: Key, entry: Entry, findings: Findings) -> None:
    try:
        value = key.kind.read(key, entry.node)
    except WrongType:
        needs = f"one of {', '.join(key.choices)}" if key.kind is kinds.CHOICE else key.kind.phrase
        findings.problem(
            "UM-CONFIG-013",
            entry.node.place,
            f"{said.label}: {entry.spoken} must be {needs}, not {kind_of(entry.node)}",
            hint=_type_hint(key, entry),
        )
        said.wrong.add(key.name)
    except BadValue as bad:
        findings.problem(
            key.kind.code, entry.node.place, f"{said.label}: {entry.spoken}: {bad.what}", why=bad.why, hint=bad.hint
        )
        said.wrong.add(key.name)
    else:
        if value in (None, "", ()) and key.empty is not Empty.TAKEN:
            if key.required or key.empty is Empty.REFUSED:
                findings.problem("UM-CONFIG-011", entry.node.place, f"{said.label}: {entry.spoken} is empty")
                said.wrong.add(key.name)
            return
        said.take(entry, value)


def _type_hint(key: Key, entry: Entry) -> str | None:
    node = entry.node
    if not isinstance(node, Scalar):
        return None
    if isinstance(node.data, str):
        word = node.data.strip().lower()
        is_number = key.kind is kinds.WHOLE and word.removeprefix("-").isdecimal()
        if is_number or (key.kind is kinds.TRUTH and word in ("true", "false")):
            return f"write it without quotes: `{entry.spoken}: {word}`"
    elif isinstance(node.data, bool) and key.kind in (kinds.NAME, kinds.TEXT, kinds.PATH, kinds.NAMES, kinds.CHOICE):
        return f'put quotes around it: `{entry.spoken}: "{node.text}"`'
    return None
