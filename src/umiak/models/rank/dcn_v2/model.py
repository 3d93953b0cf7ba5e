"""DCN-V2: cross layers with whole matrices, or with mixtures of experts of a low rank. An adapter, for Paddle.

Wang et al., DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale Learning to Rank Systems, WWW 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle

from umiak.models import ClickModel
from umiak.models.blocks import Crosses, CrossMatrix, CrossMixture, Flat, Tower

if TYPE_CHECKING:
    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """The tower stands on the cross layers, or beside them."""

    @dataclass
    class Hyper:
        """Sizes, and how the parts are put together."""

        sparse_feature_dim: int = 40
        cross_num: int = 2
        use_low_rank_mixture: bool = True
        low_rank: int = 256
        num_experts: int = 4
        fc_sizes: tuple[int, ...] = (768, 768)
        is_Stacked: bool = True  # noqa: N815 - PaddleRec's name

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.flat = Flat(self.features, slots, hyper.sparse_feature_dim, tables)
        width = self.flat.width
        self.cross = Crosses(
            [
                CrossMixture(width, hyper.low_rank, hyper.num_experts)
                if hyper.use_low_rank_mixture
                else CrossMatrix(width)
                for _ in range(hyper.cross_num)
            ]
        )
        self.deep = Tower(width, hyper.fc_sizes)
        self.top = paddle.nn.Linear(self.deep.width + (0 if hyper.is_Stacked else width), 1)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        x = self.flat(inputs)
        crossed = self.cross(x)
        if self.hyper.is_Stacked:
            return self.top(self.deep(crossed))
        return self.top(paddle.concat([crossed, self.deep(x)], axis=1))
