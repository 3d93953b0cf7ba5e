"""Runs of `umiak train` that are killed, stopped and resumed: nothing is lost, nothing is learned twice, nobody is left behind."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.pytest_support import require
from tests.support import chance
from tests.support.slot_helpers import packed
from tests.support.train_runs import BATCH, EPOCHS, SAMPLES, WAIT_S, Done, Whole, Work, contents, slow
from umiak.train.checkpoints import runs
from umiak.train.run.stop_signal import StopSignal

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle")]

LAST = str(EPOCHS - 1)
PACE_S = 0.03


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def some_batches(work: Work, most: int) -> int:
    """A random number of batches, behind those that were begun already."""
    return work.paced() + chance().randrange(2, most)


def is_over(work: Work, runner: str) -> bool:
    path = work.path / "run" / runner / "outcome.json"
    return path.exists() and not json.loads(path.read_text())["stopped"]


def assert_stopped(done: Done, name: str | None = None) -> None:
    """Asked to stop and resumable: for a scheduler that is no success, and for a person no error."""
    assert done.status == (130 if name == "SIGINT" else 143), done.said
    assert "stopped, resumable: everything is in" in done.said
    assert "error:" not in done.said
    if name:
        assert f": stopped by {name}, nothing is lost: resumable from " in done.said.splitlines()[-1]


def disturb(work: Work, runner: str, how: str, most: int, *words: str, pace_s: float = PACE_S) -> None:
    """Let it go on, and kill one of its processes, or ask it to stop, at some moment."""
    moment = some_batches(work, most)
    goes_on = ["--resume"] if work.names("steps", runner) else []
    started = work.start(runner, *goes_on, *words, env=slow(pace_s))
    started.until(lambda: work.paced() >= moment, "some batches")
    if how == "stop":
        started.signal(signal.SIGTERM)
        done = started.end()
        if is_over(work, runner):
            assert done.status == 0, done.said
        else:
            assert_stopped(done, "SIGTERM" if runner != "alone" else None)
        return
    started.kill(how)
    done = started.end()
    assert done.status != 0 or is_over(work, runner), done.said
    for log in (work.path / "run" / runner / "log").glob("workerlog.*"):
        assert "this is a bug in umiak" not in log.read_text()


def disturbed(work: Work, runner: str, *how: str, words: Sequence[str] = ()) -> None:
    """A run that is disturbed in these ways, one after another, and then goes on to its end."""
    for each in how:
        disturb(work, runner, each, 14, *words)
    done = work.run_forked(runner, "--resume", *words)
    assert done.status == 0, done.said
    assert work.names("out", runner) == [str(epoch) for epoch in range(EPOCHS)]
    assert [row["samples"] for row in work.epochs(runner)] == [SAMPLES] * EPOCHS, "every sample once"
    assert not [name for name in work.names("steps", runner) if not re.fullmatch(r"epoch_\d+_batch_\d+", name)]


# ---- killed and stopped, with several processes


def test_sync_training_is_the_same_bits_after_all_that_can_happen_to_it(work: Work, whole: Whole) -> None:
    draw = chance()
    disturbed(work, "sync", draw.choice(["trainer", "server"]), "stop", draw.choice(["launcher", "everything"]))
    assert work.checkpoint("out", "sync", LAST) == whole.of("sync").checkpoint("out", "sync", LAST)


def test_sync_training_with_bfloat16_on_the_wire_too(work: Work, whole: Whole) -> None:
    narrow = ["-o", "runner.sync.wire=bfloat16"]
    disturbed(work, "sync", chance().choice(["trainer", "server", "launcher"]), words=narrow)
    found, auc = work.checkpoint("out", "sync", LAST), work.epochs("sync")[-1]["evaluated"]["auc"]
    shutil.rmtree(work.path / "out" / "sync")
    done = work.run_forked("sync", *narrow)
    assert done.status == 0, done.said
    assert work.checkpoint("out", "sync", LAST) == found
    exact = whole.of("sync")
    assert found != exact.checkpoint("out", "sync", LAST), "it has been rounded"
    assert abs(auc - exact.epochs("sync")[-1]["evaluated"]["auc"]) < 0.01


def test_collective_training_too(work: Work, whole: Whole) -> None:
    disturbed(work, "collective", chance().choice(["trainer", "trainer", "launcher", "everything"]), "stop")
    assert work.checkpoint("out", "collective", LAST) == whole.of("collective").checkpoint("out", "collective", LAST)


@pytest.mark.parametrize(
    ("runner", "how"),
    [("async", ("stop", "any")), ("half_async", ("any",)), ("geo", ("any",)), ("hybrid", ("any",))],
)
def test_trainers_that_wait_for_nobody_read_every_sample_once(work: Work, runner: str, how: tuple[str, ...]) -> None:
    draw, anybody = chance(), ["trainer", "server", "launcher", "everything"]
    disturbed(work, runner, *(draw.choice(anybody) if each == "any" else each for each in how))
    assert work.epochs(runner)[-1]["evaluated"]["auc"] > 0.65


# ---- alone


def test_killed_while_it_saves_again_and_again(work: Work, whole: Whole) -> None:
    """At least one of these kills usually meets a checkpoint that is being written; whichever it meets, nothing is lost."""
    draw = chance()
    for _ in range(6):
        words = ["--resume"] if work.names("steps", "alone") else []
        known = {*work.names("steps", "alone"), *work.names("out", "alone")}
        started = work.fork("alone", *words, env=slow(0.01))
        pause = draw.random() < 0.5 and some_batches(work, 8)

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
    words = ("save_step_interval=1", "keep_checkpoints=99", "epochs=1")
    assert work.here("alone", *(word for said in words for word in ("-o", f"runner.alone.{said}"))).status == 0
    last = whole.of("alone").checkpoint("out", "alone", LAST)
    kept = work.path / "kept"
    (work.path / "steps" / "alone").rename(kept)
    # Around the end of the warm-up, within blocks and at their ends, at the end of the epoch.
    for name in [f"epoch_0_batch_{batch}" for batch in (1, 7, 9, 10, 11, 16, 19)]:
        work.forget("steps", "out")
        shutil.copytree(kept / name, work.path / "steps" / "alone" / name)
        done = work.here("alone", "--resume", "-o", "runner.alone.save_step_interval=50")
        assert f"resuming from steps/alone/{name}: " in done.said
        assert work.checkpoint("out", "alone", LAST) == last, name
        assert [row["samples"] for row in work.epochs("alone")] == [SAMPLES] * EPOCHS


def test_asked_to_stop_it_finishes_its_step_and_saves(work: Work, whole: Whole) -> None:
    started = work.fork("alone", env=slow(PACE_S))
    assert started.until(lambda: work.paced() >= 3, "three batches")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert_stopped(done)
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
    assert done.status == 143, done.said
    assert work.outcome("alone")["resumable"] is True


@pytest.mark.parametrize("runner", ["alone", "sync", "geo", "collective"])
def test_ctrl_c_is_told_apart(work: Work, runner: str) -> None:
    started = work.start(runner, env=slow(PACE_S))
    assert started.until(lambda: work.paced() >= 3, "three batches")
    started.signal(signal.SIGINT)
    done = started.end()
    if runner == "alone":
        assert done.status == 130, done.said
    else:
        assert_stopped(done, "SIGINT")
    assert work.outcome(runner)["resumable"] is True


def test_a_trainer_that_is_asked_alone_stops_all_of_them(work: Work) -> None:
    """As a system does that takes a machine back."""
    started = work.start("sync", env=slow(PACE_S))
    assert started.until(lambda: work.paced() >= 3, "three batches")
    os.kill(started.workers("trainer")[0], signal.SIGTERM)
    done = started.end()
    assert done.status == 143, done.said
    assert ": stopped by SIGTERM, nothing is lost: resumable from " in done.said.splitlines()[-1]
    assert work.run_forked("sync", "--resume").status == 0


def test_asked_when_all_is_done(work: Work) -> None:
    """The run is whole, so its end is well; what would come next is not begun."""
    once = "        if not self.training and not os.path.exists('asked'): open('asked', 'w').close(); os.kill(os.getpid(), 15)\n"
    model = work.path / "model.py"
    model.write_text(
        model.read_text().replace("    def logit(self, inputs):\n", f"    def logit(self, inputs):\n{once}")
    )
    words = ("-o", "runner.alone.epochs=1")
    assert work.fork("alone", *words).end().status == 0
    assert work.outcome("alone") == {"resumable": False, "stopped": False, "saved": "out/alone/0"}
    (work.path / "asked").unlink()
    done = work.fork("[alone,infer]", *words).end()
    assert done.status == 143, done.said
    assert done.said.splitlines()[-1] == "stopped: runner infer is not begun"


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
    assert (done.status, "evaluates" in done.said) == (143, False), done.said


def ended(work: Work, runner: str, *words: str, err: bool = False) -> tuple[int, str]:
    """With a pipe as stdout, or as stderr, whose reader goes away after the first line, as ``head -1`` does."""
    command = [sys.executable, "-m", "umiak.cli.main", "train", "-m", "config.yaml", "-o", f"mode={runner}", *words]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} if err else {"stdout": subprocess.PIPE}
    with open(work.path / "said", "w+b") as said:
        process = subprocess.Popen(
            command, cwd=work.path, env={**os.environ, **slow(PACE_S)}, **{"stderr": said, **pipes}
        )
        stream = process.stderr if err else process.stdout
        assert stream is not None
        assert stream.readline()
        stream.close()
        return process.wait(WAIT_S), (work.path / "said").read_text()


@pytest.mark.parametrize("err", [False, True])
def test_a_reader_that_goes_away_stops_it_as_a_signal_does(work: Work, whole: Whole, err: bool) -> None:
    words = () if err else ("--json",)
    status, said = ended(work, "alone", "-o", "runner.alone.print_interval=1", *words, err=err)
    assert status == 128 + signal.SIGPIPE, said
    assert "error" not in said
    assert work.outcome("alone")["resumable"] is True
    assert work.here("alone", "--resume").status == 0
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)


def test_a_reader_that_goes_away_ends_an_evaluation(work: Work, whole: Whole) -> None:
    shutil.copytree(whole.of("alone").path / "out", work.path / "out")
    status, said = ended(work, "infer", "-o", "runner.infer.print_interval=1", "--json")
    assert (status, "error" in said) == (128 + signal.SIGPIPE, False), said


# ---- which checkpoint


def test_a_finished_run_says_so_and_can_be_made_longer(work: Work, whole: Whole) -> None:
    shutil.copytree(whole.of("alone").path / "out", work.path / "out")
    before = work.checkpoint("out", "alone", LAST)
    assert "epoch 1/2 saved: out/alone/0" in whole.said("alone")
    assert f"epoch {EPOCHS}/{EPOCHS} saved: out/alone/{LAST}" in whole.said("alone")
    done = work.here("alone", "--resume")
    assert (done.status, work.names("out", "alone")) == (0, ["0", "1"])
    assert f"training is already complete ({EPOCHS} of {EPOCHS} epochs); latest checkpoint: out/alone/1" in done.said
    assert work.checkpoint("out", "alone", LAST) == before
    done = work.here("alone", "--resume", "-o", f"runner.alone.epochs={EPOCHS + 1}")
    assert (done.status, work.names("out", "alone")) == (0, ["0", "1", "2"])


def test_of_two_runs_the_later_ones_checkpoints_are_kept(work: Work) -> None:
    keeps_one = ("-o", "runner.alone.keep_checkpoints=1")
    assert work.here("alone", *keeps_one).status == 0
    assert (work.names("out", "alone"), work.names("steps", "alone")) == (["1"], ["epoch_1_batch_16"])
    assert work.here("alone", *keeps_one, "-o", "runner.alone.epochs=1").status == 0
    assert (work.names("out", "alone"), work.names("steps", "alone")) == (
        ["0", "previous-1"],
        ["epoch_0_batch_16", "previous-1"],
    )


def test_a_run_that_began_again_is_not_taken_for_the_one_before(work: Work) -> None:
    assert work.here("alone").status == 0
    assert work.here("alone", "-o", "runner.alone.epochs=1").status == 0
    assert work.names("out", "alone") == ["0", "previous-1"]
    done = work.here("alone", "--resume")
    assert "resuming from out/alone/0: 1 of 2 epochs is done" in done.said


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
    assert "resuming from steps/alone/epoch_1_batch_8" in done.said
    assert "2.4k samples" in done.said, "the picture goes on behind the epoch that is over"
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)
    assert work.names("steps", "alone") == [f"epoch_1_batch_{batch}" for batch in (12, 16, 8)]


def test_an_exchange_of_checkpoints_that_was_cut_short_is_finished(work: Work, whole: Whole) -> None:
    """Killed between the two steps in which a checkpoint replaces one of the same name."""
    shutil.copytree(whole.of("alone").path / "steps", work.path / "steps")
    steps = work.path / "steps" / "alone"
    (steps / "epoch_1_batch_16").rename(steps / "epoch_1_batch_16.next")
    shutil.copytree(steps / "epoch_1_batch_12", steps / "epoch_1_batch_16.removing")
    done = work.here("alone", "--resume")
    assert "resuming from steps/alone/epoch_1_batch_16.next" in done.said
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)
    for left in (".next", ".removing", ".next.partial"):
        shutil.copytree(steps / "epoch_1_batch_12", steps / f"epoch_0_batch_4{left}")
    assert work.here("alone").status == 0
    assert work.names("steps", "alone") == [*(f"epoch_1_batch_{batch}" for batch in (12, 16, 8)), "previous-1"]


def test_the_newest_checkpoints_are_kept(work: Work) -> None:
    assert work.here("alone", "-o", "runner.alone.epochs=4", "-o", "runner.alone.keep_checkpoints=2").status == 0
    assert work.names("out", "alone") == ["2", "3"]
    assert work.names("steps", "alone") == ["epoch_3_batch_12", "epoch_3_batch_16"]


def test_minutes_between_checkpoints(work: Work) -> None:
    """The clock is looked at before batches 0, 1, 3, 7, 15 and at the end, and here it goes by 25 seconds each time."""
    words = ("save_minutes_interval=1", "save_step_interval=-1", "epochs=1")
    minutes = [word for said in words for word in ("-o", f"runner.alone.{said}")]
    with work.trainer("alone", *minutes, clock=itertools.count(0.0, 25.0).__next__) as trainer:
        trainer.train()
    assert work.names("out", "alone") == ["0", "epoch_0_batch_19", "epoch_0_batch_3"]
    work.forget("out")
    with work.trainer("alone", *minutes, clock=lambda: 0.0) as trainer:
        trainer.train()
    assert work.names("out", "alone") == ["0"]


def test_early_stopping_is_remembered(work: Work) -> None:
    stays = ("-o", "runner.alone.early_stop_patience=2", "-o", "hyper_parameters.optimizer.learning_rate=1e-30")
    assert work.here("alone", *stays).status == 0
    assert work.names("out", "alone") == ["0", "1", "best"]
    done = work.here("alone", *stays, "-o", "runner.alone.epochs=9", "--resume")
    assert "no better auc for 2 epochs: it ends here" in done.said
    assert work.names("out", "alone") == ["0", "1", "2", "best"], "the second of them was before it was interrupted"
    done = work.here("alone", *stays, "-o", "runner.alone.epochs=9", "--resume")
    assert "training is already complete (3 of 9 epochs, early stopping); latest checkpoint: out/alone/2" in done.said
    assert work.names("out", "alone") == ["0", "1", "2", "best"]


def test_another_number_of_trainers_goes_on_between_epochs_and_not_within_one(work: Work, whole: Whole) -> None:
    synced = whole.of("sync").path
    shutil.copytree(synced / "steps" / "sync", work.path / "steps" / "sync")
    alone = ("-o", "runner.sync.class=train")
    done = work.here("sync", "--resume", *alone)
    assert done.status == 2
    place = "steps/sync/epoch_1_batch_8"
    assert f"{place} was saved within an epoch by 2 trainers, and these are 1 [UM-TRAIN-016]" in done.said
    assert f"hint: go on with 2, or begin an epoch with it: `init_model_path: {place}`" in done.said
    work.forget("steps")
    shutil.copytree(synced / "out" / "sync" / "0", work.path / "out" / "sync" / "0")
    done = work.here("sync", "--resume", *alone)
    assert done.status == 0, done.said
    assert "resuming from out/sync/0: 1 of 2 epochs is done" in done.said
    assert [row["samples"] for row in work.epochs("sync")] == [SAMPLES]


def test_what_is_left_of_an_epoch_can_be_handed_to_fewer_trainers(work: Work) -> None:
    """Not to trainers to whom data is not handed out, though."""
    work.change(f"batch_size: {BATCH}, sparse", "batch_size: 4, sparse")
    often = ("-o", "runner.async.save_step_interval=30")
    disturb(work, "async", "stop", 200, *often, pace_s=0.002)
    done = work.here("async", "--resume", "-o", "runner.async.class=train")
    assert "was saved within an epoch in mode async, and this is alone [UM-TRAIN-016]" in done.said
    done = work.run_forked("async", "--resume", "-o", "runner.async.worker_num=1", *often)
    assert done.status == 0, done.said
    assert [row["samples"] for row in work.epochs("async")] == [SAMPLES] * EPOCHS


# ---- starting from another model, and looking at models


def test_a_warm_start_takes_everything_that_fits(work: Work, whole: Whole) -> None:
    """With the optimizer's state, from two servers to none."""
    path = whole.of("sync").path / "out" / "sync" / "0"
    stopping = StopSignal()
    stopping.ask(signal.SIGTERM)
    with work.trainer("alone", "-o", f"runner.alone.init_model_path={path}", stopping=stopping) as trainer:
        assert trainer.train().saved == "steps/alone/epoch_0_batch_0"
    assert work.checkpoint("steps", "alone", "epoch_0_batch_0") == contents(path)


