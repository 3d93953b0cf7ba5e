"""TOML to the same tree as YAML, in which every key knows its line. A decider.

    parse('[place.lab]\nbackend = "ssh"\n', "umiak.toml", findings)   -> Section with one entry

The standard library reads the text (Python 3.11; before that the package tomli) and keeps no lines,
so they are looked for: the header of a table, then the key below it. An inline table or a list has the line of its key.
"""

from __future__ import annotations

import re
import sys

from umiak.schema.findings import Findings, Place
from umiak.schema.yaml_tree import Entry, Listing, Scalar, Section, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from umiak.core.json_types import JsonMapping
    from umiak.schema.yaml_tree import Node

_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^(\s*)("[^"]*"|'[^']*'|[A-Za-z0-9_.\- ]+?)\s*=""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([A-Za-z0-9_\-]+)""")
HINT = 'tables are `[place.lab]`, texts have quotes: `backend = "ssh"`'


def parse(text: str, source: str, findings: Findings) -> Section | None:
    """The tree of a text, or None where it is not TOML."""
    tomllib = _reader()
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, line, column = _place_of(str(error))
        findings.problem(
            "UM-CONFIG-003", Place(source=source, line=line, column=column), f"not TOML: {what}", hint=HINT
        )
        return None
    except RecursionError:
        findings.problem("UM-CONFIG-004", Place(source=source, line=1, column=1), "nested too deeply")
        return None
    return _Placing(source, _lines(text)).section(data, ())


def _reader() -> Any:
    try:
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
    except ImportError as missing:
        raise not_installed(
            "tomli", "tomli is not installed, so this Python can't read an umiak.toml", missing
        ) from missing
    return tomllib


def _place_of(message: str) -> tuple[str, int, int]:
    """What the library says, and where: ``... (at line 3, column 5)``."""
    match = re.search(r"\(at (?:line (\d+), column (\d+)|end of document)\)", message)
    what = message[: match.start()].strip() if match else message
    if match and match[1]:
        return what, int(match[1]), int(match[2])
    return what, 1, 1


def _lines(text: str) -> dict[tuple[str, ...], tuple[int, int]]:
    """Line and column of every table and key that stands at the beginning of a line."""
    lines: dict[tuple[str, ...], tuple[int, int]] = {}
    inside: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            inside = _parts(header[1])
            for length in range(1, len(inside) + 1):
                lines.setdefault(inside[:length], (number, line.index("[") + 1))
        elif key := _KEY.match(line):
            parts = _parts(key[2])
            for length in range(1, len(parts) + 1):
                lines.setdefault((*inside, *parts[:length]), (number, len(key[1]) + 1))
    return lines


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(double or single or bare for double, single, bare in _PART.findall(dotted))


class _Placing:
    """Gives everything that was read its place."""

    def __init__(self, source: str, lines: Mapping[tuple[str, ...], tuple[int, int]]) -> None:
        self._source, self._lines = source, lines

    def section(self, data: JsonMapping, path: tuple[str, ...]) -> Section:
        entries = [
            Entry(key=key, place=self._place((*path, key)), node=self._node(item, (*path, key)))
            for key, item in data.items()
        ]
        return Section(place=self._place(path), entries=tuple(entries))

    def _node(self, item: Any, path: tuple[str, ...]) -> Node:
        if isinstance(item, dict):
            return self.section(item, path)
        if isinstance(item, list):
            return Listing(place=self._place(path), items=tuple([self._node(each, path) for each in item]))
        if isinstance(item, (str, int, float)):
            text = str(item).lower() if isinstance(item, bool) else str(item)
            return Scalar(place=self._place(path), data=item, text=text)
        return Scalar(place=self._place(path), data=item.isoformat(), text=item.isoformat())  # a date or a time

    def _place(self, path: tuple[str, ...]) -> Place:
        """Of the key, or of what it stands in."""
        while path and path not in self._lines:
            path = path[:-1]
        line, column = self._lines.get(path, (1, 1))
        return Place(source=self._source, line=line, column=column)
