"""Stories of training scripts with parameter servers that are treated roughly, and the laws that hold after each.

A story is drawn from a seed: `draw`. What happens is in it, and at which progress; when exactly is up to the machine. So a
seed can't be repeated step by step, but whatever the order, the verdict is the same. A story is one or several runs of
`workers/rough_training.py` under `umiak launch`. A blow is one that the job must survive, or the end of its run, and then the
next run goes on from the servers' log or from the newest checkpoint. The last run ends well.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import math
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from testbed import disks, hosts
from tests.support.launching import WORKERS, Launcher, opened, until
from tests.support.train_runs import contents
from tests.support.workers import rough_training
from umiak.ps import checkpoint

SCRIPT = WORKERS / "rough_training.py"
WAIT_S = 300.0
"""How long a run may take to its end; one that does not hang never takes this long, however slow the machine."""
TIMEOUT_S = 40
LASTING_S = 1.0
"""How long the next blow waits for progress, where the one before may keep everybody from it."""
SHORT_TIMEOUT_S = 5
"""Where a server does not come back."""
FREE = ("async", "half_async", "geo", "hybrid")
KILLS = ("kill server", "kill trainer")
FREEZES = ("freeze server", "freeze trainer")
SURVIVED = (*KILLS, *KILLS, *FREEZES, "fill log disk", "fill checkpoint disk")
ENDS = ("kill launcher", "stop launcher", "kill everything", "stop server")
LAST_STRAWS = ("stop server", "kill server")
"""Ends of runs in which nobody is started again."""
QUIET = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
TOKEN = {"UMIAK_TOKEN": "known to the hosts of this story"}


@dataclass(frozen=True)
class Blow:
    """What is done when the trainers have begun so many steps more, for how long, and whether it lasts until after the next blow."""

    what: str
    at: int
    saving: bool
    """Whether it waits for a checkpoint that is being written, too."""
    whom: int
    pause_s: float
    lasts: bool


@dataclass(frozen=True)
class Plan:
    """What the script does. The first line is all that decides what sync learns."""

    steps: int
    seed: int
    unequal: bool
    schedule: bool
    layers: bool
    strategy: str
    queue: int
    prefetch: int
    flush_every: int
    save_every: int
    pace_s: float
    durability_ms: int | None
    timeout_s: int = TIMEOUT_S
    loads: bool = False
    run: int = 0
    dir: str = ""
    state_dir: str | None = None


@dataclass(frozen=True)
class Story:
    """Runs: the blows of each, and what ends it; the last one is ended by nothing."""

    plan: Plan
    servers: int
    trainers: int
    hosts: int
    runs: tuple[tuple[tuple[Blow, ...], str | None], ...]

    def __str__(self) -> str:
        runs = " | ".join(
            ", ".join(
                [
                    *(f"{blow.what} {blow.whom} at {blow.at}" + " while saving" * blow.saving for blow in blows),
                    end or "to its end",
                ]
            )
            for blows, end in self.runs
        )
        plan = self.plan
        how = "" if plan.durability_ms else " without a log"
        how += " with prefetch" * plan.prefetch
        where = f" on {self.hosts} hosts" if self.hosts else ""
        what = " with layers" * plan.layers
        return f"{plan.strategy}{what}{how}, {self.servers} + {self.trainers}{where}: {runs}"


def draw(rng: random.Random) -> Story:
    strategy = rng.choice(["sync", "sync", "sync", *FREE])
    logged = strategy != "sync" or rng.random() < 0.8
    plan = Plan(
        steps=rng.choice([12, 25]),
        seed=rng.randrange(2),
        unequal=rng.random() < 0.5,
        schedule=rng.random() < 0.5,
        layers=strategy == "sync" and rng.random() < 0.15 and importlib.util.find_spec("paddle") is not None,
        strategy=strategy,
        queue=rng.choice([0, 4]) if strategy == "async" else 0,
        prefetch=rng.choice([0, 1, 1]),
        flush_every=rng.choice([1, 3]) if strategy in ("async", "half_async") else 1,
        save_every=rng.choice([0, 2, 5]),
        pace_s=rng.choice([0.002, 0.02, 0.05]),
        durability_ms=rng.choice([1, 20, 200]) if logged else None,
    )
    on_hosts = rng.random() < 0.15 and logged and not hosts.available()
    trainers = 2 if on_hosts else rng.choice([1, 2, 2, 4]) if strategy == "geo" else rng.choice([1, 2, 2, 3])
    survived = [*SURVIVED, *["cut"] * 4 * on_hosts] if logged else [*FREEZES]
    if disks.unavailable():
        survived = [what for what in survived if "disk" not in what]
    runs = []
    for number in range(1 if on_hosts else rng.choice([1, 1, 2, 3]) if logged else rng.choice([2, 3])):
        end = rng.choice([*ENDS, *([] if logged else ["kill server"] * 4)])
        blows = tuple(
            Blow(
                what=rng.choice(FREEZES if end in LAST_STRAWS else survived),
                at=rng.choice([0, rng.randint(1, 8), rng.randint(1, 20)]),
                saving=rng.random() < 0.3,
                whom=rng.randrange(3),
                pause_s=rng.choice([0.0, rng.uniform(0, 0.1), rng.uniform(0, 1.0)]),
                lasts=rng.random() < 0.3,
            )
            for _ in range(rng.randint(0 if number else 1, 4))
        )
        runs.append((blows, end))
    runs[-1] = (runs[-1][0], None)
    servers = 2 if on_hosts else rng.randint(1, 3)
    return Story(plan=plan, servers=servers, trainers=trainers, hosts=2 * on_hosts, runs=tuple(runs))


def play(story: Story) -> None:
    """AssertionError if a law is broken."""
    with (
        tempfile.TemporaryDirectory(prefix="ps-story-") as directory,
        _Player(story, Path(directory)).opened() as player,
    ):
        for number, (blows, end) in enumerate(story.runs):
            if player.run(number, blows, end):
                break  # it was done before that which should end it came
        player.check()


class _Player:
    """One story while it is played."""

    def __init__(self, story: Story, directory: Path) -> None:
        self.story, self.directory = story, directory
        self.disks: dict[str, disks.Disk] = {}
        self.net: hosts.Network | None = None
        self.undo: list[Callable[[], object]] = []

    @contextlib.contextmanager
    def opened(self) -> Iterator[_Player]:
        with contextlib.ExitStack() as stack:
            for name, path in (("fill log disk", "state"), ("fill checkpoint disk", "saved")):
                if not disks.unavailable():
                    self.disks[name] = stack.enter_context(disks.mounted(self.directory / path))
            if self.story.hosts:  # after the disks: a host sees what is mounted when it is made
                self.net = stack.enter_context(hosts.network(self.story.hosts))
            (self.directory / "stage").mkdir()
            self.stage = stack.enter_context(opened(self.directory / "stage"))
            yield self

    # ---- one run

    def run(self, number: int, blows: tuple[Blow, ...], end: str | None) -> bool:
        """Whether the job is done."""
        launchers = self.launch(number, end)
        for blow in blows:
            self.until_paced(blow.at, launchers)
            if blow.saving and self.story.plan.save_every:
                _look_closely(lambda: [*(self.directory / "saved").glob("*.partial")])
            before, self.undo = self.undo, []
            self.strike(blow.what, blow.whom, launchers)
            time.sleep(blow.pause_s)  # no verdict: it belongs to the trouble
            _do(before)
            if not blow.lasts:
                self.heal()
        if end:
            self.until_paced(3, launchers)
            self.strike(end, number, launchers)
        self.heal()
        return {self.check_end(launcher, end) for launcher in launchers} == {0}

    def launch(self, number: int, end: str | None) -> list[Launcher]:
        story, logged = self.story, self.story.plan.durability_ms is not None
        alone = end in LAST_STRAWS
        plan = replace(
            story.plan,
            dir=str(self.directory),
            run=number,
            timeout_s=SHORT_TIMEOUT_S if alone else TIMEOUT_S,
            loads=not logged and number > 0,
            state_dir=str(self.directory / "state") if logged else None,
        )
        file = self.directory / f"plan.{number}"
        file.write_text(json.dumps(asdict(plan)))
        # A group that is restarted as a whole would begin again: its servers have a log.
        restarts = "" if alone else "--trainer_restart alone --max_restart 8 "
        flags = f"{restarts}--failure_grace 2 --grace 5"
        if self.net is None:
            flags += f" --server_num {story.servers} --trainer_num {story.trainers}"
            return [self.stage.launch(flags, SCRIPT, file, env=QUIET)]
        flags += " --nnodes 2 --server_num 1 --trainer_num 1 --master 10.88.0.1:7000 --heartbeat_timeout 30"
        return [self.stage.launch(flags, SCRIPT, file, host=host, env={**QUIET, **TOKEN}) for host in self.net.hosts]

    def paced(self) -> int:
        path = self.directory / "paced"
        return path.stat().st_size if path.exists() else 0

    def until_paced(self, more: int, launchers: list[Launcher]) -> None:
        """Until the trainers have begun so many steps more; or one of the launchers has ended; not for long while a blow lasts."""
        wanted = self.paced() + more
        give_up = time.monotonic() + LASTING_S if self.undo else math.inf
        until(
            lambda: (
                self.paced() >= wanted
                or time.monotonic() > give_up
                or any(launcher.process.poll() is not None for launcher in launchers)
            ),
            f"{wanted} steps",
            within_s=WAIT_S,
            talk=self.talk,
        )

    def strike(self, what: str, whom: int, launchers: list[Launcher]) -> None:
        verb, _, role = what.partition(" ")
        match verb, role:
            case "cut", _:
                assert self.net is not None
                self.net.cut(*self.net.hosts)
                self.undo.append(lambda: self.net and self.net.heal(*self.net.hosts))
            case "fill", _:
                self.disks[what].fill()
                self.undo.append(self.disks[what].make_room)
            case "stop", "launcher":
                launchers[0].signal(signal.SIGTERM)
            case "kill", "launcher":
                launchers[0].signal(signal.SIGKILL)
            case "kill", "everything":
                for pid in self.pids(launchers):
                    _signal(pid, signal.SIGKILL)
            case _:
                numbers = {"kill": signal.SIGKILL, "stop": signal.SIGTERM, "freeze": signal.SIGSTOP}
                pids = self.pids(launchers, role)
                for pid in pids[whom % len(pids) :][:1] if pids else ():
                    _signal(pid, numbers[verb])
                    if verb == "freeze":
                        self.undo.append(lambda pid=pid: _signal(pid, signal.SIGCONT))

    def pids(self, launchers: list[Launcher], role: str | None = None) -> list[int]:
        """Of workers of a role, or of everybody."""
        family = [relative for launcher in launchers for relative in launcher.family()]
        return [each.pid for each in family if role is None or each.env.get("UMIAK_ROLE") == role]

    def heal(self) -> None:
        before, self.undo = self.undo, []
        _do(before)

    # ---- laws

    def check_end(self, launcher: Launcher, end: str | None) -> int:
        """It ends, in time and with the status that says why, and nobody is left behind."""
        until(lambda: launcher.process.poll() is not None, "the launcher ends", within_s=WAIT_S, talk=self.talk)
        if launcher.process.returncode == -signal.SIGKILL:
            launcher.until_nobody_is_left()
        status = launcher.wait()
        said = launcher.said
        # What came when all was done changed nothing.
        allowed = {
            None: {0},
            "kill launcher": {0, 137},
            "kill everything": {0, 137},
            "stop launcher": {0, 143},
            "stop server": {0, 1},
            "kill server": {0, 1},
        }[end]
        assert status in allowed, f"ended with {status} after {end}\n{self.talk()}"
        assert "this is a bug in umiak" not in said, self.talk()
        assert "panicked at" not in said, self.talk()
        if status == 1:
            texts = ("ServerLost", "received SIGTERM") if end == "stop server" else ("ServerForgot", "ServerLost")
            assert any(text in said or text in self.logs(launcher) for text in texts), f"{end}\n{self.talk()}"
        return status

    def check(self) -> None:
        plan = self.story.plan
        with np.load(self.directory / "end.npz") as file:
            end = {name: file[name] for name in file.files}
        if plan.strategy == "sync":
            self.check_learned(end)
        elif plan.strategy == "geo":
            self.check_differences(end)
        else:
            self.check_counted(end)
        self.check_saved()

    def check_learned(self, end: dict[str, Any]) -> None:
        """Bit for bit what a run learned that nobody disturbed."""
        expected, _ = undisturbed(self.learned())
        for name, array in expected.items():
            assert array.tobytes() == end[name].tobytes(), f"{name}: {end[name]}, not {array}\n{self.talk()}"

    def learned(self) -> Story:
        """All of it that decides what sync learns."""
        plan = replace(
            self.story.plan, queue=0, prefetch=0, flush_every=1, save_every=1, pace_s=0.0, durability_ms=None
        )
        return Story(plan=plan, servers=1, trainers=self.story.trainers, hosts=0, runs=(((), None),))

    def check_counted(self, end: dict[str, Any]) -> None:
        """Each push once; of a trainer that was killed what it did not yet know to be on the servers at most once, on each."""
        surely = at_most = 0
        for rank in range(self.story.trainers):
            lives = rough_training.told_by(self.directory, rank)
            for number, life in enumerate(lives):
                if life["begun"] == life["first"]:
                    continue
                found = end[f"marks.{rank}.{number}"]
                safe = life["begun"] if number == len(lives) - 1 else life["safe"]
                kept = max(0, safe - life["first"])
                assert (found[:kept] == 1).all(), f"trainer {rank}, life {number}, of {life}: {found}\n{self.talk()}"
                assert np.isin(found[kept:], (0, 1)).all(), f"trainer {rank}, life {number}: {found}\n{self.talk()}"
                surely += kept
                at_most += life["begun"] - life["first"]
        for name in ("common",) if self.story.plan.strategy == "hybrid" else ("common", "totals"):
            assert (surely <= end[name]).all(), f"{name}: {end[name]}, not {surely} to {at_most}\n{self.talk()}"
            assert (end[name] <= at_most).all(), f"{name}: {end[name]}, not {surely} to {at_most}\n{self.talk()}"
        if self.story.plan.strategy == "hybrid":
            assert np.unique(end["totals"]).tolist() == [self.story.plan.steps * self.story.trainers], self.talk()

    def check_differences(self, end: dict[str, Any]) -> None:
        """geo: of trainers that nobody killed, what they have sent after each step can be computed; a push that is missing shows."""
        plan, world = self.story.plan, self.story.trainers
        lives = [rough_training.told_by(self.directory, rank) for rank in range(world)]
        begun = sum(life["begun"] - life["first"] for each in lives for life in each)
        for name in ("common", "totals"):
            assert np.isfinite(end[name]).all(), f"{name}: {end[name]}\n{self.talk()}"
            assert (end[name] <= begun).all(), f"{name}: {end[name]}, and not more than {begun}\n{self.talk()}"
        if any(len(each) > 1 for each in lives):
            return  # what was not sent, and what its optimizer knew, died with it
        sent = 0.0
        for rank in range(world):
            left = 0.0
            for _ in range(plan.steps + plan.unequal * rank):
                left += 1
                sent += left / world
                left -= left / world
        for name in ("common", "totals"):
            assert (abs(end[name] - sent) < 0.01).all(), f"{name}: {end[name]}, not {sent}\n{self.talk()}"

    def check_saved(self) -> None:
        """Every checkpoint that is there is whole, and of its step; nothing else is there; only a full disk keeps one from it."""
        plan, path = self.story.plan, self.directory / "saved"
        names = {each.name for each in path.iterdir()} if path.is_dir() else set()
        steps = range(0, plan.steps + plan.layers, plan.save_every) if plan.save_every else ()
        due, refused = {f"step-{step}" for step in steps}, self.not_saved()
        filled = any(blow.what == "fill checkpoint disk" for blows, _ in self.story.runs for blow in blows)
        stopped = any(end and end.startswith("stop") for _, end in self.story.runs)
        for each in refused:
            why = filled or (stopped and "is being stopped" in each["why"])
            assert why, f"{each}\n{self.talk()}"
        missing = due - names - {f"step-{each['step']}" for each in refused}
        assert not missing, f"not saved: {missing}\n{self.talk()}"
        assert names <= due, f"left over: {names - due}\n{self.talk()}"
        for name in names:
            found = checkpoint.read(path / name, verify=True)
            assert found.metadata["step"] == int(name.removeprefix("step-"))
            if plan.strategy == "sync":
                self.check_step(contents(path / name), found.metadata["step"])

    def check_step(self, saved: dict[str, Any], step: int) -> None:
        """Bit for bit what it was when nobody disturbed it, but for new rows: the next step's pulls may have made some already."""
        expected = undisturbed(self.learned())[1][f"step-{step}"]
        plan = asdict(self.story.plan)
        new = {int(key) for rank in range(self.story.trainers) for key in rough_training.batch(plan, rank, step)}
        new |= {int(key) for key in rough_training.VOCABULARY[:2]}
        rows, known = (
            tables.get("words", {}) for tables in (saved, expected)
        )  # a layer makes its table with its first pull
        differing = {key for key in rows.keys() & known.keys() if rows[key] != known[key]}
        lasting = differing | ((rows.keys() ^ known.keys()) - new)
        assert not lasting, f"rows of step {step} differ: {lasting}\n{self.talk()}"
        assert saved["bias"] == expected["bias"], f"bias of step {step} differs\n{self.talk()}"

    def not_saved(self) -> list[dict[str, Any]]:
        path = self.directory / "not-saved"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def logs(self, launcher: Launcher) -> str:
        return "\n".join(
            f"---- {path.name}\n{path.read_text(errors='replace')[-2500:]}"
            for path in sorted([*launcher.log_dir.glob("serverlog.*"), *launcher.log_dir.glob("workerlog.*")])
        )

    def talk(self) -> str:
        logs = "\n".join(self.logs(launcher) for launcher in self.stage.launchers)
        return f"{self.story}\n{self.story.plan}\n{self.not_saved()}\n{self.stage.transcript()}\n{logs}"


@functools.cache
def undisturbed(story: Story) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run learns that nobody disturbs, and what each of its checkpoints has."""
    with (
        tempfile.TemporaryDirectory(prefix="ps-story-") as directory,
        _Player(story, Path(directory)).opened() as player,
    ):
        player.run(0, (), None)
        with np.load(player.directory / "end.npz") as file:
            end = {name: file[name] for name in file.files}
        return end, {path.name: contents(path) for path in (player.directory / "saved").iterdir()}


def _look_closely(look: Callable[[], object]) -> None:
    """Wait for what is over in milliseconds, and not for ever: it may not happen again."""
    give_up = time.monotonic() + LASTING_S
    while not look() and time.monotonic() < give_up:
        time.sleep(0.0005)


def _do(undone: list[Callable[[], object]]) -> None:
    for each in undone:
        each()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
