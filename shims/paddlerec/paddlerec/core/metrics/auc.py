"""One of the metrics."""

from umiak.train.engines.modelbase.metrics import ProgramAuc as AUC  # noqa: N814 - the name that models import

__all__ = ["AUC"]
