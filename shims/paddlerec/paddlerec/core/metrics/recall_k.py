"""One of the metrics."""

from umiak.train.engines.modelbase.metrics import ProgramRecallK as RecallK

__all__ = ["RecallK"]
