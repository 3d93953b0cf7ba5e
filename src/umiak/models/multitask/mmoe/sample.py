"""Sample data for a mixture of experts: two tasks that have some of their reasons in common. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Maker, Sample, Truth, criteo, drawn, pairs, scaled, sigmoid, with_test


@Maker
def make(samples: int, rng: np.random.Generator) -> Sample:
    """Samples in the layout of Criteo's data, with two labels."""
    x = criteo(rng, with_test(samples))
    common = scaled(x.weights(rng, *range(1, 7)).sum(axis=(1, 2)), 1.0)
    middle = scaled(-np.abs(x.numbers[:, 0]), 0.7)
    own = [scaled(x.weights(rng, *slots).sum(axis=(1, 2)), 0.8) for slots in (range(7, 10), range(10, 13))]
    click = sigmoid(common + own[0] + middle - 0.7)
    like = sigmoid(common + own[1] + scaled(pairs(x.weights(rng, 1, 2)), 0.8) - 1.2)
    return Sample(
        columns=x.columns,
        labels={"click": drawn(rng, click), "like": drawn(rng, like)},
        truths={
            "click_auc": Truth(label="click", probability=click),
            "like_auc": Truth(label="like", probability=like),
        },
        train=samples,
    )
