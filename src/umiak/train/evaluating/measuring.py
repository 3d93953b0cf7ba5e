"""The metrics that a config asks for, over one evaluation: fed batch by batch, made global at its end. A program.

    measured = Measured(settings.evaluation, engine, dataset="test", where="config.yaml")
    answers = measured.answers()                    None where nothing is asked for
    engine.evaluate(batch, metrics, answers)
    measured.update(batch, answers)
    readings, lines = measured.added(metrics.readings(...), peers)

Metrics of groups need all samples of a group in one place: each trainer keeps 20 bytes of every sample that it has evaluated, and at the end sends them to the
trainers that own the groups, a piece at a time. Nobody ever holds more than its own samples and those of its groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.schema.findings import choices
from umiak.train.config.evaluating.settings import OF_GROUPS, EvaluationSettings, MetricName, MetricSettings
from umiak.train.metrics import grouped, make_metric
from umiak.train.metrics.metric import BAD_LABEL, NAN, NOT_FINITE, ROUNDING, USED
from umiak.train.metrics.metric_set import MetricSet, Readings
from umiak.train.reading import batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.train.engines.engine import Engine
    from umiak.train.evaluating.peers import MeasuringPeers
    from umiak.train.evaluating.retrieving import Retrieved
    from umiak.train.metrics.grouped import GroupMetric, Slice
    from umiak.train.reading.batches import Batch

PIECE = 40_000
"""Samples that a trainer sends at a time: a message has at most 1 MiB."""
SHOWN_SLICES = 6


class _Source:
    """One prediction, one label, and perhaps a group: several metrics may look at the same."""

    def __init__(self, prediction: str | None, label: str, group: str | None) -> None:
        self.prediction, self.label, self.group = prediction, label, group
        self.kept: list[NDArray[np.void]] = []
        self.counts = np.zeros(4, np.int64)

    def take(self, scores: AnyArray, labels: AnyArray, groups: AnyArray) -> None:
        """Keep what can be measured, and count the rest."""
        good = np.isfinite(scores)
        fits = np.isfinite(labels) & (labels >= 0)
        kept = good & fits
        self.counts[NOT_FINITE] += np.count_nonzero(~good)
        self.counts[BAD_LABEL] += np.count_nonzero(good & ~fits)
        self.counts[USED] += np.count_nonzero(kept)
        self.kept.append(grouped.records_of(groups[kept], scores[kept], labels[kept]))

    def own(self, peers: MeasuringPeers) -> NDArray[np.void]:
        """All samples, of all trainers, of the groups that are this trainer's."""
        mine = np.concatenate(self.kept) if self.kept else np.empty(0, grouped.RECORD)
        self.kept = []
        if peers.world == 1:
            return mine
        most = max(each["samples"] for each in peers.tell({"samples": len(mine)}, "samples"))
        found: list[NDArray[np.void]] = []
        for at in range(0, most, PIECE):
            told = peers.all_of(mine[at : at + PIECE].tobytes())
            found += [grouped.owned(np.frombuffer(each, grouped.RECORD), peers.rank, peers.world) for each in told]
        return np.concatenate(found) if found else mine


