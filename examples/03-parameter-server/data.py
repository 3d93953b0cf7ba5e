"""Clicks with a planted signal: every id has a hidden weight, and a sample's weights decide how likely a click is.

Samples are made from their number, so every trainer makes its own part and nobody reads a file. The best AUC that any
model can reach is that of the hidden probabilities themselves: `auc(labels, chances)`, about 0.85.
"""

import numpy as np

SLOTS, IDS_PER_SLOT, NUMBERS = 8, 2000, 4


def samples(first: int, count: int, seed: int = 7):
    """Ids [count, SLOTS], numbers [count, NUMBERS], clicks [count, 1], and the hidden chance of a click [count]."""
    hidden = np.random.default_rng(seed)
    weights = hidden.normal(0, 0.7, size=SLOTS * IDS_PER_SLOT)
    slopes = hidden.normal(0, 0.5, size=NUMBERS)
    draw = np.random.default_rng([seed, first])
    popular = np.minimum(draw.zipf(1.2, size=(count, SLOTS)) - 1, IDS_PER_SLOT - 1)
    ids = popular + np.arange(SLOTS) * IDS_PER_SLOT
    numbers = draw.normal(size=(count, NUMBERS)).astype("float32")
    chances = 1 / (1 + np.exp(1 - weights[ids].sum(axis=1) - numbers @ slopes))
    clicks = (draw.random(count) < chances).astype("float32").reshape(-1, 1)
    return ids.astype("int64"), numbers, clicks, chances


def auc(clicks, scores) -> float:
    """How often a click has a higher score than a sample without one."""
    order = np.argsort(np.ravel(scores), kind="stable")
    clicked = np.ravel(clicks)[order] > 0.5
    ranks = np.arange(1, len(clicked) + 1)
    ones = clicked.sum()
    return float((ranks[clicked].sum() - ones * (ones + 1) / 2) / (ones * (len(clicked) - ones)))
