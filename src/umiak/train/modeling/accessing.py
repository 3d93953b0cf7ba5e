"""Table parameters of a config as settings of a table with an accessor. A decider.

A model asks for rows of ``dim`` numbers and is given as many: the first is the narrow weight of an accessor, ``embed_w``, and the ``dim - 1`` others are
its wide part, ``embedx``. So a model of PaddleRec with ``sparse_feature_dim: 9`` goes with ``embedx_dim: 8``, as it did there.
"""

from __future__ import annotations

from typing import Any

from umiak.core.problem import UmiakError
from umiak.core.value import fields, replace
from umiak.ps import specs
from umiak.train.config.slots import SlotFeature
from umiak.train.config.values import RowRule, TableParameters

_OF_THE_RULE = ("embed_optimizer", "embed_init")
"""Of an accessor; its other fields have the names that a config has for them."""


def settings(table: str, dim: int, said: TableParameters, clip: specs.Clip) -> dict[str, Any]:
    """What `umiak.ps.paddle.Embedding` is told beside the width of the wide part. UmiakError if the model's rows do not fit."""
    if dim < 2:
        raise _does_not_fit(
            f"table_parameters: table {table} has rows of one number in the model, and no wide part",
            "leave it out of table_parameters",
        )
    if said.embedx_dim not in (None, dim - 1):
        raise _does_not_fit(
            f"table_parameters: embedx_dim of table {table} is {said.embedx_dim}, and the model asks for rows of {dim}",
            f"write `embedx_dim: {dim - 1}`, or leave it out; or let the model ask for {1 + (said.embedx_dim or 0)}",
        )
    return {
        "rule": _rule(said.embedx),
        "init": _init(said.embedx),
        "clip": replace(clip, weight=said.bound),
        "accessor": accessor(said),
    }


def life_of(said: SlotFeature, *, is_counted: bool) -> dict[str, Any]:
    """When rows of a feature's table come and go, as settings of the table. UmiakError if ``table_parameters`` say it as well."""
    if is_counted:
        raise _does_not_fit(
            f"table_parameters: rows of the feature {said.name} come and go as its `admit` and `expire` say",
            "leave them out of `features:`: an accessor admits by `embedx_threshold`, and evicts by `delete_after_unseen_days`",
        )
    entry = {"entry": specs.Count(count=said.admit)} if said.admit > 1 else {}
    return {**entry, **({"expire": specs.Expire(days=said.expire)} if said.expire else {})}


def accessor(said: TableParameters) -> specs.Accessor:
    """The accessor of a table."""
    return specs.Accessor(
        embed_optimizer=_rule(said.embed),
        embed_init=_init(said.embed),
        **{name: getattr(said, name) for name in fields(specs.Accessor) if name not in _OF_THE_RULE},
    )


def _rule(part: RowRule) -> specs.Rule:
    return specs.rule(part.rule, **part.settings)


def _init(part: RowRule) -> specs.Init:
    return specs.Uniform(low=-part.initial_range, high=part.initial_range)


def _does_not_fit(what: str, hint: str) -> UmiakError:
    why = "a row is one number, which comes with the id, and a wide part of embedx_dim more"
    return UmiakError.of("UM-TRAIN-031", what, why=why, hint=hint)
