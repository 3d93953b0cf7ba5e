"""The engine for models that are written for Paddle: makes them, lets them learn, evaluates them. An adapter, for Paddle.

    engine = PaddleFramework().engine("model.py", slots, job=job, options=EngineOptions(seed=7), hyper_parameters={})

What a run asks of it is said by `umiak.train.engines.engine`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray

from umiak.core.problem import Problem, UmiakError
from umiak.ps import export as ps_export
from umiak.ps import specs
from umiak.ps.clients.collective import Group
from umiak.ps.environment import PsSeat
from umiak.ps.paddle import needs_clip, optimizer
from umiak.ps.sessions import Session
from umiak.ps.strategies import Sync
from umiak.ps.values import Opened
from umiak.schema.findings import choices
from umiak.train.checkpoints import paddlerec, runs
from umiak.train.config.optimizers import factor
from umiak.train.config.values import Device, EmbeddingTables, Slots
from umiak.train.engines import hyper, model_text, own_code, paddle_export, paddle_steps
from umiak.train.engines.buffers import Buffers
from umiak.train.engines.engine import LOSS, EngineOptions, ModelFindings
from umiak.train.metrics.clicks import Auc, Calibration, LogLoss, Mean
from umiak.train.metrics.metric_set import MetricSet
from umiak.train.metrics.pairs import PosNegRatio
from umiak.train.modeling.embedding import Tables
from umiak.train.modeling.inputs import BatchInputs
from umiak.train.modeling.model import Model
from umiak.train.reading.batches import Batch
from umiak.train.reading.checking import Seen

BINARY = (Auc, LogLoss, Calibration, PosNegRatio)
"""Metrics whose labels are 0 or 1."""
SUMMED, LEFT_TO_THE_MODEL = 1, 2
"""Values of ``gradient_scale``; 0 is the mean."""


class PaddleFramework:
    """PaddlePaddle, as a run uses it."""

    def engine(
        self,
        model: str,
        slots: Slots,
        *,
        job: Session,
        options: EngineOptions,
        hyper_parameters: Mapping[str, Any],
        where: str | None = None,
        sample: Callable[[], Batch | None] | None = None,  # noqa: ARG002 - a model says itself what is in tables
    ) -> PaddleEngine:
        kind = load_model(model, where)
        return PaddleEngine(kind, slots, job=job, options=options, hyper_parameters=hyper_parameters, where=where)

    def examine(
        self,
        model: str,
        options: EngineOptions,  # noqa: ARG002 - it is not made for this
        hyper_parameters: Mapping[str, Any],
        where: str | None,
    ) -> ModelFindings:
        kind = load_model(model, where).Hyper
        hyper.typed(kind, hyper_parameters, where)
        return ModelFindings(warnings=hyper.passed_on(kind, hyper_parameters, where))

    def can_use(self, device: Device) -> bool:
        try:
            paddle.set_device(device.value)
        except (ValueError, RuntimeError):
            return False
        return True

    def group(self, *, on_cpu: bool) -> Group:
        from umiak.ps.clients.paddle_group import PaddleGroup

        return PaddleGroup(on_cpu=on_cpu)


class PaddleEngine:
    """A model with its optimizer and its metrics."""

    def __init__(
        self,
        kind: type[Model],
        slots: Slots,
        *,
        job: Session,
        options: EngineOptions,
        hyper_parameters: Mapping[str, Any],
        where: str | None = None,
    ) -> None:
        self._made_of = (kind, slots, options, hyper_parameters, where)
        self.job = job
        self._options = options
        paddle_steps.use(options.device)
        paddle.base.core.set_num_threads(options.threads)
        learning = options.learning
        chosen = hyper.typed(kind.Hyper, hyper_parameters, where)
        self.warnings = hyper.passed_on(kind.Hyper, hyper_parameters, where)
        paddle.seed(options.seed)
        clip = specs.Clip(value=learning.clip_value, norm=learning.clip_norm)
        decay = specs.Decay(l2=learning.weight_decay, decoupled=learning.decoupled_weight_decay)
        self.embeddings = Tables(
            job,
            seed=options.seed,
            prefix=options.prefix,
            settings={"clip": clip, "decay": decay, "absent": "zeros"},
            counted=options.tables,
            per_slot=options.embedding_tables is EmbeddingTables.PER_SLOT,
        )
        self.slots = slots
        self._file = inspect.getfile(kind)
        with self._own_code():
            self.model = kind(chosen, slots, self.embeddings)
            self.embeddings.divide(self.model, slots)
        rule = specs.rule(learning.rule, **learning.settings)
        self._base_rate = float(getattr(rule, "learning_rate", 1.0))
        self.optimizer = optimizer(
            self.model,
            rule,
            clip=specs.Clip(value=learning.clip_value, global_norm=learning.clip_global_norm),
            decay=decay,
            table=f"{options.prefix}dense",
            session=job,
            buffers=False,
        )
        self.buffers = Buffers(self.model, job, table=f"{options.prefix}dense.buffers", learned=self.optimizer.learned)
        self._has_learned = False
        self._metrics = self.model.metrics()
        self._ragged: set[tuple[str, ...]] = set()
        self._clicks = next((each.label for each in self._metrics.values()), None)

    def _copied(self, job: Session) -> PaddleEngine:
        """The same model again, with its tables in another job."""
        kind, slots, options, hyper_parameters, where = self._made_of
        return PaddleEngine(kind, slots, job=job, options=options, hyper_parameters=hyper_parameters, where=where)

    def metric_set(self) -> MetricSet:
        """An empty one for the loss and everything that the model is evaluated by."""
        return MetricSet({LOSS: Mean(), **{name: each.metric for name, each in self._metrics.items()}})

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(self.embeddings.names)

    # ---- one batch

    def learn(self, batch: Batch | None, metrics: MetricSet, *, step: int, share: float | None = None) -> float:
        """One step of everybody; ``share`` is this trainer's part in it. Without a batch it only takes part."""
        self._set_rate(step)
        if batch is None:
            self.optimizer.step(share=0.0)
            return 0.0
        paddle.seed(paddle_steps.seed_of_step(self._options.seed, step, self.job.rank))
        self.model.train()
        inputs = BatchInputs(batch, self.slots, self._ragged)
        self._check_labels(inputs)
        with (
            self._counting(inputs, share),
            paddle.amp.auto_cast(dtype="bfloat16") if self._options.amp else nullcontext(),
            self._own_code(),
        ):
            results = self.model(inputs)
            loss = self.model.loss(results, inputs)
            number = float(loss.astype("float32").item())
        if not math.isfinite(number):
            raise paddle_steps.diverged(number, step)
        if self._options.gradient_scale == SUMMED:
            loss = loss * batch.size
        self._backward(loss)
        self._clip_dense()
        self.optimizer.step(share=share)
        self.optimizer.clear_grad()
        self._look(results, inputs, number, metrics)
        return number

    def evaluate(self, batch: Batch, metrics: MetricSet) -> float:
        """Look at a batch without learning from it."""
        self.model.eval()
        inputs = BatchInputs(batch, self.slots, self._ragged)
        self._check_labels(inputs)
        with paddle.no_grad(), self._own_code():
            results = self.model(inputs)
            number = float(self.model.loss(results, inputs))
        self._look(results, inputs, number, metrics)
        return number

    def predict(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """What the model answers."""
        self.model.eval()
        with paddle.no_grad():
            results = self.model(BatchInputs(batch, self.slots, self._ragged))
        return {name: results[name].numpy() for name in self.model.outputs or results}

    def export(
        self,
        path: str,
        checkpoint: str,
        *,
        feeds: Sequence[str] = (),
        fetches: Sequence[str] = (),
        sample: Callable[[], Batch | None],
    ) -> None:
        """Write an inference model as a checkpoint has it: what trainers hold of their own, as in geo, is not in it."""
        alone = Session(PsSeat(), Sync(), self.job.options)
        engine = self._copied(alone)
        runs.start_from(alone, checkpoint, engine.tables())
        engine.restore()
        done = paddle_export.export(
            engine,
            path,
            lambda embedding: ps_export.rows(checkpoint, embedding.table),
            feeds=feeds,
            fetches=fetches,
        )
        batch = sample()
        if batch is not None:
            paddle_export.check(done, engine, batch)
        alone.abandon()

    def takes_weights(self, path: str) -> bool:
        if paddlerec.is_there(path):
            raise UmiakError(
                Problem(
                    code="UM-TRAIN-069",
                    what=f"weights of PaddleRec are of no use here: {path}",
                    why=f"{self._file} is a model of another form, whose parameters have other names",
                    hint="start from a checkpoint that `umiak train` has saved; PaddleRec's are for `dygraph_model.py`",
                )
            )
        return False

    def take_weights(self, path: str) -> None:
        raise NotImplementedError(path)

    def write_weights(self, checkpoint: str) -> None:
        """Nobody else knows models of this form."""

    def refresh(self) -> None:
        """The tables have changed under the model: take them over."""
        self.optimizer.refresh()

    def restore(self) -> None:
        """The same after a checkpoint was loaded: what no optimizer changes is in it, too."""
        self.optimizer.refresh(everything=True)
        self.buffers.fetch()

    def tables(self) -> dict[str, Opened]:
        """All tables that a checkpoint of this model has."""
        return {**self.optimizer.tables(), **self.buffers.tables()}

    def without_trace(self) -> AbstractContextManager[None]:
        return nullcontext()

    def generators(self) -> str:
        """Each step has its seed."""
        return ""

    def set_generators(self, packed: str, step: int) -> None:
        """Nothing is kept."""

    def check_missing(self, seen: Seen | None, dataset: str) -> None:
        """UmiakError if samples had no label: they would be learned from as if it were 0."""
        if seen is None or not self.model.strict_labels:
            return
        labels = dict.fromkeys(each.label for each in self._metrics.values())
        missing = [(name, seen.missing[name]) for name in labels if seen.missing.get(name)]
        if missing:
            raise UmiakError(
                *[
                    Problem(
                        code="UM-DATA-061",
                        what=f"dataset {dataset}: {times} of the {seen.samples} lines that were read have no label {name}",
                        why="they would be learned from as if it were 0",
                        hint="take these lines out of the data; a model that wants them says `strict_labels = False`",
                    )
                    for name, times in missing
                ]
            )

    def _check_labels(self, inputs: BatchInputs) -> None:
        if not self.model.strict_labels:
            return
        for name in dict.fromkeys(each.label for each in self._metrics.values() if isinstance(each.metric, BINARY)):
            labels = inputs.column(name)[:, 0]
            wrong = labels[(labels != 0) & (labels != 1)]
            if wrong.size:
                raise UmiakError(
                    Problem(
                        code="UM-TRAIN-064",
                        what=f"label {name} is {wrong[0]}, and the model needs 0 or 1",
                        why=f"{wrong.size} of the {labels.size} samples of a batch are so",
                        hint="the first sparse slot of a ClickModel is its label; a model that wants others says `strict_labels = False`",
                    )
                )

    def _backward(self, loss: paddle.Tensor) -> None:
        if not loss.stop_gradient:
            with self._own_code():
                loss.backward()
        if self._has_learned:
            return
        self._has_learned = (
            any(each.grad is not None for each in self.model.parameters()) or self.job.registry.has_gradients
        )
        if not self._has_learned:
            raise paddle_steps.nothing_learned(self._file)

    def _own_code(self) -> AbstractContextManager[None]:
        """What goes wrong here is the model's."""
        return own_code.running(self._file)

    def _counting(self, inputs: BatchInputs, share: float | None) -> AbstractContextManager[None]:
        """Tell the tables that count who clicked: each sample that has a label above 0, the first that the model is evaluated by."""
        if not self.embeddings.are_counting:
            return nullcontext()
        clicks = None if self._clicks is None else (inputs.column(self._clicks)[:, 0] > 0).astype(np.float32)
        return self.embeddings.counting(clicks, self._samples_of_gradients(inputs.size, share))

    def _samples_of_gradients(self, samples: int, share: float | None) -> float:
        """What undoes the mean over the samples of a step. Rows that count learn from the sum, as Paddle's do."""
        if self._options.gradient_scale == LEFT_TO_THE_MODEL:
            return 1.0
        own = 1.0 if self._options.gradient_scale == SUMMED else float(samples)
        return own / share if share and self.job.communicator.averages_rows else own

    def _set_rate(self, step: int) -> None:
        rate = self._base_rate * factor(self._options.learning.schedule, step)
        if rate != self.optimizer.get_lr():
            self.optimizer.set_lr(rate)

    def _clip_dense(self) -> None:
        most = self._options.learning.clip_norm
        if most is None:
            return
        gradients = [each.grad for each in self.model.parameters() if each.grad is not None and needs_clip(each)]
        norm = math.sqrt(sum(float((each * each).sum()) for each in gradients))
        if norm > most:
            with paddle.no_grad():  # a gradient may want one itself, and then can't be changed in place
                for each in gradients:
                    each.scale_(most / norm)

    def _look(self, results: Mapping[str, paddle.Tensor], inputs: BatchInputs, loss: float, metrics: MetricSet) -> None:
        size = inputs.size
        metrics.update(losses=loss, samples=size, only=(LOSS,))
        seen: dict[tuple[str, str, str | None], list[str]] = {}
        for name, each in self._metrics.items():
            seen.setdefault((each.result, each.label, each.groups), []).append(name)
        for (result, label, groups), names in seen.items():
            metrics.update(
                results[result].detach().astype("float32").numpy(),
                inputs.column(label)[:, 0],
                groups=None if groups is None else inputs.column(groups)[:, 0],
                only=names,
            )


def load_model(path: str, where: str | None = None) -> type[Model]:
    """The class ``Model`` of a file."""
    module = own_code.imported(path, where)
    kind = getattr(module, "Model", None)
    if not isinstance(kind, type):
        classes = [name for name, item in vars(module).items() if isinstance(item, type) and issubclass(item, Model)]
        what = f"{path} has no class Model"
        raise UmiakError(Problem(code="UM-TRAIN-013", what=what, hint=choices("Model", classes), where=where))
    if not issubclass(kind, Model):
        raise UmiakError(
            Problem(
                code="UM-TRAIN-013",
                what=f"class Model of {path} is not one that is understood",
                why=f"its base is {', '.join(each.__name__ for each in kind.__bases__)}",
                hint=model_text.PORT,
                where=where,
            )
        )
    if hasattr(kind, "judges"):  # its metrics would be passed over without a word
        what = f"class Model of {path} has a method judges, which is called metrics now"
        hint = "rename it, and write ModelMetric for Judge"
        raise UmiakError(Problem(code="UM-TRAIN-013", what=what, hint=hint, where=where))
    return kind
