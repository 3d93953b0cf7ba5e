"""The base of metrics."""

from umiak.train.engines.modelbase.metric import ProgramMetric as Metric

__all__ = ["Metric"]
