"""Whether samples have the labels that a model's metrics look at. An adapter: it looks into batches.

check_missing({"click"}, seen, "train")        of the first lines of a dataset
check_binary(model.metrics().values(), inputs) of a batch
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from umiak.core.problem import Problem, UmiakError
from umiak.train.metrics.classes import PosNegRatio
from umiak.train.metrics.clicks import Auc, Calibration, LogLoss

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.data.array_types import AnyArray
    from umiak.train.modeling.model import ModelMetric
    from umiak.train.reading.checking import Seen

BINARY = (Auc, LogLoss, Calibration, PosNegRatio)
"""Metrics whose labels are 0 or 1."""


class LabelColumns(Protocol):
    """A batch, as far as labels go."""

    def column(self, *names: str) -> AnyArray: ...


def check_missing(labels: Iterable[str], seen: Seen, dataset: str) -> None:
    """UmiakError if samples had no label: they would be learned from as if it were 0."""
    UmiakError.raise_any(
        Problem(
            code="UM-DATA-061",
            what=f"dataset {dataset}: {seen.missing[name]} of the {seen.samples} lines that were read have no label {name}",
            why="they would be learned from as if it were 0",
            hint="take these lines out of the data; a model that wants them says `strict_labels = False`",
        )
        for name in labels
        if seen.missing.get(name)
    )


def check_binary(metrics: Iterable[ModelMetric], inputs: LabelColumns) -> None:
    """UmiakError if a label that has to be 0 or 1 is something else."""
    for name in dict.fromkeys(each.label for each in metrics if isinstance(each.metric, BINARY)):
        labels = inputs.column(name)[:, 0]
        wrong = labels[(labels != 0) & (labels != 1)]
        if wrong.size:
            raise UmiakError.of(
                "UM-TRAIN-064",
                f"label {name} is {wrong[0]}, and the model needs 0 or 1",
                why=f"{wrong.size} of the {labels.size} samples of a batch are so",
                hint="the first sparse slot of a ClickModel is its label; a model that wants others says `strict_labels = False`",
            )
