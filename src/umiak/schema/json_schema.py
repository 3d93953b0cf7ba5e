"""JSON schemas of keys, for completion and checks in editors: what those of all files have in common. A decider.

    or_null({"type": "integer"})  ->  {"type": ["integer", "null"]}

They never refuse what is read: words may have capitals, and ``null`` counts as not said.
Draft 7, since that is what editors know.
"""

from __future__ import annotations

import json
import re

from umiak.schema import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from umiak.core.json_types import JsonObject
    from umiak.schema.keys import Key, Kind

    Schema: TypeAlias = JsonObject

DRAFT = "http://json-schema.org/draft-07/schema#"
TEXT: Schema = {"type": ["string", "number"]}
"""A number is a text as well: a slot may be named 1."""


WIDTH = 120
"""Of a line in a schema's file, but for long texts."""


def file_text(schema: Schema) -> str:
    """The text of a schema's file: what fits into a line is in one, a key with its types as well as a list of words."""
    return _written(schema, "", "") + "\n"


def _written(item: object, before: str, indent: str) -> str:
    line = before + json.dumps(item, ensure_ascii=False)
    if len(indent) + len(line) < WIDTH or not item or not isinstance(item, dict | list):
        return line
    rows = (
        [(f"{json.dumps(name)}: ", each) for name, each in item.items()]
        if isinstance(item, dict)
        else [("", each) for each in item]
    )
    inside = ",\n".join(f"{indent} {_written(each, name, f'{indent} ')}" for name, each in rows)
    first, last = "{}" if isinstance(item, dict) else "[]"
    return f"{before}{first}\n{inside}\n{indent}{last}"


def reference(name: str) -> Schema:
    """To a definition of the same file."""
    return {"$ref": f"#/definitions/{name}"}


def or_null(schema: Schema) -> Schema:
    """A key without a value counts as not said."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*dict.fromkeys([*types, "null"])]}


def _text(key: Key) -> Schema:
    return {**TEXT, **({"pattern": r"\S"} if key.required else {})}


def _whole(key: Key) -> Schema:
    schema: Schema = {"type": "integer", **_least(key), "maximum": kinds.MOST}
    return {"anyOf": [schema, {"enum": [*key.also]}]} if key.also else schema


def _number(key: Key) -> Schema:
    return {"type": "number", **_least(key)}


def _least(key: Key) -> Schema:
    return {} if key.least is None else {"minimum": key.least}


def _choice(key: Key) -> Schema:
    """The words as they are completed, or in any other spelling that is understood."""
    known = [*key.choices, *(other for other, _ in key.synonyms)]
    pattern = "|".join(_any_case(word) for word in known)
    words: list[str | int] = [*key.choices]
    if isinstance(key.default, int):
        words += [int(word) for word in key.choices]
    return {"anyOf": [{"enum": words}, {"type": "string", "pattern": rf"^\s*({pattern})\s*$"}]}


def _any_case(word: str) -> str:
    """A pattern without flags, which JSON schema does not have, and without escapes that JavaScript refuses."""
    assert re.fullmatch(r"[\w-]+", word), word
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in word)


BY_KEY: dict[Kind[Any], Callable[[Key], Schema]] = {
    kinds.NAME: _text,
    kinds.TEXT: _text,
    kinds.PATH: _text,
    kinds.WHOLE: _whole,
    kinds.NUMBER: _number,
    kinds.CHOICE: _choice,
}
"""Kinds of which a key says more: from where on, which words."""
