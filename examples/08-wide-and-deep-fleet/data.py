"""Clicks with something to remember and something to understand, made by the example itself.

A user, an item, a place and an hour meet, with four numbers. How likely a click is depends on three things that a model has
to find out: a weight for each id, a weight for each pair of user and item (nothing but a table of them will do), and a curve
over the numbers (which no table has). The best AUC that any model can reach is that of the true probabilities.
"""

import os

import numpy as np

SLOTS = ("user", "item", "place", "hour", "pair")
IDS = (60, 40, 300, 24)
NUMBERS = 4
KEYS = sum(IDS) + IDS[0] * IDS[1]
FILES = 4


def samples(count: int, seed: int):
    """Ids [count, 4], numbers [count, 4], clicks [count], and the true probability of each click."""
    hidden = np.random.default_rng(0)
    weights = [hidden.normal(0, 0.6, size=many) for many in IDS]
    pairs = hidden.normal(0, 1.2, size=IDS[:2])
    draw = np.random.default_rng(seed)
    ids = np.stack([(many * draw.random(count) ** 2).astype("int64") for many in IDS], axis=1)  # small ids are popular
    numbers = draw.normal(size=(count, NUMBERS)).astype("float32")
    score = sum(weight[column] for weight, column in zip(weights, ids.T, strict=True)) + pairs[ids[:, 0], ids[:, 1]]
    score += 1.5 * np.sin(2 * numbers[:, 0]) + numbers[:, 1] * numbers[:, 2] - 1
    chances = 1 / (1 + np.exp(-score))
    return ids, numbers, (draw.random(count) < chances).astype("float32"), chances


def keys(ids):
    """A key for each slot: four ids, and the pair of user and item. No two things share a key."""
    first = np.cumsum([0, *IDS])
    pair = first[-1] + ids[:, 0] * IDS[1] + ids[:, 1]
    return np.concatenate([ids + first[:-1], pair[:, None]], axis=1)


def auc(clicks, scores) -> float:
    """How often a click has a higher score than a sample without one."""
    clicked = clicks[np.argsort(scores, kind="stable")] > 0.5
    places, ones = np.flatnonzero(clicked) + 1, clicked.sum()
    return float((places.sum() - ones * (ones + 1) / 2) / (ones * (len(clicked) - ones)))


def write(directory: str, count: int) -> None:
    """Files for datasets of Paddle: a line per sample, each slot with the number of its values before them."""
    os.makedirs(directory, exist_ok=True)
    ids, numbers, clicks, _ = samples(count, seed=1)
    slots = keys(ids)
    for part in range(FILES):
        with open(os.path.join(directory, f"part-{part}"), "w", encoding="ascii") as file:
            for row in range(part, count, FILES):
                values = [*slots[row, :, None], np.round(numbers[row], 4), [int(clicks[row])]]
                file.write(" ".join(f"{len(each)} {' '.join(map(str, each))}" for each in values) + "\n")
