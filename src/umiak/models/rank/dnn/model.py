"""A deep network on embeddings, the base line of click models. An adapter, for Paddle.

Rows of all ids, summed slot by slot, and the dense features side by side; then fully connected layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umiak.models import ClickModel
from umiak.models.blocks import Flat, Tower

if TYPE_CHECKING:
    import paddle

    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """A tower on everything."""

    @dataclass
    class Hyper:
        """Sizes."""

        sparse_feature_dim: int = 9
        fc_sizes: tuple[int, ...] = (512, 256, 128, 32)

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.flat = Flat(self.features, slots, hyper.sparse_feature_dim, tables)
        self.tower = Tower(self.flat.width, hyper.fc_sizes, out=1)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        return self.tower(self.flat(inputs))
