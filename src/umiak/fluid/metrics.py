"""`fluid.metrics`: numbers over many batches, counted in Python. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.fluid.record.remarks import left_out

if TYPE_CHECKING:
    from umiak.fluid.arguments import Outputs, Value


class MetricBase:
    """What all of them have."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or type(self).__name__

    def reset(self) -> None:
        """From zero again."""
        for name, value in vars(self).items():
            if name.startswith("_"):
                continue
            if isinstance(value, bool | str):
                continue
            if isinstance(value, int | float):
                setattr(self, name, type(value)(0))
            elif isinstance(value, np.ndarray):
                setattr(self, name, np.zeros_like(value))

    def update(self, *args: Any, **named: Any) -> None:
        """Count a batch."""
        raise NotImplementedError

    def eval(self) -> Any:
        """The number."""
        raise NotImplementedError


class MeanAccuracy(MetricBase):
    """`fluid.metrics.Accuracy`: the mean of batches' accuracies, weighted."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.value, self.weight = 0.0, 0.0

    def update(self, value: Value, weight: Value) -> None:
        self.value += float(np.asarray(value).reshape(-1)[0]) * float(weight)
        self.weight += float(weight)

    def eval(self) -> float:
        if not self.weight:
            raise ValueError(
                "There is no data in Accuracy Metrics. Please check layers.accuracy output has added to Accuracy."
            )
        return self.value / self.weight


class HistogramAuc(MetricBase):
    """`fluid.metrics.Auc`: the area under the curve, from two histograms."""

    def __init__(self, name: str | None = None, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(name)
        left_out("metrics.Auc", curve=curve)
        self._num_thresholds = num_thresholds
        self.positive = np.zeros(num_thresholds + 1)
        self.negative = np.zeros(num_thresholds + 1)

    def update(self, preds: Value, labels: Value) -> None:
        places = np.clip((np.asarray(preds)[:, 1] * self._num_thresholds).astype(int), 0, self._num_thresholds)
        hits = np.asarray(labels).reshape(-1).astype(bool)
        self.positive += np.bincount(places[hits], minlength=self._num_thresholds + 1)
        self.negative += np.bincount(places[~hits], minlength=self._num_thresholds + 1)

    def eval(self) -> float:
        hits = np.concatenate([[0], np.cumsum(self.positive[::-1])])
        misses = np.concatenate([[0], np.cumsum(self.negative[::-1])])
        if not hits[-1] or not misses[-1]:
            return 0.0
        return float(np.sum((misses[1:] - misses[:-1]) * (hits[1:] + hits[:-1]) / 2) / hits[-1] / misses[-1])


class Precision(MetricBase):
    """Of two classes."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp, self.fp = 0, 0

    def update(self, preds: Value, labels: Value) -> None:
        positive, wanted = np.rint(np.asarray(preds)).reshape(-1) == 1, np.asarray(labels).reshape(-1) == 1
        self.tp += int((positive & wanted).sum())
        self.fp += int((positive & ~wanted).sum())

    def eval(self) -> float:
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(MetricBase):
    """Of two classes."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp, self.fn = 0, 0

    def update(self, preds: Value, labels: Value) -> None:
        positive, wanted = np.rint(np.asarray(preds)).reshape(-1) == 1, np.asarray(labels).reshape(-1) == 1
        self.tp += int((positive & wanted).sum())
        self.fn += int((~positive & wanted).sum())

    def eval(self) -> float:
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.num_infer_chunks, self.num_label_chunks, self.num_correct_chunks = 0, 0, 0

    def update(self, num_infer_chunks: Value, num_label_chunks: Value, num_correct_chunks: Value) -> None:
        self.num_infer_chunks += int(np.asarray(num_infer_chunks).reshape(-1)[0])
        self.num_label_chunks += int(np.asarray(num_label_chunks).reshape(-1)[0])
        self.num_correct_chunks += int(np.asarray(num_correct_chunks).reshape(-1)[0])

    def eval(self) -> tuple[float, float, float]:
        right = self.num_correct_chunks
        precision = right / self.num_infer_chunks if self.num_infer_chunks else 0.0
        recall = right / self.num_label_chunks if self.num_label_chunks else 0.0
        return precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0


class EditDistance(MetricBase):
    """The mean distance, and the part of sequences that are wrong."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.total_distance, self.seq_num, self.instance_error = 0.0, 0, 0

    def update(self, distances: Value, seq_num: Value) -> None:
        distances = np.asarray(distances)
        count = int(np.asarray(seq_num).reshape(-1)[0])
        self.seq_num += count
        self.instance_error += count - int(np.sum(distances == 0))
        self.total_distance += float(np.sum(distances))

    def eval(self) -> tuple[float, float]:
        if not self.seq_num:
            raise ValueError(
                "There is no data in EditDistance Metric. Please check layers.edit_distance output has been added to EditDistance."
            )
        return self.total_distance / self.seq_num, self.instance_error / float(self.seq_num)


class CompositeMetric(MetricBase):
    """Several, fed with the same."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._metrics: Outputs = []

    def add_metric(self, metric: MetricBase) -> None:
        """One more."""
        self._metrics.append(metric)

    def update(self, preds: Value, labels: Value) -> None:
        for each in self._metrics:
            each.update(preds, labels)

    def eval(self) -> list[Any]:
        return [each.eval() for each in self._metrics]


class WeightedAverage:
    """`fluid.average.WeightedAverage`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """From zero again."""
        self.numerator: Value = None
        self.denominator: Value = None

    def add(self, value: Value, weight: Value) -> None:
        """One more."""
        value = np.asarray(value)
        self.numerator = value * weight + (0 if self.numerator is None else self.numerator)
        self.denominator = weight + (0 if self.denominator is None else self.denominator)

    def eval(self) -> Any:
        """The average."""
        if self.denominator is None:
            raise ValueError("There is no data to be averaged in WeightedAverage.")
        return self.numerator / self.denominator
