"""The engine for models in the form of PaddleRec 2: `dygraph_model.py`, unchanged. An adapter, for Paddle.

    engine = DygraphFramework().engine(EngineRequest(model="dygraph_model.py", slots=slots, job=job, options=EngineOptions(written=...)))

Its methods are called as PaddleRec's own trainer calls them. What the model's optimizer would change is in tables instead (`umiak.ps.paddle_models`), so that
the same model learns alone, collectively and with parameter servers. What a run asks of it is said by `umiak.train.engines.engine`.
"""

from __future__ import annotations

import io
import math
import os
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.core.problem import Problem, UmiakError
from umiak.ps import values
from umiak.ps.paddle_models import plan_of, used_elsewhere
from umiak.train.checkpoints import paddlerec, weights
from umiak.train.config.paddlerec.dotted import dotted
from umiak.train.engines import dygraph_export, paddle_steps
from umiak.train.engines import dygraph_learning as learning
from umiak.train.engines.dygraph_class import DygraphCode
from umiak.train.engines.dygraph_learning import DygraphLearning
from umiak.train.engines.engine import ModelFindings
from umiak.train.engines.fast_metrics import quickened
from umiak.train.engines.state import generators
from umiak.train.metrics import objects
from umiak.train.metrics.objects import ObjectMetricSet
from umiak.train.reading.batches import StackedBatch, padded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.ps.manifest import Manifest
    from umiak.ps.values import Opened
    from umiak.train.checkpoints.weights import StateEntry
    from umiak.train.config.values import Slots
    from umiak.train.engines.engine import Answers, EngineOptions, EngineRequest
    from umiak.train.engines.portable.writing import PortableModel
    from umiak.train.metrics.metric_set import MetricSet
    from umiak.train.reading.batches import Batch
    from umiak.train.reading.checking import Seen

SUMMED = 1
"""A value of ``gradient_scale``."""
PADDING = 0
"""The id that stands where a sample of a declared slot has no more ids."""


