"""`paddle.metric.Auc` without a loop over samples: the same numbers, some hundred times faster. An adapter, for Paddle."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import paddle

from umiak.ps import paddle_internals
from umiak.train.engines import paddle_steps


def quickened(metric: Any) -> Any:
    """The same object; one of Paddle's own class counts a batch at a time from now on."""
    if type(metric) is paddle.metric.Auc and not isinstance(getattr(metric, "update", None), partial):
        metric.update = partial(_update, metric)
    return metric


def _update(metric: Any, preds: Any, labels: Any) -> None:
    """What `Auc.update` counts, in two calls of numpy."""
    found, truth = np.asarray(preds), np.asarray(labels)
    if found.ndim != 2 or found.shape[1] < 2 or truth.size != len(truth) or not len(found) >= len(truth):
        type(metric).update(metric, preds, labels)
        return
    most = paddle_internals.thresholds(metric)
    if not np.isfinite(found[: len(truth), 1]).all():
        raise paddle_steps.not_finite()
    places = (found[: len(truth), 1] * most).astype(np.int64)
    if places.size and not 0 <= places.min() <= places.max() <= most:
        type(metric).update(metric, preds, labels)  # it says what is wrong
        return
    positive = truth.reshape(-1).astype(bool)
    counts = [np.bincount(places[which], minlength=most + 1) for which in (positive, ~positive)]
    paddle_internals.count_into(metric, *counts)
