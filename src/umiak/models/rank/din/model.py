"""Deep Interest Network: what of a user's history matters depends on the item that is shown. An adapter, for Paddle.

Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle

from umiak.models import ClickModel
from umiak.models.blocks import Attention, Flat, Tower

if TYPE_CHECKING:
    from umiak.models import Inputs, Slots, Tables


class Model(ClickModel):
    """Rows of the history are weighed by the item, and go into a tower with it."""

    @dataclass
    class Hyper:
        """Sizes, and the slots' names: an item and its category, and those of the history, in the same order and number; no category: ``cat_slot: ""``."""

        item_emb_size: int = 64
        cat_emb_size: int = 64
        attention_sizes: tuple[int, ...] = (80, 40)
        fc_sizes: tuple[int, ...] = (200, 80)
        longest_history: int = 50
        item_slot: str = "item"
        cat_slot: str = "cat"
        hist_item_slot: str = "hist_item"
        hist_cat_slot: str = "hist_cat"
        other_features: bool = False
        """Whether the tower gets all other slots as well, and the dense ones."""

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        item, cat = slots.dim(hyper.item_slot, hyper.item_emb_size), slots.dim(hyper.cat_slot, hyper.cat_emb_size)
        self.items = tables.embedding(item, table="item", shared=True)
        self.cats = tables.embedding(cat, table="cat", shared=True) if hyper.cat_slot else None
        self.item_bias = tables.embedding(1, table="item_bias")
        width = item + (cat if hyper.cat_slot else 0)
        self.attention = Attention(width, hyper.attention_sizes)
        named = (hyper.item_slot, hyper.cat_slot, hyper.hist_item_slot, hyper.hist_cat_slot)
        others = [each for each in self.features if each not in named] if hyper.other_features else []
        is_more = others or (hyper.other_features and slots.dense_width)
        self.others = Flat(others, slots, hyper.item_emb_size, tables) if is_more else None
        wide = 3 * width + (self.others.width if self.others else 0)
        self.tower = Tower(wide, hyper.fc_sizes, out=1, activation=paddle.nn.PReLU)

    def logit(self, inputs: Inputs) -> paddle.Tensor:
        hyper = self.hyper
        item = inputs.ids(hyper.item_slot)
        hist_items = inputs.padded(hyper.hist_item_slot, hyper.longest_history)
        target, history = self.items(item), self.items.each(hist_items)
        if self.cats is not None:
            hist_cats = inputs.padded(hyper.hist_cat_slot, hyper.longest_history)
            target = paddle.concat([target, self.cats(inputs.ids(hyper.cat_slot))], axis=2)
            history = paddle.concat([history, self.cats.each(hist_cats)], axis=2)
        target = target.squeeze(1)
        interest = self.attention(history, hist_items.mask, target)
        beside = [interest, target, interest * target, *([self.others(inputs)] if self.others else [])]
        return self.tower(paddle.concat(beside, axis=1)) + self.item_bias(item).squeeze(1)
