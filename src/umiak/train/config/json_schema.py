"""The JSON schema of a config.yaml in both layouts, made from the tables of keys: completion and checks in editors. A decider.

    schema()["definitions"]["runner"]["properties"]["epochs"]
        -> {"type": ["integer", "null"], "minimum": 1, "description": ...}

Keys that only a model or a reader class reads are let through. What one key says about another (a phase's name, a strategy's own
settings) is left to ``umiak train --check``.
"""

from __future__ import annotations

import re

from umiak.schema import kinds
from umiak.schema.json_schema import BY_KEY, DRAFT, TEXT, file_text, or_null, reference
from umiak.train.config import flat_keys, keys, optimizers, tables
from umiak.train.config.evaluating import settings as evaluation
from umiak.train.config.kinds import DAY, DENSE, DEVICES, SPARSE, SWITCH, TIME, row
from umiak.train.config.objectives import retrieval
from umiak.train.config.objectives import settings as objective
from umiak.train.config.streams import settings as streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from umiak.schema.json_schema import Schema
    from umiak.schema.keys import Key, Kind

FILE = "config.schema.json"
"""The schema's file, in the package `umiak.train` and so in every installation."""


def schema() -> Schema:
    """All of it."""
    return {
        "$schema": DRAFT,
        "title": "config.yaml of umiak train",
        "description": "In the layout of PaddleRec 1.8.5 (lists of runners, phases and datasets), or of newer PaddleRec "
        "(one mapping runner).",
        "type": "object",
        "if": {
            "properties": {"runner": {"type": "object"}},
            "required": ["runner"],
            "not": {"anyOf": [{"required": ["phase"]}, {"required": ["dataset"]}]},
        },
        "then": reference("newer_layout"),
        "else": reference("older_layout"),
        "definitions": {name: _section(*made) for name, made in _SECTIONS.items()},
    }


def text() -> str:
    """The text of its file."""
    return file_text(schema())


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
    made = {**(inner or _FIXED.get(key.kind) or (_names if key.kind is kinds.NAMES else BY_KEY[key.kind])(key))}
    if not key.required:
        made = or_null(made)
    description = " ".join(filter(None, [_plain(key.meaning), _default(key)]))
    if description:
        made["description"] = description
    if key.default is not None:
        made["default"] = key.default
    return made


