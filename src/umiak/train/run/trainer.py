"""One trainer's part in a run, from its beginning, or from a checkpoint, to its end. A program.

    Trainer(run, settings, context, EpochLoop).train()

It makes engines and data ready and closes them; what it goes through, and what it does between, is said by a `RunLoop`: `epoch_loop`, or `online`. Of models
it knows what an `umiak.train.engines.engine.Engine` answers, of other trainers what `Peers` does. Every decision that all trainers must share is made from what
all of them have told, so that all of them make it alike.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import umiak
from umiak.core.value import value
from umiak.train import reading
from umiak.train.checkpoints import feature_locks
from umiak.train.checkpoints.progress import EpochRow, Progress
from umiak.train.engines.engine import EngineOptions, EngineRequest
from umiak.train.engines.engine_set import EngineSet, check_tables
from umiak.train.evaluating import retrieving
from umiak.train.evaluating.measuring import Measured
from umiak.train.plan.plan import visible_settings
from umiak.train.reading import base
from umiak.train.reading.tables import catalogue
from umiak.train.run.context import RunState
from umiak.train.run.saver import Saver
from umiak.train.run.stage_loop import StageLoop, StagePlace, StopRequested

if TYPE_CHECKING:
    from umiak.data.features.lock import FeatureLock
    from umiak.train.checkpoints import runs
    from umiak.train.engines.engine import Engine
    from umiak.train.metrics.metric_set import Readings
    from umiak.train.plan.plan import Run, Stage
    from umiak.train.reading.tables.catalogue import Catalogue
    from umiak.train.run.context import Settings, TrainerContext
    from umiak.train.run.stage_data import StageData


class RunLoop(Protocol):
    """What a run goes through: epochs, or days and passes."""

    def completed(self, begun: Progress) -> str | None:
        """What is said where nothing is left to do; None: something is."""

    def prepare(self) -> None:
        """Before data is looked for. `StopRequested` if somebody asked for it."""

    def open(self, stage: Stage) -> StageData:
        """The data that a stage begins with."""

    def reached(self, progress: Progress) -> str:
        """How far a checkpoint has come, in words."""

    def go(self, begun: Progress) -> None:
        """Everything that is left, to the end. `StopRequested` if somebody asked for it."""


@value
class TrainOutcome:
    """How it ended."""

    history: tuple[EpochRow, ...]
    is_stopped: bool = False
    """Whether somebody asked it to stop before its end."""
    saved: str | None = None
    """The checkpoint that was saved last."""
    is_untouched: bool = False
    """Whether it was stopped before there was anything to save: nothing is lost."""

    @property
    def is_resumable(self) -> bool:
        return self.is_stopped and (self.saved is not None or self.is_untouched)


class Trainer:
    """One run, for one trainer."""

    def __init__(
        self, run: Run, settings: Settings, context: TrainerContext, loop: Callable[[Trainer], RunLoop]
    ) -> None:
        self.run = run
        self.settings = settings
        self.context = context
        self.state = RunState()
        self.engines = EngineSet()
        self.saver = Saver(run, settings, context, self.state, self.engines)
        self.stages: list[StageData] = []
        self.evaluation: StageData | None = None
        """What is evaluated after every epoch."""
        self.lock: FeatureLock | None = None
        """Of the features, where data is tables."""
        self._catalogue: Catalogue | None = None
        self._loop = loop(self)

    def train(self) -> TrainOutcome:
        """From the beginning, or from the newest checkpoint, to the end."""
        found, begun = self.saver.start()
        if completed := self._loop.completed(begun):
            self.context.reporter.info(completed)
            return TrainOutcome(history=begun.history, saved=self.saver.saved)
        with contextlib.ExitStack() as closing:
            try:
                self._begin(closing, found)
                self._loop.go(begun)
            except StopRequested:
                return self._outcome(is_stopped=True, is_untouched=not self.engines)
            self.context.reporter.end(self.state.history, _title(self.run))
        return self._outcome()

    # ---- what a loop does

    def train_stage(self, place: StagePlace, within: Progress | None) -> EpochRow:
        """Learn from the data of a stage; ``within``: from the middle of it. `StopRequested` if somebody asked for it."""
        loop = StageLoop(
            place,
            self.run,
            self.context,
            stages=self.stages,
            engines=self.engines,
            state=self.state,
            saver=self.saver,
            prefix=self.settings.prefix,
            within=within,
        )
        return loop.go()

    def evaluate(self, data: StageData, engine: Engine) -> Readings:
        """Look at data without learning from it, all trainers together."""
        peers = self.context.peers
        if peers.is_free:
            peers.meet()
            engine.refresh()
        engine.buffers.agree(peers)
        holding = data.holding
        with (
            engine.without_trace(),
            reading.read(data.dataset, data.found, rank=holding.rank, world=holding.world, **data.more) as samples,
        ):
            metrics = engine.metric_set()
            settings = self.settings
            measured = Measured(
                settings.evaluation,
                engine,
                dataset=data.dataset.name,
                where=settings.config,
                retrieved=retrieving.of_evaluation(settings.retrieval, self._catalogue, engine, data.dataset.features),
            )
            for batch in samples:
                answers = measured.answers()
                engine.evaluate(batch, metrics, answers)
                measured.update(batch, answers)
                umiak.progress()
            found, lines = measured.added(metrics.readings(peers.add(metrics.state())), peers)
        for line in lines:
            self.context.reporter.info(line)
        return found

    # ---- the beginning

    def _begin(self, closing: contextlib.ExitStack, found: runs.Saved | None) -> None:
        run, settings = self.run, self.settings
        self._loop.prepare()
        self.saver.try_paths()
        # Models may look into the config as reader classes do.
        base.provide_old_modules(visible_settings(settings.written, run.stages[0], run.name))
        context, path = self.context, found.path if found else None
        self.lock = feature_locks.prepared(
            run, settings.config, path, context.peers, context.reporter.info, self._stop_if_asked
        )
        self.saver.lock = self.lock
        if settings.retrieval and self.lock is not None:
            self._catalogue = catalogue.read(settings.retrieval, self.lock)
        for stage in run.stages:
            self.stages.append(self._opened(stage, closing))
        if run.evaluation is not None:
            self.evaluation = self._opened(run.evaluation, closing)
        for data in self.stages:
            if data.stage.model not in self.engines:
                self.engines.add(data.stage.model, self._engine(data))
        for problem in self.engines.warnings():
            self.context.reporter.warning(problem)
        for data in (*self.stages, *([self.evaluation] if self.evaluation else [])):
            model = data.stage.model
            engine = self.engines.of(model) if model in self.engines else next(iter(self.engines))
            engine.check_missing(data.first_seen, data.dataset.name)
        check_tables(self.engines, settings.table_parameters, settings.config)
        if found:
            self.saver.load(found, self._loop.reached(found.progress))
        elif run.runner.init_model_path:
            self.saver.warm_start(run.runner.init_model_path)

    def _stop_if_asked(self) -> None:
        """While features are fitted: nothing is learned yet that would have to be saved."""
        if self.context.stopping.is_asked:
            raise StopRequested

    def _opened(self, stage: Stage, closing: contextlib.ExitStack) -> StageData:
        data = self._loop.open(stage)
        closing.callback(data.close)
        return data

    def _engine(self, data: StageData) -> Engine:
        stage, runner, settings = data.stage, self.run.runner, self.settings
        own = f"{stage.name}/" if self.engines else ""
        options = EngineOptions(
            **settings.for_engines,
            seed=self.state.seed,
            device=runner.device,
            amp=runner.amp,
            threads=stage.threads,
            gradient_scale=stage.gradient_scale,
            prefix=f"{settings.prefix}{own}",
        )
        return self.context.framework.engine(
            EngineRequest(
                model=stage.model,
                slots=data.slots(),
                job=self.context.job,
                options=options,
                hyper_parameters=settings.hyper_parameters,
                where=settings.config,
                catalogue=self._catalogue,
                sample=data.first_batch,
                dataset=data.dataset.name,
                evaluated=self.evaluation.dataset.name if self.evaluation else "",
                settings=visible_settings(settings.written, stage, self.run.name),
            )
        )

    def _outcome(self, *, is_stopped: bool = False, is_untouched: bool = False) -> TrainOutcome:
        history = tuple(self.state.history)
        return TrainOutcome(history=history, is_stopped=is_stopped, saved=self.saver.saved, is_untouched=is_untouched)


def _title(run: Run) -> str:
    """A run in a few words, for its plot: the model, and how it was trained."""
    models = dict.fromkeys(_model_name(stage.model) for stage in run.stages)
    how = f"{run.name}, {run.group.mode}" + (f", {run.group.trainers} trainers" if run.group.is_divided else "")
    return f"{', '.join(models)}: {how}"


def _model_name(path: str) -> str:
    """``rank/dnn`` for a model of the zoo, ``ctr`` for ``/home/me/ctr/model.py``: people call a model by its directory."""
    directory, file = os.path.split(os.path.abspath(path))
    if file not in ("model.py", "dygraph_model.py"):
        return os.path.splitext(file)[0]
    _, inside, name = directory.rpartition(f"{os.sep}umiak{os.sep}models{os.sep}")
    return name if inside else os.path.basename(directory) or file
