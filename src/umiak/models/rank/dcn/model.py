"""Deep & Cross: layers that multiply features with one another, beside a deep network. An adapter, for Paddle.

Wang et al., Deep & Cross Network for Ad Click Predictions, ADKDD 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle

from umiak.models import ClickModel
from umiak.models.blocks import Crosses, CrossVector, Flat, Tower

if TYPE_CHECKING:
    from umiak.models import Inputs, Results, Slots, Tables


class Model(ClickModel):
    """Both parts see everything; a linear layer on both has the answer."""

    @dataclass
    class Hyper:
        """Sizes, and the penalty on the weights of cross layers."""

        sparse_feature_dim: int = 9
        cross_num: int = 2
        fc_sizes: tuple[int, ...] = (512, 256, 128)
        l2_reg_cross: float = 0.00005

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.flat = Flat(self.features, slots, hyper.sparse_feature_dim, tables)
        self.cross = Crosses([CrossVector(self.flat.width) for _ in range(hyper.cross_num)])
        self.deep = Tower(self.flat.width, hyper.fc_sizes)
        self.top = paddle.nn.Linear(self.flat.width + self.deep.width, 1)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        x = self.flat(inputs)
        return self.top(paddle.concat([self.cross(x), self.deep(x)], axis=1))

    def loss(self, results: Results, inputs: Inputs) -> paddle.Tensor:
        penalty = sum((layer.weight.weight.square().sum() for layer in self.cross), paddle.zeros([]))
        return super().loss(results, inputs) + self.hyper.l2_reg_cross * penalty
