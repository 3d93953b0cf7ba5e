"""Whether what a config says of features and labels has an effect on a model: what has none is refused, never passed over. An adapter: it looks into the config's file.

check_dims(slots, embeddings, "model.py", "config.yaml")      a feature's `dim` is the length of vectors that the model looks up for it
check_classes(objective, {"click"}, "model.py", ...)          classes that have weights are weighed in the model's loss
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from umiak.core.problem import Problem, UmiakError
from umiak.train.config import load
from umiak.train.config.objectives.settings import EVERY_LABEL

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from umiak.train.config.objectives.settings import Objective
    from umiak.train.config.values import Slots


class LookedUp(Protocol):
    """An embedding that has looked something up."""

    dim: int
    looked_up: set[str]


def check_dims(slots: Slots, embeddings: Sequence[LookedUp], model: str, where: str | None) -> None:
    """UmiakError with every feature whose `dim` is another than that of all vectors that the model looks up for it."""
    problems = []
    for feature in slots.features:
        dims = sorted({each.dim for each in embeddings if feature.name in each.looked_up})
        if feature.dim is None or feature.dim in dims or not dims:
            continue
        problems.append(
            Problem(
                code="UM-TRAIN-603",
                what=f"feature {feature.name} has `dim: {feature.dim}`, and the model looks up {_numbers(dims)} for it",
                why=f"all vectors of such a model have one length, or its own settings say it: {model}",
                hint="say one `dim` for all features, or none, and the model's own key (`sparse_feature_dim`); models that put vectors side by side, "
                "such as rank.dnn, rank.dcn and rank.wide_deep, take each feature's own",
                where=_dim_place(feature.name, where),
            )
        )
    UmiakError.raise_any(problems)


def check_classes(objective: Objective, weighed: Collection[str], model: str, where: str | None) -> None:
    """UmiakError if weights of classes are no part of the loss."""
    asked = [name for name in objective.class_weights if name != EVERY_LABEL and name not in weighed]
    if EVERY_LABEL in objective.class_weights and not weighed:
        asked.append("its labels")
    if asked:
        raise UmiakError.of(
            "UM-TRAIN-604",
            f"class_weights: the model's loss does not weigh the classes of {', '.join(asked)}: {model}",
            hint="let the loss be `inputs.mean(losses, label)`, with the name of the label's slot; or leave `class_weights` out",
            where=None if where is None else load.place_of(where, "objective", "class_weights"),
        )


def _dim_place(name: str, where: str | None) -> str | None:
    """Where the config says it: beside the feature, or for all of them."""
    if where is None:
        return None
    own = load.place_of(where, "features", "columns", name, "dim")
    column = load.place_of(where, "features", "columns", name)
    return own if own != column else load.place_of(where, "features", "defaults", "dim")


def _numbers(dims: Sequence[int]) -> str:
    return f"vectors of {' and '.join(map(str, dims))} number{'s' if dims != [1] else ''}"
