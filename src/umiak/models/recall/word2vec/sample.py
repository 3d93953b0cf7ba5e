"""Sample data for word2vec: words have topics, and neighbours have their topic in common. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import Maker, Sample, Truth, one_id, with_test

WORDS, TOPICS = 120, 8


@Maker
def make(samples: int, rng: np.random.Generator) -> Sample:
    """Pairs of neighbours to learn from; among those to evaluate with, every other pair is of two words that met by chance."""
    total = with_test(samples)
    words = np.exp(rng.normal(size=(TOPICS, WORDS)) * 2.0)
    words /= words.sum(axis=1, keepdims=True)
    together = words.T @ words / TOPICS
    alone = together.sum(axis=1)
    near = np.ones(total, np.int64)
    near[samples::2] = 0
    pair = rng.choice(WORDS * WORDS, total, p=together.reshape(-1))
    word = pair // WORDS
    neighbour = np.where(near, pair % WORDS, rng.choice(WORDS, total, p=alone))
    by_chance = alone[word] * alone[neighbour]
    likely = together[word, neighbour] / (together[word, neighbour] + by_chance)
    return Sample(
        columns=(one_id("word", 1 + word), one_id("neighbour", 1 + neighbour)),
        labels={"near": near},
        truths={"auc": Truth(label="near", probability=likely)},
        train=samples,
    )
