"""One trainer's walk through days and passes: ``class: online_learning``. A program.

    OnlineTrainer(act, settings, company).train()

A pass is waited for, judged with the model as it is, trained on once, and told with both. Models for serving and checkpoints come after it; at the end of
a day rows fade and go. A pass is what an epoch is to `Trainer`, but nobody knows beforehand how many there will be: a run that is resumed begins behind
the last directory that was trained on, whatever days its config now names.
"""

from __future__ import annotations

import contextlib

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.train.checkpoints import publish, runs
from umiak.train.checkpoints.progress import Progress, finite
from umiak.train.checkpoints.publish import Kind, Model
from umiak.train.config import days
from umiak.train.config.days import Pass
from umiak.train.plan.plan import Act, Stage
from umiak.train.reports import text as report_text
from umiak.train.run.arrivals import Arrivals, Arrived
from umiak.train.run.context import Settings, TrainerContext
from umiak.train.run.stage_data import StageData
from umiak.train.run.stage_loop import StageLoop, Stopped
from umiak.train.run.trainer import Outcome, Trainer


class OnlineTrainer(Trainer):
    """One act of online learning, for one trainer."""

    def __init__(self, act: Act, settings: Settings, company: TrainerContext) -> None:
        super().__init__(act, settings, company)
        assert act.online is not None
        self.online = act.online
        paths = [stage.dataset.data_path for stage in act.stages]
        self._arrivals = Arrivals(self.online, paths, self.peers, self.stopping, self.reporter.talk)
        self._arrived = Arrived(there={})
        self._left: tuple[Pass, ...] = ()
        self._now: Pass | None = None
        self._until = ""
        self._evaluated: dict[str, float | None] = {}
        self._unsaved: tuple[int, Pass] | None = None
        self._noted: set[str] = set()

    def train(self) -> Outcome:
        found, begun = self._place()
        self._until = begun.until
        self._left = days.left(self.online, begun.until)
        if not self._left:
            self.reporter.talk(
                f"training is already complete (up to {begun.until}; the last day is {self.online.end_day})"
            )
            return Outcome(history=begun.history, saved=self.saved)
        return self._run(found, begun)

    # ---- the beginning

    def _begin(self, closing: contextlib.ExitStack, found: runs.Saved | None, begun: Progress) -> None:
        self._wait(self._left[0])
        super()._begin(closing, found, begun)

    def _course(self, stage: Stage) -> StageData:
        return StageData(
            stage,
            self.settings.config,
            self.settings.written,
            self.peers,
            self.act.name,
            below=self._arrived.there[stage.dataset.data_path],
            without=self.online.data_donefile,
        )

    def _reached(self, milestone: Progress) -> str:
        done = f"everything up to {milestone.until}" if milestone.until else "the first pass"
        return f"{done}, and batch {milestone.batch} behind it" if milestone.trainers else done

    # ---- passes

    def _epochs(self, begun: Progress) -> None:
        if self.online.save_first_base and begun.epoch == 0 and not begun.trainers:
            self._tables()  # Those that nobody has asked for a row yet are made, or they would not be in it.
            self._publish(Model(kind=Kind.BASE, day=self._left[0].day, number=0))
        for epoch, each in enumerate(self._left, start=begun.epoch):
            is_first = epoch == begun.epoch
            if not is_first:
                self._turn_to(each)
            self._now = each
            first = begun.stage if is_first else 0
            for number in range(first, len(self.courses)):
                within = begun if is_first and number == first and begun.trainers else None
                self._stage(epoch, number, within)
            self._end_of_pass(epoch, each)

    def _turn_to(self, each: Pass) -> None:
        try:
            self._wait(each)
        except Stopped:
            self._save_what_is_not()
            raise
        for course in self.courses:
            course.turn_to(self._arrived.there[course.dataset.data_path])

    def _wait(self, each: Pass) -> None:
        arrived = self._arrived = self._arrivals.wait(each)
        title = report_text.day_pass(each.day, each.number)
        if arrived.is_empty and not self.online.data_donefile:
            self._save_what_is_not()
            raise _nothing_there(title, arrived)
        if arrived.is_empty:
            self.reporter.talk(f"note: {title} is complete and has no data: it is passed over")
        elif arrived.missing:
            self.reporter.talk(f"note: {title} goes without {report_text.some(arrived.missing)}, where no data is")
        behind = self._left[self._left.index(each) + 1 :]
        if self.online.prefetch and behind:
            self._arrivals.fetch_ahead(behind[0])

    def _stage(self, epoch: int, number: int, within: Progress | None) -> None:
        """Judge what is there, then learn from it."""
        course, now = self.courses[number], self._now
        assert now is not None
        if not course.found.files:
            return
        has_learned = bool(self.history or self.act.init_model_path)
        if within is not None:
            self._evaluated = within.evaluated
        else:
            self._evaluated = finite(dict(self.evaluate(course, course.stage.name).epoch)) if has_learned else {}
        row = StageLoop(self, epoch, number, within).go()
        self.history.append(replace(row, evaluated=self._evaluated, day=now.day, number=now.number))
        self._evaluated = {}
        self.reporter.epoch(self.history[-1], self.act.epochs)

    def _end_of_pass(self, epoch: int, each: Pass) -> None:
        self._until = each.splits[-1]
        self._unsaved = (epoch, each)
        ends = each is self._left[-1]
        if each.is_last:
            self._end_of_day(each)
        elif (epoch + 1) % self.online.save_delta_frequency == 0:
            self._note_whole_tables()
            self._publish(Model(kind=Kind.DELTA, day=each.day, number=each.number))
        if ends or (epoch + 1) % self.online.checkpoint_per_pass == 0:
            self._checkpoint(epoch, each, is_over=ends)

    def _end_of_day(self, each: Pass) -> None:
        """Rows fade, and those that are not worth their memory go; what is left is published."""
        tables = self._tables_with_accessor()
        if tables:
            self.peers.meet()
            gone = sum([self.job.client.shrink(table) for table in tables]) if self.peers.is_first else 0
            self.peers.tell({}, "shrunk")
            self.reporter.talk(f"{each.day} is over: {gone:,} rows are not worth keeping any more")
            self.reporter.event("day", day=each.day, evicted=gone)
        self._publish(Model(kind=Kind.BASE, day=each.day, number=each.number))
        if tables:
            if self.act.inference is None:
                self._note("rows do not grow older: delete_after_unseen_days needs save_inference_path")
            self._publish(Model(kind=Kind.BATCH, day=each.day, number=each.number))

    # ---- what is kept

    def title(self, epoch: int) -> str:
        del epoch
        return report_text.day_pass(self._now.day, self._now.number) if self._now else ""

    def step_path(self, path: str, epoch: int, batch: int) -> str:
        del epoch
        assert self._now is not None
        return runs.pass_step_path(path, self._now.day, self._now.number, batch)

    def milestone(self, epoch: int, stage: int) -> Progress:
        return replace(super().milestone(epoch, stage), until=self._until, evaluated=self._evaluated)

    def _checkpoint(self, epoch: int, each: Pass, *, is_over: bool = False) -> None:
        kept = self.act.checkpoint
        if kept is not None:
            milestone = replace(self.milestone(epoch + 1, 0), is_over=is_over)
            self.save(runs.pass_path(kept.path, each.day, each.number), milestone, kept, steps=False)
            self._unsaved = None

    def _save_what_is_not(self) -> None:
        """Before a run ends between two passes."""
        if self._unsaved is not None:
            self._checkpoint(*self._unsaved)

    def _publish(self, model: Model) -> None:
        inference = self.act.inference
        if inference is None:
            return
        with self.watch.measuring("saving"):
            if self.peers.is_free:
                self.peers.meet()
            self._store_buffers()
            path = publish.publish(self.job, inference.path, model)
            # Nobody goes on before it is whole.
            self.peers.tell({}, "published")
        self.reporter.event("published", kind=model.kind.value, day=model.day, number=model.number, path=path)

    # ---- tables

    def _tables_with_accessor(self) -> list[int]:
        return [table.number for table in self.job.registry.tables if table.spec.accessor is not None]

    def _note_whole_tables(self) -> None:
        plain = [table.name for table in self.job.registry.tables if table.spec.accessor is None]
        if plain and self.act.inference:
            self._note(
                f"a delta has all rows of {', '.join(plain)}: which have changed is known of tables that table_parameters names"
            )

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.reporter.talk(f"note: {text}")


def _nothing_there(title: str, arrived: Arrived) -> UmiakError:
    return UmiakError(
        Problem(
            code="UM-TRAIN-030",
            what=f"{title} has no data: {report_text.some(arrived.missing)}",
            why="these directories are missing or empty, and there is no data_donefile to wait for",
            hint="fix data_path, start_day or end_day; or set `data_donefile:` to wait for each pass",
        )
    )
