"""DeepFM: a factorization machine and a deep network on the same embeddings. An adapter, for Paddle.

Guo et al., DeepFM: A Factorization-Machine based Neural Network for CTR Prediction, IJCAI 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umiak.models import ClickModel
from umiak.models.blocks import Fields, Tower, Wide, second_order

if TYPE_CHECKING:
    import paddle

    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """First order, second order and a tower, added up."""

    @dataclass
    class Hyper:
        """Sizes."""

        sparse_feature_dim: int = 9
        fc_sizes: tuple[int, ...] = (400, 400, 400)

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.wide = Wide(self.features, slots, tables)
        self.fields = Fields(self.features, slots, hyper.sparse_feature_dim, tables)
        self.deep = Tower(self.fields.count * self.fields.dim, hyper.fc_sizes, out=1)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        fields = self.fields(inputs)
        return self.wide(inputs) + second_order(fields) + self.deep(fields.flatten(1))