def _plain(meaning: str) -> str:
    """A meaning without the links of the reference page."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r": \[[^\]]*\]\([^)]*\)\.", ".", meaning))


def _default(key: Key) -> str:
    return f"Default: {_plain(key.default_said)}." if key.default_said else ""


# ---- kinds


def _names(key: Key) -> Schema:
    one = {**TEXT, "pattern": r"\S"}
    return {"anyOf": [one, {"type": "array", "items": one, **({"minItems": 1} if key.required else {})}]}


_DENSE = r"^\s*([^\s:,\[\]]+:([0-9]+|\[\s*[0-9]+\s*(,\s*[0-9]+\s*)*\])(\s+|$))*$"
_DEVICE: Schema = {"type": ["string", "integer"], "minimum": 0}
_NUMBER = r"\s*[0-9]{1,5}\s*"


def _or_list(one: Schema, pattern: str) -> Schema:
    """A text of several, or a list of them."""
    return {"anyOf": [{**one, "pattern": pattern}, {"type": "array", "items": one}]}


_FIXED: dict[Kind[Any], Schema] = {
    kinds.TRUTH: {"type": "boolean"},
    SPARSE: _or_list(TEXT, r"^[^:,\[\]]*$"),
    DENSE: _or_list(TEXT, _DENSE),
    DEVICES: _or_list(_DEVICE, rf"^\s*$|^{_NUMBER}(,{_NUMBER})*$"),
    DAY: {"type": ["string", "integer"], "pattern": r"^\s*[0-9]{4}-?[0-9]{2}-?[0-9]{2}\s*$"},
    TIME: {"type": ["string", "number"]},
    SWITCH: {"anyOf": [{"type": "boolean"}, {"enum": [0, 1]}]},
    kinds.BOUNDS: {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    kinds.MAPPING: {"type": "object"},
    kinds.SECTIONS: {"type": "array", "items": {"type": "object"}},
    streams.PLACE: {"type": ["string", "integer"], "minimum": 0},
    streams.CLIENT: {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
}
"""Kinds of which all keys have one schema."""


_CUTOFF: Schema = {"type": "integer", "minimum": 1}
_CUTOFFS: Schema = {"anyOf": [_CUTOFF, {"type": "array", "items": _CUTOFF}]}
_WEIGHTS: Schema = {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2}
_CLASS_WEIGHTS: Schema = {"anyOf": [_WEIGHTS, {"type": "object", "additionalProperties": _WEIGHTS, "minProperties": 1}]}


def _list_of(name: str) -> Schema:
    return {"type": "array", "items": reference(name), "minItems": 1}


def _ranges(above_zero: Iterable[str], below_one: Iterable[str]) -> dict[str, Schema]:
    """Numbers that a rule wants to be above 0, or from 0 up to 1."""
    positive: Schema = {"type": "number", "exclusiveMinimum": 0}
    rate: Schema = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
    return {**dict.fromkeys(above_zero, positive), **dict.fromkeys(below_one, rate)}


_WHOLE_CONFIG: dict[str, Schema] = {
    "hyper_parameters": reference("hyper_parameters"),
    "table_parameters": {"type": "object", "additionalProperties": reference("table")},
    "evaluation": reference("evaluation"),
    "objective": reference("objective"),
    "retrieval": reference("retrieval"),
}

_SECTIONS: dict[str, tuple[tuple[Key, ...], dict[str, Schema]]] = {
    "older_layout": (
        keys.GLOBAL,
        {**_WHOLE_CONFIG, **{name: _list_of(name) for name in ("runner", "phase", "dataset")}},
    ),
    "newer_layout": (flat_keys.FLAT_GLOBAL, {**_WHOLE_CONFIG, "runner": reference("newer_runner")}),
    "runner": (keys.RUNNER, {}),
    "phase": (keys.PHASE, {}),
    "dataset": (keys.DATASET, {"stream": reference("stream")}),
    "stream": (streams.STREAM, {}),
    "newer_runner": (flat_keys.FLAT, {"train_stream": reference("stream")}),
    "hyper_parameters": (
        (row("optimizer", kinds.MAPPING, "Optimizer of the model."),),
        {"optimizer": reference("optimizer")},
    ),
    "optimizer": (
        optimizers.OPTIMIZER,
        {"schedule": reference("schedule"), **_ranges(optimizers.ABOVE_ZERO, optimizers.BELOW_ONE)},
    ),
    "schedule": (optimizers.SCHEDULE, {}),
    "evaluation": (evaluation.EVALUATION, {"metrics": _list_of("metric")}),
    "metric": (evaluation.METRIC, {}),
    "objective": (objective.OBJECTIVE, {"class_weights": _CLASS_WEIGHTS}),
    "retrieval": (retrieval.RETRIEVAL, {"recall": _CUTOFFS}),
    "table": (tables.TABLE, {"accessor": reference("accessor")}),
    "accessor": (
        tables.ACCESSOR,
        {
            "embed_sgd_param": reference("row_rule"),
            "embedx_sgd_param": reference("row_rule"),
            "ctr_accessor_param": reference("counts"),
        },
    ),
    "counts": (tables.COUNTS, {}),
    "row_rule": (tables.SGD, {name: reference("row_rule_settings") for name in tables.SETTINGS}),
    "row_rule_settings": (tables.RULE, _ranges(tables.ABOVE_ZERO, tables.BELOW_ONE)),
}
"""Every mapping of a config: its table of keys, and the schemas of those keys that the table alone does not describe."""