def test_a_warm_start_of_another_strategy_takes_values_and_says_so(work: Work, whole: Whole) -> None:
    geo = whole.of("geo")
    still = ("-o", "hyper_parameters.optimizer.learning_rate=1e-30", "-o", "runner.sync.epochs=1")
    path = geo.path / "out" / "geo"
    done = work.run_forked(
        "sync", "-o", f"runner.sync.init_model_path={path}", "-o", "runner.sync.server_num=1", *still
    )
    assert done.status == 0, done.said
    assert f"starts from {path}/1, without the optimizer's memory, which is of another kind" in done.said
    assert work.here("infer", "-o", f"runner.infer.init_model_path={path}/1").status == 0
    assert work.epochs("sync")[0]["evaluated"]["auc"] == work.epochs("infer")[0]["evaluated"]["auc"]


def test_a_warm_start_with_another_optimizer_takes_values_and_with_another_rate_everything(
    work: Work, whole: Whole
) -> None:
    alone = whole.of("alone")
    start = ("-o", f"runner.alone.init_model_path={alone.path}/out/alone/0", "-o", "runner.alone.epochs=1")
    rate = ("-o", "hyper_parameters.optimizer.learning_rate=1e-30")
    for more, memory in (
        ((), ""),
        (("-o", "hyper_parameters.optimizer.class=SGD"), ", without the optimizer's memory"),
    ):
        done = work.here("alone", *start, *rate, *more)
        assert f"out/alone/0{memory}" in done.said
        assert ("without the optimizer's memory, which is of another kind" in done.said) == bool(memory)
        assert ("-> 1e-30, as this script has it" in done.said) != bool(memory)
        assert work.epochs("alone")[0]["evaluated"] == alone.epochs("alone")[0]["evaluated"]


