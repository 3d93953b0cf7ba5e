"""One trainer's passes over a stream: ``class: online_learning`` where the data is one. A program.

    Trainer(run, settings, context, StreamLoop).train()

A pass is some messages of each partition. It is to this loop what an epoch is to `EpochLoop`: all trainers meet behind it, and every so many passes, or minutes, the model is
evaluated on files and saved with the offsets that it has come to. So nothing is lost or learned twice, whatever is killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.data.streams import places
from umiak.train.checkpoints import runs
from umiak.train.checkpoints.progress import Progress, finite
from umiak.train.evaluating.plateau import PLATEAU
from umiak.train.reports import text as report_text
from umiak.train.run.feeds import StopOrSave
from umiak.train.run.stage_data import StageData
from umiak.train.run.stage_loop import StagePlace, StopRequested
from umiak.train.run.streams import aging
from umiak.train.run.streams import stage as stages
from umiak.train.run.streams import state as states
from umiak.train.run.streams.arrivals import StreamArrivals

if TYPE_CHECKING:
    from umiak.data.features.lock import FeatureLock
    from umiak.train.plan.plan import Stage
    from umiak.train.run.streams.state import StreamState
    from umiak.train.run.trainer import Trainer

ROWS_KEPT = 100
"""So many passes are told in a checkpoint, and at the end: a stream may have any number."""


class StreamLoop:
    """What `umiak.train.run.trainer.RunLoop` asks for."""

    def __init__(self, trainer: Trainer) -> None:
        runner = trainer.run.runner
        assert runner.online is not None
        self._trainer = trainer
        self._runner = runner
        self._every = runner.online.checkpoint_per_pass
        self._peers = trainer.context.peers
        self._reporter = trainer.context.reporter
        self._saver = trainer.saver
        self._stage = trainer.run.stages[0]
        self._topic = places.address(self._stage.dataset.data_path).topic
        self._state = states.from_json("", self._topic, None)
        self._is_over = False
        self._unsaved: int | None = None
        """The pass that is over and not saved yet."""

    # ---- the beginning

    def completed(self, begun: Progress) -> str | None:
        if begun.epoch and not begun.stream:
            what = f"{self._saver.saved} was not trained on a stream"
            hint = "begin from scratch with what was learned: `init_model_path:`, without --resume"
            raise UmiakError.of("UM-TRAIN-611", what, hint=hint)
        self._turn_to(states.from_json(begun.stream, self._topic, self._saver.saved))
        if begun.is_over:
            return f"training is already complete ({begun.epoch} passes); latest checkpoint: {self._saver.saved}"
        return None

    def prepare(self) -> None:
        if self._trainer.settings.learning.schedule.kind == PLATEAU:
            what = "schedule plateau: a stream has no epochs, behind which progress is looked at"
            raise UmiakError.of("UM-TRAIN-020", what, hint="leave the schedule out")

    def open(self, stage: Stage) -> StageData:
        trainer, settings = self._trainer, self._trainer.settings
        if stage.dataset.stream is None:
            return StageData(
                stage, settings.config, settings.written, self._peers, self._runner.name, lock=trainer.lock
            )
        self._arrivals = self._made(stage, trainer.lock)
        return stages.StreamData(
            stage,
            settings,
            self._peers,
            self._runner.name,
            self._source,
            lambda: self._arrivals.lag(self._state.position),
            below=self._state.spans,
        )

    def reached(self, progress: Progress) -> str:
        done = "is" if progress.epoch == 1 else "are"
        said = f"{progress.epoch} pass{'' if progress.epoch == 1 else 'es'} {done} done"
        return f"{said}, and batch {progress.batch} of the next" if progress.trainers else said

    def _made(self, stage: Stage, lock: FeatureLock | None) -> StreamArrivals:
        assert stage.dataset.stream is not None
        context = self._trainer.context
        self._source = stages.source_of(stage, lock, self._reporter.note)
        return StreamArrivals(
            self._source.topic,
            stage.dataset.stream,
            self._peers,
            context.stopping,
            self._reporter.note,
            least=stage.dataset.batch_size * self._peers.world,
        )

    # ---- passes

    def go(self, begun: Progress) -> None:
        epoch = begun.epoch
        within = begun if begun.trainers else None
        while within is not None or self._next(epoch):
            self._pass(epoch, within)
            epoch, within = epoch + 1, None
        if self._unsaved is not None:
            self._checkpoint()
        elif not epoch:
            what = f"topic {self._topic} has no messages from `start_from` to `until`"
            raise UmiakError.of("UM-TRAIN-610", what, hint="without `until`, messages are waited for")

    def _next(self, epoch: int) -> bool:
        """Whether there is another pass; with all that somebody wants to do while it is waited for."""
        if self._is_over:
            return False
        while True:
            before = self._state.day
            arrived = self._arrivals.wait(self._state, self._wanted)
            self._turn_to(replace(arrived.state, spans=(), day=before))
            if arrived.wanted and self._unsaved is not None:
                self._checkpoint()
            if arrived.wanted.stop:
                raise StopRequested
            if arrived.is_over:
                self._is_over = True
                return False
            if arrived.state.spans:
                self._turn_to(arrived.state)
                self._end_days(aging.days_between(before, arrived.state.day))
                self._trainer.stages[0].turn_to(arrived.state.spans)
                self._reporter.event("stream", **{"pass": epoch + 1, "spans": [*arrived.state.spans]})
                return True

    def _end_days(self, passed: int) -> None:
        """Rows that expire grow older with the days on which passes begin."""
        trainer = self._trainer
        numbers = aging.aging_tables(trainer).expiring.values() if passed else ()
        if numbers:
            gone = aging.end_days(passed, numbers, trainer.context, has_servers=trainer.run.group.strategy is not None)
            said = "a day is over" if passed == 1 else f"{passed} days are over"
            self._reporter.info(f"{said}: {gone:,} rows have expired")
            self._reporter.event("day", days=passed, evicted=gone)

    def _wanted(self) -> StopOrSave:
        """A checkpoint that is due is worth nothing if nothing was learned since the last one."""
        asked = self._saver.wanted()
        return asked if self._unsaved is not None else replace(asked, save=False)

    def _pass(self, epoch: int, within: Progress | None) -> None:
        trainer, history = self._trainer, self._trainer.state.history
        place = StagePlace(
            epoch=epoch,
            number=0,
            title=report_text.stream_pass(epoch),
            step_path=lambda path, batch: runs.step_path(path, epoch, batch),
        )
        row = trainer.train_stage(place, within)
        self._turn_to(self._state.behind())
        lag = self._arrivals.lag(self._state.position) if self._peers.is_first else None
        row = replace(row, lag=lag or 0)
        self._unsaved = epoch
        is_due = (epoch + 1) % self._every == 0
        if is_due and trainer.evaluation is not None:
            row = replace(row, evaluated=self._evaluated(trainer.evaluation))
        history.append(row)
        del history[:-ROWS_KEPT]
        self._reporter.epoch(row, self._runner.epochs)
        if is_due:
            self._checkpoint()

    def _evaluated(self, data: StageData) -> dict[str, float | None]:
        engine = self._trainer.engines.of(self._stage.model)
        return finite(dict(self._trainer.evaluate(data, engine).epoch))

    # ---- what is kept

    def _turn_to(self, state: StreamState) -> None:
        """Every checkpoint from now on says this."""
        self._state = state
        self._trainer.state.stream = state.to_json()

    def _checkpoint(self) -> None:
        """Behind the last pass. Every trainer calls it."""
        epoch, self._unsaved = self._unsaved, None
        assert epoch is not None
        if self._is_over:
            self._evaluate_last()
        kept = self._runner.checkpoint
        if kept is not None:
            progress = replace(self._saver.progress(epoch + 1, 0), is_over=self._is_over)
            self._trainer.engines.agree_on_buffers(self._peers)
            self._saver.save(runs.epoch_path(kept.path, epoch), progress, kept, within=False)
            self._reporter.info(f"{report_text.stream_pass(epoch)} saved: {self._saver.saved}")
        if self._runner.inference is not None:
            self._saver.export(epoch, self._runner.inference, self._trainer.stages)

    def _evaluate_last(self) -> None:
        """What is left at the end is judged as well."""
        history, evaluation = self._trainer.state.history, self._trainer.evaluation
        if evaluation is not None and history and not history[-1].evaluated:
            history[-1] = replace(history[-1], evaluated=self._evaluated(evaluation))
            self._reporter.epoch(history[-1], self._runner.epochs)
