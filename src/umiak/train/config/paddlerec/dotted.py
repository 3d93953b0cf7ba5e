"""The dictionary that models and readers of PaddleRec 2 get as ``config``: dotted keys. A decider.

    {"runner": {"epochs": 3}, "hyper_parameters": {"fc_sizes": (8, 4)}}
    {"runner.epochs": 3, "hyper_parameters.fc_sizes": [8, 4], "config_abs_dir": "/models/dnn", "yaml_path": "/models/dnn/config.yaml"}

An override of the command line has the type of the value that it replaces, as with PaddleRec's trainer: ``-o runner.is_train=0`` is False
where the config says True, and a key that the config does not have gets a text.
"""

from __future__ import annotations

import copy
import posixpath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject


def dotted(written: JsonMapping, config: str) -> JsonObject:
    """The config as one dictionary. ``config`` is the absolute path of its file."""
    made: JsonObject = {}
    _flatten("", written, made)
    made["config_abs_dir"] = posixpath.dirname(config)
    made["yaml_path"] = config
    return made


def retyped(before: JsonMapping, after: JsonMapping, said: Iterable[str]) -> JsonObject:
    """The config with what was overridden in the types that PaddleRec's trainer gives it: ``before`` is what the file says, ``after`` with YAML's types."""
    made: JsonObject = copy.deepcopy(dict(after))
    for text in said:
        path, _, word = text.partition("=")
        parts = path.strip().split(".")
        old = _at(before, parts)
        holder = _at(made, parts[:-1]) if parts[:-1] else made
        if isinstance(holder, dict) and parts[-1] in holder and not isinstance(holder[parts[-1]], (tuple, list, dict)):
            holder[parts[-1]] = _typed(old, holder[parts[-1]], word.strip())
    return made


def _typed(old: Any, new: Any, word: str) -> Any:
    """A word in the type of the value that it replaces; a text where there was none."""
    if isinstance(old, bool):
        return word.lower() == "true"
    try:
        if isinstance(old, int):
            return int(word)
        if isinstance(old, float):
            return float(word)
    except ValueError:
        return new
    return new if isinstance(old, (tuple, list)) else word


def _at(found: Any, parts: list[str]) -> Any:
    """What stands at a dotted key, None if nothing does."""
    for part in parts:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _flatten(prefix: str, section: JsonMapping, made: JsonObject) -> None:
    for key, item in section.items():
        if isinstance(item, dict):
            _flatten(f"{prefix}{key}.", item, made)
        else:
            made[f"{prefix}{key}"] = listed(item)


def listed(item: Any) -> Any:
    """Lists in the place of tuples, however deep: code adds lists to them, and YAML has no tuples."""
    if isinstance(item, (tuple, list)):
        return [listed(each) for each in item]
    if isinstance(item, dict):
        return {key: listed(each) for key, each in item.items()}
    return item
