"""Sample data for the Deep Interest Network: users click on what is of a category that they have had before. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Maker, Sample, clicks, one_id, scaled, several_ids, with_test

CATEGORIES, ITEMS, LONGEST = 10, 100, 12
"""Item 17 is of category 7."""


@Maker
def make(samples: int, rng: np.random.Generator) -> Sample:
    """A history of 1 to 12 items that is of three categories for the most part, and an item; each with its category."""
    total = with_test(samples)
    liked = rng.integers(0, CATEGORIES, (total, 3))
    chosen = np.take_along_axis(liked, rng.integers(0, 3, (total, LONGEST)), axis=1)
    categories = np.where(rng.random((total, LONGEST)) < 0.8, chosen, rng.integers(0, CATEGORIES, (total, LONGEST)))
    history = categories + CATEGORIES * rng.integers(0, ITEMS // CATEGORIES, (total, LONGEST))
    lengths = rng.integers(1, LONGEST + 1, total)
    item = np.where(rng.random(total) < 0.5, liked[:, 0], rng.integers(0, CATEGORIES, total))
    item += CATEGORIES * rng.integers(0, ITEMS // CATEGORIES, total)
    had = (categories == item[:, None] % CATEGORIES) & (np.arange(LONGEST) < lengths[:, None])
    popular = rng.normal(size=ITEMS)[item]
    columns = (
        one_id("item", 1 + item),
        one_id("cat", 1 + item % CATEGORIES),
        several_ids("hist_item", 1 + history, lengths),
        several_ids("hist_cat", 1 + categories, lengths),
    )
    return clicks(rng, scaled(had.sum(axis=1), 1.4) + scaled(popular, 0.5, mean=-1.0), columns, samples)
