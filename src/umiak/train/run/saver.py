"""What a run keeps, and what it begins with: checkpoints, inference models, a checkpoint that it goes on from. An adapter.

    saver = Saver(run, settings, context, state, engines)
    found, begun = saver.start()                    the checkpoint to go on from, if there is one
    saver.load(found, "1 of 2 epochs is done")      once the engines are made
    saver.save(path, saver.progress(1, 0), run.runner.checkpoint, within=False)

Every trainer makes the same calls at the same places; the first one writes.
"""

from __future__ import annotations

import os
import secrets
import shutil
from typing import TYPE_CHECKING

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.train.checkpoints import publish, runs
from umiak.train.checkpoints.progress import Progress
from umiak.train.reading.tables import locks
from umiak.train.run.feeds import StopOrSave

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.data.features.lock import FeatureLock
    from umiak.ps.manifest import Manifest
    from umiak.train.checkpoints.publish import Model
    from umiak.train.config.values import Inference, Saving
    from umiak.train.engines.engine_set import EngineSet
    from umiak.train.plan.plan import Run
    from umiak.train.run.context import RunState, Settings, TrainerContext
    from umiak.train.run.stage_data import StageData

VALUES_ONLY = ", without the optimizer's memory, which is of another kind"


class Saver:
    """The checkpoints of one run."""

    def __init__(
        self, run: Run, settings: Settings, context: TrainerContext, state: RunState, engines: EngineSet
    ) -> None:
        self._run = run
        self._runner = run.runner
        self._settings = settings
        self._context = context
        self._peers = context.peers
        self._reporter = context.reporter
        self._mirrors = context.mirrors
        self._state = state
        self._engines = engines
        self.saved: str | None = None
        """The checkpoint that was saved last, or gone on from."""
        self.is_best = False
        """Whether what was evaluated last is better than all before, and not saved yet."""
        self._saved_at = context.clock()
        self.lock: FeatureLock | None = None
        """Of the features, where data is tables: it lies in every checkpoint and every inference model."""

    # ---- the beginning

    def start(self) -> tuple[runs.Saved | None, Progress]:
        """Where the run begins: at a checkpoint that is gone on from, or at the very beginning."""
        if self._settings.resume or self._runner.init_model_path:
            self._fetch()
        found = self._newest() if self._settings.resume else None
        if found is not None:
            self.saved, self._state.run_id = found.path, found.progress.run
            self._state.seed = found.progress.seed
            return found, found.progress
        self._state.run_id = secrets.token_hex(8)
        self._make_room()
        self._state.seed = self._seed()
        return None, self._blank(0, 0)

    def try_paths(self) -> None:
        """UmiakError if nothing could be saved: better now than after an epoch."""
        runner = self._runner
        if self._peers.is_first:
            kept = (runner.checkpoint, runner.step_checkpoint, runner.inference)
            runs.try_paths(each.path for each in kept if each)

    def load(self, found: runs.Saved, reached: str) -> None:
        """Go on from a checkpoint; ``reached``: how far it has come, in words."""
        if problem := self._misfit(found):
            raise UmiakError(problem)
        whole = self._load(found.path, found.manifest)
        self._state.resume(found.progress)
        drawn = found.progress.generators
        same = drawn[self._peers.rank] if len(drawn) == self._peers.world else ""
        self._engines.set_generators(same, found.progress.step)
        self._reporter.go_on(self._state.history)
        self._reporter.info(
            f"resuming from {self._mirrors.spoken(found.path)}: {reached}{'' if whole else VALUES_ONLY}"
        )

    def warm_start(self, path: str) -> None:
        """Begin with what another run has learned."""
        newest = runs.models_below(path, None)[-1]
        whole = self._load(newest)
        self._reporter.info(f"starts from {self._mirrors.spoken(newest)}{'' if whole else VALUES_ONLY}")

    def _load(self, path: str, manifest: Manifest | None = None) -> bool:
        taking = [engine for engine in self._engines if engine.takes_weights(path, manifest)]
        if taking:
            # What is a table there is none here, or the files are PaddleRec's: weights have to do.
            for engine in self._engines:
                engine.take_weights(path)
            return False
        whole = runs.start_from(self._context.job, path, self._engines.tables(), manifest)
        self._engines.restore()
        return whole

    def _fetch(self) -> None:
        """What is behind URLs, before anybody looks for it."""
        if self._mirrors.all:
            if self._peers.is_first:
                self._mirrors.fetch()
            self._peers.tell({}, "fetched")

    def _newest(self) -> runs.Saved | None:
        paths = self._paths()
        if not paths:
            raise UmiakError.of(
                "UM-TRAIN-005",
                f"--resume, and runner {self._run.name} saves no checkpoints",
                hint="write `save_checkpoint_path:`",
            )
        found, skipped = runs.newest(paths, self._run.name)
        for words in skipped:
            self._reporter.note(f"passed over: {words}")
        told = self._peers.agree_on(found.path if found else "", "resume")
        if len(set(told)) > 1:
            what = (
                f"trainers do not see the same checkpoints: {', '.join(each or 'none' for each in dict.fromkeys(told))}"
            )
            hint = "save_checkpoint_path must be the same shared directory on every node"
            raise UmiakError.of("UM-TRAIN-016", what, hint=hint)
        if found is None:
            self._reporter.info(f"no checkpoint to resume from in {', '.join(paths)}: starting from scratch")
        return found

    def _make_room(self) -> None:
        """For a run that begins from scratch: what an earlier one has saved is put aside, so that nobody takes it for this one's."""
        paths, path = self._paths(), self._runner.init_model_path
        inside = [each for each in paths if path and _is_below(path, each)]
        if self._peers.is_first and not self._mirrors.all and not inside:
            for target in runs.put_aside(paths, self._run.name):
                self._reporter.note(
                    f"checkpoints of an earlier run are in {target} now; `--resume` would have gone on from them"
                )
        self._peers.tell({}, "room")

    def _seed(self) -> int:
        runner = self._runner
        if runner.seed is not None:
            return runner.seed
        begun = runner.init_model_path and runs.seed_of(runs.models_below(runner.init_model_path, None)[-1])
        first, *_ = self._peers.tell({"seed": begun or secrets.randbelow(1 << 31)}, "seed")
        return int(first["seed"])

    def _paths(self) -> list[str]:
        return [each.path for each in (self._runner.checkpoint, self._runner.step_checkpoint) if each]

    def _misfit(self, found: runs.Saved) -> Problem | None:
        """Why the rest of an epoch can't be read by these trainers."""
        progress, world, mode = found.progress, self._peers.world, self._run.group.mode
        if not progress.trainers:
            return None
        what, why, same = "", "", ""
        if bool(progress.queue) != self._peers.is_free:
            what = f"in mode {progress.mode}, and this is {mode}"
            why = "asynchronous trainers take chunks from a queue, synchronous ones have fixed shares"
            same = f"in mode {progress.mode}"
        elif not self._peers.is_free and progress.trainers_in_all != world:
            what = f"by {progress.trainers_in_all} trainers, and these are {world}"
            why = "who has read what of an epoch is known trainer by trainer"
            same = f"with {progress.trainers_in_all}"
        if not what:
            return None
        return Problem(
            code="UM-TRAIN-016",
            what=f"{found.path} was saved within an epoch {what}",
            why=why,
            hint=f"go on {same}, or begin an epoch with it: `init_model_path: {found.path}`",
        )

    # ---- what is kept

    def progress(self, epoch: int, stage: int) -> Progress:
        """How far the run has come: so many epochs, and so many stages of the next one, are done."""
        return self._state.in_checkpoint(self._blank(epoch, stage))

    def _blank(self, epoch: int, stage: int) -> Progress:
        return Progress(
            runner=self._run.name,
            mode=self._run.group.mode,
            trainers_in_all=self._peers.world,
            seed=self._state.seed,
            epoch=epoch,
            stage=stage,
            features=self.lock.sha256 if self.lock else "",
        )

    def save(self, path: str, progress: Progress, kept: Saving, *, within: bool) -> None:
        """A checkpoint; ``within`` an epoch, or at its end."""
        with self._context.watch.measuring("saving"):
            self._gather()
            if drawn := self._engines.generators():
                told = self._peers.tell({"drawn": drawn}, "generators")
                progress = replace(progress, generators=tuple([each["drawn"] for each in told]))
            runs.save(self._context.job, path, progress)
            if self._peers.is_first:
                self._write_lock(path)
                if not within:
                    self._write_weights(path)
                if not within and self.is_best:
                    runs.mark_best(path)
                runs.keep(kept.path, self._runner.keep_checkpoints, steps=within)
                self._mirrors.send(path)
                self._mirrors.prune(kept.path)
            # Nobody goes on, and nobody ends, before it is whole.
            self._peers.tell({}, "saved")
        if not within:
            self.is_best = False
        self.saved = path
        self._saved_at = self._context.clock()
        self._reporter.event("saved", path=path)

    def export(self, epoch: int, inference: Inference, stages: Sequence[StageData]) -> None:
        """An inference model, with the rows that it needs: they are taken from a checkpoint, which is consistent."""
        path = runs.inference_path(inference.path, epoch, self._runner.checkpoint)
        with self._context.watch.measuring("saving"):
            saved = self.saved_epoch(epoch)
            source = saved or f"{path}.rows"
            if saved is None:
                self._gather()
                runs.save(self._context.job, source, self.progress(epoch + 1, 0))
            if self._peers.is_first:
                if saved is None:
                    self._write_lock(source)
                for data in {each.stage.model: each for each in stages}.values():
                    self._engines.of(data.stage.model).export(
                        path if len(self._engines) == 1 else os.path.join(path, data.stage.name),
                        source,
                        feeds=inference.feeds,
                        fetches=inference.fetches,
                        sample=data.first_batch,
                    )
                if saved is None:
                    shutil.rmtree(source, ignore_errors=True)
                self._mirrors.send(path)
            self._peers.tell({}, "served")
        self._reporter.event("served", path=path)

    def publish(self, model: Model) -> None:
        """A model of online learning, and its line in the list that a serving system follows; nothing where none are asked for."""
        inference = self._runner.inference
        if inference is None:
            return
        with self._context.watch.measuring("saving"):
            self._gather()
            path = publish.publish(self._context.job, inference.path, model)
            # Nobody goes on before it is whole.
            self._peers.tell({}, "published")
        self._reporter.event("published", kind=model.kind.value, day=model.day, number=model.number, path=path)

    def _write_weights(self, path: str) -> None:
        """What other programs read, beside what is ours; of several models, each in a directory of its own."""
        for engine in self._engines:
            engine.write_weights(path)

    def _write_lock(self, path: str) -> None:
        if self.lock is not None:
            locks.write(self.lock, path)

    def saved_epoch(self, epoch: int) -> str | None:
        """The checkpoint of this epoch, if there is one."""
        kept = self._runner.checkpoint
        own = runs.epoch_path(kept.path, epoch) if kept else None
        return own if own is not None and own == self.saved else None

    def wanted(self) -> StopOrSave:
        """What this trainer would like to do before its next step."""
        minutes = self._runner.save_minutes
        due = minutes is not None and self._peers.is_first and self._context.clock() - self._saved_at >= 60 * minutes
        return StopOrSave(save=due, stop=self._context.stopping.is_asked)

    def _gather(self) -> None:
        """Everything that trainers have done is in the tables."""
        if self._peers.is_free:
            self._peers.meet()
        self._engines.store_buffers(self._peers)


def _is_below(path: str, directory: str) -> bool:
    """Whether a path is a directory, or leads into it."""
    return os.path.commonpath([os.path.abspath(path), os.path.abspath(directory)]) == os.path.abspath(directory)
