"""Wide & Deep: a linear model that remembers beside a network that generalises. An adapter, for Paddle.

Cheng et al., Wide & Deep Learning for Recommender Systems, DLRS 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umiak.models import ClickModel
from umiak.models.blocks import Flat, Tower, Wide

if TYPE_CHECKING:
    import paddle

    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """The logits of both parts are added up, and they learn together."""

    @dataclass
    class Hyper:
        """Sizes."""

        sparse_feature_dim: int = 9
        fc_sizes: tuple[int, ...] = (512, 256, 128, 32)

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.wide = Wide(self.features, slots, tables)
        self.flat = Flat(self.features, slots, hyper.sparse_feature_dim, tables)
        self.deep = Tower(self.flat.width, hyper.fc_sizes, out=1)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        return self.wide(inputs) + self.deep(self.flat(inputs))
