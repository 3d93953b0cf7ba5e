"""Metrics by name: what a model is evaluated by, in states that can be added up. A decider.

    make_metric("auc")               -> Auc(bins=4096)
    make_metric("recall_k", k=50)    -> RecallK(k=50)

metric    what all metrics have in common, and one batch as they look at it
clicks    AUC, log loss, calibration, means
calibrated  normalised entropy, calibration by decile
classes   accuracy, precision and recall, recall at k, the positive-negative ratio
grouped   GAUC, NDCG, hit rate, MRR, AUC of slices: for evaluations, where the samples of a group are brought together
metric_set  several metrics at once, made global by one exchange

For trainers: it needs numpy, so the command line does not import it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from umiak.core.nearest import nearest
from umiak.core.problem import Problem, UmiakError
from umiak.train.metrics.calibrated import CalibrationDeciles, NormalisedEntropy
from umiak.train.metrics.classes import Accuracy, PosNegRatio, PrecisionRecall, RecallK
from umiak.train.metrics.clicks import Auc, Calibration, LogLoss, Mean

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from umiak.train.metrics.metric import Metric

METRICS: dict[str, type[Metric]] = {
    "auc": Auc,
    "log_loss": LogLoss,
    "accuracy": Accuracy,
    "precision_recall": PrecisionRecall,
    "recall_k": RecallK,
    "pos_neg_ratio": PosNegRatio,
    "calibration": Calibration,
    "calibration_deciles": CalibrationDeciles,
    "normalised_entropy": NormalisedEntropy,
    "mean": Mean,
}

PADDLEREC = {
    "AUC": "auc",
    "PrecisionRecall": "precision_recall",
    "RecallK": "recall_k",
    "PosNegRatio": "pos_neg_ratio",
    "PairWise_PN": "pos_neg_ratio",
}
"""Names that PaddleRec has for some of them."""


def make_metric(name: str, **settings: Any) -> Metric:
    """The metric of that name."""
    kind = METRICS.get(PADDLEREC.get(name, name))
    if kind is None:
        raise UmiakError.of("UM-METRIC-001", f"no such metric: {name}", hint=_meant(name, METRICS))
    known = [each.name for each in inspect.signature(kind).parameters.values() if each.kind is each.KEYWORD_ONLY]
    unknown = [each for each in settings if each not in known]
    if unknown:
        raise UmiakError(
            *(
                Problem(code="UM-METRIC-002", what=f"{name} has no setting {each}", hint=_meant(each, known))
                for each in unknown
            )
        )
    return kind(**settings)


def _meant(word: str, known: Iterable[str]) -> str:
    known = tuple(known)
    close = nearest(word.lower(), known)
    return (f"did you mean {close}? " if close else "") + (f"there are {', '.join(known)}" if known else "it has none")
