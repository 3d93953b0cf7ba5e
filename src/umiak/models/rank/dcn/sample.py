"""Sample data for Deep & Cross: a sum over everything, times a sum over some. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import SAMPLES, SEED, Sample, clicks, criteo, maker, scaled, with_test


def draw(samples: int = SAMPLES, seed: int = SEED) -> Sample:
    """Samples in the layout of Criteo's data."""
    rng = np.random.default_rng(seed)
    x = criteo(rng, with_test(samples))
    one = scaled(x.weights(rng, *range(1, 6)).sum(axis=(1, 2)), 1.0)
    other = scaled(x.weights(rng, *range(6, 9)).sum(axis=(1, 2)) + x.numbers[:, 0], 1.0)
    return clicks(rng, scaled(one + 1.5 * one * other, 1.6, mean=-1.0), x.columns, samples)


make = maker(draw)
