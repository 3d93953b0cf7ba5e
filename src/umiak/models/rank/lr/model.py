"""Logistic regression: a weight for each id and each dense feature. An adapter, for Paddle.

The oldest model of clicks, and the one to beat: what it reaches is what features say one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.models import ClickModel
from umiak.models.blocks import Wide

if TYPE_CHECKING:
    import paddle

    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """The logit is the sum of the weights."""

    def __init__(self, hyper: object, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.wide = Wide(self.features, slots, tables)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        return self.wide(inputs)
