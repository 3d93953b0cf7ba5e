"""Sample data for Wide & Deep: much is linear, some is in whether a number is near the middle, and in pairs of ids. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, pairs, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    alone = x.weights(rng, *range(1, 17)).sum(axis=(1, 2)) + x.numbers @ rng.normal(size=x.numbers.shape[1])
    middle = -np.abs(x.numbers[:, 0])
    together = pairs(x.weights(rng, 1, 2))
    return scaled(alone, 1.2) + scaled(middle, 1.0) + scaled(together, 0.8, mean=-1.0)
