"""Neural collaborative filtering, the NeuMF model: a product of vectors and a network, each with vectors of its own. An adapter, for Paddle.

He et al., Neural Collaborative Filtering, WWW 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle

from umiak.models import ClickModel
from umiak.models.blocks import Tower

if TYPE_CHECKING:
    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """Both parts have the user and the item; a linear layer on both has the answer."""

    @dataclass
    class Hyper:
        """Sizes, and the slots' names. The first of ``fc_layers`` is that of the network's input: half of it is the user's row."""

        latent_dim: int = 8
        fc_layers: tuple[int, ...] = (64, 32, 16, 8)
        user_slot: str = "user"
        item_slot: str = "item"

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        half = hyper.fc_layers[0] // 2
        self.user_factors = tables.embedding(hyper.latent_dim, table="user_factors")
        self.item_factors = tables.embedding(hyper.latent_dim, table="item_factors")
        self.users = tables.embedding(half, table="user")
        self.items = tables.embedding(half, table="item")
        self.tower = Tower(2 * half, hyper.fc_layers[1:])
        self.top = paddle.nn.Linear(hyper.latent_dim + self.tower.width, 1)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        user, item = inputs.ids(self.hyper.user_slot), inputs.ids(self.hyper.item_slot)
        product = self.user_factors(user) * self.item_factors(item)
        deep = self.tower(paddle.concat([self.users(user), self.items(item)], axis=2))
        return self.top(paddle.concat([product, deep], axis=2)).squeeze(1)
