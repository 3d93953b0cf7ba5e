"""Sample data for a deep network: clicks are likely where two numbers are both high or both low, and ids go together in pairs. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, pairs, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    alone = x.weights(rng, *range(1, 9)).sum(axis=(1, 2))
    alike = x.numbers[:, 0] * x.numbers[:, 1]
    together = pairs(x.weights(rng, 1, 2, 3))
    return scaled(alone, 1.0) + scaled(alike, 1.0) + scaled(together, 0.8, mean=-1.0)
