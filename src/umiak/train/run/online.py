"""One trainer's days and passes: ``class: online_learning``. A program.

    Trainer(run, settings, context, OnlineLoop).train()

A pass is waited for, evaluated with the model as it is, trained on once, and told with both. Inference models and checkpoints come after it; at the end of
a day rows decay and are evicted. A pass is what an epoch is to `EpochLoop`, but nobody knows beforehand how many there will be: a run that is resumed begins behind
the last directory that was trained on, whatever days its config now names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.ps.specs import SparseTable
from umiak.train.checkpoints import runs
from umiak.train.checkpoints.progress import Progress, finite
from umiak.train.checkpoints.publish import Model, PublishKind
from umiak.train.config import days
from umiak.train.evaluating.plateau import PLATEAU
from umiak.train.reports import text as report_text
from umiak.train.run.arrivals import Arrivals, Arrived
from umiak.train.run.stage_data import StageData
from umiak.train.run.stage_loop import StagePlace, StopRequested
from umiak.train.run.streams import aging

if TYPE_CHECKING:
    from umiak.train.config.days import Pass
    from umiak.train.plan.plan import Stage
    from umiak.train.run.trainer import Trainer


class OnlineLoop:
    """What `umiak.train.run.trainer.RunLoop` asks for."""

    def __init__(self, trainer: Trainer) -> None:
        runner = trainer.run.runner
        assert runner.online is not None
        self._trainer = trainer
        self._runner = runner
        self._online = runner.online
        self._peers = trainer.context.peers
        self._reporter = trainer.context.reporter
        self._state = trainer.state
        self._saver = trainer.saver
        paths = [stage.dataset.data_path for stage in trainer.run.stages]
        self._arrivals = Arrivals(
            self._online, paths, self._peers, trainer.context.stopping, trainer.context.reporter.info
        )
        self._arrived = Arrived(there={})
        self._left: tuple[Pass, ...] = ()
        self._unsaved: tuple[int, Pass] | None = None
        self._noted: set[str] = set()

    # ---- the beginning

    def completed(self, begun: Progress) -> str | None:
        self._state.until = begun.until
        self._left = days.left(self._online, begun.until)
        if self._left:
            return None
        return f"training is already complete (up to {begun.until}; the last day is {self._online.end_day})"

    def prepare(self) -> None:
        if self._trainer.settings.learning.schedule.kind == PLATEAU:
            what = "schedule plateau: online learning evaluates each pass on data of its own, which says nothing about progress"
            raise UmiakError.of("UM-TRAIN-020", what, hint="leave the schedule out")
        self._wait(self._left[0])

    def open(self, stage: Stage) -> StageData:
        settings = self._trainer.settings
        return StageData(
            stage,
            settings.config,
            settings.written,
            self._peers,
            self._runner.name,
            below=self._arrived.there[stage.dataset.data_path],
            without=self._online.data_donefile,
            lock=self._trainer.lock,
        )

    def reached(self, progress: Progress) -> str:
        done = f"everything up to {progress.until}" if progress.until else "the first pass"
        return f"{done}, and batch {progress.batch} behind it" if progress.trainers else done

    # ---- passes

    def go(self, begun: Progress) -> None:
        if self._online.save_first_base and begun.epoch == 0 and not begun.trainers:
            self._trainer.engines.tables()  # Those that nobody has asked for a row yet are made, or they would not be in it.
            self._saver.publish(Model(kind=PublishKind.BASE, day=self._left[0].day, number=0))
        for epoch, each in enumerate(self._left, start=begun.epoch):
            is_first = epoch == begun.epoch
            if not is_first:
                self._turn_to(each)
            first = begun.stage if is_first else 0
            for number in range(first, len(self._trainer.stages)):
                within = begun if is_first and number == first and begun.trainers else None
                self._stage(epoch, each, number, within)
            self._end_of_pass(epoch, each)

    def _turn_to(self, each: Pass) -> None:
        try:
            self._wait(each)
        except StopRequested:
            self._save_what_is_not()
            raise
        for data in self._trainer.stages:
            data.turn_to(self._arrived.there[data.dataset.data_path])

    def _wait(self, each: Pass) -> None:
        arrived = self._arrived = self._arrivals.wait(each)
        title = report_text.day_pass(each.day, each.number)
        if arrived.is_empty and not self._online.data_donefile:
            self._save_what_is_not()
            raise _nothing_there(title, arrived)
        if arrived.is_empty:
            self._reporter.note(f"{title} is complete and has no data: it is passed over")
        elif arrived.missing:
            self._reporter.note(f"{title} goes without {report_text.some(arrived.missing)}, where no data is")
        behind = self._left[self._left.index(each) + 1 :]
        if self._online.prefetch and behind:
            self._arrivals.fetch_ahead(behind[0])

    def _stage(self, epoch: int, each: Pass, number: int, within: Progress | None) -> None:
        """Evaluate what is there, then learn from it."""
        trainer, state = self._trainer, self._state
        data = trainer.stages[number]
        if not data.found.files:
            return
        has_learned = bool(state.history or self._runner.init_model_path)
        if within is not None:
            state.evaluated = within.evaluated
        elif has_learned:
            state.evaluated = finite(dict(trainer.evaluate(data, trainer.engines.of(data.stage.model)).epoch))
        else:
            state.evaluated = {}
        place = StagePlace(
            epoch=epoch,
            number=number,
            title=report_text.day_pass(each.day, each.number),
            step_path=lambda path, batch: runs.pass_step_path(path, each.day, each.number, batch),
        )
        row = trainer.train_stage(place, within)
        state.history.append(replace(row, evaluated=state.evaluated, day=each.day, number=each.number))
        state.evaluated = {}
        self._reporter.epoch(state.history[-1], self._runner.epochs)

    def _end_of_pass(self, epoch: int, each: Pass) -> None:
        self._state.until = each.splits[-1]
        self._unsaved = (epoch, each)
        ends = each is self._left[-1]
        if each.is_last:
            self._end_of_day(each)
        elif (epoch + 1) % self._online.save_delta_frequency == 0:
            self._note_whole_tables()
            self._saver.publish(Model(kind=PublishKind.DELTA, day=each.day, number=each.number))
        if ends or (epoch + 1) % self._online.checkpoint_per_pass == 0:
            self._checkpoint(epoch, each, is_over=ends)

    def _end_of_day(self, each: Pass) -> None:
        """Rows decay, and those that are not worth their memory are evicted; what is left is published."""
        tables_of_days = aging.aging_tables(self._trainer)
        tables = {**tables_of_days.counted, **tables_of_days.expiring}
        if tables:
            has_servers = self._trainer.run.group.strategy is not None
            gone = aging.end_days(1, tables.values(), self._trainer.context, has_servers=has_servers)
            self._reporter.info(f"{each.day} is over: {gone:,} rows are not worth keeping any more")
            self._reporter.event("day", day=each.day, evicted=gone)
        self._saver.publish(Model(kind=PublishKind.BASE, day=each.day, number=each.number))
        if tables_of_days.counted:
            if self._runner.inference is None:
                self._note("rows do not grow older: delete_after_unseen_days needs save_inference_path")
            self._saver.publish(Model(kind=PublishKind.BATCH, day=each.day, number=each.number))

    # ---- what is kept

    def _checkpoint(self, epoch: int, each: Pass, *, is_over: bool = False) -> None:
        kept = self._runner.checkpoint
        if kept is not None:
            progress = replace(self._saver.progress(epoch + 1, 0), is_over=is_over)
            self._saver.save(runs.pass_path(kept.path, each.day, each.number), progress, kept, within=False)
            self._unsaved = None

    def _save_what_is_not(self) -> None:
        """Before a run ends between two passes."""
        if self._unsaved is not None:
            self._checkpoint(*self._unsaved)

    # ---- tables

    def _note_whole_tables(self) -> None:
        counted = aging.aging_tables(self._trainer).counted
        spec_of = self._trainer.engines.tables().items()
        plain = [name for name, table in spec_of if isinstance(table.spec, SparseTable) and name not in counted]
        if plain and self._runner.inference:
            self._note(
                f"a delta has all rows of {', '.join(plain)}: which have changed is known of tables that table_parameters names"
            )

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._reporter.note(text)


def _nothing_there(title: str, arrived: Arrived) -> UmiakError:
    return UmiakError.of(
        "UM-TRAIN-030",
        f"{title} has no data: {report_text.some(arrived.missing)}",
        why="these directories are missing or empty, and there is no data_donefile to wait for",
        hint="fix data_path, start_day or end_day; or set `data_donefile:` to wait for each pass",
    )
