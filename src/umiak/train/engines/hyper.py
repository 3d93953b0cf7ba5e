"""Hyper-parameters as a model's typed value. A decider.

    @value
    class Hyper:
        dim: int = 8
        fc_sizes: tuple[int, ...] = (64, 32)

    typed(Hyper, {"dim": 16, "optimizer": {...}})  ->  Hyper(dim=16)

A standard ``@dataclass``, frozen or not, does as well as ``@value``. A key that the model does not have is a mistake where one of its own was surely meant; others
are passed on to reader classes with a warning, and those
that PaddleRec's models need and models here do not are ignored. Everything that is wrong is raised at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from umiak.core.nearest import nearest, surely
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import fields, is_value

_SLOTS = ("sparse_inputs_slots", "sparse_number", "dense_input_dim", "num_field", "feature_size")
_SIZES = (
    "sparse_feature_number",
    "dict_dim",
    "vocab_size",
    "trigram_d",
    "num_users",
    "num_items",
    "item_count",
    "cat_count",
)
NOT_NEEDED = {
    "optimizer": "it belongs to the trainer",
    **dict.fromkeys(_SLOTS, "the dataset declares its slots"),
    **dict.fromkeys(_SIZES, "tables hold any id"),
    "is_sparse": "embedding gradients are always sparse",
    **dict.fromkeys(("is_distributed", "distributed_embedding"), "the plan decides it"),
}
"""Keys of PaddleRec's models without a meaning here."""


def passed_on(kind: Any, given: Mapping[str, Any], where: str | None = None) -> tuple[Problem, ...]:
    """Warnings about keys that the model does not have, and that no other was surely meant by: a reader class may ask for them."""
    names, _ = _fields(kind)
    unknown = [name for name in given if name not in names and name not in NOT_NEEDED and not surely(name, names)]
    return tuple(
        [
            Problem(
                code="UM-TRAIN-012",
                what=f"the model has no hyper-parameter {name}",
                why="it is passed on: a reader class may ask for it with envs.get_global_env",
                hint=f"if `{near}` was meant, write that" if (near := nearest(name.lower(), names)) else None,
                where=where,
            )
            for name in unknown
        ]
    )


def typed(kind: Any, given: Mapping[str, Any], where: str | None = None) -> Any:
    """The value. UmiakError with everything that does not fit."""
    if not isinstance(kind, type) or not (is_value(kind) or dataclasses.is_dataclass(kind)):
        raise UmiakError.of(
            "UM-TRAIN-012",
            f"the model's Hyper is not a class of fields: {getattr(kind, '__name__', kind)}",
            hint="write `@dataclass` above `class Hyper:`, and a field `name: type = default` for each hyper-parameter",
            where=where,
        )
    hints = _hints(kind)
    names, optional = _fields(kind)
    problems: list[Problem] = []
    found: dict[str, Any] = {}
    for name, item in given.items():
        if name in names:
            try:
                found[name] = _fitted(hints.get(name, Any), item)
            except TypeError as error:
                what = f"hyper_parameters.{name} must be {error}, not {_shown(item)}"
                problems.append(Problem(code="UM-TRAIN-012", what=what, where=where))
        elif name not in NOT_NEEDED and (meant := surely(name, names)):
            what = f"the model has no hyper-parameter {name}"
            hint = f"did you mean `{meant}`?"
            problems.append(Problem(code="UM-TRAIN-012", what=what, hint=hint, where=where))
    missing = [name for name in names if name not in given and name not in optional]
    problems += [
        Problem(
            code="UM-TRAIN-012",
            what=f"hyper_parameters.{name} is required by the model and missing",
            hint=f"write `{name}:` with {_spoken(hints.get(name, Any))}",
            where=where,
        )
        for name in missing
    ]
    UmiakError.raise_any(problems)
    try:
        return kind(**found)
    except Exception as error:
        what = f"the model's Hyper refuses the hyper-parameters: {type(error).__name__}: {error}"
        raise UmiakError.of("UM-TRAIN-012", what, where=where) from error


def _fields(kind: Any) -> tuple[tuple[str, ...], set[str]]:
    """The names of all fields, and of those that need not be given."""
    if is_value(kind):
        return fields(kind), set(kind.__defaults_by_name__)
    made = [each for each in dataclasses.fields(kind) if each.init]
    nothing = dataclasses.MISSING
    optional = {each.name for each in made if each.default is not nothing or each.default_factory is not nothing}
    return tuple(each.name for each in made), optional


def _hints(kind: type[Any]) -> dict[str, Any]:
    """The types of fields; none where an annotation names something that can't be found."""
    try:
        return get_type_hints(kind)
    except Exception:  # noqa: BLE001 - whatever evaluating an annotation may raise: then types are not checked
        return {}


def _fitted(hint: Any, item: Any) -> Any:
    """The item as the field has it. TypeError, with what is needed in words."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        kinds = get_args(hint)
        if item is None and type(None) in kinds:
            return None
        return item if type(item) in kinds else _fitted_to_one(hint, item)
    if hint in (tuple, list) or origin in (tuple, list):
        if not isinstance(item, (list, tuple)):
            _refuse(hint)
        each_hint = next(iter(get_args(hint)), Any)
        try:
            return (origin or hint)(_fitted(each_hint, each) for each in item)
        except TypeError:
            _refuse(hint)
    if origin is Literal:
        return item if item in get_args(hint) else _refuse(hint)
    if origin is dict:
        return _fitted(dict, item)
    if hint is float and isinstance(item, int) and not isinstance(item, bool):
        return float(item)
    if hint is str and isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    return _refuse(hint) if hint in _WORDS and type(item) is not hint else item


def _fitted_to_one(hint: Any, item: Any) -> Any:
    """The item as the first kind of a union has it that it fits."""
    for each in get_args(hint):
        if each is not type(None):
            with contextlib.suppress(TypeError):
                return _fitted(each, item)
    return _refuse(hint)


def _refuse(hint: Any) -> NoReturn:
    raise TypeError(_spoken(hint))


_WORDS = {int: "an integer", float: "a number", bool: "a boolean", str: "text", dict: "a mapping"}


def _spoken(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) is dict:
        return _WORDS[dict]
    if hint in (tuple, list) or get_origin(hint) in (tuple, list):
        each = next(iter(get_args(hint)), Any)
        return {int: "a list of integers", float: "a list of numbers", str: "a list of names"}.get(each, "a list")
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(_spoken(each) for each in get_args(hint) if each is not type(None)))
    return _WORDS.get(hint, "something else")


def _shown(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 60 else f"{text[:57]}..."
