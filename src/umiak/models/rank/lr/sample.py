"""Sample data for logistic regression: every id and every number has its weight. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import SAMPLES, SEED, Sample, clicks, criteo, maker, scaled, with_test


def draw(samples: int = SAMPLES, seed: int = SEED) -> Sample:
    """Samples in the layout of Criteo's data."""
    rng = np.random.default_rng(seed)
    x = criteo(rng, with_test(samples))
    signal = x.weights(rng, *range(1, 27)).sum(axis=(1, 2)) + x.numbers @ rng.normal(size=x.numbers.shape[1])
    return clicks(rng, scaled(signal, 1.5, mean=-1.0), x.columns, samples)


make = maker(draw)
