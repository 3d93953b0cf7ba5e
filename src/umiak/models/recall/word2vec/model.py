"""Word2vec: skip-gram with negative sampling. An adapter, for Paddle.

Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality, NIPS 2013.

A sample is a word and one of its neighbours, with label 1; in evaluation there may be pairs that are none, with label 0. Negatives are drawn in
training from the other neighbours of the batch: so often as they occur, whatever ids they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle
from paddle.nn import functional

from umiak.models import ClickModel, Constant, Uniform

if TYPE_CHECKING:
    from umiak.models import Inputs, Results, Slots, Tables


class Model(ClickModel):
    """The product of a word's vector and its neighbour's is the logit of their being one."""

    outputs = ("probability", "vector")
    weighs_samples = False

    @dataclass
    class Hyper:
        """Sizes, and the slots' names."""

        sparse_feature_dim: int = 300
        neg_num: int = 5
        word_slot: str = "word"
        neighbour_slot: str = "neighbour"

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        self.dim = slots.common_dim((hyper.word_slot, hyper.neighbour_slot), hyper.sparse_feature_dim)
        near = 0.5 / self.dim
        self.words = tables.embedding(self.dim, init=Uniform(-near, near))
        self.neighbours = tables.embedding(self.dim, table="neighbour", init=Constant())

    def forward(self, inputs: Inputs) -> Results:
        word = self.words(inputs.ids(self.hyper.word_slot))
        neighbour = self.neighbours(inputs.ids(self.hyper.neighbour_slot))
        logit = (word * neighbour).sum(axis=2)
        results = {"logit": logit, "probability": functional.sigmoid(logit), "vector": word.squeeze(1)}
        if self.training:
            others = paddle.randint(0, neighbour.shape[0], [neighbour.shape[0] * self.hyper.neg_num])
            drawn = neighbour.squeeze(1)[others].reshape([-1, self.hyper.neg_num, self.dim])
            results["drawn"] = (word * drawn).sum(axis=2)
        return results

    def loss(self, results: Results, inputs: Inputs) -> paddle.Tensor:
        loss = super().loss(results, inputs)
        return loss + functional.softplus(results["drawn"]).sum(axis=1).mean() if "drawn" in results else loss
