"""Sample data for DeepFM: ids go together in pairs, and a number counts for more the nearer it is to the middle. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import SAMPLES, SEED, Sample, clicks, criteo, maker, pairs, scaled, with_test


def draw(samples: int = SAMPLES, seed: int = SEED) -> Sample:
    """Samples in the layout of Criteo's data."""
    rng = np.random.default_rng(seed)
    x = criteo(rng, with_test(samples))
    alone = x.weights(rng, *range(1, 9)).sum(axis=(1, 2))
    together = pairs(x.weights(rng, *range(1, 6), width=2))
    middle = -np.abs(x.numbers[:, 0])
    return clicks(rng, scaled(alone, 0.8) + scaled(together, 1.2) + scaled(middle, 0.6, mean=-1.0), x.columns, samples)


make = maker(draw)
