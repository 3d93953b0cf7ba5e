"""Metrics of models."""

from umiak.train.engines.modelbase.metrics import ProgramAuc as AUC  # noqa: N814 - the name that models import
from umiak.train.engines.modelbase.metrics import ProgramPosNegRatio as PosNegRatio
from umiak.train.engines.modelbase.metrics import ProgramPrecisionRecall as PrecisionRecall
from umiak.train.engines.modelbase.metrics import ProgramRecallK as RecallK

__all__ = ["AUC", "PosNegRatio", "PrecisionRecall", "RecallK"]
