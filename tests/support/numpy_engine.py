"""A second engine beside Paddle's, as small as one can be: logistic regression over sparse slots, with numpy.

    NumpyFramework().engine(EngineRequest(model="model.py", slots=slots, job=job, options=EngineOptions()))

A weight for each id is in a sparse table of the job, the bias in a dense one. It keeps to `umiak.train.engines.engine` and to nothing else, so what runs with it
knows no framework.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from umiak.core.problem import Problem
from umiak.ps import export as ps_export
from umiak.ps import specs
from umiak.ps.clients.collective import Group
from umiak.ps.sessions import Session
from umiak.ps.values import Opened
from umiak.train.config.values import Device, Slots
from umiak.train.engines.engine import (
    LOSS,
    Engine,
    EngineOptions,
    EnginePeers,
    EngineRequest,
    FirstMetric,
    Framework,
    ModelFindings,
)
from umiak.train.metrics import Auc, Mean
from umiak.train.metrics.metric_set import MetricSet
from umiak.train.reading.batches import Batch
from umiak.train.reading.checking import Seen

if TYPE_CHECKING:
    from umiak.train.engines.engine import Answers

RATE = 0.5


class NoBuffers:
    """Everything that it has it learns."""

    table = ""

    def store(self, peers: EnginePeers) -> None:
        """Nothing."""

    def agree(self, peers: EnginePeers) -> None:
        """On nothing."""

    def own(self) -> str:
        return ""

    def set_own(self, text: str) -> None:
        raise AssertionError(text)


class NumpyEngine:
    """Logistic regression."""

    warnings: tuple[Problem, ...] = ()
    buffers = NoBuffers()
    table_names = ("weights",)

    def __init__(self, slots: Slots, job: Session, options: EngineOptions) -> None:
        (self.label,), self.features = slots.split(1, "logistic regression")
        self.job = job
        self.on_step: Callable[[int], None] = lambda step: None
        """Told before each step: so a test can do something in the middle of a run."""
        self._names = [f"{options.prefix}{name}" for name in ("weights", "bias")]
        rule = specs.Sgd(learning_rate=RATE)
        weights = specs.SparseTable(dim=1, init=specs.Constant(), seed=options.seed, rule=rule)
        bias = specs.DenseTable(arrays=(specs.Array(name="bias", shape=(1,)),), rule=rule)
        self._specs = (weights, bias)
        self._weights, self._bias = [
            job.client.create_table(name, specs.to_json(spec))
            for name, spec in zip(self._names, self._specs, strict=True)
        ]
        job.client.set_dense(self._bias, np.zeros(1, np.float32), if_unset=True)

    def metric_set(self) -> MetricSet:
        return MetricSet({LOSS: Mean(), "auc": Auc()})

    def learn(self, batch: Batch | None, metrics: MetricSet, *, step: int, share: float | None = None) -> float:
        assert batch is not None, "one trainer alone always has one"
        assert share is None
        self.on_step(step)
        likely, labels, loss = self._looked_at(batch, metrics, create=True)
        error = ((likely - labels) / batch.size).astype(np.float32)
        keys = np.repeat(error[:, None], len(self.features), axis=1)
        self.job.client.push(self._weights, self._keys(batch), keys.reshape(-1, 1))
        self.job.client.push_dense(self._bias, error.sum(keepdims=True))
        return loss

    @property
    def first_metric(self) -> FirstMetric:
        return FirstMetric(prediction="probability", label=self.label)

    def evaluate(self, batch: Batch, metrics: MetricSet, answers: Answers | None = None) -> float:
        likely, _, loss = self._looked_at(batch, metrics, create=False)
        if answers is not None:
            answers["probability"] = likely
        return loss

    def predict(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        weights = self.job.client.pull(self._weights, self._keys(batch), create=False, absent="zeros")
        return {"probability": _sigmoid(weights, self.job.client.pull_dense(self._bias), batch.size)}

    def without_trace(self) -> AbstractContextManager[None]:
        return nullcontext()

    def generators(self) -> str:
        return ""

    def set_generators(self, packed: str, step: int) -> None:
        """Nothing is drawn."""

    def check_missing(self, seen: Seen | None, dataset: str) -> None:
        assert seen is None or not seen.missing.get(self.label), dataset

    def tables(self) -> dict[str, Opened]:
        numbers = (self._weights, self._bias)
        return {
            name: Opened(number=number, spec=spec)
            for name, number, spec in zip(self._names, numbers, self._specs, strict=True)
        }

    def refresh(self) -> None:
        """Nothing of the tables is kept here."""

    def restore(self) -> None:
        """Nothing of the tables is kept here."""

    def takes_weights(self, path: str, manifest: object = None) -> bool:
        return False

    def take_weights(self, path: str) -> None:
        raise AssertionError(path)

    def write_weights(self, checkpoint: str) -> None:
        """Nobody else reads them."""

    def export(
        self,
        path: str,
        checkpoint: str,
        *,
        feeds: Sequence[str] = (),
        fetches: Sequence[str] = (),
        sample: Callable[[], Batch | None],
    ) -> None:
        keys, rows = ps_export.rows(checkpoint, self._names[0])
        bias = np.asarray(ps_export.contents(checkpoint)[self._names[1]]["values"], np.float32)
        batch = sample()
        assert batch is not None
        found = dict(zip(keys.tolist(), rows[:, 0].tolist(), strict=True))
        weights = np.array([found.get(key, 0.0) for key in self._keys(batch).tolist()], np.float32)
        assert np.allclose(_sigmoid(weights, bias, batch.size), self.predict(batch)["probability"], atol=1e-6)
        os.makedirs(path)
        with open(os.path.join(path, "signature.json"), "w") as file:
            json.dump({"weights": len(found), "feeds": [*feeds], "fetches": [*fetches]}, file)

    def _looked_at(
        self, batch: Batch, metrics: MetricSet, *, create: bool
    ) -> tuple[NDArray[np.float32], NDArray[Any], float]:
        if create:
            self.job.client.pull(self._weights, self._keys(batch))
        likely, labels = self.predict(batch)["probability"], batch.matrix([self.label])[:, 0]
        right = np.clip(np.where(labels == 1, likely, 1 - likely), 1e-7, 1.0)
        loss = float(-np.log(right).mean())
        metrics.update(losses=loss, samples=batch.size, only=(LOSS,))
        metrics.update(likely, labels, only=("auc",))
        return likely, labels, loss

    def _keys(self, batch: Batch) -> NDArray[np.uint64]:
        return np.ascontiguousarray(batch.matrix(self.features)).astype(np.uint64).reshape(-1)


class NumpyFramework:
    """Makes them."""

    def __init__(self) -> None:
        self.on_step: Callable[[int], None] = lambda step: None

    def engine(self, wanted: EngineRequest) -> NumpyEngine:
        made = NumpyEngine(wanted.slots, wanted.job, wanted.options)
        made.on_step = self.on_step
        return made

    def examine(
        self, model: str, options: EngineOptions, hyper_parameters: Mapping[str, Any], where: str | None
    ) -> ModelFindings:
        return ModelFindings()

    def can_use(self, device: Device) -> bool:
        return device is Device.CPU

    def group(self, *, on_cpu: bool) -> Group:
        raise NotImplementedError


def _sigmoid(weights: NDArray[Any], bias: NDArray[Any], samples: int) -> NDArray[np.float32]:
    likely: NDArray[np.float32] = 1 / (1 + np.exp(-(weights.reshape(samples, -1).sum(axis=1) + bias[0])))
    return likely


_FRAMEWORK: Framework = NumpyFramework()
_ENGINE: type[Engine] = NumpyEngine
"""For the type checker: they have what the protocols ask for."""