class Measured:
    """Everything that a config asks for, in one evaluation."""

    def __init__(
        self,
        asked: EvaluationSettings,
        engine: Engine,
        *,
        dataset: str,
        where: str | None,
        retrieved: Retrieved | None = None,
    ) -> None:
        """``retrieved``: what is looked for in a whole catalogue."""
        self._retrieved = retrieved
        self._asked, self._dataset, self._where = asked, dataset, where
        first_metric = engine.first_metric
        self._prediction = asked.prediction or (first_metric.prediction if first_metric else None)
        self._label = asked.label or (first_metric.label if first_metric else None)
        self._sources: dict[tuple[str | None, str, str | None], _Source] = {}
        self._grouped: list[tuple[MetricSettings, _Source]] = []
        self._numbers: set[str] = set()
        """Slots whose values are numbers, not ids."""
        self._sums: list[tuple[MetricSettings, _Source]] = []
        for each in asked.metrics:
            source = self._source(each.prediction, each.label, each.group if each.name in OF_GROUPS else None)
            (self._grouped if each.name in OF_GROUPS else self._sums).append((each, source))
        self._slices = [(name, self._source(None, None, name)) for name in asked.slices]
        self._metrics = MetricSet({each.shown: make_metric(each.name.value) for each, _ in self._sums})

    def answers(self) -> dict[str, AnyArray] | None:
        """What takes a batch's answers; None: nobody wants them."""
        return {} if self._asked else None

    def update(self, batch: Batch, answers: dict[str, AnyArray] | None) -> None:
        """Look at a batch that was evaluated."""
        if self._retrieved is not None:
            self._retrieved.update(batch)
        if answers is None:
            return
        for source in self._sources.values():
            scores = self._scores(answers, source.prediction)
            labels = self._column(batch, source.label)
            names = [each.shown for each, own in self._sums if own is source]
            if names:
                self._metrics.update(scores, labels, only=names)
            if source.group is not None:
                source.take(_one_each(scores), labels.astype(np.float64), self._column(batch, source.group))

    def added(self, found: Readings, peers: MeasuringPeers) -> tuple[Readings, list[str]]:
        """The same with what was measured, of all trainers; and lines about slices. Every trainer calls it."""
        if self._retrieved is not None:
            found = replace(found, epoch={**found.epoch, **self._retrieved.added(peers)})
        if not self._asked:
            return found, []
        readings = self._metrics.readings(peers.add(self._metrics.state()))
        taken = [name for name in readings.epoch if name in found.epoch]
        if taken:
            raise UmiakError.of(
                "UM-METRIC-006",
                f"evaluation: the model itself has a metric {taken[0]}",
                hint="leave it out, or give it a `title`",
                where=self._where,
            )
        numbers, reasons, problems = dict(readings.epoch), dict(readings.reasons), list(readings.problems)
        lines: list[str] = []
        for source in self._sources.values():
            if source.group is None:
                continue
            of = grouped.ranked(source.own(peers))
            counts = peers.add(source.counts.astype(np.float64))
            left_out = int(counts[USED + 1 :].sum())
            mine = [each for each, own in self._grouped if own is source]
            told = peers.tell({"sums": [_plain(_metric(each), of) for each in mine]}, "sums")
            for number, each in enumerate(mine):
                sums = grouped.total([message["sums"][number] for message in told])
                value = NAN if left_out else sums.mean
                numbers |= {each.shown: value, f"{each.shown}.groups": sums.groups}
                numbers[f"{each.shown}.left_out_groups"] = sums.left_out
                if left_out:
                    reasons[each.shown] = f"{left_out} samples could not be first_metric"
                elif not sums.weight:
                    reasons[each.shown] = "no group has what it needs"
            if left_out:
                what = f"{left_out} of {int(counts.sum())} predictions or labels can't be first_metric by metrics of {source.group}"
                problems.append(Problem(code="UM-METRIC-004", what=what))
            for name in [name for name, own in self._slices if own is source]:
                more, line = self._sliced(name, of, peers)
                numbers |= more
                lines.append(line)
        epoch = {**found.epoch, **numbers}
        told_of = (*found.problems, *problems)
        return replace(found, epoch=epoch, reasons={**found.reasons, **reasons}, problems=told_of), lines

    def _sliced(self, name: str, of: grouped.Ranked, peers: MeasuringPeers) -> tuple[dict[str, float], str]:
        """The largest slices by their AUC: numbers, and a line."""
        most = self._asked.most_slices
        mine = grouped.slices_of(of)
        told = peers.tell(
            {"count": len(mine), "slices": [grouped.slice_as_list(each) for each in mine[:most]]}, "slices"
        )
        every = grouped.largest(grouped.slice_of_list(each) for message in told for each in message["slices"])
        shown, count = every[:most], sum(message["count"] for message in told)
        key = f"auc_by_{name.replace('.', '_')}"
        known = [each.auc for each in shown if each.auc == each.auc]
        numbers: dict[str, float] = {key: min(known, default=NAN), f"{key}.slices": count}
        for each in shown:
            spoken = self._spoken(name, each)
            numbers |= {f"{key}.{spoken}": each.auc, f"{key}.{spoken}.samples": each.samples}
        words = [_words(self._spoken(name, each), each) for each in shown[:SHOWN_SLICES]]
        more = f", and {count - len(words):,} more" if count > len(words) else ""
        return numbers, f"AUC by {name}: {', '.join(words)}{more}"

    def _spoken(self, name: str, each: Slice) -> str:
        """A slice's value, as it was in the data."""
        if name in self._numbers:
            return f"{np.uint64(each.group).view(np.float64):g}"
        return str(int(np.uint64(each.group).view(np.int64)))

    def _source(self, prediction: str | None, label: str | None, group: str | None) -> _Source:
        label = label or self._label
        if label is None:
            raise UmiakError.of(
                "UM-TRAIN-091",
                "evaluation: nothing says which slot is the label",
                why="a model of this form keeps to itself what its metrics look at",
                hint="write `label:` with the name of a slot, or, where a reader gives fields without names, its number from 0",
                where=self._where,
            )
        key = (prediction or self._prediction, label, group)
        return self._sources.setdefault(key, _Source(*key))

    def _scores(self, answers: dict[str, AnyArray], name: str | None) -> AnyArray:
        if name is None and len(answers) == 1:
            name = next(iter(answers))
        if name is None or name not in answers:
            what = "evaluation: nothing says which output of the model is the prediction"
            if name is not None:
                what = f"evaluation: the model has no output {name}"
            elif not answers:
                what = "evaluation: the model has no output with a row for each sample"
            hint = f"write `prediction:`; {choices(name or '', list(answers))}" if answers else None
            raise UmiakError.of("UM-TRAIN-091", what, hint=hint, where=self._where)
        return answers[name]

    def _column(self, batch: Batch, name: str) -> AnyArray:
        if name in batch.dense:
            self._numbers.add(name)
        try:
            return batches.column(batch, name)
        except KeyError:
            if isinstance(batch, batches.StackedBatch):
                there: Sequence[str] = [str(number) for number in range(len(batch.arrays))]
            else:
                there = [*batch.sparse, *batch.dense]
            what = f"evaluation: dataset {self._dataset} has no slot {name}"
            raise UmiakError.of("UM-TRAIN-090", what, hint=choices(name, there), where=self._where) from None
        except ValueError as error:
            what = f"evaluation: dataset {self._dataset}: {error}"
            hint = "labels, groups and slices are slots with one value"
            raise UmiakError.of("UM-TRAIN-090", what, hint=hint, where=self._where) from None


