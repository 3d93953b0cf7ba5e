"""Metrics of decisions and of order: was it the right class, is it among the first k, are pairs in the right order. A decider.

A pair is a positive and a negative sample of the same group: a query, a user, a session. PaddleRec's metric of this name is given
pairs ready-made; `PosNegRatio.update_pairs` takes them so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.train.metrics.metric import NAN, NOT_FINITE, USED, Metric, MetricBatch, Scored, misfit, ratio, setting

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from umiak.data.array_types import AnyArray
    from umiak.train.metrics.metric import State

RIGHT, WRONG, TIED = range(3)


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


def _decisions(batch: MetricBatch, threshold: float) -> tuple[AnyArray, NDArray[np.int64], NDArray[np.int64]]:
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


# ---- pairs


class PosNegRatio(Metric):
    """``(right + 1) / (wrong + tied + 1)`` over pairs, as PaddleRec has it: a tie is no success, and nothing is divided by 0.

    Samples of one group must be in one batch; pairs over several batches are not seen. Without groups, a batch is a group, so that
    the value depends on how samples came to batches.
    """

    main = "ratio"

    def update(self, predictions: ArrayLike, labels: ArrayLike, groups: ArrayLike | None = None) -> None:
        """Count in all pairs of a batch, group by group."""
        self.take(MetricBatch(predictions, labels, groups=groups))

    def update_pairs(self, positive: ArrayLike, negative: ArrayLike) -> None:
        """Count in pairs that somebody has made: the scores of the positive samples and, in the same order, of the negative ones."""
        above, below = np.asarray(positive, np.float64).reshape(-1), np.asarray(negative, np.float64).reshape(-1)
        if above.shape != below.shape:
            raise misfit(f"these differ in length: positive {above.size}, negative {below.size}")
        good = np.isfinite(above) & np.isfinite(below)
        above, below = above[good], below[good]
        right, tied = np.count_nonzero(above > below), np.count_nonzero(above == below)
        self._state["pairs"] += np.array([right, above.size - right - tied, tied], np.int64)
        # A pair is two samples.
        self._state["samples"][USED] += 2 * above.size
        self._state["samples"][NOT_FINITE] += 2 * (good.size - above.size)

    def take(self, batch: MetricBatch) -> None:
        scores, positive, counts, kept = batch.binary(probabilities=False)
        groups = batch.groups if batch.groups is None or kept is None else batch.groups[kept]
        self._state["pairs"] += _pairs(scores, positive, groups)
        self._state["samples"] += counts

    def _arrays(self) -> State:
        return {"pairs": np.zeros(3, np.int64)}

    def _values(self) -> dict[str, float]:
        right, wrong, tied = (float(count) for count in self._state["pairs"])
        known = right + wrong + tied > 0
        return {
            "ratio": (right + 1) / (wrong + tied + 1) if known else NAN,
            "right": right,
            "wrong": wrong,
            "tied": tied,
        }

    def _undefined(self) -> str | None:
        return None if self._state["pairs"].any() else "no group has both a positive and a negative sample"


def _pairs(scores: AnyArray, positive: NDArray[np.bool_], groups: AnyArray | None) -> NDArray[np.int64]:
    """How many pairs are right, wrong and tied. Sorted by group and score, without looking at each pair."""
    if not len(scores):
        return np.zeros(3, np.int64)
    group = np.zeros(len(scores), np.int64) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((scores, group))
    scores, group = scores[order], group[order]
    ups = positive[order].astype(np.int64)
    # Runs: samples of one group with one score.
    fresh_group = np.diff(group, prepend=-1) != 0
    starts = np.flatnonzero(fresh_group | np.append(True, scores[1:] != scores[:-1]))
    ups_of_run, downs_of_run = np.add.reduceat(ups, starts), np.add.reduceat(1 - ups, starts)
    below = np.cumsum(downs_of_run) - downs_of_run
    first_of_group = np.flatnonzero(fresh_group[starts])
    below -= np.repeat(below[first_of_group], np.diff(first_of_group, append=len(starts)))
    right, tied = int(ups_of_run @ below), int(ups_of_run @ downs_of_run)
    ups_of_group = np.add.reduceat(ups_of_run, first_of_group)
    downs_of_group = np.add.reduceat(downs_of_run, first_of_group)
    return np.array([right, int(ups_of_group @ downs_of_group) - right - tied, tied], np.int64)