def test_a_resumed_run_with_another_rate_goes_on_with_it_and_says_so(work: Work, whole: Whole) -> None:
    shutil.copytree(whole.of("alone").path / "steps" / "alone", work.path / "steps" / "alone")
    done = work.here("alone", "--resume", "-o", "hyper_parameters.optimizer.learning_rate=0.01")
    assert done.status == 0
    assert "resuming from steps/alone/epoch_1_batch_16: within epoch 2/2, behind batch 16\n" in done.said
    assert "-> 0.01, as this script has it" in done.said


def test_a_model_of_other_sizes_is_refused(work: Work, whole: Whole) -> None:
    path = whole.of("alone").path / "out" / "alone" / "1"
    done = work.here("alone", "-o", f"runner.alone.init_model_path={path}", "-o", "hyper_parameters.dim=8")
    assert done.status == 2
    assert "has rows of 8 here and 4 there [UM-PS-116]" in done.said
    assert "top.0.weight has the shape (34, 8) here and (18, 8) there [UM-PS-116]" in done.said
    assert "hint: start from a checkpoint of the same model" in done.said
    assert "Traceback" not in done.said


def test_evaluating_checkpoints_gives_what_training_said_of_them(work: Work, whole: Whole) -> None:
    alone = whole.of("alone")
    said = [row["evaluated"] for row in alone.epochs("alone")]
    for path, expected in ((f"{alone.path}/out/alone", said), (f"{alone.path}/out/alone/1", said[1:])):
        assert work.here("infer", "-o", f"runner.infer.init_model_path={path}").status == 0
        assert [row["evaluated"] for row in work.epochs("infer")] == expected


