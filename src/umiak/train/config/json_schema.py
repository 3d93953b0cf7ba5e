"""The JSON schema of a config.yaml in both layouts, made from the tables of keys: completion and checks in editors. A decider.

    schema()["definitions"]["runner"]["properties"]["epochs"]
        -> {"type": ["integer", "null"], "minimum": 1, "description": ...}

It never refuses what the trainer accepts: words may have capitals, ``null`` counts as not said, and keys that only a model or a
reader class reads are let through. What one key says about another (a phase's name, a strategy's own settings) is left to
``umiak train --check``. Draft 7, since that is what editors know.
"""

from __future__ import annotations

import re

from umiak.schema import kinds
from umiak.schema.keys import Key
from umiak.train.config import flat_keys, keys, optimizers, tables
from umiak.train.config.kinds import DAY, DENSE, DEVICES, SPARSE, SWITCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    Schema: TypeAlias = dict[str, Any]

FILE = "config.schema.json"
"""The schema's file, in the package `umiak.train` and so in every installation."""


def schema() -> Schema:
    """All of it."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "config.yaml of umiak train",
        "description": "In the layout of PaddleRec 1.8.5 (lists of runners, phases and datasets), or of newer PaddleRec "
        "(one mapping runner).",
        "type": "object",
        "if": {
            "properties": {"runner": {"type": "object"}},
            "required": ["runner"],
            "not": {"anyOf": [{"required": ["phase"]}, {"required": ["dataset"]}]},
        },
        "then": _reference("newer_layout"),
        "else": _reference("older_layout"),
        "definitions": {name: _section(*made) for name, made in _SECTIONS.items()},
    }


def text() -> str:
    """The text of its file."""
    import json

    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _section(table: tuple[Key, ...], inner: dict[str, Schema]) -> Schema:
    """A mapping. Keys that are not in its table are passed on to models and reader classes."""
    made: Schema = {"type": "object", "properties": {key.name: _key(key, inner.get(key.name)) for key in table}}
    required = [key.name for key in table if key.required]
    return {**made, "required": required} if required else made


def _key(key: Key, inner: Schema | None) -> Schema:
    if key.refused:
        return {"type": "null", "description": f"Not supported. {_plain(key.refused)}"}
    if key.ignored:
        told = f"No effect: {_plain(key.ignored)}"
        return {
            "description": told,
            "deprecationMessage": told,
        }  # not a word of the standard: editors strike the key out
    if key.settled:
        return {"description": f"Not required: {_plain(key.settled)}"}
    made = {**(inner or _KINDS[key.kind](key))}
    if not key.required:
        made = _or_null(made)
    description = " ".join(filter(None, [_plain(key.meaning), _default(key)]))
    if description:
        made["description"] = description
    if key.default is not None:
        made["default"] = key.default
    return made


def _or_null(made: Schema) -> Schema:
    """A key without a value counts as not said."""
    if "$ref" in made:
        return {"anyOf": [made, {"type": "null"}]}
    if "anyOf" in made:
        return {**made, "anyOf": [*made["anyOf"], {"type": "null"}]}
    kinds = made["type"] if isinstance(made["type"], list) else [made["type"]]
    return {**made, "type": [*kinds, "null"]}


def _plain(meaning: str) -> str:
    """A meaning without the links of the reference page."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r": \[[^\]]*\]\([^)]*\)\.", ".", meaning))


def _default(key: Key) -> str:
    return f"Default: {_plain(key.default_said)}." if key.default_said else ""


