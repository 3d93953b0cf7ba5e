"""What makers of sample data have in common: slots drawn, labels drawn from known probabilities, slot files written. An adapter, without Paddle.

    @of_criteo
    def make(rng: np.random.Generator, x: Criteo) -> Floats:
        return scaled(x.numbers[:, 0], 1.5)

    make("umiak_data/rank/lr")          train/part-0000, ..., test/part-0000, ..., best.json

A `Sample` knows the probabilities that its labels were drawn from. Nobody can do better than these: ``best.json`` has the AUC that they reach on the
test part, one for each metric of the model. The same seed makes the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from umiak.core.value import value
from umiak.train.metrics.clicks import Auc

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Tokens = Sequence[str]
"""What each sample has of a slot, as it stands in a line."""

SAMPLES = 40_000
SEED = 1
PARTS = {"train": 4, "test": 2}
FINE = 1 << 20
"""Bins of the AUC of true probabilities: fine enough to be exact."""


@value
class Truth:
    """What a metric looks at, at its best."""

    label: str
    probability: Floats


@value
class Sample:
    """Drawn samples: the first ``train`` of them to learn from, the others to evaluate with."""

    columns: tuple[Tokens, ...]
    """The slots of features, one after the other."""
    labels: dict[str, Whole]
    truths: dict[str, Truth]
    """By the name of the metric."""
    train: int

    def best(self) -> dict[str, float]:
        """What the true probabilities reach on the test part."""
        best = {}
        for name, truth in self.truths.items():
            metric = Auc(bins=FINE)
            metric.update(truth.probability[self.train :], self.labels[truth.label][self.train :])
            best[name] = round(metric.values()["auc"], 5)
        return best

    def write(self, directory: str) -> dict[str, float]:
        """Files below a directory; what was there under the same names is replaced. The same as `best`."""
        columns = [*(one_id(name, each) for name, each in self.labels.items()), *self.columns]
        lines = [*map(" ".join, zip(*columns, strict=True))]
        for part, some in (("train", lines[: self.train]), ("test", lines[self.train :])):
            os.makedirs(os.path.join(directory, part), exist_ok=True)
            for number, chunk in enumerate(_chunks(some, PARTS[part])):
                path = os.path.join(directory, part, f"part-{number:04}")
                with open(path, "w", encoding="utf-8", newline="\n") as file:
                    file.writelines(f"{line}\n" for line in chunk)
        best = self.best()
        with open(os.path.join(directory, "best.json"), "w", encoding="utf-8") as file:
            json.dump(best, file, indent=2)
            file.write("\n")
        return best


class Maker:
    """What a ``sample.py`` has: the same seed gives the same bytes."""

    def __init__(self, how: Callable[[int, np.random.Generator], Sample]) -> None:
        """``how`` draws so many samples to learn from, and others to evaluate with."""
        self._how = how

    def draw(self, samples: int = SAMPLES, seed: int = SEED) -> Sample:
        return self._how(samples, np.random.default_rng(seed))

    def __call__(self, directory: str, samples: int = SAMPLES, seed: int = SEED) -> dict[str, float]:
        """Write sample data below a directory; returns the best that any model can reach, by metric."""
        return self.draw(samples, seed).write(directory)


def of_criteo(logit: Callable[[np.random.Generator, Criteo], Floats]) -> Maker:
    """For models with one answer about samples in the layout of Criteo's data: clicks with the probability that a logit says."""

    def how(samples: int, rng: np.random.Generator) -> Sample:
        x = criteo(rng, with_test(samples))
        return clicks(rng, logit(rng, x), x.columns, samples)

    return Maker(how)


# ---- labels


def clicks(rng: np.random.Generator, logit: Floats, columns: Sequence[Tokens], train: int) -> Sample:
    """For models with one answer: clicks with the probability that a logit says."""
    probability = sigmoid(logit)
    return Sample(
        columns=tuple(columns),
        labels={"click": drawn(rng, probability)},
        truths={"auc": Truth(label="click", probability=probability)},
        train=train,
    )


