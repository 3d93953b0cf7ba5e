"""Metrics of decisions: was it the right class, and is the right class among the first k. A decider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.train.metrics.batch import MetricBatch, misfit
from umiak.train.metrics.metric import NAN, Scored, ratio, setting

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from umiak.train.metrics.metric import State


class Accuracy(Scored):
    """The share of samples that were put into the right class.

    With one or two scores per sample, positive is what reaches ``threshold``; with more, the class with the highest score is
    chosen, of equal ones the first.
    """

    main = "accuracy"

    def __init__(self, *, threshold: float = 0.5) -> None:
        setting("accuracy", "threshold", threshold, allowed=0 <= threshold <= 1, what="within 0 to 1")
        self._threshold = threshold
        super().__init__(threshold=threshold)

    def take(self, batch: MetricBatch) -> None:
        chosen, labels, counts = _decisions(batch, self._threshold)
        self._state["right"] += np.count_nonzero(chosen == labels)
        self._state["samples"] += counts

    def _arrays(self) -> State:
        return {"right": np.zeros(1, np.int64)}

    def _values(self) -> dict[str, float]:
        return {"accuracy": ratio(self._state["right"][0], self.samples)}


class PrecisionRecall(Scored):
    """Precision, recall and F1: of the positive class, and as means over the classes.

    ``precision``, ``recall``, ``f1`` are the positive class's, where there are two classes. ``macro_*`` is the mean over classes of
    precision and recall, ``micro_*`` that of all decisions together, and F1 is made of these two means: the six numbers that Paddle's
    operator reports, which takes precision or recall of a class that was never chosen or never occurs for 1.
    """

    def __init__(self, *, classes: int = 2, threshold: float = 0.5) -> None:
        name = "precision_recall"
        setting(name, "classes", classes, allowed=isinstance(classes, int) and classes >= 2, what="2 or more")
        setting(name, "threshold", threshold, allowed=0 <= threshold <= 1, what="within 0 to 1")
        self._classes = classes
        self._threshold = threshold
        super().__init__(classes=classes, threshold=threshold)
        self.main = "f1" if classes == 2 else "macro_f1"

    def take(self, batch: MetricBatch) -> None:
        if max(batch.columns, 2) != self._classes:
            raise misfit(f"{self!r} was given {batch.columns} scores per sample")
        chosen, labels, counts = _decisions(batch, self._threshold)
        self._state["right"] += np.bincount(labels[chosen == labels], minlength=self._classes)
        self._state["chosen"] += np.bincount(chosen, minlength=self._classes)
        self._state["actual"] += np.bincount(labels, minlength=self._classes)
        self._state["samples"] += counts

    def table(self) -> NDArray[np.int64]:
        """True positive, false positive, true negative, false negative of each class, as Paddle's operator has them."""
        right, chosen, actual = (self._state[name] for name in ("right", "chosen", "actual"))
        return np.stack([right, chosen - right, self.samples - chosen - actual + right, actual - right], axis=1)

    def _arrays(self) -> State:
        return {name: np.zeros(self._classes, np.int64) for name in ("right", "chosen", "actual")}

    def _values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        right, chosen, actual = (self._state[name].astype(np.float64) for name in ("right", "chosen", "actual"))
        if self._classes == 2:
            found |= _three("", ratio(right[1], chosen[1]), ratio(right[1], actual[1]))
        if not self.samples:
            return found | _three("macro_", NAN, NAN) | _three("micro_", NAN, NAN)
        each = [np.divide(right, whole, out=np.ones_like(right), where=whole > 0).mean() for whole in (chosen, actual)]
        found |= _three("macro_", float(each[0]), float(each[1]))
        return found | _three("micro_", ratio(right.sum(), chosen.sum()), ratio(right.sum(), actual.sum()))

    def _undefined(self) -> str | None:
        if self._classes > 2 or self._state["chosen"][1] + self._state["actual"][1]:
            return None
        return "no sample is positive, and none was taken for it"


class RecallK(Scored):
    """How often the right class is among the ``k`` with the highest scores; of equal scores the first class goes first."""

    main = "recall"

    def __init__(self, *, k: int = 20) -> None:
        setting("recall_k", "k", k, allowed=isinstance(k, int) and k >= 1, what="1 or more")
        self._k = k
        super().__init__(k=k)

    def take(self, batch: MetricBatch) -> None:
        if batch.columns < self._k:
            raise misfit(f"the first {self._k} of {batch.columns} scores per sample: a smaller k is required")
        scores, labels, counts, _ = batch.classes()
        own = scores[np.arange(len(labels)), labels][:, None]
        # Counting what stands before the right class is cheaper than sorting all.
        before = np.count_nonzero(scores > own, axis=1)
        equal = (scores == own) & (np.arange(scores.shape[1]) < labels[:, None])
        before += np.count_nonzero(equal, axis=1)
        self._state["found"] += np.count_nonzero(before < self._k)
        self._state["samples"] += counts

    def _arrays(self) -> State:
        return {"found": np.zeros(1, np.int64)}

    def _values(self) -> dict[str, float]:
        return {"recall": ratio(self._state["found"][0], self.samples)}


def _decisions(batch: MetricBatch, threshold: float) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The class that each sample is put into, the one that it belongs to, and how many there are."""
    if batch.columns <= 2:
        scores, positive, counts, _ = batch.binary(probabilities=True)
        return (scores >= threshold).astype(np.int64), positive.astype(np.int64), counts
    scores, labels, counts, _ = batch.classes()
    return scores.argmax(axis=1), labels, counts


def _three(prefix: str, precision: float, recall: float) -> dict[str, float]:
    """Two numbers and their harmonic mean, which is 0 if both are."""
    both = precision + recall
    f1 = 0.0 if both == 0 else 2 * precision * recall / both
    return {f"{prefix}precision": precision, f"{prefix}recall": recall, f"{prefix}f1": f1}
