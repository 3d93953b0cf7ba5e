"""Engines that write down what they get and what they have learned, for a comparison; nothing else about them changes. An adapter, without a framework.

    framework = RecordedFramework(choice.framework(), directory, steps=8, rank=0)

A run uses it in the place of its framework. Behind the last step that is wanted `RecordedEnough` ends it: trainers that take every step together all end there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import UmiakError
from umiak.train.compare import records
from umiak.train.config.paddlerec.dotted import dotted
from umiak.train.engines.choice import is_dygraph, text_problems

if TYPE_CHECKING:
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.ps.clients.collective import Group
    from umiak.train.config.values import Device
    from umiak.train.engines.engine import Engine, EngineOptions, EngineRequest, Framework, ModelFindings
    from umiak.train.metrics.metric_set import MetricSet
    from umiak.train.reading.batches import Batch


class RecordedEnough(Exception):
    """All steps that are to be compared are done."""


class RecordedFramework:
    """A framework whose engines are recorded."""

    def __init__(self, inner: Framework, directory: str, *, steps: int) -> None:
        self._inner = inner
        self._directory = directory
        self._steps = steps

    def engine(self, wanted: EngineRequest) -> Engine:
        if not is_dygraph(wanted.model):
            problems = text_problems(wanted.model)
            raise UmiakError(*problems) if problems else not_comparable(wanted.model)
        engine, rank = self._inner.engine(wanted), wanted.job.rank
        if rank == 0:
            records.write_facts(self._directory, _facts(wanted, engine))
        return _RecordedEngine(engine, self._directory, steps=self._steps, rank=rank)

    def examine(
        self, model: str, options: EngineOptions, hyper_parameters: JsonMapping, where: str | None
    ) -> ModelFindings:
        return self._inner.examine(model, options, hyper_parameters, where)

    def can_use(self, device: Device) -> bool:
        return self._inner.can_use(device)

    def group(self, *, on_cpu: bool) -> Group:
        return self._inner.group(on_cpu=on_cpu)


class _RecordedEngine:
    """An engine, with a record of each step. Whatever else is asked of it, the engine itself answers."""

    def __init__(self, inner: Any, directory: str, *, steps: int, rank: int) -> None:
        self._inner = inner
        self._batches = os.path.join(directory, records.BATCHES)
        self._steps = steps
        self._rank = rank
        self._epoch = -1
        # With several trainers all have the same parameters: one of them writes.
        self._writer = records.StepWriter(os.path.join(directory, records.OURS)) if rank == 0 else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def metric_set(self) -> MetricSet:
        # A run asks for one where an epoch begins.
        self._epoch += 1
        found: MetricSet = self._inner.metric_set()
        return found

    def learn(self, batch: Batch | None, metrics: MetricSet, *, step: int, share: float | None = None) -> float:
        if step >= self._steps:
            raise RecordedEnough
        if step == 0 and self._writer is not None:
            self._writer.write(0, self._inner.weights())
        told = {
            "share": share,
            "size": 0 if batch is None else batch.size,
            "first_seed": self._inner.first_seed,
            "epoch": self._epoch,
        }
        fields = None if batch is None else self._inner.fields(batch)
        records.write_batch(self._batches, rank=self._rank, step=step, fields=fields, facts=told)
        loss: float = self._inner.learn(batch, metrics, step=step, share=share)
        if self._writer is not None:
            self._writer.write(step + 1, self._inner.weights(), loss=None if batch is None else loss)
        if step + 1 == self._steps:
            raise RecordedEnough
        return loss


def not_comparable(model: str) -> UmiakError:
    """There is no plain Paddle for it."""
    return UmiakError.of(
        "UM-TRAIN-580",
        f"nothing to compare with: {model} is no model that plain Paddle trains",
        why="a class Model is written for tables of umiak; a class DygraphModel or StaticModel, as PaddleRec 2 has them, is plain Paddle",
        hint="compare a config with a dygraph_model.py or a static_model.py",
    )


def _facts(wanted: EngineRequest, engine: Engine) -> JsonObject:
    """What the plain side needs to do the same."""
    model, job, options = wanted.model, wanted.job, wanted.options
    return {
        "model": os.path.abspath(model),
        "config": _plain(dotted(options.written, os.path.abspath(wanted.where or model))),
        "seed": options.seed,
        "device": options.device.value,
        "amp": options.amp,
        "threads": options.threads,
        "is_summed": options.gradient_scale == 1,
        "trainers": job.world,
        "servers": len(job.seat.servers),
        "remarks": [each.what for each in engine.warnings],
        "tables": list(engine.table_names),
    }


def _plain(item: Any) -> Any:
    """The same in what JSON has."""
    if isinstance(item, dict):
        return {str(name): _plain(each) for name, each in item.items()}
    if isinstance(item, (list, tuple)):
        return [_plain(each) for each in item]
    if isinstance(item, np.generic):
        return item.item()
    return item if item is None or isinstance(item, (str, int, float, bool)) else str(item)