def _reference(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


# ---- kinds


def _word(key: Key) -> Schema:
    """A text. A number is one as well: a slot may be named 1."""
    return {"type": ["string", "number"], **({"pattern": r"\S"} if key.required else {})}


def _whole(key: Key) -> Schema:
    made: Schema = {"type": "integer", **_least(key), "maximum": kinds.MOST}
    return {"anyOf": [made, {"enum": [*key.also]}]} if key.also else made


def _number(key: Key) -> Schema:
    return {"type": "number", **_least(key)}


def _least(key: Key) -> Schema:
    return {} if key.least is None else {"minimum": key.least}


def _truth(_: Key) -> Schema:
    return {"type": "boolean"}


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


def _names(key: Key) -> Schema:
    one = {"type": ["string", "number"], "pattern": r"\S"}
    return {"anyOf": [one, {"type": "array", "items": one, **({"minItems": 1} if key.required else {})}]}


def _slots(pattern: str) -> Schema:
    one = {"type": ["string", "number"]}
    return {"anyOf": [{**one, "pattern": pattern}, {"type": "array", "items": one}]}


def _sparse(_: Key) -> Schema:
    return _slots(r"^[^:,\[\]]*$")


def _dense(_: Key) -> Schema:
    return _slots(r"^\s*([^\s:,\[\]]+:([0-9]+|\[\s*[0-9]+\s*(,\s*[0-9]+\s*)*\])(\s+|$))*$")


def _devices(_: Key) -> Schema:
    number = r"\s*[0-9]{1,5}\s*"
    one = {"type": ["string", "integer"], "minimum": 0}
    return {"anyOf": [{**one, "pattern": rf"^\s*$|^{number}(,{number})*$"}, {"type": "array", "items": one}]}


def _day(_: Key) -> Schema:
    return {"type": ["string", "integer"], "pattern": r"^\s*[0-9]{4}-?[0-9]{2}-?[0-9]{2}\s*$"}


def _bounds(_: Key) -> Schema:
    return {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}


def _mapping(_: Key) -> Schema:
    return {"type": "object"}


def _switch(_: Key) -> Schema:
    return {"anyOf": [{"type": "boolean"}, {"enum": [0, 1]}]}


def _sections(_: Key) -> Schema:
    return {"type": "array", "items": {"type": "object"}}


_KINDS = {
    kinds.NAME: _word,
    kinds.TEXT: _word,
    kinds.PATH: _word,
    kinds.WHOLE: _whole,
    kinds.NUMBER: _number,
    kinds.TRUTH: _truth,
    kinds.CHOICE: _choice,
    kinds.NAMES: _names,
    SPARSE: _sparse,
    DENSE: _dense,
    DEVICES: _devices,
    DAY: _day,
    SWITCH: _switch,
    kinds.BOUNDS: _bounds,
    kinds.MAPPING: _mapping,
    kinds.SECTIONS: _sections,
}


def _list_of(name: str) -> Schema:
    return {"type": "array", "items": _reference(name), "minItems": 1}


def _ranges(above_zero: Iterable[str], below_one: Iterable[str]) -> dict[str, Schema]:
    """Numbers that a rule wants to be above 0, or from 0 up to 1."""
    positive: Schema = {"type": "number", "exclusiveMinimum": 0}
    rate: Schema = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
    return {**dict.fromkeys(above_zero, positive), **dict.fromkeys(below_one, rate)}


_WHOLE_CONFIG: dict[str, Schema] = {
    "hyper_parameters": _reference("hyper_parameters"),
    "table_parameters": {"type": "object", "additionalProperties": _reference("table")},
}

_SECTIONS: dict[str, tuple[tuple[Key, ...], dict[str, Schema]]] = {
    "older_layout": (
        keys.GLOBAL,
        {**_WHOLE_CONFIG, **{name: _list_of(name) for name in ("runner", "phase", "dataset")}},
    ),
    "newer_layout": (flat_keys.FLAT_GLOBAL, {**_WHOLE_CONFIG, "runner": _reference("newer_runner")}),
    "runner": (keys.RUNNER, {}),
    "phase": (keys.PHASE, {}),
    "dataset": (keys.DATASET, {}),
    "newer_runner": (flat_keys.FLAT, {}),
    "hyper_parameters": (
        (Key(name="optimizer", meaning="Optimizer of the model.", kind=kinds.MAPPING),),
        {"optimizer": _reference("optimizer")},
    ),
    "optimizer": (
        optimizers.OPTIMIZER,
        {"schedule": _reference("schedule"), **_ranges(optimizers.ABOVE_ZERO, optimizers.BELOW_ONE)},
    ),
    "schedule": (optimizers.SCHEDULE, {}),
    "table": (tables.TABLE, {"accessor": _reference("accessor")}),
    "accessor": (
        tables.ACCESSOR,
        {
            "embed_sgd_param": _reference("row_rule"),
            "embedx_sgd_param": _reference("row_rule"),
            "ctr_accessor_param": _reference("counts"),
        },
    ),
    "counts": (tables.COUNTS, {}),
    "row_rule": (tables.SGD, {name: _reference("row_rule_settings") for name in tables.SETTINGS}),
    "row_rule_settings": (tables.RULE, _ranges(tables.ABOVE_ZERO, tables.BELOW_ONE)),
}
"""Every mapping of a config: its table of keys, and the schemas of those keys that the table alone does not describe."""
