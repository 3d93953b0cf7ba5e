"""The JSON schema of a job.yaml, made from the table of keys: completion and checks in editors. A decider.

schema()["properties"]["restarts"]  ->  {"type": ["integer", "null"], "minimum": 0, "description": ...}
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.schema import kinds
from umiak.schema.json_schema import BY_KEY, DRAFT, TEXT, file_text, or_null, reference
from umiak.submit import job_keys
from umiak.submit import job_keys as job_overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.schema.json_schema import Schema
    from umiak.schema.keys import Key, Kind

FILE = "job.schema.json"
"""The schema's file, in the package `umiak.submit` and so in every installation."""

_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_ANY: Schema = {"type": ["string", "number", "boolean", "null"]}


def schema() -> Schema:
    """All of it."""
    roles = {name: or_null(reference("role")) for name in job_keys.ROLES}
    inside: Schema = {"type": ["object", "null"], "properties": roles, "additionalProperties": False}
    return {
        "$schema": DRAFT,
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
    return file_text(schema())


def _section(table: tuple[Key, ...], inner: dict[str, Schema]) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {key.name: _key(key, inner.get(key.name)) for key in table},
        "additionalProperties": False,
    }
    required = [key.name for key in table if key.required]
    return {**schema, "required": required} if required else schema


def _key(key: Key, inner: Schema | None) -> Schema:
    schema = {**(inner or _FIXED.get(key.kind) or BY_KEY[key.kind](key))}
    if not key.required:
        schema = or_null(schema)
    default = f" Default: {key.default_said}." if key.default_said else ""
    schema["description"] = f"{key.meaning}{default}"
    if key.default is not None:
        schema["default"] = key.default
    return schema


_WORDS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
_NAMES: Schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string", "pattern": _NAME}}]}
_FIXED: dict[Kind[Any], Schema] = {
    kinds.NAME: {**TEXT, "pattern": r"^\s*[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\s*$"},
    kinds.MAPPING: {"type": "object"},
    job_keys.COMMAND: _WORDS,
    job_keys.REPLICAS: {"type": ["string", "integer"], "pattern": r"^\s*[0-9]+(:[0-9]+)?\s*$", "minimum": 1},
    job_keys.SIZE: {**TEXT, "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*[kKmMgGtT]?[iI]?[bB]?\s*$", "minimum": 0},
    job_keys.SPAN: {
        "type": ["string", "integer"],
        "pattern": r"^\s*([0-9]+|([0-9]+[dhmsDHMS])+)\s*$",
        "minimum": 0,
    },
    job_keys.VARIABLES: {"type": "object", "propertyNames": {"pattern": _NAME}, "additionalProperties": _ANY},
    job_keys.VARIABLE_NAMES: _NAMES,
    job_keys.PATTERNS: _WORDS,
    job_keys.TRANSFERS: {"type": "object", "additionalProperties": {"type": "string"}},
}
"""Kinds of which all keys have one schema."""
