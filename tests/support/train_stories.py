"""Stories of `umiak train` runs that are treated roughly, and the laws that hold after each.

A story is drawn from a seed: `draw`. It has a runner, what is special about its model and data, and the blows: each is one run
that is disturbed at some progress, and the next one goes on with ``--resume``. The last run is let alone, and ends well.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import disks
from tests.support import train_runs
from tests.support.train_runs import EPOCHS, Done, Started, Work

EXACT = ("alone", "collective", "sync")
RUNNERS = (*EXACT, "async", "half_async", "geo", "hybrid")
ENDS = (
    "kill trainer",
    "kill server",
    "kill launcher",
    "kill everything",
    "stop SIGTERM",
    "stop SIGINT",
    "fill kept",
    "fill run",
)
"""``kept`` is the disk for checkpoints, ``run`` the one for logs and metrics."""
LAST = str(EPOCHS - 1)
PACE_S = 0.02
SCHEDULES = (
    "{class: constant, warmup_steps: 10}",
    "{class: cosine, steps: 30, end: 0.1}",
    "{class: step, gamma: 0.5, every: 7}",
)
SAMPLES = (1200, 517)
"""The second can't be divided into equal batches, files and trainers."""


@dataclass(frozen=True)
class Traits:
    """What decides what a run learns."""

    runner: str
    norm: bool
    dropout: bool
    schedule: str
    samples: int


@dataclass(frozen=True)
class Blow:
    """How a run is ended when so many batches more were begun, and who stands still for a while before that."""

    end: str
    at: int
    saving: bool
    """Whether it waits for a checkpoint that is being written, too."""
    frozen: str
    pause_s: float


@dataclass(frozen=True)
class Story:
    traits: Traits
    blows: tuple[Blow, ...]

    def __str__(self) -> str:
        blows = ", ".join(
            f"{blow.end} at {blow.at}"
            + " while saving" * blow.saving
            + f" after freeze {blow.frozen}" * bool(blow.frozen)
            for blow in self.blows
        )
        return f"umiak train, {self.traits}: {blows}"


def draw(rng: random.Random) -> Story:
    traits = Traits(
        runner=rng.choice(RUNNERS),
        norm=rng.random() < 0.5,
        dropout=rng.random() < 0.5,
        schedule=rng.choice(SCHEDULES),
        samples=rng.choice(SAMPLES),
    )
    ends = [end for end in ENDS if not (disks.unavailable() and end.startswith("fill"))]
    if traits.runner == "alone":
        ends = [end for end in ends if end not in ("kill trainer", "kill server", "kill everything")]
    elif traits.runner == "collective":
        ends.remove("kill server")
    blows = tuple(
        Blow(
            end=rng.choice(ends),
            at=rng.choice([0, rng.randint(1, 10), rng.randint(1, 20)]),
            saving=rng.random() < 0.3,
            frozen=rng.choice(["", "", "trainer", "server"]),
            pause_s=rng.uniform(0, 0.5),
        )
        for _ in range(rng.choice([1, 1, 2]))
    )
    return Story(traits=traits, blows=blows)


def play(story: Story) -> None:
    """AssertionError if a law is broken."""
    with _opened(story.traits) as (work, mounted):
        player = _Player(story, work, mounted)
        for blow in story.blows:
            player.disturb(blow)
        done = work.run(story.traits.runner, "--resume")
        assert done.status == 0, f"{story}\n{done.said}"
        player.check(done)


@functools.cache
def undisturbed(traits: Traits) -> tuple[dict[str, Any], dict[str, float]]:
    """What a run leaves that nobody disturbs: its last checkpoint and its last evaluation."""
    with _opened(traits) as (work, _):
        done = work.run(traits.runner)
        assert done.status == 0, done.said
        return work.checkpoint("out", traits.runner, LAST), work.epochs(traits.runner)[-1]["evaluated"]


@contextlib.contextmanager
def _opened(traits: Traits) -> Iterator[tuple[Work, dict[str, disks.Disk]]]:
    """A directory for runs with these traits, and its disks by their names."""
    with train_runs.opened() as work, contextlib.ExitStack() as stack:
        _vary(work, traits)
        mounted = {}
        if not disks.unavailable():
            mounted = {name: stack.enter_context(disks.mounted(work.path / name)) for name in ("kept", "run")}
            for name in ("steps", "out"):
                (work.path / "kept" / name).mkdir()
                (work.path / name).symlink_to(f"kept/{name}")
        yield work, mounted


def _vary(work: Work, traits: Traits) -> None:
    path = work.path / "model.py"
    text = path.read_text()
    if not traits.dropout:
        text = text.replace("Dropout(0.1)", "Dropout(0.0)")
    if traits.norm:
        text = text.replace(
            "        self.top = paddle", "        self.norm = paddle.nn.BatchNorm1D(width)\n        self.top = paddle"
        )
        text = text.replace(
            "self.top(paddle.concat([rows, inputs.dense()], axis=1))",
            "self.top(self.norm(4 * paddle.concat([rows, inputs.dense()], axis=1) + 1))",
        )
        assert text.count("self.norm") == 2
    path.write_text(text)
    work.change("{class: constant, warmup_steps: 10}", traits.schedule)
    for part, lines in enumerate(train_runs.lines(traits.samples, 3)):
        (work.path / "data" / "train" / f"part-{part}").write_text(lines)


