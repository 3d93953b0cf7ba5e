"""Factorization machines: weights, and products of vectors for all pairs of features. An adapter, for Paddle.

Rendle, Factorization Machines, ICDM 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umiak.models import ClickModel
from umiak.models.blocks import Fields, Wide, second_order

if TYPE_CHECKING:
    import paddle

    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """The logit is a linear part and the second-order term."""

    @dataclass
    class Hyper:
        """Sizes."""

        sparse_feature_dim: int = 9

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.wide = Wide(self.features, slots, tables)
        self.fields = Fields(self.features, slots, hyper.sparse_feature_dim, tables)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        return self.wide(inputs) + second_order(self.fields(inputs))
