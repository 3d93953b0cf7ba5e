"""Sample data for collaborative filtering: users and items have tastes, and some items are liked by most. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import SAMPLES, SEED, Sample, clicks, maker, one_id, scaled, with_test

USERS, ITEMS, TASTES = 300, 100, 2


def draw(samples: int = SAMPLES, seed: int = SEED) -> Sample:
    """A user, an item, and whether they go together."""
    rng = np.random.default_rng(seed)
    total = with_test(samples)
    user, item = rng.integers(0, USERS, total), rng.integers(0, ITEMS, total)
    tastes = (rng.normal(size=(USERS, TASTES))[user] * rng.normal(size=(ITEMS, TASTES))[item]).sum(axis=1)
    popular = rng.normal(size=ITEMS)[item]
    columns = (one_id("user", 1 + user), one_id("item", 1 + item))
    return clicks(rng, scaled(tastes, 1.5) + scaled(popular, 0.7, mean=-0.5), columns, samples)


make = maker(draw)