# ---- classes that read, packed files, little data, several phases and models


def test_a_reader_class_alone_is_killed_and_goes_on(work: Work, whole: Whole) -> None:
    own = ("-o", "runner.alone.phases=[own]")
    moment = some_batches(work, 30)
    started = work.start("alone", *own, env=slow(PACE_S))
    started.until(lambda: work.paced() >= moment, "some batches")
    started.kill("launcher")
    started.end()
    done = work.here("alone", "--resume", *own)
    assert done.status == 0, done.said
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)


def test_a_reader_class_of_several_trainers_is_killed_and_goes_on(work: Work, whole: Whole) -> None:
    disturbed(work, "sync", "trainer", words=("-o", "runner.sync.phases=[own]"))
    assert work.checkpoint("out", "sync", LAST) == whole.of("sync").checkpoint("out", "sync", LAST)


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_packed_files_are_the_same_data(work: Work, whole: Whole, how: str) -> None:
    for file in (work.path / "data" / "train").iterdir():
        file.write_bytes(packed(file.read_bytes(), how))
    assert work.here("alone").status == 0
    assert work.checkpoint("out", "alone", LAST) == whole.of("alone").checkpoint("out", "alone", LAST)


def test_a_trainer_without_data_takes_part(work: Work) -> None:
    """There is one file, and a packed one can't be divided: the other trainer changes nothing."""
    files = sorted((work.path / "data" / "train").iterdir())
    text = b"".join(file.read_bytes() for file in files)
    for file in files:
        file.unlink()
    (work.path / "data" / "train" / "all.gz").write_bytes(packed(text, "gzip"))
    # What is dropped out depends on the trainer, too.
    (work.path / "model.py").write_text((work.path / "model.py").read_text().replace("Dropout(0.1)", "Dropout(0.0)"))
    done = work.run_forked("sync")
    assert done.status == 0, done.said
    assert work.here("alone").status == 0
    peers, alone = (work.checkpoint("out", runner, LAST, zeros_alike=True) for runner in ("sync", "alone"))
    assert peers == alone


