"""Runs of `umiak train` that are killed, stopped and resumed: nothing is lost, nothing is learned twice, nobody is left behind."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import shutil
import signal
from pathlib import Path

import pytest

from testbed.pytest_support import require
from tests.train_runs import EPOCHS, SAMPLES, Whole, Work, slow

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle"), pytest.mark.timeout(180)]

LAST = str(EPOCHS - 1)
PACE_S = 0.03


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def some_batches(work: Work, most: int) -> int:
    """A random number of batches, behind those that were begun already."""
    return work.paced() + random.randrange(2, most)


def is_over(work: Work, runner: str) -> bool:
    path = work.path / "run" / runner / "outcome.json"
    return path.exists() and not json.loads(path.read_text())["stopped"]


def disturb(work: Work, runner: str, how: str, most: int) -> None:
    """Let it go on, and kill one of its processes, or ask it to stop, at some moment."""
    moment = some_batches(work, most)
    words = ["--resume"] if work.names("steps", runner) else []
    started = work.start(runner, *words, env=slow(PACE_S))
    started.until(lambda: work.paced() >= moment, "some batches")
    if how == "stop":
        started.signal(signal.SIGTERM)
        done = started.end()
        assert done.status == 0, done.said
        assert "stopped, resumable: everything is in" in done.said or is_over(work, runner), done.said
        return
    started.kill(how)
    done = started.end()
    assert done.status != 0 or is_over(work, runner), done.said


def disturbed(work: Work, runner: str, *how: str) -> None:
    """A run that is disturbed in these ways, one after another, and then goes on to its end."""
    for each in how:
        disturb(work, runner, each, most=14)
    done = work.run(runner, "--resume")
    assert done.status == 0, done.said
    assert work.names("out", runner) == [str(epoch) for epoch in range(EPOCHS)]
    assert [row["samples"] for row in work.epochs(runner)] == [SAMPLES] * EPOCHS, "every sample once"
    assert not [name for name in work.names("steps", runner) if not re.fullmatch(r"epoch_\d+_batch_\d+", name)]


# ---- killed and stopped, with several processes


def test_sync_training_is_the_same_bits_after_all_that_can_happen_to_it(work: Work, whole: Whole) -> None:
    disturbed(work, "sync", random.choice(["trainer", "server"]), "stop", random.choice(["launcher", "everything"]))
    assert work.checkpoint("out", "sync", LAST) == whole.of("sync").checkpoint("out", "sync", LAST)


def test_collective_training_too(work: Work, whole: Whole) -> None:
    disturbed(work, "collective", random.choice(["trainer", "launcher", "everything"]), "stop")
    assert work.checkpoint("out", "collective", LAST) == whole.of("collective").checkpoint("out", "collective", LAST)


@pytest.mark.parametrize(
    ("runner", "how"),
    [("async", ("stop", "any")), ("half_async", ("any",)), ("geo", ("any",)), ("hybrid", ("any",))],
)
def test_trainers_that_wait_for_nobody_read_every_sample_once(work: Work, runner: str, how: tuple[str, ...]) -> None:
    anybody = ["trainer", "server", "launcher", "everything"]
    disturbed(work, runner, *(random.choice(anybody) if each == "any" else each for each in how))
    assert work.epochs(runner)[-1]["evaluated"]["auc"] > 0.65


# ---- alone


def test_killed_while_it_saves_again_and_again(work: Work, whole: Whole) -> None:
    """At least one of these kills usually meets a checkpoint that is being written; whichever it meets, nothing is lost."""
    for _ in range(6):
        words = ["--resume"] if work.names("steps", "alone") else []
        known = {*work.names("steps", "alone"), *work.names("out", "alone")}
        started = work.fork("alone", *words, env=slow(0.01))
        pause = random.random() < 0.5 and some_batches(work, 8)

        def is_time(known: set[str] = known, pause: int = pause) -> bool:
            if pause:
                return work.paced() >= pause
            return any(name not in known for name in [*work.names("steps", "alone"), *work.names("out", "alone")])

        started.until(is_time, "a checkpoint is begun")
        started.signal(signal.SIGKILL)
        assert started.end().status in (0, 128 + signal.SIGKILL)
    done = work.here("alone", "--resume")
    assert done.status == 0, done.said
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)
    assert [row["samples"] for row in work.epochs("alone")] == [SAMPLES] * EPOCHS


def test_it_goes_on_from_every_batch_to_the_same_bits(work: Work, whole: Whole) -> None:
    """Also where the learning rate has just reached its height, which a checkpoint may know otherwise."""
    often = ("-o", "runner.alone.save_step_interval=1", "-o", "runner.alone.keep_checkpoints=99")
    assert work.here("alone", *often).status == 0
    last = whole.of("alone").checkpoint("out", "alone", LAST)
    assert work.checkpoint("out", "alone", LAST) == last, "saving changes nothing"
    steps = work.names("steps", "alone")
    assert len(steps) > 30
    kept = work.path / "kept"
    (work.path / "steps" / "alone").rename(kept)
    # Around the end of the warm-up, within blocks and at their ends, at the end of an epoch and in the next one.
    for name in [
        *(f"epoch_0_batch_{batch}" for batch in (1, 7, 9, 10, 11, 16, 19)),
        "epoch_1_batch_1",
        "epoch_1_batch_18",
    ]:
        work.forget("steps", "out")
        shutil.copytree(kept / name, work.path / "steps" / "alone" / name)
        done = work.here("alone", "--resume", "-o", "runner.alone.save_step_interval=50")
        assert f"goes on from steps/alone/{name}: " in done.said
        assert work.checkpoint("out", "alone", LAST) == last, name
        assert [row["samples"] for row in work.epochs("alone")] == [SAMPLES] * EPOCHS


def test_asked_to_stop_it_finishes_its_step_and_saves(work: Work, whole: Whole) -> None:
    started = work.fork("alone", env=slow(PACE_S))
    assert started.until(lambda: work.paced() >= 3, "three batches")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert done.status == 0, done.said
    saved = work.outcome("alone")["saved"]
    assert work.outcome("alone") == {"resumable": True, "stopped": True, "saved": saved}
    assert f"stopped, resumable: everything is in {saved}" in done.said
    assert saved.startswith("steps/alone/epoch_0_batch_")
    assert work.here("alone", "--resume").status == 0
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)


def test_asked_to_stop_while_it_starts_it_can_be_resumed(work: Work) -> None:
    started = work.start("alone")
    # Paddle is being imported when its libraries are mapped.
    maps = Path(f"/proc/{started.process.pid}/maps")
    assert started.until(lambda: "libpaddle" in maps.read_text(), "Paddle is imported")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert done.status == 0, done.said
    assert work.outcome("alone")["resumable"] is True


def test_asked_twice_it_does_not_wait(work: Work) -> None:
    started = work.fork("alone", env=slow(600))
    assert started.until(lambda: work.paced() >= 1, "a batch")
    started.signal(signal.SIGTERM)
    started.signal(signal.SIGINT)
    assert started.end().status in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert not work.names("steps", "alone")


def test_without_a_path_it_says_that_nothing_is_saved(work: Work) -> None:
    work.change("save_checkpoint_path: out/alone, save_step_path: steps/alone, ", "")
    started = work.fork("alone", "-o", "runner.alone.save_step_interval=-1", env=slow(PACE_S))
    assert started.until(lambda: work.paced() >= 1, "a batch")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert done.status == 143
    assert "stopped; nothing is saved, because there is no save_checkpoint_path" in done.said
    assert work.outcome("alone") == {"resumable": False, "stopped": True, "saved": None}


def test_a_run_that_is_stopped_does_not_begin_what_comes_next(work: Work) -> None:
    started = work.fork("[alone,infer]", env=slow(PACE_S))
    assert started.until(lambda: work.paced() >= 1, "a batch")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert (done.status, "evaluates" in done.said) == (0, False), done.said


# ---- which checkpoint


def test_a_finished_run_says_so_and_can_be_made_longer(work: Work, whole: Whole) -> None:
    shutil.copytree(whole.of("alone").path / "out", work.path / "out")
    before = work.checkpoint("out", "alone", LAST)
    done = work.here("alone", "--resume")
    assert (done.status, work.names("out", "alone")) == (0, ["0", "1"])
    assert f"nothing is left to do: {EPOCHS} epochs are done; the model is in out/alone/1" in done.said
    assert work.checkpoint("out", "alone", LAST) == before
    done = work.here("alone", "--resume", "-o", f"runner.alone.epochs={EPOCHS + 1}")
    assert (done.status, work.names("out", "alone")) == (0, ["0", "1", "2"])


def test_what_an_earlier_run_has_left_is_neither_gone_on_from_nor_in_the_way(work: Work) -> None:
    keeps_one = ("-o", "runner.alone.keep_checkpoints=1")
    assert work.here("alone", *keeps_one).status == 0
    assert (work.names("out", "alone"), work.names("steps", "alone")) == (["1"], ["epoch_1_batch_16"])
    started = work.fork("alone", *keeps_one, env=slow(PACE_S))
    assert started.until(lambda: "epoch_0_batch_8" in work.names("steps", "alone"), "a checkpoint")
    started.signal(signal.SIGKILL)
    started.end()
    done = work.here("alone", "--resume", *keeps_one)
    assert "goes on from steps/alone/epoch_0_batch_" in done.said
    assert (work.names("out", "alone"), work.names("steps", "alone")) == (["1"], ["epoch_1_batch_16"])


def test_what_was_torn_is_passed_over(work: Work, whole: Whole) -> None:
    shutil.copytree(whole.of("alone").path / "steps", work.path / "steps")
    steps = work.path / "steps" / "alone"
    (steps / "epoch_1_batch_16").rename(steps / "epoch_1_batch_16.partial")
    shard = next((steps / "epoch_1_batch_12").glob("shard-*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    done = work.here("alone", "--resume")
    assert done.status == 0
    assert "note: passed over: steps/alone/epoch_1_batch_16.partial: was never finished" in done.said
    assert re.search(r"note: passed over: steps/alone/epoch_1_batch_12/shard-\d+.umiak: a file is torn", done.said)
    assert "goes on from steps/alone/epoch_1_batch_8" in done.said
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)
    assert work.names("steps", "alone") == [f"epoch_1_batch_{batch}" for batch in (12, 16, 8)]


def test_an_exchange_of_checkpoints_that_was_cut_short_is_finished(work: Work, whole: Whole) -> None:
    """Killed between the two steps in which a checkpoint replaces one of the same name."""
    shutil.copytree(whole.of("alone").path / "steps", work.path / "steps")
    steps = work.path / "steps" / "alone"
    (steps / "epoch_1_batch_16").rename(steps / "epoch_1_batch_16.next")
    shutil.copytree(steps / "epoch_1_batch_12", steps / "epoch_1_batch_16.removing")
    done = work.here("alone", "--resume")
    assert "goes on from steps/alone/epoch_1_batch_16.next" in done.said
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)
