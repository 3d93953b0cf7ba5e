"""What a model is: a Paddle layer that knows its inputs, its loss and its metrics. An adapter, for Paddle.

`umiak train` makes it, feeds it and saves it. A model says nothing about where its rows live, how many trainers there are or who
optimizes it: the same file runs alone, with parameter servers and collectively.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle

from umiak.core.value import value
from umiak.train.config.values import Slots
from umiak.train.metrics.clicks import Auc
from umiak.train.metrics.metric import Metric

if TYPE_CHECKING:
    from umiak.train.modeling.embedding import Tables
    from umiak.train.modeling.inputs import Inputs

Results = dict[str, paddle.Tensor]
"""What a model computes, by name; each has a row per sample."""


@value
class ModelMetric:
    """A metric, and what of a batch it looks at."""

    metric: Metric
    result: str
    """One of the model's results."""
    label: str
    """The slot that has the truth."""
    groups: str | None = None
    """The slot that says which samples belong together, where the metric asks for it."""


@value
class NoHyper:
    """For a model without hyper-parameters."""


class Model(paddle.nn.Layer):  # type: ignore[misc]
    """The base of models. A file of a config's ``model`` has a class ``Model`` that is one."""

    Hyper: type[Any] = NoHyper
    """A ``@dataclass`` with a field for each key of ``hyper_parameters`` that the model reads, ``optimizer`` aside."""
    strict_labels: bool = True
    """Whether a sample without a label, or with one that its metric has no meaning for, is an error."""
    weighs_samples: bool = False
    """Whether the loss is made with `Inputs.mean`, so that samples can have weights."""
    outputs: tuple[str, ...] = ()
    """The results that an inference model answers with; none named: all of them."""

    def __init__(self, hyper: Any, slots: Slots, tables: Tables) -> None:
        super().__init__()
        self.hyper = hyper
        self.slots = slots

    def forward(self, inputs: Inputs) -> Results:
        """Results that need no labels."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def loss(self, results: Results, inputs: Inputs) -> paddle.Tensor:
        """One number: the mean over the samples of the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")

    def metrics(self) -> dict[str, ModelMetric]:
        """What the model is evaluated by, besides its loss."""
        return {}


class ClickModel(Model):
    """The first sparse slot is the label, the others are features. A model says its logit; its loss is the log loss, and its metric AUC."""

    outputs: tuple[str, ...] = ("probability",)
    weighs_samples: bool = True

    def __init__(self, hyper: object, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        (self.label,), self.features = slots.split(1, type(self).__name__)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        """One number per sample, of shape [samples, 1]; its sigmoid is the probability."""
        raise NotImplementedError(f"{type(self).__name__} has no logit")

    def forward(self, inputs: Inputs) -> Results:
        logit = self.logit(inputs)
        return {"logit": logit, "probability": paddle.nn.functional.sigmoid(logit)}

    def loss(self, results: Results, inputs: Inputs) -> paddle.Tensor:
        return inputs.mean(cross_entropy(results["logit"], inputs.numbers(self.label)), self.label)

    def metrics(self) -> dict[str, ModelMetric]:
        return {"auc": ModelMetric(metric=Auc(), result="probability", label=self.label)}


def cross_entropy(logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
    """Of each answer. Paddle's own function has a wrong gradient where a logit is exactly 0, as it is while everything is new."""
    return paddle.nn.functional.softplus(logits) - logits * labels
