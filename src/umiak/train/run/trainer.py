"""One trainer's walk through an act: epochs, stages, turns; evaluation, checkpoints, early stopping. A program.

    Trainer(act, settings, company).train()

It knows batches, boards and checkpoints; of models it knows what an `umiak.train.engines.paddle.Engine` answers, of other trainers what `Peers` does.
Every decision that all trainers must share is made from what all of them have told, so that all of them make it alike.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from typing import TYPE_CHECKING, Any

import umiak
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace, value
from umiak.ps import export as ps_export
from umiak.ps.environment import Seat
from umiak.ps.sessions import Session
from umiak.ps.strategies import Sync
from umiak.schema.findings import choices
from umiak.train import reading
from umiak.train.checkpoints import runs
from umiak.train.checkpoints.progress import EpochRow, Progress, finite
from umiak.train.config.values import Inference, Saving
from umiak.train.engines import paddle_export
from umiak.train.engines.buffers import Buffers, own_of, set_own_of
from umiak.train.engines.paddle import LOSS, Engine, EngineOptions, check_tables, load
from umiak.train.metrics.board import Readings
from umiak.train.plan.plan import Act, Stage, visible_settings
from umiak.train.reading import base
from umiak.train.run.context import Settings, TrainerContext
from umiak.train.run.feeds import StopOrSave
from umiak.train.run.stage_data import StageData
from umiak.train.run.stage_loop import StageLoop, Stopped

if TYPE_CHECKING:
    pass

VALUES_ONLY = ", without the optimizer's memory, which is of another kind"


@value
class Outcome:
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
    """One act, for one trainer."""

    def __init__(self, act: Act, settings: Settings, company: TrainerContext) -> None:
        self.act = act
        self.settings = settings
        self.job = company.job
        self.peers = company.peers
        self.watch = company.watch
        self.reporter = company.reporter
        self.stopping = company.stopping
        self.mirrors = company.mirrors
        self.clock = company.clock
        self.mode = act.crew.together
        self.step = 0
        self.history: list[EpochRow] = []
        self.best: float | None = None
        self.without_progress = 0
        self._is_best = False
        """Whether what was evaluated last is better than all before, and not saved yet."""
        self.saved: str | None = None
        self.courses: list[StageData] = []
        self._evaluation: StageData | None = None
        self.engines: dict[str, Engine] = {}
        self._run_id = ""
        self._saved_at = self.clock()

    def train(self) -> Outcome:
        """From the beginning, or from the newest checkpoint, to the end."""
        found, begun = self._place()
        if begun.is_over or begun.epoch >= self.act.epochs:
            how = f"{begun.epoch} of {self.act.epochs} epochs{', early stopping' if begun.is_over else ''}"
            self.reporter.talk(f"training is already complete ({how}); latest checkpoint: {self.saved}")
            return Outcome(history=begun.history, saved=self.saved)
        return self._run(found, begun)

    def _run(self, found: runs.Saved | None, begun: Progress) -> Outcome:
        with contextlib.ExitStack() as closing:
            try:
                self._begin(closing, found, begun)
                self._epochs(begun)
            except Stopped:
                untouched = not self.engines
                return Outcome(history=tuple(self.history), is_stopped=True, saved=self.saved, is_untouched=untouched)
            self.reporter.end(self.history, f"{self.settings.config}: {act_title(self.act)}")
        return Outcome(history=tuple(self.history), saved=self.saved)

    # ---- the beginning

    def _place(self) -> tuple[runs.Saved | None, Progress]:
        """Where it begins: at a checkpoint that is gone on from, or at the very beginning."""
        if self.settings.resume or self.act.init_model_path:
            self._fetch()
        found = self._newest() if self.settings.resume else None
        if found is not None:
            self.saved, self._run_id = found.path, found.milestone.run
            return found, found.milestone
        self._run_id = secrets.token_hex(8)
        self._make_room()
        return None, Progress(
            runner=self.act.name, mode=self.mode, trainers_in_all=self.peers.world, seed=self._seed(), epoch=0
        )

    def _make_room(self) -> None:
        """For a run that begins anew: what an earlier one has saved is put aside, so that nobody takes it for this one's."""
        act = self.act
        paths = [each.path for each in (act.checkpoint, act.step_checkpoint) if each]
        inside = [path for path in paths if act.init_model_path and _is_below(act.init_model_path, path)]
        if self.peers.is_first and not self.mirrors.all and not inside:
            for target in runs.put_aside(paths, act.name):
                self.reporter.talk(
                    f"note: checkpoints of an earlier run are in {target} now; `--resume` would have gone on from them"
                )
        self.peers.tell({}, "room")

    def _try_paths(self) -> None:
        act = self.act
        if self.peers.is_first:
            runs.try_paths(each.path for each in (act.checkpoint, act.step_checkpoint, act.inference) if each)

    def _begin(self, closing: contextlib.ExitStack, found: runs.Saved | None, begun: Progress) -> None:
        act = self.act
        self._try_paths()
        # Models may look into the config as reader classes do.
        base.provide_old_modules(visible_settings(self.settings.written, act.stages[0], act.name))
        for stage in act.stages:
            self.courses.append(self._course(stage))
            closing.callback(self.courses[-1].close)
        if act.evaluation is not None:
            self._evaluation = self._course(act.evaluation)
            closing.callback(self._evaluation.close)
        for course in self.courses:
            if course.stage.model not in self.engines:
                self.engines[course.stage.model] = self._engine(course, begun.seed)
        for problem in dict.fromkeys(each for engine in self.engines.values() for each in engine.warnings):
            for line in problem.lines("warning"):
                self.reporter.talk(line)
        for course in (*self.courses, *([self._evaluation] if self._evaluation else [])):
            judged_by = self.engines.get(course.stage.model) or next(iter(self.engines.values()))
            judged_by.check_missing(course.first_seen, course.dataset.name)
        check_tables(self.engines.values(), self.settings.table_parameters, self.settings.config)
        if found:
            self._go_on(found)
        elif act.init_model_path:
            self._warm_start(act.init_model_path)

    def _course(self, stage: Stage) -> StageData:
        made = StageData(
            stage,
            self.settings.config,
            self.settings.written,
            self.peers,
            self.act.name,
            node_data=self.act.crew.node_data,
        )
        if made.holding.copies:
            self.reporter.talk(
                f"note: dataset {stage.dataset.name}: {made.holding.copies} nodes have files of the same names and sizes; if it is "
                "one shared directory, each sample is read as often: write `node_data: shared` in the runner"
            )
        return made

    def _seed(self) -> int:
        if self.act.seed is not None:
            return self.act.seed
        begun = self.act.init_model_path and runs.seed_of(runs.models_below(self.act.init_model_path, None)[-1])
        first, *_ = self.peers.tell({"seed": begun or secrets.randbelow(1 << 31)}, "seed")
        return int(first["seed"])

    def _engine(self, course: StageData, seed: int) -> Engine:
        stage, act, settings = course.stage, self.act, self.settings
        prefix = f"{stage.name}/" if self.engines else ""
        ways = EngineOptions(
            learning=settings.learning,
            seed=seed,
            device=act.device,
            amp=act.amp,
            threads=stage.threads,
            gradient_scale=stage.gradient_scale,
            tables=settings.table_parameters,
            embedding_tables=settings.embedding_tables,
            prefix=f"{settings.prefix}{prefix}",
        )
        return Engine(
            load(stage.model, settings.config),
            course.slots(),
            job=self.job,
            ways=ways,
            hyper_parameters=settings.hyper_parameters,
            where=settings.config,
        )

    def _fetch(self) -> None:
        """What is behind URLs, before anybody looks for it."""
        if self.mirrors.all:
            if self.peers.is_first:
                self.mirrors.fetch()
            self.peers.tell({}, "fetched")

    def _newest(self) -> runs.Saved | None:
        paths = [each.path for each in (self.act.checkpoint, self.act.step_checkpoint) if each]
        if not paths:
            raise UmiakError(
                Problem(
                    code="UM-TRAIN-005",
                    what=f"--resume, and runner {self.act.name} saves no checkpoints",
                    hint="write `save_checkpoint_path:`",
                )
            )
        found, skipped = runs.newest(paths, self.act.name)
        for words in skipped:
            self.reporter.talk(f"note: passed over: {words}")
        told = self.peers.agree_on(found.path if found else "", "resume")
        if len(set(told)) > 1:
            what = (
                f"trainers do not see the same checkpoints: {', '.join(each or 'none' for each in dict.fromkeys(told))}"
            )
            hint = "save_checkpoint_path must be the same shared directory on every node"
            raise UmiakError(Problem(code="UM-TRAIN-016", what=what, hint=hint))
        if found is None:
            self.reporter.talk(f"no checkpoint to resume from in {', '.join(paths)}: starting from scratch")
        return found

    def _go_on(self, found: runs.Saved) -> None:
        milestone = found.milestone
        if problem := self._misfit(found):
            raise UmiakError(problem)
        whole = runs.start_from(self.job, found.path, self._tables())
        self._restore()
        self.history = list(milestone.history)
        self.reporter.go_on(self.history)
        self.best, self.without_progress = milestone.best, milestone.without_progress
        self.step = milestone.step
        self.reporter.talk(
            f"resuming from {self.mirrors.spoken(found.path)}: {self._reached(milestone)}{'' if whole else VALUES_ONLY}"
        )

    def _reached(self, milestone: Progress) -> str:
        if milestone.trainers:
            return f"within {self.title(milestone.epoch)}, behind batch {milestone.batch}"
        return f"{milestone.epoch} of {self.act.epochs} epochs {'is' if milestone.epoch == 1 else 'are'} done"

    def _misfit(self, found: runs.Saved) -> Problem | None:
        """Why the rest of an epoch can't be read by these trainers."""
        milestone, world = found.milestone, self.peers.world
        if not milestone.trainers:
            return None
        what, why, same = "", "", ""
        if bool(milestone.deal) != self.peers.is_free:
            what = f"in mode {milestone.mode}, and this is {self.mode}"
            why = "asynchronous trainers take chunks from a queue, synchronous ones have fixed shares"
            same = f"in mode {milestone.mode}"
        elif not self.peers.is_free and milestone.trainers_in_all != world:
            what = f"by {milestone.trainers_in_all} trainers, and these are {world}"
            why = "who has read what of an epoch is known trainer by trainer"
            same = f"with {milestone.trainers_in_all}"
        if not what:
            return None
        return Problem(
            code="UM-TRAIN-016",
            what=f"{found.path} was saved within an epoch {what}",
            why=why,
            hint=f"go on {same}, or begin an epoch with it: `init_model_path: {found.path}`",
        )

    def _warm_start(self, path: str) -> None:
        paths = runs.models_below(path, None)
        whole = runs.start_from(self.job, paths[-1], self._tables())
        self._restore()
        self.reporter.talk(f"starts from {self.mirrors.spoken(paths[-1])}{'' if whole else VALUES_ONLY}")

    def _tables(self) -> dict[str, Any]:
        tables: dict[str, Any] = {}
        for engine in self.engines.values():
            tables |= engine.checkpoint_tables()
        return tables

    def _restore(self) -> None:
        for engine in self.engines.values():
            engine.restore()

    def buffers(self) -> list[Buffers]:
        """Of all models."""
        return [engine.buffers for engine in self.engines.values()]

    def own_buffers(self) -> str:
        """What this trainer has of its own in all models."""
        return own_of(self.buffers())

    def set_own_buffers(self, text: str) -> None:
        set_own_of(self.buffers(), text)

    def _store_buffers(self) -> None:
        """What tables do not have by themselves, before they are saved."""
        for each in self.buffers():
            each.store(self.peers)

    # ---- epochs

    def _epochs(self, begun: Progress) -> None:
        act = self.act
        for epoch in range(begun.epoch, act.epochs):
            first = begun.stage if epoch == begun.epoch else 0
            for number in range(first, len(self.courses)):
                within = begun if epoch == begun.epoch and number == first and begun.trainers else None
                self._stage(epoch, number, within)
            is_last = self._end_of_epoch(epoch)
            if is_last:
                return

    def _stage(self, epoch: int, number: int, within: Progress | None) -> None:
        row = StageLoop(self, epoch, number, within).go()
        self.history.append(row)
        if number + 1 < len(self.courses):
            self.reporter.epoch(row, self.act.epochs, of_several=True)

    def _end_of_epoch(self, epoch: int) -> bool:
        """Evaluate, decide, save. Returns whether training ends here."""
        act = self.act
        row = self.history[-1]
        if self._evaluation is not None:
            row = self.history[-1] = replace(
                row, evaluated=finite(dict(self.evaluate(self._evaluation, row.stage).epoch))
            )
        for each in self.buffers():
            each.agree(self.peers)
        self.reporter.epoch(row, act.epochs, of_several=len(self.courses) > 1)
        is_enough = self._is_enough(row)
        ends = is_enough or epoch + 1 == act.epochs
        milestone = replace(self.milestone(epoch + 1, 0), is_over=is_enough)
        # The best so far is saved though it may not be due: it is what early stopping is for.
        if act.checkpoint and (ends or self._is_best or (epoch + 1) % act.checkpoint.every == 0):
            self.save(runs.epoch_path(act.checkpoint.path, epoch), milestone, act.checkpoint, steps=False)
            # Names of checkpoints count epochs from 0, as PaddleRec's do: so both are said.
            self.reporter.talk(f"{self.title(epoch)} saved: {self.mirrors.spoken(self.saved or '')}")
        if act.inference and (ends or (epoch + 1) % act.inference.every == 0):
            self._export(epoch, act.inference)
        if self.stopping.is_asked and self.peers.world == 1 and not ends and self._saved_epoch(epoch):
            raise Stopped
        return ends

    def _is_enough(self, row: EpochRow) -> bool:
        """Whether early stopping ends it."""
        act = self.act
        if act.patience is None or not row.evaluated:
            return False
        name = act.stop_metric or ("auc" if "auc" in row.evaluated else LOSS)
        if name not in row.evaluated:
            what = f"early_stop_metric: the model has no metric {name}"
            raise UmiakError(Problem(code="UM-TRAIN-020", what=what, hint=choices(name, row.evaluated)))
        number = row.evaluated[name]
        better = number if name not in (LOSS, "log_loss") else (None if number is None else -number)
        if better is not None and (self.best is None or better > self.best):
            self.best, self.without_progress = better, 0
            self._is_best = True
            return False
        self.without_progress += 1
        if self.without_progress >= act.patience:
            self.reporter.talk(f"no better {name} for {self.without_progress} epochs: it ends here")
            return True
        return False

    def evaluate(self, course: StageData, stage: str) -> Readings:
        """Look at other data, all trainers together."""
        engine = self._engine_of(stage)
        if self.peers.is_free:
            self.peers.meet()
            engine.refresh()
        engine.buffers.agree(self.peers)
        board = engine.board()
        holding = course.holding
        with reading.read(
            course.dataset, course.found, rank=holding.rank, world=holding.world, **course.more
        ) as samples:
            for batch in samples:
                engine.judge(batch, board)
                umiak.progress()
        return board.readings(self.peers.add(board.state()))

    def _engine_of(self, stage: str) -> Engine:
        return next(self.engines[each.stage.model] for each in self.courses if each.stage.name == stage)

    # ---- what is kept

    def title(self, epoch: int) -> str:
        """An epoch in a few words."""
        return f"epoch {epoch + 1}/{self.act.epochs}"

    def step_path(self, path: str, epoch: int, batch: int) -> str:
        """Where a place within an epoch is saved."""
        return runs.step_path(path, epoch, batch)

    def milestone(self, epoch: int, stage: int) -> Progress:
        return Progress(
            runner=self.act.name,
            run=self._run_id,
            mode=self.mode,
            trainers_in_all=self.peers.world,
            seed=next(iter(self.engines.values())).seed,
            epoch=epoch,
            stage=stage,
            step=self.step,
            history=tuple(self.history),
            best=self.best,
            without_progress=self.without_progress,
        )

    def save(self, path: str, milestone: Progress, kept: Saving, *, steps: bool) -> None:
        """Everybody calls it, at the same place."""
        with self.watch.measuring("saving"):
            if self.peers.is_free:
                self.peers.meet()
            self._store_buffers()
            runs.save(self.job, path, milestone)
            if self.peers.is_first:
                if not steps and self._is_best:
                    runs.mark_best(path)
                runs.keep(kept.path, self.act.keep_checkpoints, steps=steps)
                self.mirrors.send(path)
                self.mirrors.prune(kept.path)
            # Nobody goes on, and nobody ends, before it is whole.
            self.peers.tell({}, "saved")
        if not steps:
            self._is_best = False
        self.saved = path
        self._saved_at = self.clock()
        self.reporter.event("saved", path=path)

    def _export(self, epoch: int, inference: Inference) -> None:
        """A model for serving, with the rows that it needs: they are taken from a checkpoint, which is consistent."""
        path = runs.epoch_path(inference.path, epoch)
        with self.watch.measuring("saving"):
            saved = self._saved_epoch(epoch)
            source = saved or f"{path}.rows"
            if saved is None:
                if self.peers.is_free:
                    self.peers.meet()
                self._store_buffers()
                runs.save(self.job, source, self.milestone(epoch + 1, 0))
            if self.peers.is_first:
                for course in {course.stage.model: course for course in self.courses}.values():
                    where = path if len(self.engines) == 1 else os.path.join(path, course.stage.name)
                    self._write_served(course, source, where, inference)
                if saved is None:
                    shutil.rmtree(source, ignore_errors=True)
                self.mirrors.send(path)
            self.peers.tell({}, "served")
        self.reporter.event("served", path=path)

    def _write_served(self, course: StageData, source: str, path: str, inference: Inference) -> None:
        """A model as a checkpoint has it: what trainers hold of their own, as in geo, is not in it."""
        alone = Session(Seat(), Sync(), self.job.options)
        engine = self.engines[course.stage.model].copied(alone)
        runs.start_from(alone, source, engine.checkpoint_tables())
        engine.restore()
        done = paddle_export.export(
            engine,
            path,
            lambda embedding: ps_export.rows(source, embedding.table),
            feeds=inference.feeds,
            fetches=inference.fetches,
        )
        batch = course.first_batch()
        if batch is not None:
            paddle_export.check(done, engine, batch)
        alone.abandon()

    def _saved_epoch(self, epoch: int) -> str | None:
        """The checkpoint of this epoch, if there is one."""
        own = runs.epoch_path(self.act.checkpoint.path, epoch) if self.act.checkpoint else None
        return own if own is not None and own == self.saved else None

    # ---- what is wanted

    def wishes(self) -> StopOrSave:
        """What this trainer would like to do before its next turn."""
        act = self.act
        minutes = act.save_minutes
        due = minutes is not None and self.peers.is_first and self.clock() - self._saved_at >= 60 * minutes
        return StopOrSave(save=due, stop=self.stopping.is_asked)


def _is_below(path: str, directory: str) -> bool:
    """Whether a path is a directory, or leads into it."""
    return os.path.commonpath([os.path.abspath(path), os.path.abspath(directory)]) == os.path.abspath(directory)


def act_title(act: Act) -> str:
    """A run in a few words, for its picture."""
    return f"{act.name}, {act.crew.together}" + (f", {act.crew.trainers} trainers" if act.crew.is_divided else "")
