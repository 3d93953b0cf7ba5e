"""Sample data for DSSM: queries and documents have a topic, and their words tell it. An adapter, without Paddle."""

from __future__ import annotations

import numpy as np

from umiak.models.samples import (
    Floats,
    Maker,
    Sample,
    Truth,
    Whole,
    drawn,
    one_id,
    several_ids,
    sigmoid,
    with_test,
)

WORDS, TOPICS, LONGEST, ANSWERS = 60, 5, 8, 4


@Maker
def make(samples: int, rng: np.random.Generator) -> Sample:
    """Four documents for each query, of 2 to 8 words. Words belong to a topic; clicks depend on how many are of the query's."""
    total = with_test(samples)
    group = np.arange(total) // ANSWERS
    topic = rng.integers(0, TOPICS, total)[group]
    query, asked = _words(rng, topic)
    query, asked = query[group * ANSWERS], asked[group * ANSWERS]
    on_topic = rng.random(total) < 0.5
    document, told = _words(rng, np.where(on_topic, topic, rng.integers(0, TOPICS, total)))
    probability = sigmoid(4.0 * _alike(query, asked, document, told) - 2.5)
    columns = (
        one_id("group", group),
        several_ids("query", 1 + query, asked),
        several_ids("document", 1 + document, told),
    )
    return Sample(
        columns=columns,
        labels={"click": drawn(rng, probability)},
        truths={"auc": Truth(label="click", probability=probability)},
        train=samples,
    )


def _words(rng: np.random.Generator, topic: Whole) -> tuple[Whole, Whole]:
    """Words of a topic for the most part, and how many of them there are. Word 12 is of topic 2."""
    shape = (len(topic), LONGEST)
    topics = np.where(rng.random(shape) < 0.7, topic[:, None], rng.integers(0, TOPICS, shape))
    return topics + TOPICS * rng.integers(0, WORDS // TOPICS, shape), rng.integers(2, LONGEST + 1, len(topic))


def _alike(one: Whole, ones: Whole, other: Whole, others: Whole) -> Floats:
    """The cosine between the numbers of words of each topic."""
    counts = []
    for words, lengths in ((one, ones), (other, others)):
        there = np.arange(LONGEST) < lengths[:, None]
        counts.append(np.stack([((words % TOPICS == each) & there).sum(axis=1) for each in range(TOPICS)], axis=1))
    product = (counts[0] * counts[1]).sum(axis=1)
    cosine: Floats = product / np.sqrt((counts[0] ** 2).sum(axis=1) * (counts[1] ** 2).sum(axis=1))
    return cosine
