"""Sample data for ESMM: clicks, and conversions of some of those who clicked. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Maker, Sample, Truth, criteo, drawn, scaled, sigmoid, with_test


@Maker
def make(samples: int, rng: np.random.Generator) -> Sample:
    """Samples in the layout of Criteo's data, with two labels; nobody converts without a click."""
    x = criteo(rng, with_test(samples))
    ctr = sigmoid(scaled(x.weights(rng, *range(1, 9)).sum(axis=(1, 2)) + x.numbers[:, 0], 1.4, mean=-0.5))
    cvr = sigmoid(scaled(x.weights(rng, *range(5, 13)).sum(axis=(1, 2)) + x.numbers[:, 1], 1.4, mean=-0.5))
    click = drawn(rng, ctr)
    return Sample(
        columns=x.columns,
        labels={"click": click, "conversion": click * drawn(rng, cvr)},
        truths={
            "ctr_auc": Truth(label="click", probability=ctr),
            "ctcvr_auc": Truth(label="conversion", probability=ctr * cvr),
        },
        train=samples,
    )
