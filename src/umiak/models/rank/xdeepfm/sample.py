"""Sample data for xDeepFM: ids go together in pairs, and in threes. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, pairs, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    alone = x.weights(rng, *range(1, 9)).sum(axis=(1, 2))
    vectors = x.weights(rng, 1, 2, 3, width=2)
    in_threes = vectors.prod(axis=1).sum(axis=1)
    return scaled(alone, 0.8) + scaled(pairs(vectors), 1.0) + scaled(in_threes, 0.8, mean=-1.0)
