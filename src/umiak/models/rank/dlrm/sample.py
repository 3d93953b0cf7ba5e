"""Sample data for DLRM: what the numbers say together counts as much as an id lets it, and ids go together in pairs. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, pairs, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    signal = scaled(x.numbers[:, :3].sum(axis=1), 1.0)
    alone = x.weights(rng, *range(1, 9)).sum(axis=(1, 2))
    together = pairs(x.weights(rng, 2, 3, 4))
    lets = scaled(x.weights(rng, 1)[:, 0, 0], 0.7, mean=1.0)
    return scaled(alone, 0.8) + 0.9 * signal * lets + scaled(together, 0.9, mean=-1.0)
