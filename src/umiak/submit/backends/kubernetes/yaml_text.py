"""Plain data as YAML that people can read and every parser reads back. A decider.

print(as_yaml({"kind": "Job", "spec": {"completions": 2}}))

A text that YAML could take for something else is quoted; one with several lines is a block.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*\Z")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf"}
"""What YAML 1.1 or 1.2 takes for something else than text."""
_BLOCK = re.compile(r"[\x20-\x7e\n]+\Z")


def as_yaml(data: Any) -> str:
    """The text, which ends with a line's end."""
    return "".join(f"{line}\n" for line in _lines(data))


def _lines(data: Any) -> Iterator[str]:
    if isinstance(data, dict) and data:
        for key, item in data.items():
            yield from _entry(f"{_scalar(str(key))}:", item, indent_lists=False)
    elif isinstance(data, (list, tuple)) and data:
        for item in data:
            first, *others = _lines(item) if _is_nested(item) else _block("", item)
            yield f"- {first}"
            yield from (f"  {line}" if line else "" for line in others)
    else:
        yield _scalar(data)


def _entry(head: str, item: Any, *, indent_lists: bool) -> Iterator[str]:
    if not _is_nested(item):
        first, *others = _block("", item)
        yield f"{head} {first}"
        yield from others
        return
    yield head
    shift = "  " if isinstance(item, dict) or indent_lists else ""
    yield from (f"{shift}{line}" if line else "" for line in _lines(item))


def _is_nested(item: Any) -> bool:
    return isinstance(item, (dict, list, tuple)) and bool(item)


def _block(head: str, item: Any) -> list[str]:
    """A scalar: in one line, or as a block where that reads better and means the same."""
    if not isinstance(item, str) or "\n" not in item.rstrip("\n") or not _BLOCK.match(item) or item[0] in " \n":
        return [head + _scalar(item)]
    body, mark = (item[:-1], "|") if item.endswith("\n") else (item, "|-")
    if body.endswith("\n") or any(line != line.rstrip() for line in body.split("\n")):
        return [head + _scalar(item)]
    return [head + mark, *(f"  {line}" if line else "" for line in body.split("\n"))]


def _scalar(item: Any) -> str:
    if isinstance(item, str) and _PLAIN.match(item) and item.lower() not in _WORDS:
        return item
    if isinstance(item, (dict, list, tuple)):
        return "{}" if isinstance(item, dict) else "[]"
    return f'"{"".join(map(_letter, item))}"' if isinstance(item, str) else json.dumps(item)


def _letter(letter: str) -> str:
    """In quotes: as it is, or spelled out. JSON writes rare letters as pairs, which YAML does not know."""
    code = ord(letter)
    if code < 0x7F:
        return json.dumps(letter)[1:-1]
    return letter if letter.isprintable() else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
