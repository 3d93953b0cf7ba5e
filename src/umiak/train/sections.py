"""One section of a config, read with its table of keys: types, ranges, choices, unknown and missing keys. A decider.

    said = read(keys.RUNNER, section, "runner ps_cluster", findings)
    said.number("epochs"), said.place("epochs")

A value that is wrong is told and then counts as not said, so that everything else is still found. ``null`` counts as not said.
"""

from __future__ import annotations

import math

from umiak.core.nearest import few, nearest, surely
from umiak.train import days, slots
from umiak.train.document import Entry, Listing, Scalar, Section, kind_of, shortened
from umiak.train.findings import Findings, Place, choices
from umiak.train.keys import Key, Kind, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.train.config import DenseSlot
    from umiak.train.document import Node

_SHORT = {"lr": "learning_rate", "rate": "learning_rate", "bs": "batch_size"}
"""What people write for short."""

PAGE = "docs/reference/config.md"
"""Has every key."""
NAMED_KEYS = 3
"""So many known keys are named where one is unknown."""

MOST = 1 << 53
"""No count of a config is larger."""


class Said:
    """What a section says: values of the right kinds, with their places."""

    def __init__(self, table: tuple[Key, ...], place: Place, label: str) -> None:
        self.label = label
        self._keys = {key.name: key for key in table}
        self._start = place
        self._values: dict[str, Any] = {}
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
        found = self.get(name)
        return None if found is None else str(found)

    def number(self, name: str) -> int:
        return int(self.get(name))

    def truth(self, name: str) -> bool:
        return bool(self.get(name))

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(self.get(name) or ())


def read(table: tuple[Key, ...], section: Section, label: str, findings: Findings) -> Said:
    """Everything that a section says; what is wrong with it goes to ``findings``."""
    said = Said(table, section.place, label)
    by_name = {key.name: key for key in table}
    for entry in section.entries:
        said.hear(entry)
        key = by_name.get(entry.key)
        if key is None:
            _unknown(entry, said, table, findings)
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
                hint=f"write `{missing}:` with {key.kind.value}",
            )
    return said


def free(node: Node) -> Any:
    """A tree as plain data: mappings become dictionaries and lists become tuples."""
    if isinstance(node, Section):
        return {entry.key: free(entry.node) for entry in node.entries}
    if isinstance(node, Listing):
        return tuple([free(each) for each in node.items])
    return node.data


def _unknown(entry: Entry, said: Said, table: tuple[Key, ...], findings: Findings) -> None:
    names = [key.name for key in table if known(key)]
    what = f"{said.label}: unknown key: {shortened(entry.spoken)}"
    meant = surely(entry.key, names) or _SHORT.get(entry.key.lower())
    if meant in names:
        said.wrong.add(str(meant))
        findings.problem("UM-CONFIG-012", entry.place, what, hint=f"did you mean `{meant}`?")
        return
    # A model or a reader class may read it: PaddleRec's do.
    near = nearest(entry.key.lower(), names)
    like = dict.fromkeys([*([near] if near else []), *few(entry.key, names)])
    findings.warning(
        "UM-CONFIG-012",
        entry.place,
        what,
        why="it is passed on: a reader class or a model may ask for it with envs.get_global_env",
        hint=f"{_meant([*like][:NAMED_KEYS])}all keys: {PAGE}",
    )


def _meant(names: list[str]) -> str:
    return f"if {' or '.join([f'`{name}`' for name in names])} was meant, write that; " if names else ""


def _take(said: Said, key: Key, entry: Entry, findings: Findings) -> None:
    try:
        found = _READERS[key.kind](key, entry.node)
    except _WrongType:
        needs = f"one of {', '.join(key.choices)}" if key.kind is Kind.CHOICE else key.kind.value
        findings.problem(
            "UM-CONFIG-013",
            entry.node.place,
            f"{said.label}: {entry.spoken} must be {needs}, not {kind_of(entry.node)}",
            hint=_type_hint(key, entry),
        )
        said.wrong.add(key.name)
    except _BadValue as bad:
        code = "UM-CONFIG-021" if key.kind in (Kind.SPARSE, Kind.DENSE) else "UM-CONFIG-014"
        findings.problem(
            code, entry.node.place, f"{said.label}: {entry.spoken}: {bad.what}", why=bad.why, hint=bad.hint
        )
        said.wrong.add(key.name)
    else:
        if found in (None, "", ()):
            if key.required:
                findings.problem("UM-CONFIG-011", entry.node.place, f"{said.label}: {entry.spoken} is empty")
                said.wrong.add(key.name)
            return
        said.take(entry, found)


class _WrongType(Exception):
    """Not what this key takes."""


