"""The model zoo, and everything that models are written with: the one face for authors of models. A package.

    from umiak.models import Auc, ClickModel, ModelMetric, Uniform

A model of the zoo has a directory: ``config.yaml``, ``model.py``, and ``sample.py``, which makes data with a known signal. `umiak train -m umiak.models.rank.dnn`
names one, `python -m umiak.models.sample rank.dnn` makes its data. README.md lists them all.

blocks     parts that several models are built from
samples    what the makers of sample data have in common
sample     their command

Importing this package imports nothing else: makers of data and the command line do without a framework. Asking for a model's base or its inputs imports Paddle,
asking for a metric or an initializer does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umiak.core.problem import Problem, UmiakError
    from umiak.data.hashing import stable_hash
    from umiak.ps.specs import (
        Adagrad,
        AdagradScaled,
        AdagradShared,
        Adam,
        AdamRow,
        Constant,
        Ftrl,
        Momentum,
        Normal,
        RmsProp,
        Sgd,
        Uniform,
    )
    from umiak.train.config.slots import DenseSlot
    from umiak.train.config.values import Slots
    from umiak.train.metrics import make_metric
    from umiak.train.metrics.classes import Accuracy, PosNegRatio, PrecisionRecall, RecallK
    from umiak.train.metrics.clicks import Auc, Calibration, LogLoss, Mean
    from umiak.train.metrics.metric import Metric
    from umiak.train.metrics.metric_set import MetricSet
    from umiak.train.modeling import (
        ClickModel,
        Embedding,
        Ids,
        Inputs,
        Model,
        ModelMetric,
        Padded,
        Results,
        Tables,
        cross_entropy,
    )
    from umiak.train.reading.base import ReaderBase

__all__ = [
    "Accuracy",
    "Adagrad",
    "AdagradScaled",
    "AdagradShared",
    "Adam",
    "AdamRow",
    "Auc",
    "Calibration",
    "ClickModel",
    "Constant",
    "DenseSlot",
    "Embedding",
    "Ftrl",
    "Ids",
    "Inputs",
    "LogLoss",
    "Mean",
    "Metric",
    "MetricSet",
    "Model",
    "ModelMetric",
    "Momentum",
    "Normal",
    "Padded",
    "PosNegRatio",
    "PrecisionRecall",
    "Problem",
    "ReaderBase",
    "RecallK",
    "Results",
    "RmsProp",
    "Sgd",
    "Slots",
    "Tables",
    "UmiakError",
    "Uniform",
    "cross_entropy",
    "make_metric",
    "stable_hash",
]

_MODELING = ("ClickModel", "Embedding", "Ids", "Inputs", "Model", "ModelMetric", "Padded", "Results", "Tables")
_METRICS = ("Accuracy", "Auc", "Calibration", "LogLoss", "Mean", "PosNegRatio", "PrecisionRecall", "RecallK")
_INITIALIZERS = ("Constant", "Normal", "Uniform")
_RULES = ("Adagrad", "AdagradScaled", "AdagradShared", "Adam", "AdamRow", "Ftrl", "Momentum", "RmsProp", "Sgd")
_HOMES = {
    **dict.fromkeys((*_MODELING, "cross_entropy"), "umiak.train.modeling"),
    **dict.fromkeys((*_METRICS, "make_metric"), "umiak.train.metrics"),
    "Metric": "umiak.train.metrics.metric",
    "MetricSet": "umiak.train.metrics.metric_set",
    **dict.fromkeys((*_INITIALIZERS, *_RULES), "umiak.ps.specs"),
    "DenseSlot": "umiak.train.config.slots",
    "Slots": "umiak.train.config.values",
    "ReaderBase": "umiak.train.reading.base",
    "stable_hash": "umiak.data.hashing",
    **dict.fromkeys(("Problem", "UmiakError"), "umiak.core.problem"),
}
"""Where each name is made. It is imported when it is asked for."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'umiak.models' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__]
