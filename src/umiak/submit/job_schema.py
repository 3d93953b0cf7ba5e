"""The JSON schema of a job.yaml, made from the table of keys: completion and checks in editors. A decider.

    schema()["properties"]["restarts"]  ->  {"type": ["integer", "null"], "minimum": 0, "description": ...}

It never refuses what `umiak submit` accepts: words may have capitals, and ``null`` counts as not said. Draft 7, since that is what
editors know.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.schema import kinds
from umiak.submit import job_keys
from umiak.submit.jobs import overrides as job_overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from umiak.schema.keys import Key

    Schema: TypeAlias = dict[str, Any]

FILE = "job.schema.json"
"""The schema's file, in the package `umiak.submit` and so in every installation."""

_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_TEXT: Schema = {"type": ["string", "number"]}
_ANY: Schema = {"type": ["string", "number", "boolean", "null"]}


def schema() -> Schema:
    """All of it."""
    roles = {name: {"anyOf": [{"$ref": "#/definitions/role"}, {"type": "null"}]} for name in job_keys.ROLES}
    inside: Schema = {"type": ["object", "null"], "properties": roles, "additionalProperties": False}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "job.yaml of umiak submit",
        **_section(job_keys.JOB, {"roles": inside, "on": _places(inside)}),
        "definitions": {"role": _section(job_keys.ROLE, {})},
    }


def _places(roles: Schema) -> Schema:
    """Below `on`: for each place what a job says, but for what no place changes."""
    table = tuple([replace(key, default=None) for key in job_keys.JOB if key.name not in job_overrides.KEPT])
    override = _section(table, {"roles": roles})
    return {"type": ["object", "null"], "additionalProperties": {"anyOf": [override, {"type": "null"}]}}


def text() -> str:
    """The text of its file."""
    import json

    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _section(table: tuple[Key, ...], inner: dict[str, Schema]) -> Schema:
    made: Schema = {
        "type": "object",
        "properties": {key.name: _key(key, inner.get(key.name)) for key in table},
        "additionalProperties": False,
    }
    required = [key.name for key in table if key.required]
    return {**made, "required": required} if required else made


def _key(key: Key, inner: Schema | None) -> Schema:
    made = {**(inner or _KINDS[key.kind](key))}
    if not key.required:
        made = _or_null(made)
    said = f" Default: {key.default_said}." if key.default_said else ""
    made["description"] = f"{key.meaning}{said}"
    if key.default is not None:
        made["default"] = key.default
    return made


def _or_null(made: Schema) -> Schema:
    """A key without a value counts as not said."""
    if "anyOf" in made:
        return {**made, "anyOf": [*made["anyOf"], {"type": "null"}]}
    types = made["type"] if isinstance(made["type"], list) else [made["type"]]
    return {**made, "type": [*dict.fromkeys([*types, "null"])]}


def _text(key: Key) -> Schema:
    return {**_TEXT, **({"pattern": r"\S"} if key.required else {})}


def _name(_: Key) -> Schema:
    return {**_TEXT, "pattern": r"^\s*[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\s*$"}


def _whole(key: Key) -> Schema:
    return {"type": "integer", **_least(key), "maximum": kinds.MOST}


def _number(key: Key) -> Schema:
    return {"type": "number", **_least(key)}


def _least(key: Key) -> Schema:
    return {} if key.least is None else {"minimum": key.least}


def _choice(key: Key) -> Schema:
    """The words as they are completed, or in any other spelling that is understood."""
    pattern = "|".join("".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in word) for word in key.choices)
    return {"anyOf": [{"enum": [*key.choices]}, {"type": "string", "pattern": rf"^\s*({pattern})\s*$"}]}


def _words(_: Key) -> Schema:
    return {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}


def _replicas(_: Key) -> Schema:
    return {"type": ["string", "integer"], "pattern": r"^\s*[0-9]+(:[0-9]+)?\s*$", "minimum": 1}


def _size(_: Key) -> Schema:
    return {"type": ["string", "number"], "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*[kKmMgGtT]?[iI]?[bB]?\s*$", "minimum": 0}


def _span(_: Key) -> Schema:
    return {"type": ["string", "integer"], "pattern": r"^\s*([0-9]+|([0-9]+[dhmsDHMS])+)\s*$", "minimum": 0}


def _variables(_: Key) -> Schema:
    return {"type": "object", "propertyNames": {"pattern": _NAME}, "additionalProperties": _ANY}


def _variable_names(_: Key) -> Schema:
    one = {"type": "string", "pattern": _NAME}
    return {"anyOf": [{"type": "string"}, {"type": "array", "items": one}]}


def _transfers(_: Key) -> Schema:
    return {"type": "object", "additionalProperties": {"type": "string"}}


def _mapping(_: Key) -> Schema:
    return {"type": "object"}


_KINDS = {
    kinds.NAME: _name,
    kinds.TEXT: _text,
    kinds.PATH: _text,
    kinds.WHOLE: _whole,
    kinds.NUMBER: _number,
    kinds.CHOICE: _choice,
    kinds.MAPPING: _mapping,
    job_keys.COMMAND: _words,
    job_keys.REPLICAS: _replicas,
    job_keys.SIZE: _size,
    job_keys.SPAN: _span,
    job_keys.VARIABLES: _variables,
    job_keys.VARIABLE_NAMES: _variable_names,
    job_keys.PATTERNS: _words,
    job_keys.TRANSFERS: _transfers,
}
