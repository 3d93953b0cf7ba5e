"""Sample data for DeepFM: ids go together in pairs, and a number counts for more the nearer it is to the middle. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, pairs, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    alone = x.weights(rng, *range(1, 9)).sum(axis=(1, 2))
    together = pairs(x.weights(rng, *range(1, 6), width=2))
    middle = -np.abs(x.numbers[:, 0])
    return scaled(alone, 0.8) + scaled(together, 1.2) + scaled(middle, 0.6, mean=-1.0)
