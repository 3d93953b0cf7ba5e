"""Metrics of probabilities, for models that say how likely a click is: AUC, log loss, calibration; and means of losses. A decider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.train.metrics.metric import NOT_FINITE, USED, Metric, MetricBatch, Scored, misfit, ratio, setting

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from umiak.train.metrics.metric import State


class Auc(Scored):
    """How likely a positive sample is to be scored above a negative one; a tie is half a success.

    Predictions are counted in bins, so that the state has the same size whatever the number of samples. Two samples in one bin
    count as tied; `bound` says how far that can be from the AUC of the very predictions. A bin is ``floor(p * (bins - 1))``:
    Paddle's, with ``num_thresholds=bins - 1``.
    """

    main = "auc"

    def __init__(self, *, bins: int = 4096) -> None:
        setting("auc", "bins", bins, allowed=isinstance(bins, int) and 2 <= bins <= 2**24, what="within 2 to 2^24")
        self._bins = bins
        super().__init__(bins=bins)

    def take(self, batch: MetricBatch) -> None:
        scores, positive, counts, _ = batch.binary(probabilities=True)
        places = (scores * (self._bins - 1)).astype(np.int64)
        places += positive * self._bins
        self._state["histogram"] += np.bincount(places, minlength=2 * self._bins).reshape(2, -1)
        self._state["samples"] += counts

    def classes(self) -> tuple[int, int]:
        negative, positive = self._state["histogram"].sum(axis=1).tolist()
        return negative, positive

    def bound(self) -> float:
        """How far the value is from the AUC of the exact predictions, at most: half the share of pairs within one bin."""
        negative, positive = self._histogram()
        return ratio(0.5 * float(negative @ positive), negative.sum() * positive.sum())

    def _arrays(self) -> State:
        return {"histogram": np.zeros((2, self._bins), np.int64)}

    def _values(self) -> dict[str, float]:
        negative, positive = self._histogram()
        below = np.cumsum(negative) - negative / 2
        return {"auc": ratio(float(positive @ below), negative.sum() * positive.sum())}

    def _undefined(self) -> str | None:
        negative, positive = self.classes()
        if negative and positive:
            return None
        return "no positive sample" if negative else "no negative sample"

    def _histogram(self) -> NDArray[np.float64]:
        """In float64, as products of counts may be beyond int64."""
        return self._state["histogram"].astype(np.float64)


class LogLoss(Scored):
    """The mean of ``-log(p)`` of positive and ``-log(1 - p)`` of negative samples, with p within ``clip`` to ``1 - clip``."""

    main = "log_loss"

    def __init__(self, *, clip: float = 1e-7) -> None:
        setting("log_loss", "clip", clip, allowed=0 < clip < 0.5, what="above 0 and below 0.5")
        self._clip = clip
        super().__init__(clip=clip)

    def take(self, batch: MetricBatch) -> None:
        scores, positive, counts, _ = batch.binary(probabilities=True)
        likely = np.where(positive, scores, 1.0 - scores.astype(np.float64))
        self._state["total"] -= np.log(np.clip(likely, self._clip, 1 - self._clip)).sum()
        self._state["samples"] += counts

    def _arrays(self) -> State:
        return {"total": np.zeros(1)}

    def _values(self) -> dict[str, float]:
        return {"log_loss": ratio(self._state["total"][0], self.samples)}


class Calibration(Scored):
    """The mean prediction beside the share of positive samples: predicted and actual click-through rate, and their quotient.

    Above 1, more clicks are promised than come. PaddleRec's COPC is the inverse.
    """

    main = "ratio"

    def take(self, batch: MetricBatch) -> None:
        scores, positive, counts, _ = batch.binary(probabilities=True)
        self._state["predicted"] += scores.sum(dtype=np.float64)
        self._state["positive"] += np.count_nonzero(positive)
        self._state["samples"] += counts

    def _arrays(self) -> State:
        return {"predicted": np.zeros(1), "positive": np.zeros(1, np.int64)}

    def _values(self) -> dict[str, float]:
        predicted, positive = self._state["predicted"][0], self._state["positive"][0]
        return {
            "predicted": ratio(predicted, self.samples),
            "actual": ratio(positive, self.samples),
            "ratio": ratio(predicted, positive),
        }

    def _undefined(self) -> str | None:
        return None if self._state["positive"][0] else "no positive sample"


class Mean(Metric):
    """The mean of losses over samples: a small last batch weighs what it is."""

    main = "mean"
    looks_at = "losses"

    def update(self, losses: ArrayLike, samples: int | None = None) -> None:
        """One loss per sample, or the mean of so many."""
        self.take(MetricBatch(losses=losses, samples=samples))

    def take(self, batch: MetricBatch) -> None:
        if batch.losses is None:
            raise misfit("losses are required")
        if batch.losses.ndim:
            good = np.isfinite(batch.losses)
            total, used = batch.losses[good].sum(), int(np.count_nonzero(good))
        else:
            used = batch.samples if np.isfinite(batch.losses) else 0
            total = batch.losses * used if used else 0.0
        self._state["total"] += total
        self._state["samples"][USED] += used
        self._state["samples"][NOT_FINITE] += batch.samples - used

    def _arrays(self) -> State:
        return {"total": np.zeros(1)}

    def _values(self) -> dict[str, float]:
        return {"mean": ratio(self._state["total"][0], self.samples)}