@pytest.mark.parametrize("runner", ["async", "collective"])
def test_fewer_samples_than_trainers(work: Work, runner: str) -> None:
    for part in (1, 2):
        (work.path / "data" / "train" / f"part-{part}").unlink()
    first = work.path / "data" / "train" / "part-0"
    first.write_text(first.read_text().splitlines()[0] + "\n")
    done = work.run_forked(runner)
    assert done.status == 0, done.said
    assert [row["samples"] for row in work.epochs(runner)] == [1] * EPOCHS


@pytest.mark.parametrize(
    ("phases", "every", "names"),
    [
        ("[train,more]", 2, ["epoch_0_batch_2", "epoch_0_batch_18"]),
        ("[train,other]", 9, ["epoch_0_batch_9", "epoch_0_batch_18", "epoch_1_batch_9"]),
    ],
)
def test_several_phases_and_models_go_on_within_each(work: Work, phases: str, every: int, names: list[str]) -> None:
    """Of phases with as many batches, the later one's checkpoints replace the earlier one's."""
    both = ("-o", f"runner.alone.phases={phases}", "-o", "runner.alone.keep_checkpoints=99")
    assert work.here("alone", *both, "-o", f"runner.alone.save_step_interval={every}").status == 0
    last = work.checkpoint("out", "alone", LAST)
    assert len(last) == (4 if "other" in phases else 2), "each model has its tables, and only these"
    rows = work.epochs("alone")
    kept = work.path / "kept"
    (work.path / "steps" / "alone").rename(kept)
    seen = set()
    for name in names:
        work.forget("steps", "out")
        shutil.copytree(kept / name, work.path / "steps" / "alone" / name)
        found, _ = runs.newest([str(work.path / "steps" / "alone")], "alone")
        assert found is not None
        seen.add(found.progress.stage)
        assert work.here("alone", "--resume", *both, "-o", "runner.alone.save_step_interval=50").status == 0
        assert work.checkpoint("out", "alone", LAST) == last, name
    assert seen == ({1} if "other" in phases else {0, 1})
    assert work.epochs("alone")[-1]["evaluated"] == rows[-1]["evaluated"]
