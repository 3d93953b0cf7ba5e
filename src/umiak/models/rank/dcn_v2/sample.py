"""Sample data for DCN-V2: two products of sums, each over features of its own. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Criteo, Floats, of_criteo, scaled


@of_criteo
def make(rng: np.random.Generator, x: Criteo) -> Floats:
    """The logit of a click."""
    sums = [scaled(x.weights(rng, *slots).sum(axis=(1, 2)), 1.0) for slots in ((1, 2), (3, 4), (5, 6), (7, 8))]
    alone = sums[0] + sums[2]
    products = sums[0] * sums[1] + sums[2] * sums[3]
    return scaled(alone, 0.8) + scaled(products, 1.4, mean=-1.0)
