"""Sample data for xDeepFM: ids go together in pairs, and in threes. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import SAMPLES, SEED, Sample, clicks, criteo, maker, pairs, scaled, with_test


def draw(samples: int = SAMPLES, seed: int = SEED) -> Sample:
    """Samples in the layout of Criteo's data."""
    rng = np.random.default_rng(seed)
    x = criteo(rng, with_test(samples))
    alone = x.weights(rng, *range(1, 9)).sum(axis=(1, 2))
    vectors = x.weights(rng, 1, 2, 3, width=2)
    in_threes = vectors.prod(axis=1).sum(axis=1)
    return clicks(
        rng,
        scaled(alone, 0.8) + scaled(pairs(vectors), 1.0) + scaled(in_threes, 0.8, mean=-1.0),
        x.columns,
        samples,
    )


make = maker(draw)
