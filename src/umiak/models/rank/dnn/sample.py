"""Sample data for a deep network: clicks are likely where two numbers are both high or both low, and ids go together in pairs. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import SAMPLES, SEED, Sample, clicks, criteo, maker, pairs, scaled, with_test


def draw(samples: int = SAMPLES, seed: int = SEED) -> Sample:
    """Samples in the layout of Criteo's data."""
    rng = np.random.default_rng(seed)
    x = criteo(rng, with_test(samples))
    alone = x.weights(rng, *range(1, 9)).sum(axis=(1, 2))
    alike = x.numbers[:, 0] * x.numbers[:, 1]
    together = pairs(x.weights(rng, 1, 2, 3))
    return clicks(rng, scaled(alone, 1.0) + scaled(alike, 1.0) + scaled(together, 0.8, mean=-1.0), x.columns, samples)


make = maker(draw)
