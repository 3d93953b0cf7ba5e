"""One of the metrics."""

from umiak.train.engines.modelbase.metrics import ProgramPrecisionRecall as PrecisionRecall

__all__ = ["PrecisionRecall"]
