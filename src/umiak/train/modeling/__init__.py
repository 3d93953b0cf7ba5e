"""How models are written for `umiak train`: what a model is, what it is given, and what it gives back. A package.

model       `Model`, the base of all, `ClickModel`, for those whose one answer is the probability of a click, and `ModelMetric`, a metric with what it looks at
inputs      one batch as a model sees it, in training and in an inference model
embedding   rows by id; where they live is the plan's business

    from umiak.models import ClickModel

    class Model(ClickModel):
        @dataclass
        class Hyper:
            dim: int = 8

        def __init__(self, hyper, slots, tables):
            super().__init__(hyper, slots, tables)
            self.embedding = tables.embedding(hyper.dim)
            self.top = paddle.nn.Linear(len(self.features) * hyper.dim, 1)

        def logit(self, inputs):
            return self.top(self.embedding(inputs.ids(*self.features)).flatten(1))

It imports Paddle, so the command line does not import it. Authors of models find all of it, and metrics and initializers, in `umiak.models`.
"""

from __future__ import annotations

from umiak.train.config.values import Slots
from umiak.train.modeling.embedding import Embedding, Tables
from umiak.train.modeling.inputs import Ids, Inputs, Padded
from umiak.train.modeling.model import ClickModel, Model, ModelMetric, Results, cross_entropy

__all__ = [
    "ClickModel",
    "Embedding",
    "Ids",
    "Inputs",
    "Model",
    "ModelMetric",
    "Padded",
    "Results",
    "Slots",
    "Tables",
    "cross_entropy",
]
