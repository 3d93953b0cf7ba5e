"""Hyper-parameters as a model's typed value. A decider.

    @value
    class Hyper:
        dim: int = 8
        fc_sizes: tuple[int, ...] = (64, 32)

    typed(Hyper, {"dim": 16, "optimizer": {...}})  ->  Hyper(dim=16)

A key that the model does not have is a mistake, told with the nearest one; those that PaddleRec's models need and models here do not are read
over. Everything that is wrong is raised at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import fields
from umiak.train.findings import choices

NOT_NEEDED = {
    "optimizer": "it is the trainer's",
    "sparse_feature_number": "tables have room for every id",
    "sparse_inputs_slots": "the dataset declares its slots",
    "sparse_number": "the dataset declares its slots",
    "dense_input_dim": "the dataset declares its slots",
    "num_field": "the dataset declares its slots",
    "feature_size": "the dataset declares its slots",
    "dict_dim": "tables have room for every id",
    "vocab_size": "tables have room for every id",
    "trigram_d": "tables have room for every id",
    "num_users": "tables have room for every id",
    "num_items": "tables have room for every id",
    "item_count": "tables have room for every id",
    "cat_count": "tables have room for every id",
    "is_sparse": "rows are always learned by id",
    "is_distributed": "the plan decides it",
    "distributed_embedding": "the plan decides it",
}
"""Keys of PaddleRec's models without a meaning here."""


def typed(kind: type[Any], given: Mapping[str, Any], where: str | None = None) -> Any:
    """The value. UmiakError with everything that does not fit."""
    hints = get_type_hints(kind)
    names = fields(kind)
    problems: list[Problem] = []
    found: dict[str, Any] = {}
    for name, item in given.items():
        if name in names:
            try:
                found[name] = _fitted(hints[name], item)
            except TypeError as error:
                what = f"hyper_parameters.{name} needs {error}, not {_shown(item)}"
                problems.append(Problem(code="UM-TRAIN-012", what=what, where=where))
        elif name not in NOT_NEEDED:
            what = f"the model has no hyper-parameter {name}"
            hint = choices(name, names) if names else "it has none"
            problems.append(Problem(code="UM-TRAIN-012", what=what, hint=hint, where=where))
    missing = [name for name in names if name not in given and name not in kind.__defaults_by_name__]
    problems += [
        Problem(
            code="UM-TRAIN-012",
            what=f"hyper_parameters.{name} is missing, and the model needs it",
            hint=f"write `{name}:` with {_spoken(hints[name])}",
            where=where,
        )
        for name in missing
    ]
    if problems:
        raise UmiakError(*problems)
    return kind(**found)


def _fitted(hint: Any, item: Any) -> Any:
    """The item as the field has it. TypeError, with what is needed in words."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        kinds = get_args(hint)
        if item is None and type(None) in kinds:
            return None
        return _fitted(next(each for each in kinds if each is not type(None)), item)
    if origin is tuple:
        if not isinstance(item, (list, tuple)):
            raise TypeError(_spoken(hint))
        try:
            return tuple(_fitted(get_args(hint)[0], each) for each in item)
        except TypeError:
            raise TypeError(_spoken(hint)) from None
    if hint is float and isinstance(item, int) and not isinstance(item, bool):
        return float(item)
    if hint is str and isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    if hint in _WORDS and type(item) is not hint:
        raise TypeError(_spoken(hint))
    return item


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "a mapping"}


def _spoken(hint: Any) -> str:
    if get_origin(hint) is tuple:
        each = get_args(hint)[0]
        return {int: "a list of whole numbers", float: "a list of numbers", str: "a list of names"}.get(each, "a list")
    if get_origin(hint) in (Union, UnionType):
        return _spoken(next(each for each in get_args(hint) if each is not type(None)))
    return _WORDS.get(hint, "something else")


def _shown(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 60 else f"{text[:57]}..."
