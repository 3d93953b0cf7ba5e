"""ESMM: clicks, and purchases after a click, learned over all that was shown. An adapter, for Paddle.

Ma et al., Entire Space Multi-Task Model: An Effective Approach for Estimating Post-Click Conversion Rate, SIGIR 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddle.nn import functional

from umiak.models import Auc, ModelMetric
from umiak.models import Model as Base
from umiak.models.blocks import Flat, Tower

if TYPE_CHECKING:
    import paddle

    from umiak.models import Inputs, Results, Slots, Tables


class Model(Base):
    """The first two sparse slots are labels: a click, and a conversion, which nobody has without a click."""

    outputs = ("ctr", "cvr", "ctcvr")
    weighs_samples = True

    @dataclass
    class Hyper:
        """Sizes."""

        sparse_feature_dim: int = 12
        ctr_fc_sizes: tuple[int, ...] = (256, 64)
        cvr_fc_sizes: tuple[int, ...] = (256, 64)

    def __init__(self, hyper: Hyper, slots: Slots, tables: Tables) -> None:
        super().__init__(hyper, slots, tables)
        (self.click, self.conversion), features = slots.split(2, type(self).__name__)
        self.flat = Flat(features, slots, hyper.sparse_feature_dim, tables)
        self.click_tower = Tower(self.flat.width, hyper.ctr_fc_sizes, out=1)
        self.conversion_tower = Tower(self.flat.width, hyper.cvr_fc_sizes, out=1)

    def forward(self, inputs: Inputs) -> Results:
        x = self.flat(inputs)
        ctr = functional.sigmoid(self.click_tower(x))
        cvr = functional.sigmoid(self.conversion_tower(x))
        return {"ctr": ctr, "cvr": cvr, "ctcvr": ctr * cvr}

    def loss(self, results: Results, inputs: Inputs) -> paddle.Tensor:
        # Conversion rates are never compared with anything alone: of what was not clicked, nobody knows.
        pairs = ((results["ctr"], self.click), (results["ctcvr"], self.conversion))
        losses = [
            functional.binary_cross_entropy(answer, inputs.numbers(label), reduction="none") for answer, label in pairs
        ]
        return inputs.mean(losses[0], self.click) + inputs.mean(losses[1], self.conversion)

    def metrics(self) -> dict[str, ModelMetric]:
        return {
            "ctr_auc": ModelMetric(metric=Auc(), result="ctr", label=self.click),
            "ctcvr_auc": ModelMetric(metric=Auc(), result="ctcvr", label=self.conversion),
        }
