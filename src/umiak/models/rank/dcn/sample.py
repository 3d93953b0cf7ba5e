"""Sample data for Deep & Cross: a sum over everything, times a sum over some. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    one = scaled(x.weights(rng, *range(1, 6)).sum(axis=(1, 2)), 1.0)
    other = scaled(x.weights(rng, *range(6, 9)).sum(axis=(1, 2)) + x.numbers[:, 0], 1.0)
    return scaled(one + 1.5 * one * other, 1.6, mean=-1.0)