class _BadValue(Exception):
    def __init__(self, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what, self.why, self.hint = what, why, hint


def _type_hint(key: Key, entry: Entry) -> str | None:
    node = entry.node
    if not isinstance(node, Scalar):
        return None
    if isinstance(node.data, str):
        word = node.data.strip().lower()
        is_number = key.kind is Kind.WHOLE and word.removeprefix("-").isdecimal()
        if is_number or (key.kind is Kind.TRUTH and word in ("true", "false")):
            return f"write it without quotes: `{entry.spoken}: {word}`"
    elif isinstance(node.data, bool) and key.kind in (Kind.NAME, Kind.TEXT, Kind.PATH, Kind.NAMES, Kind.CHOICE):
        return f'put quotes around it: `{entry.spoken}: "{node.text}"`'
    return None


def _word(node: Node) -> str:
    """The text of a scalar as it was written; a number is a name as well."""
    if not isinstance(node, Scalar) or node.data is None or isinstance(node.data, bool):
        raise _WrongType
    return node.data if isinstance(node.data, str) else node.text


def _text(_: Key, node: Node) -> str:
    return _word(node).strip()


def _whole(key: Key, node: Node) -> int:
    if not isinstance(node, Scalar) or type(node.data) is not int:
        raise _WrongType
    number = node.data
    if key.least is not None and number < key.least and number not in key.also:
        also = "".join(f", or {each}" for each in key.also)
        raise _BadValue(
            f"less than {key.least}: {shortened(node.text)}", hint=f"expected an integer, {key.least} or more{also}"
        )
    if number > MOST:
        raise _BadValue(f"too large: {shortened(node.text)}")
    return number


def _number(key: Key, node: Node) -> float:
    if not isinstance(node, Scalar) or type(node.data) not in (int, float):
        raise _WrongType
    number = float(node.data)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise _BadValue(f"not a finite number: {shortened(node.text)}")
    if key.least is not None and number < key.least:
        raise _BadValue(f"less than {key.least}: {shortened(node.text)}")
    return number


def _truth(_: Key, node: Node) -> bool:
    if not isinstance(node, Scalar) or type(node.data) is not bool:
        raise _WrongType
    return node.data


def _choice(key: Key, node: Node) -> str | int:
    word = _word(node).strip()
    lower = word.lower()
    found = {each.lower(): each for each in key.choices}.get(lower) or {
        other.lower(): each for other, each in key.synonyms
    }.get(lower)
    if found is None:
        why = dict(key.refused_words).get(lower)
        what = f"not supported: {word}" if why else f"unknown value: {shortened(word) or 'nothing'}"
        raise _BadValue(what, why=why, hint=choices(word, key.choices))
    return int(found) if isinstance(key.default, int) else found


def _names(_: Key, node: Node) -> tuple[str, ...]:
    words = node.items if isinstance(node, Listing) else (node,)
    found = tuple([_word(each).strip() for each in words])
    if "" in found:
        raise _BadValue("empty name")
    return found


def _sparse(_: Key, node: Node) -> tuple[str, ...]:
    try:
        return slots.sparse(_slot_text(node))
    except ValueError as error:
        raise _BadValue(str(error)) from None


def _dense(_: Key, node: Node) -> tuple[DenseSlot, ...]:
    try:
        return slots.dense(_slot_text(node))
    except ValueError as error:
        raise _BadValue(str(error)) from None


def _slot_text(node: Node) -> str:
    """Slots as one text, or as a list of texts."""
    return " ".join(_word(each) for each in node.items) if isinstance(node, Listing) else _word(node)


def _devices(key: Key, node: Node) -> tuple[int, ...] | None:
    words = [_word(each) for each in node.items] if isinstance(node, Listing) else _word(node).split(",")
    if [word.strip() for word in words] == [""]:
        return None
    numbers = []
    for word in map(str.strip, words):
        if not (word.isascii() and word.isdecimal() and len(word) < 6):
            raise _BadValue(f"not a device index: {shortened(word) or 'nothing'}", hint=f"write {key.kind.value}")
        numbers.append(int(word))
    if len({*numbers}) < len(numbers):
        raise _BadValue("duplicate device")
    return tuple(numbers)


def _day(_: Key, node: Node) -> str:
    word = _word(node).strip().replace("-", "")
    if not days.is_day(word):
        raise _BadValue(f"not a date: {shortened(_word(node))}", hint="write it as 20260131")
    return word


def _bounds(_: Key, node: Node) -> tuple[float, float]:
    if not isinstance(node, Listing) or len(node.items) != 2:
        raise _WrongType
    low, high = (_number(_, each) for each in node.items)
    return low, high


def _mapping(_: Key, node: Node) -> Any:
    if not isinstance(node, Section):
        raise _WrongType
    return free(node)


def _sections(_: Key, node: Node) -> tuple[Node, ...]:
    if not isinstance(node, Listing):
        raise _WrongType
    return node.items


_READERS = {
    Kind.NAME: _text,
    Kind.TEXT: _text,
    Kind.PATH: _text,
    Kind.WHOLE: _whole,
    Kind.NUMBER: _number,
    Kind.TRUTH: _truth,
    Kind.CHOICE: _choice,
    Kind.NAMES: _names,
    Kind.SPARSE: _sparse,
    Kind.DENSE: _dense,
    Kind.DEVICES: _devices,
    Kind.DAY: _day,
    Kind.BOUNDS: _bounds,
    Kind.MAPPING: _mapping,
    Kind.SECTIONS: _sections,
}
