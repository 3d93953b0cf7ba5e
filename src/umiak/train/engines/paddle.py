"""The engine for models that are written for Paddle: makes them, lets them learn, evaluates them. An adapter, for Paddle.

    engine = PaddleFramework().engine(EngineRequest(model="model.py", slots=slots, job=job, options=EngineOptions(seed=7)))

What a run asks of it is said by `umiak.train.engines.engine`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import paddle
from numpy.typing import NDArray

from umiak.core.problem import UmiakError
from umiak.ps import export as ps_export
from umiak.ps import specs
from umiak.ps.clients.collective import Group
from umiak.ps.environment import PsSeat
from umiak.ps.manifest import Manifest
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
from umiak.train.engines.engine import LOSS, EngineOptions, EngineRequest, FirstMetric, ModelFindings
from umiak.train.engines.portable import writing
from umiak.train.metrics.clicks import Mean
from umiak.train.metrics.metric_set import MetricSet
from umiak.train.modeling import effects, labels
from umiak.train.modeling.embedding import Tables
from umiak.train.modeling.inputs import BatchInputs
from umiak.train.modeling.model import Model, ModelMetric
from umiak.train.modeling.negatives import sampler_for, softmax_loss
from umiak.train.reading.batches import Batch
from umiak.train.reading.checking import Seen
from umiak.train.reading.tables import locks

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping
    from umiak.data.array_types import AnyArray
    from umiak.train.config.objectives.settings import Objective
    from umiak.train.config.values import Learning
    from umiak.train.engines.engine import Answers
    from umiak.train.engines.portable.writing import PortableModel
    from umiak.train.reading.tables.catalogue import Catalogue

SUMMED, LEFT_TO_THE_MODEL = 1, 2
"""Values of ``gradient_scale``; 0 is the mean."""


class PaddleFramework:
    """PaddlePaddle, as a run uses it."""

    def engine(self, wanted: EngineRequest) -> PaddleEngine:
        return PaddleEngine(
            load_model(wanted.model, wanted.where),
            wanted.slots,
            job=wanted.job,
            options=wanted.options,
            hyper_parameters=wanted.hyper_parameters,
            where=wanted.where,
            catalogue=wanted.catalogue,
        )

    def examine(
        self,
        model: str,
        options: EngineOptions,
        hyper_parameters: JsonMapping,
        where: str | None,
    ) -> ModelFindings:
        del options  # it is not made for this
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

    _following: Batch | None = None

    def __init__(
        self,
        kind: type[Model],
        slots: Slots,
        *,
        job: Session,
        options: EngineOptions,
        hyper_parameters: JsonMapping,
        where: str | None = None,
        catalogue: Catalogue | None = None,
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
        objective = options.objective
        self.embeddings = Tables(
            job,
            seed=options.seed,
            prefix=options.prefix,
            settings={"clip": clip, "decay": _row_decay(learning, objective), "absent": "zeros"},
            counted=options.tables,
            per_slot=options.embedding_tables is EmbeddingTables.PER_SLOT,
            features=slots.features,
            dropout=objective.embedding_dropout,
        )
        self.slots = slots
        self._file = inspect.getfile(kind)
        _check_weights(kind, slots, where)
        with self._own_code():
            self.model = kind(chosen, slots, self.embeddings)
            self.embeddings.divide(self.model, slots)
        rule = specs.rule(learning.rule, **learning.settings)
        self._base_rate = float(getattr(rule, "learning_rate", 1.0))
        self._reduced = 1.0
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
        self._negatives = sampler_for(self.model, options.retrieval, catalogue, where)
        self._is_checked = False
        self._has_learned = False
        self._is_restored = False
        """Whether a checkpoint was loaded: then the first batch may well be one that nothing is learned from."""
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

    @property
    def reads_ahead(self) -> bool:
        return self.job.reads_ahead and self._negatives is None

    def expect(self, batch: Batch | None) -> None:
        self._following = batch if self.reads_ahead else None

    def learn(self, batch: Batch | None, metrics: MetricSet, *, step: int, share: float | None = None) -> float:
        """One step of everybody; ``share`` is this trainer's part in it. Without a batch it only takes part."""
        self._set_rate(step)
        seed = paddle_steps.seed_of_step(self._options.seed, step, self.job.rank)
        drawn = None if batch is None or self._negatives is None else self._negatives.drawn(batch, seed)
        batch = batch if drawn is None else drawn.batch
        if batch is None or not batch.size:
            self.optimizer.step(share=0.0)
            return 0.0
        paddle.seed(seed)
        self.model.train()
        self.embeddings.asked.begin()
        inputs = self._inputs(batch)
        with (
            self._counting(inputs, share),
            paddle.amp.auto_cast(dtype="bfloat16") if self._options.amp else nullcontext(),
            self._own_code(),
        ):
            results = self.model(inputs)
            is_choice = drawn is not None and drawn.offsets is not None
            loss = softmax_loss(results["logit"], drawn, inputs) if is_choice else self.model.loss(results, inputs)
            number = float(loss.astype("float32").item())
        self._check_use(inputs)
        if not math.isfinite(number):
            raise paddle_steps.diverged(number, step)
        if self._options.gradient_scale == SUMMED:
            loss = loss * batch.size
        self._backward(loss)
        _clip_dense(self.model, self._options.learning.clip_norm)
        following = self._following
        self.embeddings.expect(None if following is None else BatchInputs(following, self.slots, self._ragged))
        self.optimizer.step(share=share)
        self.optimizer.clear_grad()
        _look(self._metrics, results, inputs, number, metrics)
        return number

    @property
    def first_metric(self) -> FirstMetric | None:
        """What its first metric looks at."""
        first = next(iter(self._metrics.values()), None)
        return None if first is None else FirstMetric(prediction=first.result, label=first.label)

    def evaluate(self, batch: Batch, metrics: MetricSet, answers: Answers | None = None) -> float:
        """Look at a batch without learning from it."""
        self.model.eval()
        inputs = self._inputs(batch)
        with paddle.no_grad(), self._own_code():
            results = self.model(inputs)
            number = float(self.model.loss(results, inputs))
        if answers is not None:
            answers.update({name: each.astype("float32").numpy() for name, each in results.items()})
        _look(self._metrics, results, inputs, number, metrics)
        return number

    def scores(self, batch: Batch) -> AnyArray:
        """One number for each sample: the logit, or what the first metric looks at."""
        self.model.eval()
        with paddle.no_grad(), self._own_code():
            results = self.model(BatchInputs(batch, self.slots, self._ragged))
        first = next(iter(self._metrics.values()), None)
        found: AnyArray = results["logit" if "logit" in results or first is None else first.result].numpy()
        return found.reshape(-1)

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
        with self._as_saved(checkpoint) as engine:
            done = paddle_export.export(
                engine,
                path,
                lambda embedding: ps_export.rows(checkpoint, embedding.table),
                feeds,
                fetches,
                beside=locks.files_in(checkpoint),
            )
            batch = sample()
            if batch is not None:
                paddle_export.check(done, engine, batch)

    def export_portable(self, path: str, checkpoint: str, *, batch: Batch, most_bytes: int) -> PortableModel:
        """The same in operations that ONNX has, with those tables in it that together are not larger than ``most_bytes``."""
        with self._as_saved(checkpoint) as engine:
            return writing.export(engine, path, checkpoint, batch, most_bytes)

    @contextmanager
    def _as_saved(self, checkpoint: str) -> Iterator[PaddleEngine]:
        """The model as a checkpoint has it."""
        alone = Session(PsSeat(), Sync(), self.job.options)
        engine = self._copied(alone)
        runs.start_from(alone, checkpoint, engine.tables())
        engine.restore()
        yield engine
        alone.abandon()

    def takes_weights(self, path: str, manifest: Manifest | None = None) -> bool:
        del manifest  # what says it is the directory
        if paddlerec.is_there(path):
            raise UmiakError.of(
                "UM-TRAIN-069",
                f"weights of PaddleRec are of no use here: {path}",
                why=f"{self._file} is a model of another form, whose parameters have other names",
                hint="start from a checkpoint that `umiak train` has saved; PaddleRec's are for `dygraph_model.py`",
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
        self._is_restored = True

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
        if seen is not None and self.model.strict_labels:
            labels.check_missing(dict.fromkeys(each.label for each in self._metrics.values()), seen, dataset)

    def _inputs(self, batch: Batch) -> BatchInputs:
        inputs = BatchInputs(batch, self.slots, self._ragged, self._options.objective.class_weights)
        if self.model.strict_labels:
            labels.check_binary(self._metrics.values(), inputs)
        return inputs

    def _check_use(self, inputs: BatchInputs) -> None:
        """Before anything is learned: what the config says of features and labels has an effect on this model."""
        if self._is_checked:
            return
        self._is_checked = True
        where = self._made_of[-1]
        effects.check_dims(self.slots, self.embeddings.made, self._file, where)
        effects.check_classes(self._options.objective, inputs.weighed, self._file, where)

    def _backward(self, loss: paddle.Tensor) -> None:
        if not loss.stop_gradient:
            with self._own_code():
                loss.backward()
        if self._has_learned:
            return
        self._has_learned = (
            any(each.grad is not None for each in self.model.parameters()) or self.job.registry.has_gradients
        )
        if not (self._has_learned or self._is_restored):
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

    def reduce_rate(self, factor: float) -> None:
        self._reduced = factor

    def _set_rate(self, step: int) -> None:
        rate = self._base_rate * factor(self._options.learning.schedule, step) * self._reduced
        if rate != self.optimizer.get_lr():
            self.optimizer.set_lr(rate)


def _look(
    judged: Mapping[str, ModelMetric],
    results: Mapping[str, paddle.Tensor],
    inputs: BatchInputs,
    loss: float,
    metrics: MetricSet,
) -> None:
    """Let metrics see what came of a batch."""
    size = inputs.size
    metrics.update(losses=loss, samples=size, only=(LOSS,))
    seen: dict[tuple[str, str, str | None], list[str]] = {}
    for name, each in judged.items():
        seen.setdefault((each.result, each.label, each.groups), []).append(name)
    for (result, label, groups), names in seen.items():
        metrics.update(
            results[result].detach().astype("float32").numpy(),
            inputs.column(label)[:, 0],
            groups=None if groups is None else inputs.column(groups)[:, 0],
            only=names,
        )


def _clip_dense(model: Model, most: float | None) -> None:
    """Scale the gradients of its parameters so that their norm together is no larger."""
    if most is None:
        return
    gradients = [each.grad for each in model.parameters() if each.grad is not None and needs_clip(each)]
    norm = math.sqrt(sum(float((each * each).sum()) for each in gradients))
    if norm > most:
        with paddle.no_grad():  # a gradient may want one itself, and then can't be changed in place
            for each in gradients:
                each.scale_(most / norm)


def _row_decay(learning: Learning, objective: Objective) -> specs.Decay:
    """How rows of embeddings shrink, if not as everything does."""
    l2, decoupled = learning.weight_decay, learning.decoupled_weight_decay
    if (own := objective.embedding_decay) is None:
        return specs.Decay(l2=l2, decoupled=decoupled)
    return specs.Decay(decoupled=own) if decoupled and not l2 else specs.Decay(l2=own)


def _check_weights(kind: type[Model], slots: Slots, where: str | None) -> None:
    """UmiakError if samples have weights and the model's loss knows nothing of them."""
    if slots.weight is not None and not kind.weighs_samples:
        raise UmiakError.of(
            "UM-TRAIN-602",
            f"the features have weights of samples, and the model does not weigh them: {inspect.getfile(kind)}",
            hint="leave `weight:` out; or let its loss be `inputs.mean(losses)`, and say `weighs_samples = True` in the class",
            where=where,
        )


def load_model(path: str, where: str | None = None) -> type[Model]:
    """The class ``Model`` of a file."""
    module = own_code.imported(path, where)
    kind = getattr(module, "Model", None)
    if not isinstance(kind, type):
        classes = [name for name, item in vars(module).items() if isinstance(item, type) and issubclass(item, Model)]
        what = f"{path} has no class Model"
        raise UmiakError.of("UM-TRAIN-013", what, hint=choices("Model", classes), where=where)
    if not issubclass(kind, Model):
        raise UmiakError.of(
            "UM-TRAIN-013",
            f"class Model of {path} is not one that is understood",
            why=f"its base is {', '.join(each.__name__ for each in kind.__bases__)}",
            hint=model_text.PORT,
            where=where,
        )
    if hasattr(kind, "judges"):  # its metrics would be passed over without a word
        what = f"class Model of {path} has a method judges, which is called metrics now"
        hint = "rename it, and write ModelMetric for Judge"
        raise UmiakError.of("UM-TRAIN-013", what, hint=hint, where=where)
    return kind
