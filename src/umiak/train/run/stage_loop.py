"""One stage of one epoch, step by step: learning, reports, checkpoints within it, being asked to stop. An adapter.

Two ways, as the mode asks for: trainers that take every step together agree on everything in passing, where they agree on sizes anyway. Trainers that
wait for nobody look around now and then, and meet only when one of them wants to.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import umiak
from umiak.core.decode import decode, encode
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace, value
from umiak.train import reading
from umiak.train.checkpoints.progress import EpochRow, Progress, TrainerState, finite, packed, unpacked
from umiak.train.engines.engine import AheadEngine
from umiak.train.metrics import posted
from umiak.train.metrics.metric_set import Readings
from umiak.train.reading import checking
from umiak.train.reading.checking import Seen
from umiak.train.reading.shuffling import label_runs
from umiak.train.reading.shuffling.label_runs import LabelsSeen, LabelWatch
from umiak.train.reading.work_queue import WorkQueue, fingerprint
from umiak.train.reports.text import ProgressReport
from umiak.train.run.feeds import LockstepFeed, StopOrSave, WorkQueueFeed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.data.parts import Part
    from umiak.train.engines.engine import Engine
    from umiak.train.engines.engine_set import EngineSet
    from umiak.train.plan.plan import Run
    from umiak.train.reading.batches import Batch
    from umiak.train.reading.datasets.division import DatasetPart
    from umiak.train.reading.dividing import Holding
    from umiak.train.reading.samples import Samples
    from umiak.train.reading.shuffling.pieces import PartGroup
    from umiak.train.run.context import RunState, TrainerContext
    from umiak.train.run.saver import Saver
    from umiak.train.run.stage_data import StageData

LOOK_EVERY_S = 0.5
"""How often trainers that do not wait for one another look what the others want."""


class StopRequested(Exception):
    """Asked to stop; everything is saved that can be."""


@value
class StagePlace:
    """Which stage it is, and of which epoch, or pass."""

    epoch: int
    """Counted from 0; of online learning, passes are counted."""
    number: int
    """Of the stage, from 0."""
    title: str
    """The epoch, or the pass, in words."""
    step_path: Callable[[str, int], str]
    """Where a checkpoint is saved: the directory of checkpoints and the batch that it is behind to a path."""


class StageReports:
    """What the first trainer tells of a stage: how it goes, what is odd about it, and what each batch came to."""

    def __init__(
        self, place: StagePlace, run: Run, context: TrainerContext, stages: Sequence[StageData], state: RunState
    ) -> None:
        self._place = place
        self._runner = run.runner
        self._context = context
        self._stages = stages
        self._state = state
        self._before = 0.0
        self._began = self._reported_at = time.monotonic()
        self._reported = 0
        self._batches: list[JsonObject] = []

    def go_on(self, seconds: float, samples: int) -> None:
        """So much time was spent on the stage before, and so many samples were counted."""
        self._before, self._reported = seconds, samples

    def progress(self, readings: Readings, batch: int, samples: int) -> None:
        now = time.monotonic()
        speed = max(0, samples - self._reported) / max(now - self._reported_at, 1e-9)
        self._reported_at, self._reported = now, samples
        self._context.reporter.report(
            ProgressReport(
                epoch=self._place.epoch,
                epochs=self._runner.epochs,
                title=self._place.title,
                stage=self._stages[self._place.number].stage.name,
                batch=batch,
                samples=samples,
                samples_per_s=speed,
                metrics=dict(readings.epoch),
                recent=dict(readings.recent),
                left_s=self._left(samples),
                shares=self._context.watch.lap(),
                lag=self._stages[self._place.number].lag(samples),
            )
        )

    def elapsed(self) -> float:
        """Seconds that the stage has taken."""
        return self._before + time.monotonic() - self._began

    def batch(self, number: int, samples: int, loss: float) -> None:
        """What a batch came to, where somebody wants to know."""
        if self._runner.result_dump_path:
            self._batches.append({"batch": number, "samples": samples, "loss": loss})

    def write_batches(self) -> None:
        if self._runner.result_dump_path and self._context.peers.is_first:
            with open(f"{self._runner.result_dump_path}_epoch_{self._place.epoch}", "w", encoding="utf-8") as file:
                json.dump(self._batches, file)

    def warn(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self._warn_once(problem.what, problem)

    def warn_of_labels(self, seen: Sequence[LabelsSeen | None]) -> None:
        run, name = label_runs.long_run(seen), self._stages[self._place.number].dataset.name
        if run is not None:
            self._warn_once(f"labels of {name}", label_runs.problem(run, name, window=self._runner.shuffle))

    def _warn_once(self, about: str, problem: Problem) -> None:
        if about not in self._state.warned:
            self._state.warned.add(about)
            self._context.reporter.warning(problem)

    def _left(self, samples: int) -> float | None:
        """Seconds until the end of training, as far as it can be guessed."""
        sizes = [data.guess() for data in self._stages]
        if any(size is None for size in sizes) or not samples:
            return None
        whole = [size or 0 for size in sizes]
        rest = max(0, whole[self._place.number] - samples) + sum(whole[self._place.number + 1 :])
        rest += max(0, self._runner.epochs - self._place.epoch - 1) * sum(whole)
        return rest * self.elapsed() / samples


class StageLoop:
    """A trainer's way through a stage."""

    def __init__(
        self,
        place: StagePlace,
        run: Run,
        context: TrainerContext,
        *,
        stages: Sequence[StageData],
        engines: EngineSet,
        state: RunState,
        saver: Saver,
        prefix: str = "",
        within: Progress | None = None,
    ) -> None:
        """``stages``: all of the run, of which this is one. ``prefix``: of names that trainers share."""
        self.place = place
        self.epoch = place.epoch
        self.run = run
        self.runner = run.runner
        self.peers = context.peers
        self._context = context
        self._engines = engines
        self._state = state
        self._saver = saver
        self._prefix = prefix
        self.data = stages[place.number]
        self.stage = self.data.stage
        self.engine = engines.of(self.stage.model)
        self.metrics = self.engine.metric_set()
        self.batch = 0
        """Steps of all trainers; where they wait for nobody, this trainer's own."""
        self.samples = 0
        """Samples of all trainers; where they wait for nobody, this trainer's own."""
        self._reports = StageReports(place, run, context, stages, state)
        self._holding = self.data.holding
        self._queue = WorkQueue(trainers=self._holding.world)
        self._position: JsonObject | None = None
        if within is not None:
            self._resume(within)
        self._looked = time.monotonic()
        self._cpu_began = time.process_time()
        self._barriers = 0
        self._is_wanted = StopOrSave()
        self._labels = LabelWatch(self.metrics.classes)

    def go(self) -> EpochRow:
        """To the end of the stage. `StopRequested` if somebody asked for it."""
        feed = self._feed()
        try:
            if isinstance(feed, WorkQueueFeed):
                self._run_alone(feed)
            else:
                self._run_in_step(feed)
            return self._end(feed)
        finally:
            feed.close()

    # ---- the beginning

    def _resume(self, within: Progress) -> None:
        if within.queue:
            self._queue = decode(WorkQueue, left_for(self._holding, self.data.found.digest, json.loads(within.queue)))
        else:
            self.batch, self.samples = within.batch, within.samples
        # Where there are fewer trainers now, each stands for several.
        own = within.trainers[self.peers.rank :: self.peers.world]
        if own:
            self.metrics.load(np.add.reduce([unpacked(each.metrics) for each in own]), within.metrics_layout)
            self._state.step = own[0].step
            self._position = json.loads(own[0].place)
            self._engines.set_own_buffers(own[0].buffers)
        if within.queue:
            self.samples, self.batch = sum(each.samples for each in own), sum(each.batch for each in own)
        self._reports.go_on(within.seconds, self.samples)

    def _feed(self) -> LockstepFeed | WorkQueueFeed:
        data, dataset = self.data, self.data.dataset
        common: JsonObject = {"epoch": self.epoch, "seed": self._state.seed}
        shuffle = self.runner.shuffle
        if not self.peers.is_free:
            at = self._position
            samples = reading.read(
                dataset,
                data.found,
                rank=self._holding.rank,
                world=self._holding.world,
                shuffle_files=self.stage.shuffle_files,
                shuffle=shuffle,
                position=at["position"] if at else None,
                **common,
                **data.more,
            )
            return LockstepFeed(samples, self.peers, self._context.watch, at=at)
        parts = data.parts(self._queue.trainers, shuffle_files=self.stage.shuffle_files, shuffle=shuffle, **common)
        self._queue = self._queue.of_parts(fingerprint(parts))

        def opened(part: Part | PartGroup | DatasetPart, position: str | None) -> Samples:
            return reading.read_part(
                dataset, data.found, part, shuffle=shuffle, position=position, **common, **data.more
            )

        name = f"parts {self._prefix}{self.run.name} {self.epoch} {self.place.number}"
        name += f" {self._holding.first}" if self._holding.digests else ""
        ahead, watch = _reads_ahead(self.engine, data), self._context.watch
        return WorkQueueFeed(parts, self._queue, opened, lambda: self.peers.take(name), watch, reads_ahead=ahead)

    # ---- steps in common

    def _run_in_step(self, feed: LockstepFeed) -> None:
        every = self.runner.step_checkpoint.every if self.runner.step_checkpoint else 0
        for step in feed.steps(self._saver.wanted):
            if isinstance(step, StopOrSave):
                self._save_within(feed, step)
                continue
            # A checkpoint at this place has no rows of the next step.
            is_saved = bool(every) and (self.batch + 1) % every == 0
            _expect(self.engine, None if is_saved else step.following)
            self._learn(step.batch, step.share if self.peers.world > 1 else None, feed)
            self.batch += 1
            self.samples += step.total
            if self.batch % self.runner.print_interval == 0:
                self._report(self.metrics.readings(self.peers.add(self.metrics.state())), self.batch, self.samples)
            if every and self.batch % every == 0:
                self._save_within(feed, StopOrSave(save=True))

    # ---- everybody alone

    def _run_alone(self, feed: WorkQueueFeed) -> None:
        for step in feed.steps(self._poll_peers):
            if isinstance(step, StopOrSave):
                self._meet(feed, ended=False)
                continue
            _expect(self.engine, step.following)
            self._learn(step.batch, None, feed)
            self.batch += 1
            self.samples += step.size
        while not self._meet(feed, ended=True):
            pass

    def _poll_peers(self) -> StopOrSave:
        """What is wanted, by this trainer or by another. Now and then the others are asked."""
        own = self._saver.wanted()
        every = self.runner.step_checkpoint.every if self.runner.step_checkpoint else 0
        if self.peers.is_first and every and self.batch % every == 0:
            own = replace(own, save=True)
        self._is_wanted = own
        now = time.monotonic()
        # Of the first trainer's own batches: its lines have what the others told last.
        is_due = self.batch % self.runner.print_interval == 0
        if not own and not (is_due and self.peers.is_first) and now - self._looked < LOOK_EVERY_S:
            if is_due:
                self.metrics.start_window()
            return own
        self._looked = now
        told = self._exchange_latest(self._barriers + bool(own), is_told=is_due)
        if own or any(each["barriers"] > self._barriers for each in told):
            return replace(own, save=True)
        return own

    def _exchange_latest(self, barriers: int, *, is_told: bool) -> list[JsonObject]:
        stage = [f"{self._prefix}{self.run.name}", self.epoch, self.place.number]
        head = {"stage": stage, "barriers": barriers, "batch": self.batch, "samples": self.samples}
        state = self.metrics.state()
        answers = [posted.read(each) for each in self.peers.latest(posted.posted(head, state)) if each]
        # Others may be in the stage before.
        same = [(each, theirs) for each, theirs in answers if each["stage"] == stage]
        told = [each for each, _ in same]
        states = [theirs for _, theirs in same if theirs is not None]
        total = np.add.reduce(states) if states else state
        if is_told:
            self._report(self.metrics.readings(total), sum(e["batch"] for e in told), sum(e["samples"] for e in told))
        return told

    def _meet(self, feed: WorkQueueFeed, *, ended: bool) -> bool:
        """All trainers, because one wants to save or to stop, or because all have ended. Returns whether that is so."""
        wanted = StopOrSave() if ended else self._is_wanted
        wanted = replace(wanted, stop=wanted.stop or self._context.stopping.is_asked)
        told = self.peers.tell({"ended": ended, "save": wanted.save, "stop": wanted.stop}, "meeting")
        self._barriers += 1
        if all(each["ended"] for each in told):
            return True
        everybodys = StopOrSave(save=any(each["save"] for each in told), stop=any(each["stop"] for each in told))
        if everybodys:
            self._save_within(feed, everybodys)
        return False

    # ---- one step

    def _learn(self, batch: Batch | None, share: float | None, feed: LockstepFeed | WorkQueueFeed) -> None:
        loss = self.engine.learn(batch, self.metrics, step=self._state.step, share=share)
        self._state.step += 1
        umiak.progress()
        self._labels.passed(batch.size if batch is not None else 0, feed.file)
        self._reports.warn(feed.warnings())
        if batch is not None:
            self._reports.batch(self.batch, batch.size, loss)

    def _report(self, readings: Readings, batch: int, samples: int) -> None:
        self.metrics.start_window()
        if self.peers.is_first:
            self._reports.progress(readings, batch, samples)

    # ---- what is kept, and the end

    def _save_within(self, feed: LockstepFeed | WorkQueueFeed, wanted: StopOrSave) -> None:
        kept = self.runner.step_checkpoint or self.runner.checkpoint
        if kept is not None:
            is_queued = isinstance(feed, WorkQueueFeed)
            own = TrainerState(
                step=self._state.step,
                place=json.dumps({**feed.place(), **(self._held() if is_queued else {})}),
                metrics=packed(self.metrics.state()),
                batch=self.batch,
                samples=self.samples,
                buffers=self._engines.own_buffers() if self.peers.world > 1 and not self.peers.is_free else "",
            )
            told = [decode(TrainerState, each) for each in self.peers.tell(encode(own), "state")]
            batch = sum(each.batch for each in told) if is_queued else self.batch
            progress = replace(
                self._saver.progress(self.epoch, self.place.number),
                batch=batch,
                samples=sum(each.samples for each in told) if is_queued else self.samples,
                seconds=self._reports.elapsed(),
                metrics_layout=self.metrics.layout.text,
                trainers=tuple(told),
                queue=json.dumps(self._left_in_queue([json.loads(e.place) for e in told])) if is_queued else "",
            )
            self._saver.save(self.place.step_path(kept.path, batch), progress, kept, within=True)
            if self.peers.is_free:
                # No two runs are alike here, and trainers may be more or fewer when it goes on.
                self._engines.agree_on_buffers(self.peers)
        if wanted.stop:
            raise StopRequested

    def _held(self) -> JsonObject:
        """Whose parts this trainer is given, where nodes have data of their own."""
        if not self._holding.digests:
            return {}
        return {"first": self._holding.first, "files": self.data.found.digest, "queue": encode(self._queue)}

    def _left_in_queue(self, places: list[JsonObject]) -> Any:
        """What of the parts is left, of every node where each has its own."""
        if not self._holding.digests:
            return encode(self._queue.after(places))
        groups: dict[int, list[JsonObject]] = {}
        for place in places:
            groups.setdefault(place["first"], []).append(place)
        return [
            {"files": own[0]["files"], "queue": encode(decode(WorkQueue, own[0]["queue"]).after(own))}
            for own in groups.values()
        ]

    def _end(self, feed: LockstepFeed | WorkQueueFeed) -> EpochRow:
        """What all trainers have seen, evaluated together."""
        seen, labels = feed.seen(), self._labels.seen()
        told = self.peers.tell(
            {
                "seen": None if seen is None else encode(seen),
                "labels": None if labels is None else encode(labels),
                "batch": self.batch,
                "samples": self.samples,
                "cpu_s": time.process_time() - self._cpu_began,
            },
            "end",
        )
        all_seen = [None if each["seen"] is None else decode(Seen, each["seen"]) for each in told]
        total = checking.together(each for each in all_seen if each is not None)
        if seen is not None and self._position is None and not self._queue.begun:
            allowed = self.data.dataset.extra_slots_allowed
            reading.check_seen(self.data.dataset, self.data.found, all_seen, extra_allowed=allowed)
            self.engine.check_missing(total, self.data.dataset.name)
        self._reports.warn_of_labels(
            [None if each["labels"] is None else decode(LabelsSeen, each["labels"]) for each in told]
        )
        if self.peers.is_free:
            self.samples, self.batch = (sum(each[name] for each in told) for name in ("samples", "batch"))
        if not self.samples:
            what = f"dataset {self.data.dataset.name} has no samples: {self.data.dataset.data_path}"
            raise UmiakError.of("UM-TRAIN-019", what, hint="its files are empty")
        self.data.samples = self.samples
        readings = self.metrics.readings(self.peers.add(self.metrics.state()))
        for problem in readings.problems:
            self._context.reporter.warning(problem)
        self._reports.write_batches()
        return EpochRow(
            epoch=self.epoch,
            stage=self.stage.name,
            samples=self.samples,
            seconds=self._reports.elapsed(),
            cpu_s=sum(each["cpu_s"] for each in told),
            trained=finite(dict(readings.epoch)),
            blank_lines=total.blank_lines,
            bad_lines=total.bad_lines,
        )


def left_for(holding: Holding, digest: str, saved: Any) -> Any:
    """What of the parts was left to the trainers that see these files. UmiakError if nodes have other files than when it was saved."""
    before = [each["files"] for each in saved] if isinstance(saved, list) else []
    if sorted(before) != sorted(holding.digests):
        raise UmiakError.refused(
            "UM-TRAIN-070",
            "this checkpoint was saved within an epoch, when the nodes had other files than now",
            why=f"{_nodes(len(before))} then, {_nodes(len(holding.digests))} now; names and sizes count",
            hint="go on with the same files on each node, or begin an epoch with it: `init_model_path:`",
        )
    if not before:
        return saved
    alike = [each["queue"] for each in saved if each["files"] == digest]
    return alike[holding.digests[: holding.number].count(digest)]


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'} with data of their own" if count else "data that all nodes share"


def _reads_ahead(engine: Engine, data: StageData) -> bool:
    """Whether it is of use to read a batch before it is its turn. A stream may be silent for long: what has come of it is learned at once."""
    return not data.is_stream and isinstance(engine, AheadEngine) and engine.reads_ahead


def _expect(engine: Engine, following: Batch | None) -> None:
    if isinstance(engine, AheadEngine):
        engine.expect(following)
