"""Sample data for factorization machines: ids of some slots like or dislike one another. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, pairs, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    alone = x.weights(rng, *range(1, 9)).sum(axis=(1, 2))
    together = pairs(x.weights(rng, *range(1, 6), width=2))
    return scaled(alone, 0.8) + scaled(together, 1.4, mean=-1.0)
