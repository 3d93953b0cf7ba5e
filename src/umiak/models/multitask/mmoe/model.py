"""Multi-gate mixture of experts: tasks share experts, and each has a gate that chooses among them. An adapter, for Paddle.

Ma et al., Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts, KDD 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle
from paddle import nn
from paddle.nn import functional

from umiak.models import Auc, ModelMetric, cross_entropy
from umiak.models import Model as Base
from umiak.models.blocks import Flat, Tower

if TYPE_CHECKING:
    from umiak.models import Inputs, Results, Slots, Tables


class Model(Base):
    """The first ``gate_num`` sparse slots are the tasks' labels; a result has the name of its label."""

    weighs_samples = True

    @dataclass
    class Hyper:
        """Sizes."""

        sparse_feature_dim: int = 9
        expert_num: int = 8
        gate_num: int = 2
        expert_size: int = 16
        tower_size: int = 8

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.labels, features = slots.split(hyper.gate_num, type(self).__name__)
        self.outputs = self.labels
        self.flat = Flat(features, slots, hyper.sparse_feature_dim, tables)
        width = self.flat.width
        self.experts = nn.LayerList([Tower(width, [hyper.expert_size]) for _ in range(hyper.expert_num)])
        self.gates = nn.LayerList([nn.Linear(width, hyper.expert_num) for _ in self.labels])
        self.towers = nn.LayerList([Tower(hyper.expert_size, [hyper.tower_size], out=1) for _ in self.labels])

    def forward(self, inputs: Inputs) -> Results:
        x = self.flat(inputs)
        opinions = paddle.stack([expert(x) for expert in self.experts], axis=1)
        results = {}
        for label, gate, tower in zip(self.labels, self.gates, self.towers, strict=True):
            shares = functional.softmax(gate(x), axis=1).unsqueeze(2)
            logit = tower((opinions * shares).sum(axis=1))
            results[f"{label}_logit"] = logit
            results[label] = functional.sigmoid(logit)
        return results

    def loss(self, results: Results, inputs: Inputs) -> paddle.Tensor:
        logits = paddle.concat([results[f"{label}_logit"] for label in self.labels], axis=1)
        losses = cross_entropy(logits, inputs.numbers(*self.labels))
        return inputs.mean(losses, *self.labels) * len(self.labels)

    def metrics(self) -> dict[str, ModelMetric]:
        return {f"{label}_auc": ModelMetric(metric=Auc(), result=label, label=label) for label in self.labels}