class _Player:
    """One story while it is played."""

    def __init__(self, story: Story, work: Work, mounted: dict[str, disks.Disk]) -> None:
        self.story, self.work, self.disks = story, work, mounted
        self.runner = story.traits.runner
        self.runs = 0

    def disturb(self, blow: Blow) -> None:
        """One run, and how it must end."""
        goes_on = ["--resume"] if self.runs else []
        self.runs += 1
        wanted = self.work.paced() + blow.at
        started = self.work.start(self.runner, *goes_on, env=train_runs.slow(PACE_S))
        try:
            if blow.end.startswith("stop"):  # while Python itself starts, there is nobody to heed a signal
                started.until(lambda: _is_up(started), "Paddle is imported")
            started.until(lambda: self.work.paced() >= wanted, f"{wanted} batches")
            if blow.saving:
                saved = self.work.path / "steps" / self.runner
                started.until(lambda: [*saved.glob("*.partial")], "a checkpoint is being written")
            thaw = _frozen(started, blow.frozen)
            time.sleep(blow.pause_s)  # no verdict: it belongs to the trouble
            self.strike(started, blow.end)
            thaw()
            done = started.end()
        finally:
            started.kill("everything")
            for disk in self.disks.values():
                disk.make_room()
        self.check_end(done, blow.end)

    def strike(self, started: Started, end: str) -> None:
        verb, _, whom = end.partition(" ")
        match verb:
            case "kill":
                started.kill(whom)
            case "stop":
                with contextlib.suppress(ProcessLookupError):
                    started.signal(signal.Signals[whom])
            case "fill":
                self.disks[whom].fill()

    # ---- laws

    def check_end(self, done: Done, end: str) -> None:
        """The status says why; a clear error if it is one, and never an excuse of ours."""
        allowed = {
            "kill trainer": {1, 137},
            "kill server": {1, 137},
            "kill launcher": {137},
            "kill everything": {137},
            "stop SIGTERM": {143},
            "stop SIGINT": {130},
            "fill kept": {3},
            "fill run": {3},
        }[end]
        talk = f"{self.story}\n{done.status} after {end}\n{done.said}\n{self.logs()}"
        assert done.status in allowed | {0}, talk
        assert "this is a bug in umiak" not in talk, talk
        assert "panicked at" not in talk, talk
        if done.status == 0:
            assert self.is_over(), talk
        if done.status in (1, 3):
            assert re.search(r"\[UM-[A-Z]+-\d+\]", done.said), talk
            assert "Traceback" not in done.said, talk
        if done.status == 3:
            assert not [name for name in self.names() if "." in name], f"{self.names()}\n{talk}"

    def check(self, done: Done) -> None:
        """Whole checkpoints and nothing else, every sample once, and the figures of a run that nobody disturbed."""
        work, traits = self.work, self.story.traits
        talk = f"{self.story}\n{done.said}"
        assert work.names("out", self.runner) == [str(epoch) for epoch in range(EPOCHS)], f"{self.names()}\n{talk}"
        steps = work.names("steps", self.runner)
        assert all(re.fullmatch(r"epoch_\d+_batch_\d+", name) for name in steps), f"{steps}\n{talk}"
        for name in steps:
            work.checkpoint("steps", self.runner, name)
        rows = work.epochs(self.runner)
        assert [row["samples"] for row in rows] == [traits.samples] * EPOCHS, f"{rows}\n{talk}"
        checkpoint, figures = undisturbed(traits)
        evaluated = rows[-1]["evaluated"]
        if self.runner in EXACT:
            assert work.checkpoint("out", self.runner, LAST) == checkpoint, f"the last checkpoint differs\n{talk}"
            assert evaluated == figures, f"{evaluated}, not {figures}\n{talk}"
        else:
            assert all(math.isfinite(figure) for figure in evaluated.values()), f"{evaluated}\n{talk}"
            assert evaluated["auc"] > figures["auc"] - 0.15, f"{evaluated}, not {figures}\n{talk}"

    def is_over(self) -> bool:
        path = self.work.path / "run" / self.runner / "outcome.json"
        return path.exists() and not self.work.outcome(self.runner)["stopped"]

    def names(self) -> list[str]:
        return [*self.work.names("out", self.runner), *self.work.names("steps", self.runner)]

    def logs(self) -> str:
        found = sorted((self.work.path / "run" / self.runner / "log").glob("*log.*"))
        return "\n".join(
            f"---- {path.name}\n{path.read_text(errors='replace')[-2500:]}"
            for path in found
            if "envlog" not in path.name
        )


def _is_up(started: Started) -> bool:
    """Whether somebody of it imports Paddle, or has."""
    for pid in started.family():
        with contextlib.suppress(OSError):
            if "libpaddle" in Path(f"/proc/{pid}/maps").read_text():
                return True
    return False


def _frozen(started: Started, role: str) -> Callable[[], None]:
    """Let one worker stand still, until what is returned is called."""
    pids = started.workers(role)[:1] if role else []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

    def thaw() -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    return thaw
