"""One of the metrics."""

from umiak.train.engines.modelbase.metrics import ProgramPosNegRatio as PosNegRatio

__all__ = ["PosNegRatio"]
