"""One stage of one epoch, turn by turn: learning, reports, checkpoints within it, the wish to stop. An adapter.

Two ways, as the mode asks for: trainers that take every step together agree on everything in passing, where they agree on sizes anyway. Trainers that
wait for nobody look around now and then, and meet only when one of them wants to.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

import umiak
from umiak.core.decode import decode, encode
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import replace
from umiak.train import reading
from umiak.train.checkpoints.progress import EpochRow, Progress, TrainerState, finite, packed, unpacked
from umiak.train.metrics.board import Readings
from umiak.train.reading import checking, dividing
from umiak.train.reading.checking import Seen
from umiak.train.reading.dealing import Deal
from umiak.train.reports.text import Report
from umiak.train.run.feeds import LockstepFeed, StopOrSave, WorkQueueFeed

if TYPE_CHECKING:
    from umiak.data.parts import Part
    from umiak.train.config.values import Saving
    from umiak.train.engines.buffers import Buffers
    from umiak.train.engines.paddle import Engine
    from umiak.train.plan.plan import Act
    from umiak.train.reading.batches import Batch
    from umiak.train.reading.dividing import Holding
    from umiak.train.reading.samples import Samples
    from umiak.train.reports.reporter import Reporter
    from umiak.train.run.context import Settings
    from umiak.train.run.peers import Peers
    from umiak.train.run.stage_data import StageData
    from umiak.train.run.stop_signal import StopSignal
    from umiak.train.run.stopwatch import Stopwatch

LOOK_EVERY_S = 0.5
"""How often trainers that do not wait for one another look what the others want."""


class Stopped(Exception):
    """Asked to stop; everything is saved that can be."""


class StageTrainer(Protocol):
    """What the loop asks of its trainer."""

    act: Act
    settings: Settings
    peers: Peers
    watch: Stopwatch
    reporter: Reporter
    stopping: StopSignal
    courses: list[StageData]
    engines: dict[str, Engine]
    step: int

    def wishes(self) -> StopOrSave: ...
    def title(self, epoch: int) -> str: ...
    def milestone(self, epoch: int, stage: int) -> Progress: ...
    def step_path(self, path: str, epoch: int, batch: int) -> str: ...
    def save(self, path: str, milestone: Progress, kept: Saving, *, steps: bool) -> None: ...
    def buffers(self) -> list[Buffers]: ...
    def own_buffers(self) -> str: ...
    def set_own_buffers(self, text: str) -> None: ...


class StageLoop:
    """A trainer's way through a stage."""

    def __init__(self, trainer: StageTrainer, epoch: int, number: int, within: Progress | None) -> None:
        self.trainer = trainer
        self.act = trainer.act
        self.peers = trainer.peers
        self.epoch = epoch
        self.number = number
        self.course = trainer.courses[number]
        self.stage = self.course.stage
        self.engine = trainer.engines[self.stage.model]
        self.board = self.engine.board()
        self.batch = 0
        """Steps of all trainers; where they wait for nobody, this trainer's own."""
        self.samples = 0
        """Samples of all trainers; where they wait for nobody, this trainer's own."""
        self._before = 0.0
        self._holding = self.course.holding
        self._deal = Deal(trainers=self._holding.world)
        self._place: dict[str, Any] | None = None
        if within is not None:
            self._go_on(within)
        self._began = time.monotonic()
        self._cpu_began = time.process_time()
        self._looked = self._reported_at = self._began
        self._reported = self.samples
        self._meetings = 0
        self._is_wanted = StopOrSave()
        self._dump: list[dict[str, Any]] = []

    def go(self) -> EpochRow:
        """To the end of the stage. `Stopped` if somebody asked for it."""
        feed = self._feed()
        try:
            if isinstance(feed, WorkQueueFeed):
                self._walk_alone(feed)
            else:
                self._walk_together(feed)
            return self._end(feed)
        finally:
            feed.close()

    # ---- the beginning

    def _go_on(self, within: Progress) -> None:
        self._before = within.seconds
        if within.deal:
            self._deal = decode(Deal, left_for(self._holding, self.course.found.digest, json.loads(within.deal)))
        else:
            self.batch, self.samples = within.batch, within.samples
        # Where there are fewer trainers now, each stands for several.
        own = within.trainers[self.peers.rank :: self.peers.world]
        if own:
            self.board.load(np.add.reduce([unpacked(each.board) for each in own]), within.board_layout)
            self.trainer.step = own[0].step
            self._place = json.loads(own[0].place)
            self.trainer.set_own_buffers(own[0].buffers)
        if within.deal:
            self.samples, self.batch = sum(each.samples for each in own), sum(each.batch for each in own)

    def _feed(self) -> LockstepFeed | WorkQueueFeed:
        course, dataset = self.course, self.course.dataset
        common: dict[str, Any] = {"epoch": self.epoch, "seed": self.engine.seed}
        if not self.peers.is_free:
            at = self._place
            samples = reading.read(
                dataset,
                course.found,
                rank=self._holding.rank,
                world=self._holding.world,
                shuffle_files=self.stage.shuffle_files,
                position=at["position"] if at else None,
                **common,
                **course.more,
            )
            return LockstepFeed(samples, self.peers, self.trainer.watch, at=at)
        files = dividing.in_order(course.found.files, shuffled=self.stage.shuffle_files, **common)
        made_for = self._deal.trainers
        parts = dividing.hand(files, world=made_for, piece_bytes=course.part_bytes(made_for))

        def opened(part: Part, position: str | None) -> Samples:
            return reading.read_part(dataset, course.found, part, position=position, **common, **course.more)

        name = f"parts {self.trainer.settings.prefix}{self.act.name} {self.epoch} {self.number}"
        name += f" {self._holding.first}" if self._holding.digests else ""
        return WorkQueueFeed(parts, self._deal, opened, lambda: self.peers.take(name), self.trainer.watch)

    # ---- steps in common

    def _walk_together(self, feed: LockstepFeed) -> None:
        every = self.act.step_checkpoint.every if self.act.step_checkpoint else 0
        for turn in feed.turns(self.trainer.wishes):
            if isinstance(turn, StopOrSave):
                self._save_within(feed, turn)
                continue
            self._learn(turn.batch, turn.share if self.peers.world > 1 else None)
            self.batch += 1
            self.samples += turn.total
            if self.batch % self.act.print_interval == 0:
                self._report(self.board.readings(self.peers.add(self.board.state())), self.batch, self.samples)
            if every and self.batch % every == 0:
                self._save_within(feed, StopOrSave(save=True))

    # ---- everybody alone

    def _walk_alone(self, feed: WorkQueueFeed) -> None:
        for turn in feed.turns(self._look_around):
            if isinstance(turn, StopOrSave):
                self._meet(feed, ended=False)
                continue
            self._learn(turn.batch, None)
            self.batch += 1
            self.samples += turn.size
        while not self._meet(feed, ended=True):
            pass

    def _look_around(self) -> StopOrSave:
        """What is wanted, by this trainer or by another. Now and then the others are asked."""
        own = self.trainer.wishes()
        every = self.act.step_checkpoint.every if self.act.step_checkpoint else 0
        if self.peers.is_first and every and self.batch % every == 0:
            own = replace(own, save=True)
        self._is_wanted = own
        now = time.monotonic()
        # Of the first trainer's own batches: its lines have what the others told last.
        is_due = self.batch % self.act.print_interval == 0
        if not own and not (is_due and self.peers.is_first) and now - self._looked < LOOK_EVERY_S:
            if is_due:
                self.board.mark()
            return own
        self._looked = now
        told = self._glance(self._meetings + bool(own), is_told=is_due)
        if own or any(each["meetings"] > self._meetings for each in told):
            return replace(own, save=True)
        return own

    def _glance(self, meetings: int, *, is_told: bool) -> list[dict[str, Any]]:
        stage = [f"{self.trainer.settings.prefix}{self.act.name}", self.epoch, self.number]
        head = {"stage": stage, "meetings": meetings, "batch": self.batch, "samples": self.samples}
        state = self.board.state()
        answers = [each for each in self.peers.glance(json.dumps(head).encode() + b"\n" + state.tobytes()) if each]
        told, total = [], np.zeros_like(state)
        for answer in answers:
            line, _, vector = answer.partition(b"\n")
            each = json.loads(line)
            if each["stage"] == stage:  # others may be in the stage before
                told.append(each)
                total += np.frombuffer(vector, np.float64)
        if is_told:
            self._report(self.board.readings(total), sum(e["batch"] for e in told), sum(e["samples"] for e in told))
        return told

    def _meet(self, feed: WorkQueueFeed, *, ended: bool) -> bool:
        """All trainers, because one wants to save or to stop, or because all have ended. Returns whether that is so."""
        wanted = StopOrSave() if ended else self._is_wanted
        wanted = replace(wanted, stop=wanted.stop or self.trainer.stopping.is_asked)
        told = self.peers.tell({"ended": ended, "save": wanted.save, "stop": wanted.stop}, "meeting")
        self._meetings += 1
        if all(each["ended"] for each in told):
            return True
        everybodys = StopOrSave(save=any(each["save"] for each in told), stop=any(each["stop"] for each in told))
        if everybodys:
            self._save_within(feed, everybodys)
        return False

    # ---- one turn

    def _learn(self, batch: Batch | None, share: float | None) -> None:
        trainer = self.trainer
        loss = self.engine.learn(batch, self.board, step=trainer.step, share=share)
        trainer.step += 1
        umiak.progress()
        if self.act.result_dump_path and batch is not None:
            self._dump.append({"batch": self.batch, "samples": batch.size, "loss": loss})

    def _report(self, readings: Readings, batch: int, samples: int) -> None:
        self.board.mark()
        if not self.peers.is_first:
            return
        now = time.monotonic()
        speed = max(0, samples - self._reported) / max(now - self._reported_at, 1e-9)
        self._reported_at, self._reported = now, samples
        self.trainer.reporter.report(
            Report(
                epoch=self.epoch,
                epochs=self.act.epochs,
                title=self.trainer.title(self.epoch),
                stage=self.stage.name,
                batch=batch,
                samples=samples,
                samples_per_s=speed,
                metrics=dict(readings.epoch),
                recent=dict(readings.recent),
                left_s=self._left(samples),
                shares=self.trainer.watch.lap(),
            )
        )

    def _left(self, samples: int) -> float | None:
        """Seconds until the end of training, as far as it can be guessed."""
        sizes = [course.guess() for course in self.trainer.courses]
        if any(size is None for size in sizes) or not samples:
            return None
        whole = [size or 0 for size in sizes]
        rest = max(0, whole[self.number] - samples) + sum(whole[self.number + 1 :])
        rest += max(0, self.act.epochs - self.epoch - 1) * sum(whole)
        return rest * self._elapsed() / samples

    def _elapsed(self) -> float:
        return self._before + time.monotonic() - self._began

    # ---- what is kept, and the end

    def _save_within(self, feed: LockstepFeed | WorkQueueFeed, wishes: StopOrSave) -> None:
        trainer = self.trainer
        kept = self.act.step_checkpoint or self.act.checkpoint
        if kept is not None:
            is_dealt = isinstance(feed, WorkQueueFeed)
            own = TrainerState(
                step=trainer.step,
                place=json.dumps({**feed.place(), **(self._held() if is_dealt else {})}),
                board=packed(self.board.state()),
                batch=self.batch,
                samples=self.samples,
                buffers=trainer.own_buffers() if self.peers.world > 1 and not self.peers.is_free else "",
            )
            told = [decode(TrainerState, each) for each in self.peers.tell(encode(own), "state")]
            batch = sum(each.batch for each in told) if is_dealt else self.batch
            milestone = replace(
                trainer.milestone(self.epoch, self.number),
                batch=batch,
                samples=sum(each.samples for each in told) if is_dealt else self.samples,
                seconds=self._elapsed(),
                board_layout=self.board.layout.text,
                trainers=tuple(told),
                deal=json.dumps(self._undealt([json.loads(e.place) for e in told])) if is_dealt else "",
            )
            trainer.save(trainer.step_path(kept.path, self.epoch, batch), milestone, kept, steps=True)
            if self.peers.is_free:
                # No two runs are alike here, and trainers may be more or fewer when it goes on.
                for each in trainer.buffers():
                    each.agree(self.peers)
        if wishes.stop:
            raise Stopped

    def _held(self) -> dict[str, Any]:
        """Whose parts this trainer is given, where nodes have data of their own."""
        if not self._holding.digests:
            return {}
        return {"first": self._holding.first, "files": self.course.found.digest, "deal": encode(self._deal)}

    def _undealt(self, places: list[dict[str, Any]]) -> Any:
        """What of the parts is left, of every node where each has its own."""
        if not self._holding.digests:
            return encode(self._deal.after(places))
        groups: dict[int, list[dict[str, Any]]] = {}
        for place in places:
            groups.setdefault(place["first"], []).append(place)
        return [
            {"files": own[0]["files"], "deal": encode(decode(Deal, own[0]["deal"]).after(own))}
            for own in groups.values()
        ]

    def _end(self, feed: LockstepFeed | WorkQueueFeed) -> EpochRow:
        """What all trainers have seen, judged together."""
        seen = feed.seen()
        told = self.peers.tell(
            {
                "seen": None if seen is None else encode(seen),
                "batch": self.batch,
                "samples": self.samples,
                "cpu_s": time.process_time() - self._cpu_began,
            },
            "end",
        )
        if seen is not None and self._place is None and not self._deal.begun:
            all_seen = [None if each["seen"] is None else decode(Seen, each["seen"]) for each in told]
            allowed = self.course.dataset.extra_slots_allowed
            reading.check_seen(self.course.dataset, self.course.found, all_seen, extra_allowed=allowed)
            total = checking.together(each for each in all_seen if each is not None)
            self.engine.check_missing(total, self.course.dataset.name)
        if self.peers.is_free:
            self.samples, self.batch = (sum(each[name] for each in told) for name in ("samples", "batch"))
        if not self.samples:
            what = f"dataset {self.course.dataset.name} has no samples: {self.course.dataset.data_path}"
            raise UmiakError(Problem(code="UM-TRAIN-019", what=what, hint="its files are empty"))
        self.course.samples = self.samples
        readings = self.board.readings(self.peers.add(self.board.state()))
        self._tell_problems(readings.problems)
        self._write_dump()
        return EpochRow(
            epoch=self.epoch,
            stage=self.stage.name,
            samples=self.samples,
            seconds=self._elapsed(),
            cpu_s=sum(each["cpu_s"] for each in told),
            trained=finite(dict(readings.epoch)),
        )

    def _tell_problems(self, problems: tuple[Problem, ...]) -> None:
        for problem in problems:
            for line in problem.lines("warning"):
                self.trainer.reporter.talk(line)

    def _write_dump(self) -> None:
        if self.act.result_dump_path and self.peers.is_first:
            with open(f"{self.act.result_dump_path}_epoch_{self.epoch}", "w", encoding="utf-8") as file:
                json.dump(self._dump, file)


def left_for(holding: Holding, digest: str, saved: Any) -> Any:
    """What of the parts was left to the trainers that see these files. UmiakError if nodes have other files than when it was saved."""
    before = [each["files"] for each in saved] if isinstance(saved, list) else []
    if sorted(before) != sorted(holding.digests):
        raise UmiakError(
            Problem(
                code="UM-TRAIN-070",
                what="this checkpoint was saved within an epoch, when the nodes had other files than now",
                why=f"{_nodes(len(before))} then, {_nodes(len(holding.digests))} now; names and sizes count",
                hint="go on with the same files on each node, or begin an epoch with it: `init_model_path:`",
            ),
            exit_status=Exit.REFUSED,
        )
    if not before:
        return saved
    alike = [each["deal"] for each in saved if each["files"] == digest]
    return alike[holding.digests[: holding.number].count(digest)]


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'} with data of their own" if count else "data that all nodes share"