def _metric(each: MetricSettings) -> GroupMetric:
    match each.name:
        case MetricName.GAUC:
            return grouped.Gauc(weight=each.weight)
        case MetricName.NDCG:
            return grouped.Ndcg(k=each.k or 10, gain=each.gain)
        case MetricName.HIT_RATE:
            return grouped.HitRate(k=each.k or 10)
        case _:
            return grouped.Mrr(k=each.k)


def _plain(metric: GroupMetric, of: grouped.Ranked) -> list[int]:
    return grouped.sums_as_list(grouped.sums_of(metric, of))


def _one_each(scores: AnyArray) -> AnyArray:
    """Of two probabilities the positive class's; of two logits their difference, which is in the order of its probability."""
    if scores.ndim > 1 and scores.shape[1] > 2:
        raise UmiakError.of("UM-METRIC-003", f"expected one or two scores per sample, got {scores.shape[1]}")
    if scores.ndim == 1 or scores.shape[1] == 1:
        return scores.reshape(-1)
    negative, positive = scores[:, 0].astype(np.float64), scores[:, 1].astype(np.float64)
    is_likely = (np.abs(negative + positive - 1) <= ROUNDING).all()
    return scores[:, 1] if is_likely else positive - negative


def _words(spoken: str, each: Slice) -> str:
    auc = f"{each.auc:.4f}" if each.auc == each.auc else "-"
    return f"{spoken} {auc} ({each.samples:,} samples)"
