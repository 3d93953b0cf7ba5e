"""Models with one answer per sample: the probability of a click. An adapter, for Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle

from umiak.train.metrics.clicks import Auc
from umiak.train.modeling.model import Model, ModelMetric

if TYPE_CHECKING:
    from umiak.train.config.values import Slots
    from umiak.train.modeling.embedding import Tables
    from umiak.train.modeling.inputs import Inputs
    from umiak.train.modeling.model import Results


class ClickModel(Model):
    """The first sparse slot is the label, the others are features. A model says its logit; its loss is the log loss, and its metric AUC."""

    outputs: tuple[str, ...] = ("probability",)

    def __init__(self, hyper: Any, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        (self.label,), self.features = slots.split(1, type(self).__name__)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        """One number per sample, of shape [samples, 1]; its sigmoid is the probability."""
        raise NotImplementedError(f"{type(self).__name__} has no logit")

    def forward(self, inputs: Inputs) -> Results:
        logit = self.logit(inputs)
        return {"logit": logit, "probability": paddle.nn.functional.sigmoid(logit)}

    def loss(self, results: Results, inputs: Inputs) -> paddle.Tensor:
        return cross_entropy(results["logit"], inputs.numbers(self.label)).mean()

    def metrics(self) -> dict[str, ModelMetric]:
        return {"auc": ModelMetric(metric=Auc(), result="probability", label=self.label)}


def cross_entropy(logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
    """Of each answer. Paddle's own function has a wrong gradient where a logit is exactly 0, as it is while everything is new."""
    return paddle.nn.functional.softplus(logits) - logits * labels
