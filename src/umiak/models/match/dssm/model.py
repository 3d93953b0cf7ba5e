"""DSSM: a query and a document become vectors, and their angle says whether they match. An adapter, for Paddle.

Huang et al., Learning Deep Structured Semantic Models for Web Search using Clickthrough Data, CIKM 2013.

A slot of words (or of pieces of words) is the sum of their rows. Documents without a click stand in the data, with label 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddle import nn

from umiak.models import ClickModel, ModelMetric, PosNegRatio
from umiak.models.blocks import Tower

if TYPE_CHECKING:
    from umiak.models import Inputs, Results, Slots, Tables


class Model(ClickModel):
    """Two towers, and the cosine between what comes out of them."""

    outputs = ("probability", "query_vector", "document_vector")

    @dataclass
    class Hyper:
        """Sizes, and the slots' names. Samples with the same ``group_slot`` are answers to one query: pairs of them are judged."""

        sparse_feature_dim: int = 300
        fc_sizes: tuple[int, ...] = (300, 300, 128)
        query_slot: str = "query"
        document_slot: str = "document"
        group_slot: str | None = None

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        dim = slots.common_dim((hyper.query_slot, hyper.document_slot), hyper.sparse_feature_dim)
        self.embedding = tables.embedding(dim, shared=True)
        self.query = Tower(dim, hyper.fc_sizes, activation=nn.Tanh)
        self.document = Tower(dim, hyper.fc_sizes, activation=nn.Tanh)
        # The smoothing factor of the paper, which is learned here, and what a cosine of 0 means.
        self.scale = self.create_parameter([1], default_initializer=nn.initializer.Constant(5.0))
        self.bias = self.create_parameter([1], is_bias=True)

    def forward(self, inputs: Inputs) -> Results:
        query = self.query(self.embedding(inputs.ids(self.hyper.query_slot)).squeeze(1))
        document = self.document(self.embedding(inputs.ids(self.hyper.document_slot)).squeeze(1))
        cosine = nn.functional.cosine_similarity(query, document, axis=1).unsqueeze(1)
        logit = self.scale * cosine + self.bias
        probability = nn.functional.sigmoid(logit)
        return {"logit": logit, "probability": probability, "query_vector": query, "document_vector": document}

    def metrics(self) -> dict[str, ModelMetric]:
        metrics = super().metrics()
        if self.hyper.group_slot is not None:
            metrics["pos_neg_ratio"] = ModelMetric(
                metric=PosNegRatio(), result="probability", label=self.label, groups=self.hyper.group_slot
            )
        return metrics