class DygraphEngine:
    """A model with its optimizer and its metrics."""

    def __init__(self, wanted: EngineRequest) -> None:
        file, job, options, where, sample = wanted.model, wanted.job, wanted.options, wanted.where, wanted.sample
        self.job = job
        self.slots = wanted.slots
        self._options = options
        self._where = where
        paddle_steps.use(options.device)
        paddle.base.core.set_num_threads(options.threads)
        self.config = dotted(options.written, os.path.abspath(where or file))
        generators.begin(options.seed)
        self.code = DygraphCode(file, self.config, where)
        paddle.seed(options.seed)
        self.model = self.code.create_model()
        optimizers = self.code.create_optimizers(self.model)
        self._roots = (self.model, *optimizers)
        """What the model's code works with, besides its own objects."""
        with self._aside():
            names, metrics = self.code.create_metrics()
        self._state = dygraph_export.state_entries(self.model)
        made = DygraphLearning(self.model, optimizers, job, self.config, options)
        made.decide(file, None if sample is None else lambda: self._elsewhere(sample))
        self.plan, self.is_own = made.plan, made.is_own
        self.optimizer, self.buffers, self.schedules = made.optimizer, made.buffers, made.schedules
        told = [objects.remark(name, each) for name, each in zip(names, metrics, strict=False)]
        remarks = [*self.plan.remarks, *([each for each in told if each] if job.world > 1 else [])]
        self.warnings = tuple([Problem(code="UM-TRAIN-068", what=each, where=file) for each in remarks])
        self._has_learned = False
        self._is_restored = False
        """Whether a checkpoint was loaded: then the first batch may well be one that nothing is learned from."""
        self._is_one_pass = False
        """Whether the model leaves the backward pass to this engine, as its first batch has shown."""
        self._coming: Batch | None = None
        self._following: tuple[Batch, _Fields] | None = None
        """What is learned behind this batch, and what becomes of it here."""
        self._is_training: bool | None = None
        """What the model was told last; None: an epoch begins, and it is told again, as by PaddleRec's trainer."""
        self.first_seed = paddle_steps.seed_of_step(options.seed, 0, job.rank)
        if job.rank:
            # The first draws as PaddleRec's trainer does, and the others something else.
            generators.seed_all(self.first_seed)

    # ---- what becomes a table

    def _elsewhere(self, sample: Callable[[], Batch | None]) -> tuple[str, ...]:
        """Embeddings whose weight is used past their layer, as where an output shares it: a batch shows it."""
        has_embeddings = any(isinstance(each, paddle.nn.Embedding) for each in self.model.sublayers())
        batch = sample() if has_embeddings else None
        if batch is None:
            return ()
        with self._aside():
            _, metrics = self.code.create_metrics()
            return used_elsewhere(
                self.model, lambda: self.code.train_forward(self.model, metrics, self.tensors(batch)).loss
            )

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple([each.name for each in self.plan.tables])

    # ---- one batch

    def metric_set(self) -> ObjectMetricSet:
        """An empty one for the loss and everything that the model is evaluated by."""
        self._is_training = None
        names, metrics = self.code.create_metrics()
        return ObjectMetricSet(names, [quickened(each) for each in metrics], guard=self.code.running)

    @property
    def reads_ahead(self) -> bool:
        return self.job.reads_ahead and not self.is_own

    def expect(self, batch: Batch | None) -> None:
        self._coming = batch if self.reads_ahead else None

    def _fields_of(self, batch: Batch) -> _Fields:
        """Those of the batch that is learned now; and those of the one behind it are made ready."""
        known, coming = self._following, self._coming
        fields = known[1] if known is not None and known[0] is batch else _fields(batch, self.slots)
        self._following = None if coming is None else (coming, _fields(coming, self.slots))
        return fields

    def learn(self, batch: Batch | None, metrics: MetricSet, *, step: int, share: float | None = None) -> float:
        """One step of everybody; ``share`` is this trainer's part in it. Without a batch it only takes part."""
        if batch is None:
            self.optimizer.step(share=0.0)
            return 0.0
        assert isinstance(metrics, ObjectMetricSet)
        self._turn_to(is_training=True)
        fields = self._fields_of(batch)
        self.optimizer.expect(fields.arrays(), is_one_pass=self._is_one_pass)
        with paddle.amp.auto_cast(dtype="bfloat16") if self._options.amp else nullcontext():
            found = self.code.train_forward(self.model, metrics.objects, fields.tensors())
        if not self._has_learned:
            self._is_one_pass = not self.job.registry.has_gradients and not found.loss.stop_gradient
        loss = found.loss
        number = found.number
        if not math.isfinite(number):
            raise paddle_steps.diverged(number, step)
        if self._options.gradient_scale == SUMMED:
            loss = loss * batch.size
        self._backward(loss)
        self.optimizer.expect_behind(None if self._following is None else self._following[1].arrays())
        self.optimizer.step(share=share)
        self.optimizer.clear_grad()
        metrics.replace_objects(found.metrics)
        metrics.count(samples=batch.size, loss=number, told=found.told)
        return number

    @property
    def first_metric(self) -> None:
        """Its own code knows."""

    def evaluate(self, batch: Batch, metrics: MetricSet, answers: Answers | None = None) -> float:
        """Look at a batch without learning from it. NaN where the model says no loss."""
        assert isinstance(metrics, ObjectMetricSet)
        self._turn_to(is_training=False)
        calls: list[dygraph_export.Call] = []
        with paddle.no_grad(), ExitStack() as watching:
            if answers is not None:
                calls = watching.enter_context(dygraph_export.recording(self.model))
            found = self.code.infer_forward(self.model, metrics.objects, self.tensors(batch))
        if answers is not None:
            answers.update(dygraph_export.answers(self._first_of(calls)))
        metrics.replace_objects(found.metrics)
        loss = found.told.get(objects.LOSS) if found.loss is None else found.number
        metrics.count(samples=batch.size, loss=loss, told=found.told)
        return math.nan if loss is None else loss

    def predict(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """What the model's forward answers."""
        return dygraph_export.answers(self._recorded(self.model, batch))

    def tensors(self, batch: Batch) -> list[Any]:
        """What PaddleRec's DataLoader would give: the reader's fields; of declared slots the sparse ones, then the dense ones."""
        return _fields(batch, self.slots).tensors()

    def fields(self, batch: Batch) -> list[Any]:
        """The same as arrays, for records of what a model gets."""
        return _fields(batch, self.slots).everything()

    def without_trace(self) -> AbstractContextManager[None]:
        """What is done with the model within, PaddleRec's trainer does not do: afterwards its code remembers nothing of it, and nothing was drawn."""
        return self.code.without_trace(*self._roots)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """The same, for what nobody has asked for: what the code prints then is not shown either."""
        with self.without_trace(), redirect_stdout(io.StringIO()):
            yield

    def generators(self) -> str:
        return generators.packed()

    def set_generators(self, packed: str, step: int) -> None:
        if packed:
            generators.unpack(packed)
        else:
            generators.seed_all(paddle_steps.seed_of_step(self._options.seed, step, self.job.rank))

    def _turn_to(self, *, is_training: bool) -> None:
        """Once in an epoch: code of the model may turn some of its layers in between."""
        if self._is_training is not is_training:
            self.model.train() if is_training else self.model.eval()
            self._is_training = is_training

    def check_missing(self, seen: Seen | None, dataset: str) -> None:
        """Which of the slots are labels is the model's own business."""

    def _backward(self, loss: paddle.Tensor) -> None:
        if not loss.stop_gradient:
            with self.code.running():
                loss.backward()
        if not self._has_learned:
            parameters = self.model.parameters()
            self._has_learned = any(each.grad is not None for each in parameters) or self.job.registry.has_gradients
            if not (self._has_learned or self._is_restored):
                raise paddle_steps.nothing_learned(self.code.file)

    # ---- tables, checkpoints and files

    def tables(self) -> dict[str, Opened]:
        """All tables that a checkpoint of this model has."""
        return {**self.optimizer.tables(), **self.buffers.tables()}

    def refresh(self) -> None:
        """The tables have changed under the model: take them over."""
        self.optimizer.refresh()

    def restore(self) -> None:
        """The same after a checkpoint was loaded: what no optimizer changes is in it, too."""
        self.optimizer.refresh(everything=True)
        self.buffers.fetch()
        self._is_restored = True

    def weights(self) -> dict[str, AnyArray]:
        """Everything that the model's `state_dict` would have without tables."""
        there = {name: dygraph_export.array(each) for name, each in self.model.state_dict().items()}
        return {name: there[name] for name in self._state if name in there}

    def takes_weights(self, path: str, manifest: Manifest | None = None) -> bool:
        """Whether a checkpoint is PaddleRec's, or has as a table what is a parameter here, or the other way round."""
        if paddlerec.is_there(path):
            return True
        manifest = manifest or learning.manifest_of(path)
        if manifest is None or self._options.checkpoint:
            return manifest is not None
        if self.is_own or learning.is_own(manifest, self._options.prefix):
            return not self.is_own or not values.fits(manifest, self.tables(), shards=self.job.options.shards)
        return {*learning.tables_in(manifest, self._options.prefix)} != {*self.table_names}

    def take_weights(self, path: str) -> None:
        """Begin with the weights of such a checkpoint. Every trainer calls it."""
        found = paddlerec.weights(path) if paddlerec.is_there(path) else self._saved(path)
        self.set_weights(found, path)

    def set_weights(self, found: Mapping[str, AnyArray], path: str) -> None:
        problems = _misfits(found, self._state, path)
        UmiakError.raise_any(problems)
        tabled = [f"{layer}.weight" for table in self.plan.tables for layer in table.layers]
        state = self.model.state_dict(use_hook=False)
        for name, tensor in state.items():
            if name in found and name not in tabled:
                tensor.set_value(found[name].astype(paddle.zeros([1], tensor.dtype).numpy().dtype, copy=False))
        self.optimizer.set_weights({name: np.asarray(found[name], np.float32) for name in tabled if name in found})
        self.optimizer.upload()

    def write_weights(self, checkpoint: str) -> None:
        """PaddleRec's own files into a checkpoint's directory, so that its tools go on from there."""
        if learning.is_said(self.config, "runner.save_pdparams", default=True):
            schedules = self.schedules.state()
            optimizer = {"LR_Scheduler": schedules[0]} if schedules else {}
            # Where others go on learning meanwhile, only the checkpoint has everything as it was at one time.
            is_alone = self.job.world == 1 and not self.job.seat.servers
            found = self.weights() if is_alone else self._saved(checkpoint)
            dygraph_export.write_paddlerec(found, optimizer, checkpoint)

    def _saved(self, checkpoint: str) -> dict[str, AnyArray]:
        """What a checkpoint of ours has, in full size."""
        return weights.read(checkpoint, self._options.prefix, self._state)

    def export(
        self,
        path: str,
        checkpoint: str,
        *,
        feeds: Sequence[str] = (),
        fetches: Sequence[str] = (),
        sample: Callable[[], Batch | None],
    ) -> None:
        """Write an inference model as a checkpoint has it, traced with a batch: the plain model, with its weights in full size."""
        del feeds, fetches  # names of variables of a static program
        batch = sample()
        if batch is None:
            what = f"no inference model can be written: {path}"
            raise UmiakError.of("UM-TRAIN-066", what, why="there is no sample to trace the model with")
        self.export_portable(path, checkpoint, batch=batch, most_bytes=0)

    def export_portable(self, path: str, checkpoint: str, *, batch: Batch, most_bytes: int) -> PortableModel:
        """The same, with what it must answer. Its rows are parameters, and so in it, however large."""
        del most_bytes
        with self._aside():
            plain = self.code.create_model()
            dygraph_export.set_state(plain, self._saved(checkpoint))
            plain.eval()
            return dygraph_export.export(plain, self._recorded(plain, batch), path, batch.size, self.code)

    def _recorded(self, model: paddle.nn.Layer, batch: Batch) -> dygraph_export.Call:
        """How `infer_forward` calls the model for a batch."""
        _, metrics = self.code.create_metrics()
        model.eval()
        with paddle.no_grad(), dygraph_export.recording(model) as calls:
            self.code.infer_forward(model, metrics, self.tensors(batch))
        return self._first_of(calls)

    def _first_of(self, calls: Sequence[dygraph_export.Call]) -> dygraph_export.Call:
        if not calls:
            what = "infer_forward does not call the model's forward, so nothing says what goes in and comes out"
            raise UmiakError.of("UM-TRAIN-066", what, where=self.code.file)
        return calls[0]


class _Fields:
    """A batch, field by field; the first ones may lie together in one array."""

    def __init__(self, first: AnyArray | Sequence[AnyArray], others: Sequence[Any]) -> None:
        self._first = first
        self._others = others

    def arrays(self) -> list[AnyArray]:
        """Those that are plain arrays."""
        return [each for each in (*self._first, *self._others) if isinstance(each, np.ndarray)]

    def everything(self) -> list[Any]:
        """All of them, in order."""
        return [*self._first, *self._others]

    def tensors(self) -> list[Any]:
        """New tensors. What lies together is one call of Paddle: a call costs more than the bytes of a field."""
        others = [paddle_steps.tensors_of(each) for each in self._others]
        if isinstance(self._first, np.ndarray) and len(self._first):
            return [*paddle.unbind(paddle.to_tensor(self._first)), *others]
        return [*(paddle_steps.tensors_of(each) for each in self._first), *others]


def _fields(batch: Batch, slots: Slots) -> _Fields:
    if isinstance(batch, StackedBatch):
        return _Fields((), batch.arrays)
    dense = [np.ascontiguousarray(batch.dense[each.name]) for each in slots.dense]
    return _Fields(_columns(batch, slots.sparse), dense)


class DygraphFramework:
    """PaddlePaddle, for models in the form of PaddleRec 2."""

    def engine(self, wanted: EngineRequest) -> DygraphEngine:
        return DygraphEngine(wanted)

    def examine(self, model: str, options: EngineOptions, where: str | None) -> ModelFindings:
        """Make the model and its optimizer, as training would, and see what becomes of them."""
        paddle_steps.use(options.device)
        generators.begin(options.seed)
        code = DygraphCode(model, dotted(options.written, os.path.abspath(where or model)), where)
        paddle.seed(options.seed)
        made = code.create_model()
        optimizers = code.create_optimizers(made)
        names, metrics = code.create_metrics()
        choice = learning.choice_of(code.config)
        plan = plan_of(made, optimizers, is_shared=options.is_shared, choice=choice)
        problems = learning.problems_of(made, plan, optimizers, choice, is_shared=options.is_shared)
        UmiakError.raise_any(learning.located(each, model) for each in problems)
        is_own = learning.learns_on_its_own(plan, choice, is_shared=options.is_shared)
        told = [objects.remark(name, each) for name, each in zip(names, metrics, strict=False)]
        remarks = [*plan.remarks, *([each for each in told if each] if options.is_shared else [])]
        return ModelFindings(
            warnings=tuple([Problem(code="UM-TRAIN-068", what=each, where=model) for each in remarks]),
            tables=tuple(learning.own_lines(made, optimizers) if is_own else plan.lines()),
        )


def _misfits(found: Mapping[str, AnyArray], state: Mapping[str, StateEntry], path: str) -> list[Problem]:
    """Weights that are not there, or of another shape."""
    problems = []
    for name, shape in ((name, entry.shape) for name, entry in state.items()):
        if name not in found:
            problems.append(f"{name} is not in it")
        elif tuple(found[name].shape) != shape:
            problems.append(f"{name} has the shape {tuple(found[name].shape)} there and {shape} here")
    hint = "start from weights of the same model with the same hyper_parameters"
    return [Problem(code="UM-TRAIN-069", what=each, hint=hint, where=path) for each in problems]


def _columns(batch: Batch, names: Sequence[str]) -> AnyArray | list[AnyArray]:
    """A matrix for each slot, as wide as its longest sample; together where all are one id wide."""
    try:
        matrix = batch.matrix(names)
    except ValueError:
        return [padded(*batch.sparse[name], PADDING) for name in names]
    columns: AnyArray = np.ascontiguousarray(matrix.T.astype(np.int64, copy=False))[:, :, None]
    return columns
