"""DLRM: dense features become a vector like any other, and the products of all pairs go into a network. An adapter, for Paddle.

Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation Systems, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle

from umiak.models import ClickModel, UmiakError
from umiak.models.blocks import Dots, Tower

if TYPE_CHECKING:
    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """A tower below, products, and a tower on top."""

    @dataclass
    class Hyper:
        """Sizes. The last of ``top_layer_sizes`` is that of the answer: one logit here, which says as much as a softmax over two."""

        sparse_feature_dim: int = 16
        bot_layer_sizes: tuple[int, ...] = (512, 256, 64, 16)
        top_layer_sizes: tuple[int, ...] = (512, 256, 2)

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        dim = slots.common_dim(self.features, hyper.sparse_feature_dim)
        self.bottom = Tower(slots.dense_width, hyper.bot_layer_sizes)
        if self.bottom.width != dim or not slots.dense_width:
            raise UmiakError.of(
                "UM-TRAIN-012",
                f"dlrm multiplies what comes out of bot_layer_sizes with rows: {self.bottom.width} numbers with {dim}",
                hint=f"let bot_layer_sizes end with {dim}, and let the dataset have a dense slot",
            )
        self.embedding = tables.embedding(dim)
        self.dots = Dots(1 + len(self.features))
        self.top = Tower(dim + self.dots.width, hyper.top_layer_sizes[:-1], out=1)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        dense = self.bottom(inputs.dense())
        fields = paddle.concat([dense.unsqueeze(1), self.embedding(inputs.ids(*self.features))], axis=1)
        return self.top(paddle.concat([dense, self.dots(fields)], axis=1))
