"""Sample data for Wide & Deep: much is linear, some is in whether a number is near the middle, and in pairs of ids. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import SAMPLES, SEED, Sample, clicks, criteo, maker, pairs, scaled, with_test


def draw(samples: int = SAMPLES, seed: int = SEED) -> Sample:
    """Samples in the layout of Criteo's data."""
    rng = np.random.default_rng(seed)
    x = criteo(rng, with_test(samples))
    alone = x.weights(rng, *range(1, 17)).sum(axis=(1, 2)) + x.numbers @ rng.normal(size=x.numbers.shape[1])
    middle = -np.abs(x.numbers[:, 0])
    together = pairs(x.weights(rng, 1, 2))
    return clicks(rng, scaled(alone, 1.2) + scaled(middle, 1.0) + scaled(together, 0.8, mean=-1.0), x.columns, samples)


make = maker(draw)
