"""Deep Interest Network: what of a user's history matters depends on the item that is shown. An adapter, for Paddle.

Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle

from umiak.models import ClickModel
from umiak.models.blocks import Attention, Tower

if TYPE_CHECKING:
    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """Rows of the history are weighed by the item, and go into a tower with it."""

    @dataclass
    class Hyper:
        """Sizes, and the slots' names: an item and its category, and those of the history, in the same order and number."""

        item_emb_size: int = 64
        cat_emb_size: int = 64
        attention_sizes: tuple[int, ...] = (80, 40)
        fc_sizes: tuple[int, ...] = (200, 80)
        longest_history: int = 50
        item_slot: str = "item"
        cat_slot: str = "cat"
        hist_item_slot: str = "hist_item"
        hist_cat_slot: str = "hist_cat"

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.items = tables.embedding(hyper.item_emb_size, table="item", shared=True)
        self.cats = tables.embedding(hyper.cat_emb_size, table="cat", shared=True)
        self.item_bias = tables.embedding(1, table="item_bias")
        width = hyper.item_emb_size + hyper.cat_emb_size
        self.attention = Attention(width, hyper.attention_sizes)
        self.tower = Tower(3 * width, hyper.fc_sizes, out=1, activation=paddle.nn.PReLU)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        hyper = self.hyper
        item = inputs.ids(hyper.item_slot)
        hist_items = inputs.padded(hyper.hist_item_slot, hyper.longest_history)
        hist_cats = inputs.padded(hyper.hist_cat_slot, hyper.longest_history)
        target = paddle.concat([self.items(item), self.cats(inputs.ids(hyper.cat_slot))], axis=2).squeeze(1)
        history = paddle.concat([self.items.each(hist_items), self.cats.each(hist_cats)], axis=2)
        interest = self.attention(history, hist_items.mask, target)
        return self.tower(paddle.concat([interest, target, interest * target], axis=1)) + self.item_bias(item).squeeze(
            1
        )
