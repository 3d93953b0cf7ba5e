"""Sample data for collaborative filtering: users and items have tastes, and some items are liked by most. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Maker, Sample, clicks, one_id, scaled, with_test

USERS, ITEMS, TASTES = 300, 100, 2


@Maker
def make(samples: int, rng: np.random.Generator) -> Sample:
    """A user, an item, and whether they go together."""
    total = with_test(samples)
    user, item = rng.integers(0, USERS, total), rng.integers(0, ITEMS, total)
    tastes = (rng.normal(size=(USERS, TASTES))[user] * rng.normal(size=(ITEMS, TASTES))[item]).sum(axis=1)
    popular = rng.normal(size=ITEMS)[item]
    columns = (one_id("user", 1 + user), one_id("item", 1 + item))
    return clicks(rng, scaled(tastes, 1.5) + scaled(popular, 0.7, mean=-0.5), columns, samples)
