"""Items that a user has not chosen, drawn for each positive sample of a batch. An adapter, for Paddle.

    drawn = NegativeSampler(retrieval, catalogue, "click").drawn(batch, seed)
    drawn.batch                          the samples that are learned from
    softmax_loss(logit, drawn, inputs)   with `loss: softmax`, in place of the model's own

What is drawn follows from the seed alone. An item that was drawn for itself is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.train.config.objectives.retrieval import Negatives, RetrievalLoss
from umiak.train.modeling.model import ClickModel
from umiak.train.reading.batches import Arrays
from umiak.train.reading.tables.catalogue import beside, rows_of, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umiak.train.config.objectives.retrieval import Retrieval
    from umiak.train.modeling.inputs import Inputs
    from umiak.train.modeling.model import Model
    from umiak.train.reading.batches import Batch
    from umiak.train.reading.tables.catalogue import Catalogue

    Places = NDArray[np.int64]

LEFT_OUT = -1e9
"""The logit of an item that was drawn for itself."""


@value
class DrawnBatch:
    """Samples with what was drawn for them."""

    batch: Arrays
    offsets: NDArray[np.float32] | None = None
    """With `softmax`: what is added to the logits, a row for each positive sample, whose item is the first."""


class NegativeSampler:
    """Draws for batches."""

    def __init__(self, retrieval: Retrieval, catalogue: Catalogue, label: str) -> None:
        self._retrieval = retrieval
        self._catalogue = catalogue
        self._label = label
        self._key = retrieval.features[0]
        weights = catalogue.weights
        power = retrieval.alpha if retrieval.negatives is Negatives.POPULARITY else 1.0
        self._chances = None if weights is None else weights**power / (weights**power).sum()
        self._ends = None if self._chances is None else np.cumsum(self._chances)

    def drawn(self, batch: Batch, seed: int) -> DrawnBatch:
        """The samples of a batch, or with `softmax` its positive ones, and those that were drawn for them."""
        rng, count = np.random.default_rng(seed), self._retrieval.count
        labels = batch.sparse[self._label][0]
        positives = np.flatnonzero(labels > 0)
        own = (
            self._catalogue.items.size + positives
        )  # places among the items of the catalogue and then those of the batch
        others = self._others(positives, rng, count)
        keys = np.concatenate([self._catalogue.keys, batch.sparse[self._key][0].astype(np.int64)])
        hits = keys[others] == keys[own][:, None]
        if self._retrieval.loss is RetrievalLoss.SOFTMAX:
            candidates = np.concatenate([own[:, None], others], axis=1)
            users, items = np.repeat(positives, count + 1), candidates.reshape(-1)
            truth = np.zeros(candidates.shape, labels.dtype)
            truth[:, 0] = labels[positives]
            offsets = -self._log_chances(keys[candidates])
            offsets[:, 1:][hits] = LEFT_OUT
            made = self._put_together(batch, users, items, truth.reshape(-1))
            return DrawnBatch(batch=made, offsets=offsets.astype(np.float32))
        everybody = np.arange(batch.size)
        users = np.concatenate([everybody, np.repeat(positives, count)[~hits.reshape(-1)]])
        items = np.concatenate([self._catalogue.items.size + everybody, others[~hits]])
        truth = np.concatenate([labels, np.zeros(len(users) - batch.size, labels.dtype)])
        return DrawnBatch(batch=self._put_together(batch, users, items, truth))

    def _others(self, positives: Places, rng: np.random.Generator, count: int) -> Places:
        """For each positive sample the places of so many items."""
        shape, size = (len(positives), count), self._catalogue.items.size
        match self._retrieval.negatives:
            case Negatives.IN_BATCH:
                return (
                    size + positives[rng.integers(0, len(positives), shape)]
                    if len(positives)
                    else np.zeros(shape, np.int64)
                )
            case Negatives.POPULARITY if self._ends is not None:
                found = np.searchsorted(self._ends, rng.random(shape) * self._ends[-1], side="right")
                places: Places = np.minimum(found, size - 1)
                return places
            case _:
                return rng.integers(0, size, shape)

    def _log_chances(self, keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """The logarithm of each item's chance to be drawn; nothing where all have the same."""
        if self._chances is None or self._retrieval.negatives is Negatives.UNIFORM:
            return np.zeros(keys.shape)
        places = self._catalogue.places(keys)
        if (places < 0).any():
            raise UmiakError.of(
                "UM-TRAIN-605",
                f"{int((places < 0).sum())} items of a batch are not in the catalogue, so nobody knows how often they are drawn",
                hint="let the catalogue have every item of the training data; or write `loss: log_loss`",
            )
        found: NDArray[np.float64] = np.log(self._chances[places])
        return found

    def _put_together(self, batch: Batch, users: Places, items: Places, truth: NDArray[np.float32]) -> Arrays:
        """Samples of these users with these items."""
        known, slots = self._catalogue.items, self._catalogue.slots
        theirs = taken(batch, users, tuple(name for name in (*batch.sparse, *batch.dense) if name not in slots))
        sparse = {}
        for name, (ids, ends) in known.sparse.items():
            more, more_ends = batch.sparse[name]
            both = np.concatenate([ids, more.astype(ids.dtype)]), np.concatenate([ends, ends[-1] + more_ends[1:]])
            sparse[name] = rows_of(both, items)
        dense = {name: np.concatenate([values, batch.dense[name]])[items] for name, values in known.dense.items()}
        made = beside(theirs, Arrays(size=len(items), dense=dense, sparse=sparse))
        labels = {self._label: (truth, np.arange(len(truth) + 1))}
        return Arrays(size=made.size, dense=made.dense, sparse={**made.sparse, **labels})


def sampler_for(
    model: Model, retrieval: Retrieval, catalogue: Catalogue | None, where: str | None
) -> NegativeSampler | None:
    """None: nothing is drawn. UmiakError for a model that says no logit."""
    if catalogue is None or retrieval.negatives is Negatives.NONE:
        return None
    if not isinstance(model, ClickModel):
        raise UmiakError.of(
            "UM-TRAIN-605",
            f"retrieval: negatives are for models of clicks: {type(model).__name__} is none",
            hint="let the model be a ClickModel; or write `negatives: none`, and have them in the data",
            where=where,
        )
    return NegativeSampler(retrieval, catalogue, model.label)


def softmax_loss(logit: paddle.Tensor, drawn: DrawnBatch | None, inputs: Inputs) -> paddle.Tensor:
    """Which of the items was chosen: the mean over the positive samples, by their weights."""
    assert drawn is not None
    assert drawn.offsets is not None
    rows, candidates = drawn.offsets.shape
    logits = logit.reshape([rows, candidates]) + paddle.to_tensor(drawn.offsets)
    losses = -paddle.nn.functional.log_softmax(logits, axis=1)[:, 0]
    if inputs.slots.weight is None:
        return losses.mean()
    return (losses * inputs.numbers(inputs.slots.weight).reshape([rows, candidates])[:, 0]).mean()