def drawn(rng: np.random.Generator, probability: Floats) -> Whole:
    """1 with that probability, else 0."""
    return (rng.random(probability.shape) < probability).astype(np.int64)


def sigmoid(logit: Floats) -> Floats:
    """A logit's probability."""
    return 1.0 / (1.0 + np.exp(-logit))


def scaled(signal: Floats, deviation: float, mean: float = 0.0) -> Floats:
    """The same with that mean and deviation over the samples: what says how well a signal can be seen."""
    centred: Floats = (signal - signal.mean()) * (deviation / signal.std()) + mean
    return centred


def with_test(train: int) -> int:
    """How many samples there are if so many are for training."""
    return train + max(train // 4, 1)


# ---- features


@value
class Criteo:
    """Samples in the layout of Criteo's data: slots 1 to 26 with an id each, and 13 numbers."""

    values: Whole
    """Which of its slot's ids a sample has, from 0; [samples, 26]."""
    numbers: Floats
    """[samples, 13], from -2 to 2."""
    columns: tuple[Tokens, ...]

    def weights(self, rng: np.random.Generator, *slots: int, width: int = 1) -> Floats:
        """Something unknown about every id of some slots: [samples, slots, width]. Slots have the numbers of their names."""
        tables = rng.normal(size=(len(slots), MOST_IDS, width))
        weights: Floats = tables[np.arange(len(slots)), self.values[:, np.array(slots) - 1]]
        return weights


SPARSE, DENSE = 26, 13
MOST_IDS = 6
DENSE_SLOT = "dense_var"


def criteo(rng: np.random.Generator, samples: int) -> Criteo:
    """Slots of 3 to 6 ids, the first of them more frequent; ids of different slots differ, as all slots share a table."""
    sizes = 3 + np.arange(SPARSE) % (MOST_IDS - 2)
    values = np.minimum((rng.random((samples, SPARSE)) ** 1.3 * sizes).astype(np.int64), sizes - 1)
    numbers = rng.integers(-40, 41, (samples, DENSE)) / 20
    columns = [several_numbers(DENSE_SLOT, numbers)]
    columns += [one_id(str(slot + 1), 1000 * (slot + 1) + values[:, slot]) for slot in range(SPARSE)]
    return Criteo(values=values, numbers=numbers, columns=tuple(columns))


def pairs(vectors: Floats) -> Floats:
    """The products of all pairs of vectors, added up: [samples, slots, width] to [samples]."""
    pairs: Floats = (vectors.sum(axis=1) ** 2 - (vectors**2).sum(axis=1)).sum(axis=1) / 2
    return pairs


# ---- tokens


def one_id(slot: str, ids: Whole) -> Tokens:
    """A slot with an id for each sample."""
    different, places = np.unique(ids, return_inverse=True)
    texts = np.array([f"{slot}:{each}" for each in different.tolist()], object)
    tokens: list[str] = texts[places.reshape(ids.shape)].tolist()
    return tokens


def several_ids(slot: str, ids: Whole, lengths: Whole) -> Tokens:
    """A slot with the first ids of each row of a matrix."""
    rows = one_id(slot, ids)
    return [" ".join(row[:length]) for row, length in zip(rows, lengths.tolist(), strict=True)]


def several_numbers(slot: str, numbers: Floats) -> Tokens:
    """A slot with a row of numbers, which have few different values."""
    different, places = np.unique(numbers, return_inverse=True)
    texts = np.array([f"{slot}:{each:g}" for each in different.tolist()], object)
    return [*map(" ".join, texts[places.reshape(numbers.shape)].tolist())]


def _chunks(lines: Sequence[str], parts: int) -> list[Sequence[str]]:
    """Parts of equal length, but for the last; of a multiple of 8 lines, so that groups stay together."""
    size = -(-len(lines) // parts // 8) * 8 or 8
    return [lines[start : start + size] for start in range(0, max(len(lines), 1), size)]
