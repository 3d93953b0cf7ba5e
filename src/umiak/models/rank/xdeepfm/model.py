"""xDeepFM: products of two, three and more vectors, made one by one, beside a deep network. An adapter, for Paddle.

Lian et al., xDeepFM: Combining Explicit and Implicit Feature Interactions for Recommender Systems, KDD 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle

from umiak.models import ClickModel
from umiak.models.blocks import Fields, Interactions, Tower, Wide

if TYPE_CHECKING:
    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """A linear part, the compressed interaction network and a tower, added up."""

    @dataclass
    class Hyper:
        """Sizes."""

        sparse_feature_dim: int = 9
        layer_sizes_cin: tuple[int, ...] = (200, 200, 200)
        layer_sizes_dnn: tuple[int, ...] = (400, 400)

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.wide = Wide(self.features, slots, tables)
        self.fields = Fields(self.features, slots, hyper.sparse_feature_dim, tables)
        self.cin = Interactions(self.fields.count, hyper.layer_sizes_cin)
        self.cin_top = paddle.nn.Linear(self.cin.width, 1, bias_attr=False)
        self.deep = Tower(self.fields.count * self.fields.dim, hyper.layer_sizes_dnn, out=1)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        fields = self.fields(inputs)
        return self.wide(inputs) + self.cin_top(self.cin(fields)) + self.deep(fields.flatten(1))
