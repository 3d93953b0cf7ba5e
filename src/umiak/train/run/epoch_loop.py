"""One trainer's epochs: each goes through all stages, then evaluates, saves, and decides whether it is enough. A program.

Trainer(run, settings, context, EpochLoop).train()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.schema import metric_names
from umiak.schema.findings import choices
from umiak.train.checkpoints import runs
from umiak.train.checkpoints.progress import EpochRow, Progress, finite
from umiak.train.engines.engine import LOSS, RatedEngine
from umiak.train.evaluating.plateau import PLATEAU, rate_factor
from umiak.train.run.stage_data import StageData
from umiak.train.run.stage_loop import StagePlace, StopRequested

if TYPE_CHECKING:
    from umiak.train.plan.plan import Stage
    from umiak.train.run.trainer import Trainer


class EpochLoop:
    """What `umiak.train.run.trainer.RunLoop` asks for."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._run = trainer.run
        self._runner = trainer.run.runner
        self._peers = trainer.context.peers
        self._reporter = trainer.context.reporter
        self._state = trainer.state
        self._saver = trainer.saver
        self._rate_factor = 1.0

    def completed(self, begun: Progress) -> str | None:
        if not begun.is_over and begun.epoch < self._runner.epochs:
            return None
        how = f"{begun.epoch} of {self._runner.epochs} epochs{', early stopping' if begun.is_over else ''}"
        return f"training is already complete ({how}); latest checkpoint: {self._saver.saved}"

    def prepare(self) -> None:
        """All data is there already."""
        if self._has_plateau and self._runner.evaluation is None:
            what = "schedule plateau: nothing is evaluated, so nothing says when the learning rate is to fall"
            raise UmiakError.of("UM-TRAIN-020", what, hint="write `evaluate_phase:` in the runner")

    def open(self, stage: Stage) -> StageData:
        settings = self._trainer.settings
        node_data = self._run.group.node_data
        data = StageData(
            stage,
            settings.config,
            settings.written,
            self._peers,
            self._run.name,
            node_data=node_data,
            lock=self._trainer.lock,
        )
        if data.holding.copies:
            self._reporter.note(
                f"dataset {stage.dataset.name}: {data.holding.copies} nodes have files of the same names and sizes; if it is "
                "one shared directory, each sample is read as often: write `node_data: shared` in the runner"
            )
        return data

    def reached(self, progress: Progress) -> str:
        if progress.trainers:
            return f"within {self._title(progress.epoch)}, behind batch {progress.batch}"
        done = "is" if progress.epoch == 1 else "are"
        return f"{progress.epoch} of {self._runner.epochs} epochs {done} done"

    def go(self, begun: Progress) -> None:
        self._reduce_rate()
        for epoch in range(begun.epoch, self._runner.epochs):
            first = begun.stage if epoch == begun.epoch else 0
            for number in range(first, len(self._trainer.stages)):
                within = begun if epoch == begun.epoch and number == first and begun.trainers else None
                self._stage(epoch, number, within)
            if self._end_epoch(epoch):
                return

    def _stage(self, epoch: int, number: int, within: Progress | None) -> None:
        place = StagePlace(
            epoch=epoch,
            number=number,
            title=self._title(epoch),
            step_path=lambda path, batch: runs.step_path(path, epoch, batch),
        )
        row = self._trainer.train_stage(place, within)
        self._state.history.append(row)
        if number + 1 < len(self._trainer.stages):
            self._reporter.epoch(row, self._runner.epochs, of_several=True)

    def _end_epoch(self, epoch: int) -> bool:
        """Evaluate, decide, save. Returns whether training ends here."""
        runner, trainer, history = self._runner, self._trainer, self._state.history
        row = history[-1]
        if trainer.evaluation is not None:
            row = history[-1] = replace(row, evaluated=self._evaluated(trainer.evaluation, row))
        trainer.engines.agree_on_buffers(self._peers)
        self._reporter.epoch(row, runner.epochs, of_several=len(trainer.stages) > 1)
        self._reduce_rate()
        is_enough = self._is_enough(row)
        ends = is_enough or epoch + 1 == runner.epochs
        progress = replace(self._saver.progress(epoch + 1, 0), is_over=is_enough)
        # The best so far is saved though it may not be due: it is what early stopping is for.
        if runner.checkpoint and (ends or self._saver.is_best or (epoch + 1) % runner.checkpoint.every == 0):
            self._saver.save(runs.epoch_path(runner.checkpoint.path, epoch), progress, runner.checkpoint, within=False)
            # Names of checkpoints count epochs from 0, as PaddleRec's do: so both are said.
            spoken = trainer.context.mirrors.spoken(self._saver.saved or "")
            self._reporter.info(f"{self._title(epoch)} saved: {spoken}")
        if runner.inference and (ends or (epoch + 1) % runner.inference.every == 0):
            self._saver.export(epoch, runner.inference, trainer.stages)
        is_asked = trainer.context.stopping.is_asked
        if is_asked and self._peers.world == 1 and not ends and self._saver.saved_epoch(epoch):
            raise StopRequested
        return ends

    def _evaluated(self, data: StageData, row: EpochRow) -> dict[str, float | None]:
        """The model of the stage that was trained last, on other data."""
        model = next(each.stage.model for each in self._trainer.stages if each.stage.name == row.stage)
        return finite(dict(self._trainer.evaluate(data, self._trainer.engines.of(model)).epoch))

    @property
    def _has_plateau(self) -> bool:
        return self._trainer.settings.learning.schedule.kind == PLATEAU

    def _reduce_rate(self) -> None:
        """As what evaluations have told so far says: that is in every checkpoint, and all trainers know the same."""
        if not self._has_plateau:
            return
        factor = rate_factor(self._trainer.settings.learning.schedule, [each.evaluated for each in self._state.history])
        if factor == self._rate_factor:
            return
        self._rate_factor = factor
        for engine in self._trainer.engines:
            if not isinstance(engine, RatedEngine):
                what = "schedule plateau: the model makes its own optimizer, whose learning rate is its own"
                raise UmiakError.of(
                    "UM-TRAIN-020",
                    what,
                    hint="leave the schedule out; PaddleRec's models step their schedules themselves",
                )
            engine.reduce_rate(factor)
        self._reporter.info(f"learning rate: {factor:g} of the first one from here on")

    def _is_enough(self, row: EpochRow) -> bool:
        """Whether early stopping ends it."""
        state, evaluation = self._state, self._runner.evaluation
        if evaluation is None or evaluation.patience is None or not row.evaluated:
            return False
        name = evaluation.metric or ("auc" if "auc" in row.evaluated else LOSS)
        if name not in row.evaluated:
            what = f"early_stop_metric: the model has no metric {name}"
            raise UmiakError.of("UM-TRAIN-020", what, hint=choices(name, row.evaluated))
        number = row.evaluated[name]
        better = -number if number is not None and metric_names.is_less_better(name) else number
        if better is not None and (state.best is None or better > state.best):
            state.best, state.without_progress = better, 0
            self._saver.is_best = True
            return False
        state.without_progress += 1
        if state.without_progress >= evaluation.patience:
            self._reporter.info(f"no better {name} for {state.without_progress} epochs: it ends here")
            return True
        return False

    def _title(self, epoch: int) -> str:
        """An epoch in a few words."""
        return f"epoch {epoch + 1}/{self._runner.epochs}"
