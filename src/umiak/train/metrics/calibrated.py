"""How good probabilities are as such: normalised entropy, and calibration by decile of the prediction. A decider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.train.metrics.metric import MetricBatch, Scored, ratio, setting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umiak.train.metrics.metric import State

PARTS = 10


class NormalisedEntropy(Scored):
    """Log loss over the log loss of somebody who always says the share of positive samples: below 1, a model knows more than that."""

    main = "normalised_entropy"

    def __init__(self, *, clip: float = 1e-7) -> None:
        setting("normalised_entropy", "clip", clip, allowed=0 < clip < 0.5, what="above 0 and below 0.5")
        self._clip = clip
        super().__init__(clip=clip)

    def take(self, batch: MetricBatch) -> None:
        scores, positive, counts, _ = batch.binary(probabilities=True)
        likely = np.where(positive, scores, 1.0 - scores.astype(np.float64))
        self._state["total"] -= np.log(np.clip(likely, self._clip, 1 - self._clip)).sum()
        self._state["positive"] += np.count_nonzero(positive)
        self._state["samples"] += counts

    def _arrays(self) -> State:
        return {"total": np.zeros(1), "positive": np.zeros(1, np.int64)}

    def _values(self) -> dict[str, float]:
        share = ratio(self._state["positive"][0], self.samples)
        if not 0 < share < 1:
            return {"normalised_entropy": float("nan")}
        entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
        return {"normalised_entropy": ratio(self._state["total"][0] / self.samples, entropy)}

    def _undefined(self) -> str | None:
        positive = self._state["positive"][0]
        if 0 < positive < self.samples:
            return None
        return "no negative sample" if positive else "no positive sample"


class CalibrationDeciles(Scored):
    """Mean prediction and share of positive samples in ten equal parts of the samples, from the lowest prediction to the highest.

    The value is the expected calibration error: how far the two are apart, on average over the samples. Predictions are counted in bins, and a bin is
    never divided: so a part may have more or fewer samples than a tenth, by at most ``bound``, the share of the largest bin.
    """

    main = "error"

    def __init__(self, *, bins: int = 65536) -> None:
        name = "calibration_deciles"
        setting(name, "bins", bins, allowed=isinstance(bins, int) and 10 <= bins <= 2**22, what="within 10 to 2^22")
        self._bins = bins
        super().__init__(bins=bins)

    def take(self, batch: MetricBatch) -> None:
        scores, positive, counts, _ = batch.binary(probabilities=True)
        places = (scores * (self._bins - 1)).astype(np.int64)
        self._state["counted"] += np.bincount(places, minlength=self._bins)
        self._state["positive"] += np.bincount(places[positive], minlength=self._bins)
        self._state["predicted"] += np.bincount(places, scores.astype(np.float64), minlength=self._bins)
        self._state["samples"] += counts

    def bound(self) -> float:
        """By what share of the samples a part may differ from a tenth."""
        return ratio(self._state["counted"].max(), self.samples)

    def parts(self) -> NDArray[np.float64]:
        """A row for each tenth: samples, sum of predictions, positive samples."""
        counted = self._state["counted"]
        # A bin belongs to the tenth that its middle sample is in.
        middle = np.cumsum(counted) - counted / 2
        tenth = np.minimum((middle * PARTS / max(1, self.samples)).astype(np.int64), PARTS - 1)
        sums = [np.bincount(tenth, self._state[name], minlength=PARTS) for name in ("counted", "predicted", "positive")]
        return np.stack(sums, axis=1)

    def _arrays(self) -> State:
        whole = {name: np.zeros(self._bins, np.int64) for name in ("counted", "positive")}
        return {**whole, "predicted": np.zeros(self._bins)}

    def _values(self) -> dict[str, float]:
        parts = self.parts()
        found = {"error": ratio(np.abs(parts[:, 1] - parts[:, 2]).sum(), self.samples), "bound": self.bound()}
        for number, (samples, predicted, positive) in enumerate(parts, start=1):
            found[f"predicted_{number}"] = ratio(predicted, samples)
            found[f"actual_{number}"] = ratio(positive, samples)
        return found
