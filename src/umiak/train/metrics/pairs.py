"""The positive-negative ratio: pairs in the right order over pairs in the wrong one. A decider.

A pair is a positive and a negative sample of the same group: a query, a user, a session. PaddleRec's metric of this name is given
pairs ready-made; `PosNegRatio.update_pairs` takes them so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.train.metrics.batch import NOT_FINITE, USED, MetricBatch, misfit
from umiak.train.metrics.metric import NAN, Metric

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    from umiak.train.metrics.metric import State

RIGHT, WRONG, TIED = range(3)


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


def _pairs(scores: NDArray[Any], positive: NDArray[np.bool_], groups: NDArray[Any] | None) -> NDArray[np.int64]:
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
