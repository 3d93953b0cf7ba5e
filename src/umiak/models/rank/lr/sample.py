"""Sample data for logistic regression: every id and every number has its weight. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    signal = x.weights(rng, *range(1, 27)).sum(axis=(1, 2)) + x.numbers @ rng.normal(size=x.numbers.shape[1])
    return scaled(signal, 1.5, mean=-1.0)
