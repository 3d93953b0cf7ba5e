"""The engine for models in the form of PaddleRec 1.8.5: class Model of `paddlerec.core.model.ModelBase`, programs of `paddle.fluid`. An adapter, for Paddle.

The model is run as it is. Alone its program learns as it was recorded, with its own optimizer. What is evaluated is the program that it records with ``is_infer=True``,
with the same parameters by their names.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.core.problem import Problem, UmiakError
from umiak.fluid.record.program import FORWARD, Parameter
from umiak.fluid.running.executor import ReplayExecutor
from umiak.fluid.running.scope import VariableScope, scope_guard
from umiak.train.checkpoints import weights
from umiak.train.engines import dygraph_learning, paddle_steps
from umiak.train.engines.engine import ModelFindings
from umiak.train.engines.modelbase import exporting, provided, states
from umiak.train.engines.modelbase.counting import ProgramCounting
from umiak.train.engines.modelbase.feeding import feed_of
from umiak.train.engines.modelbase.learning import LoadedProgram, ModelLearning, WholeProgram
from umiak.train.engines.modelbase.programs import ModelCode
from umiak.train.engines.modelbase.remarks import answers_to_export, names_to_export, remarks_of
from umiak.train.engines.modelbase.sharing import SharedProgram
from umiak.train.engines.state import generators
from umiak.train.metrics.objects import ObjectMetricSet
from umiak.train.reading import base

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from umiak.core.json_types import JsonMapping
    from umiak.data.array_types import AnyArray
    from umiak.ps.manifest import Manifest
    from umiak.ps.sessions import Session
    from umiak.ps.values import Opened
    from umiak.train.engines.buffers import Buffers
    from umiak.train.engines.engine import Answers, EngineOptions, EngineRequest
    from umiak.train.engines.modelbase.programs import ModelProgram
    from umiak.train.metrics.metric_set import MetricSet
    from umiak.train.reading.batches import Batch
    from umiak.train.reading.checking import Seen


class FluidEngine:
    """A model with its programs and what they keep."""

    def __init__(self, wanted: EngineRequest) -> None:
        options = wanted.options
        self.job = wanted.job
        self._options, self._wanted = options, wanted
        paddle_steps.use(options.device)
        paddle.base.core.set_num_threads(options.threads)
        provided.provide(wanted.settings, _runtime(wanted.job), options.written)
        generators.begin(options.seed)
        self.code = ModelCode(wanted.model, options.written, wanted.where)
        self._executor = ReplayExecutor(_Here())
        self._is_aside = False
        self._evaluation: _Evaluation | None = None
        paddle.seed(options.seed)
        self._scope = VariableScope()
        self.program: ModelProgram | None = None
        self._counting: ProgramCounting | None = None
        if options.checkpoint:
            self._learning: ModelLearning = LoadedProgram(self._scope, self._executor, wanted.job)
            self._state = self._begin_evaluation()
        else:
            self.program = self.code.training(wanted.dataset)
            exporting.check_names(self.program, names_to_export(base.settings()), wanted.model)
            with scope_guard(self._scope):
                self._executor.run(self.program.startup, scope=self._scope)
            self._counting = ProgramCounting(self.program, self._scope, self.code.running)
            self._learning = self._learned(self.program, self._counting)
            kept = [name for name in states.forward_names(self.program.main) if name not in self._counting.states]
            self._state = states.entries(self.program.main, kept)
        remarks = _remarks(options, learns=self.program is not None)
        self.warnings = (
            *self._learning.warnings,
            *(Problem(code="UM-TRAIN-068", what=each, where=wanted.model) for each in remarks),
        )
        if wanted.job.rank:
            generators.seed_all(paddle_steps.seed_of_step(options.seed, 0, wanted.job.rank))

    def _learned(self, program: ModelProgram, counting: ProgramCounting) -> ModelLearning:
        """Alone as it is; with others through tables. UmiakError with everything that can't be done."""
        prefix, job = self._options.prefix, self.job
        if job.world == 1 and not job.seat.servers:
            return WholeProgram(program, self._scope, self._executor, job, prefix=prefix)
        return SharedProgram(
            program,
            self._scope,
            self._executor,
            job,
            prefix=prefix,
            states_of_metrics=counting.states,
            file=self.code.file,
        )

    @property
    def buffers(self) -> Buffers:
        return self._learning.buffers

    @property
    def table_names(self) -> tuple[str, ...]:
        return self._learning.table_names

    # ---- one batch

    def metric_set(self) -> ObjectMetricSet:
        """An empty one for the loss and everything that the model tells: of training, or where one looks at it, of evaluation."""
        if self._counting is None or self._is_aside:
            return self._evaluated().begin()
        return self._counting.metric_set()

    def learn(self, batch: Batch | None, metrics: MetricSet, *, step: int, share: float | None = None) -> float:
        """One step of everybody; ``share`` is this trainer's part in it. Without a batch it only takes part."""
        if batch is None:
            self._learning.skip()
            return 0.0
        assert isinstance(metrics, ObjectMetricSet)
        assert self.program is not None
        assert self._counting is not None
        feed = feed_of(batch, self.program.inputs, self.code.file)
        cost = self.program.cost.name
        with self.code.running():
            fetched = self._learning.step(feed, [cost, *self._counting.fetched], share=share)
        number = float(np.mean(np.asarray(fetched[cost], np.float64)))
        if not math.isfinite(number):
            raise paddle_steps.diverged(number, step)
        self._counting.count(metrics, fetched, samples=batch.size, loss=number)
        return number

    @property
    def first_metric(self) -> None:
        """Its own program knows."""

    def evaluate(self, batch: Batch, metrics: MetricSet, answers: Answers | None = None) -> float:
        """Look at a batch without learning from it. NaN where the model says no loss."""
        assert isinstance(metrics, ObjectMetricSet)
        return self._evaluated().count(batch, metrics, answers)

    def predict(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """What the model tells of a batch with a row for each sample."""
        return self._evaluated().rows(batch)

    @contextmanager
    def without_trace(self) -> Iterator[None]:
        """What is done within is no part of the training: nothing was drawn, and what the program keeps is afterwards as before."""
        drawn, before = generators.states(), self._is_aside
        kept = states.copied(self._scope, self._evaluated().written) if self._counting is not None else {}
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = before
            states.put_back(self._scope, kept)
            generators.set_states(drawn)

    def generators(self) -> str:
        return generators.packed()

    def set_generators(self, packed: str, step: int) -> None:
        if packed:
            generators.unpack(packed)
        else:
            generators.seed_all(paddle_steps.seed_of_step(self._options.seed, step, self.job.rank))

    def check_missing(self, seen: Seen | None, dataset: str) -> None:
        """Which of the slots are labels is the model's own business."""

    # ---- evaluating

    def _begin_evaluation(self) -> dict[str, weights.StateEntry]:
        """The program of a checkpoint that is evaluated: all of its parameters are the checkpoint's."""
        made = self.code.evaluation(self._wanted.dataset)
        with scope_guard(self._scope):
            self._executor.run(made.startup, scope=self._scope)
        self._evaluation = _Evaluation(made, self._scope, self._learning, self.code, shared=dict)
        kept = [name for name in states.forward_names(made.main) if name not in self._evaluation.counting.states]
        return states.entries(made.main, kept)

    def _evaluated(self) -> _Evaluation:
        if self._evaluation is None:
            drawn = generators.states()
            made = self.code.evaluation(self._wanted.evaluated or self._wanted.dataset)
            self._evaluation = self._beside_training(made)
            generators.set_states(drawn)
        return self._evaluation

    def _beside_training(self, made: ModelProgram) -> _Evaluation:
        """A program that takes what it has in common with the one that learns: parameters and running statistics, by their names."""
        assert self._counting is not None
        own = states_of_metrics(made) | self._counting.states
        shapes = {each.name: tuple(each.shape) for each in made.main.list_vars()}
        common = [
            name
            for name in states.kept_names(made.main)
            if name not in own
            and name in self._scope.tensors
            and tuple(self._scope.tensors[name].shape) == shapes[name]
        ]
        elsewhere = {*common, *self.table_names}
        scope = VariableScope()
        startup = made.startup.clone()
        block = startup.global_block()
        block.ops = [each for each in block.ops if not {*each.outputs} <= elsewhere]
        startup.changed()
        with scope_guard(scope):
            self._executor.run(startup, scope=scope)
        missing = [name for name in states.parameters_of(made.main) if name not in elsewhere]
        if missing:
            what = f"net(is_infer=True) has parameters that training does not have: {', '.join(missing)}"
            hint = "give both the same names (ParamAttr(name=...)), or record layers in the same order"
            raise UmiakError.of("UM-TRAIN-069", what, hint=hint, where=self.code.file)
        return _Evaluation(
            made, scope, self._learning, self.code, shared=lambda: {name: self._scope.tensors[name] for name in common}
        )

    # ---- tables, checkpoints and files

    def tables(self) -> Mapping[str, Opened]:
        """All tables that a checkpoint of this model has."""
        return self._learning.tables()

    def refresh(self) -> None:
        """The tables have changed under the model: take them over."""
        self._learning.refresh()

    def restore(self) -> None:
        """The same after a checkpoint was loaded."""
        self._learning.refresh(everything=True)
        self.buffers.fetch()

    def takes_weights(self, path: str, manifest: Manifest | None = None) -> bool:
        """Whether a checkpoint is PaddleRec's, or has as a table what is a parameter here, or the other way round."""
        if exporting.is_there(path, self._needed()):
            return True
        manifest = manifest or dygraph_learning.manifest_of(path)
        if manifest is None or self._options.checkpoint:
            return manifest is not None
        return not exporting.fits(
            manifest, self.tables(), self.table_names, self._options.prefix, is_own=self._learning.is_own, job=self.job
        )

    def take_weights(self, path: str) -> None:
        """Begin with the weights of such a checkpoint. Every trainer calls it."""
        found = self._saved(path)
        problems = exporting.misfits(found, {name: self._state[name] for name in self._needed()}, path)
        UmiakError.raise_any(problems)
        self._learning.set_weights(found)

    def write_weights(self, checkpoint: str) -> None:
        """Our checkpoint has everything, and `fluid.io.load_persistables` reads what `export` writes."""

    def export(
        self,
        path: str,
        checkpoint: str,
        *,
        feeds: Sequence[str] = (),
        fetches: Sequence[str] = (),
        sample: Callable[[], Batch | None],
    ) -> None:
        """Write an inference model as a checkpoint has it: what leads from the named variables to the others, and compare its answers."""
        if not feeds or not fetches:
            return  # as in PaddleRec; a remark has said it
        assert self.program is not None
        drawn = generators.states()
        exporting.export(
            self.program, self._scope, self._saved(checkpoint), path, feeds, fetches, sample, self.code.file
        )
        generators.set_states(drawn)

    def weights(self) -> dict[str, AnyArray]:
        """Parameters, and what else a model answers by."""
        return states.copied(self._scope, dict.fromkeys(each.same_as for each in self._state.values()))

    def _needed(self) -> list[str]:
        """Parameters, without which nothing goes."""
        made = self.program or (self._evaluation.program if self._evaluation else None)
        return [name for name in states.parameters_of(made.main) if name in self._state] if made else []

    def _saved(self, checkpoint: str) -> dict[str, AnyArray]:
        """What a checkpoint has, in full size, by the names of variables."""
        if exporting.is_there(checkpoint, self._needed()):
            return exporting.read(checkpoint, self._state)
        found = weights.read(checkpoint, self._options.prefix, self._state)
        return {self._state[name].same_as: array for name, array in found.items()}


class _Evaluation:
    """The program of evaluation, in a scope of its own."""

    def __init__(
        self,
        program: ModelProgram,
        scope: VariableScope,
        learning: ModelLearning,
        code: ModelCode,
        *,
        shared: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.program, self._scope, self._learning, self._code, self._shared = program, scope, learning, code, shared
        self._scope.tensors.update(shared())
        self.counting = ProgramCounting(program, scope, code.running)
        kept = states.kept_names(program.main)
        own = [name for name in kept if name not in shared()]
        self._first = states.copied(scope, own) if shared() else states.copied(scope, self.counting.states)
        """What metrics begin with."""
        block = program.main.global_block()
        changed = {name for each in block.ops if each.role == FORWARD for name in each.outputs}
        learned = {each.name for each in program.main.list_vars() if isinstance(each, Parameter)}
        self.written = [name for name in kept if name in changed and name in shared() and name not in learned]
        """What it changes of what training keeps."""

    def begin(self) -> ObjectMetricSet:
        """From zero."""
        self._scope.tensors.update(self._shared())
        states.put_back(self._scope, self._first)
        return self.counting.metric_set()

    def run(self, batch: Batch, more: Sequence[str] = ()) -> dict[str, Any]:
        """What is fetched of a batch, by names of variables."""
        self._scope.tensors.update(self._shared())
        feed = feed_of(batch, self.program.inputs, self._code.file)
        cost = [self.program.cost.name] if self.program.cost is not None else []
        with self._code.running():
            return self._learning.read(
                self.program.main, self._scope, feed, [*dict.fromkeys([*cost, *self.counting.fetched, *more])]
            )

    def _answering(self) -> list[str]:
        """The variables that an inference model of it would answer with, as far as evaluation has them."""
        there = {each.name for each in self.program.main.list_vars()}
        return [name for name in answers_to_export(base.settings()) if name in there]

    def rows(self, batch: Batch) -> Answers:
        """What it answers about each sample."""
        return self._rows(self.run(batch, self._asked()), batch.size)

    def _asked(self) -> list[str]:
        """All that may have a row for each sample."""
        return [*(each.name for each in self.program.told.values()), *self._answering()]

    def _rows(self, fetched: Mapping[str, Any], samples: int) -> dict[str, AnyArray]:
        """What of it has a row for each sample: by the names that the model tells, or those of the variables."""
        told = {name: each.name for name, each in self.program.told.items()}
        named = {**told, **{name: name for name in self._answering()}}
        arrays = {
            name: np.asarray(fetched[variable])
            for name, variable in named.items()
            if not isinstance(fetched[variable], list)
        }
        return {name: array for name, array in arrays.items() if array.ndim and array.shape[0] == samples}

    def count(self, batch: Batch, metrics: ObjectMetricSet, answers: Answers | None = None) -> float:
        """Run it, and count what came of it. Returns the loss; NaN without one."""
        fetched = self.run(batch, [] if answers is None else self._asked())
        if answers is not None:
            answers.update(self._rows(fetched, batch.size))
        cost = self.program.cost
        loss = None if cost is None else float(np.mean(np.asarray(fetched[cost.name], np.float64)))
        self.counting.count(metrics, fetched, samples=batch.size, loss=loss)
        return math.nan if loss is None else loss


class _Here:
    """The device that Paddle computes on."""

    @property
    def device(self) -> str:
        found: str = paddle.get_device()
        return found


class FluidFramework:
    """PaddlePaddle, for models in the form of PaddleRec 1.8.5."""

    def engine(self, wanted: EngineRequest) -> FluidEngine:
        return FluidEngine(wanted)

    def examine(self, model: str, options: EngineOptions, where: str | None) -> ModelFindings:
        """Let the model record its programs, as training would."""
        paddle_steps.use(options.device)
        provided.provide(base.settings(), {"fleet_mode": "PS"}, options.written)
        generators.begin(options.seed)
        code = ModelCode(model, options.written, where)
        dataset = str(base.get_global_env("dataset.name", ""))
        program = code.training(dataset)
        remarks = _remarks(options, learns=True)
        count = len(states.parameters_of(program.main))
        lines = (f"{count} parameters learn in this process, by the program's own optimizer; nothing is in tables",)
        return ModelFindings(
            warnings=tuple([Problem(code="UM-TRAIN-068", what=each, where=model) for each in remarks]), tables=lines
        )


def states_of_metrics(program: ModelProgram) -> set[str]:
    """The variables in which metrics add up what they have seen."""
    from umiak.train.engines.modelbase.counting import states_of

    return states_of(program)


def _remarks(options: EngineOptions, *, learns: bool) -> list[str]:
    """What the config asks for and what comes of it otherwise."""
    return remarks_of(base.settings(), learns=learns, gradient_scale=options.gradient_scale, is_mixed=options.amp)


def _runtime(job: Session) -> JsonMapping:
    """What `envs.get_runtime_environ` knows."""
    is_collective = job.world > 1 and not job.seat.servers
    return {"fleet_mode": "COLLECTIVE" if is_collective else "PS", "train.trainer.trainer": "GeneralTrainer"}
