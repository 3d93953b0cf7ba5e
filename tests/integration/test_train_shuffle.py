"""`umiak train` with a shuffle: data that is sorted by its label is learned from, and runs that are stopped go on to the same bits."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import textwrap
from pathlib import Path

import pytest

from testbed.pytest_support import require
from tests.support import dygraph_helpers as models
from tests.support.train_runs import EPOCHS, SAMPLES, Done, Work, opened, slow

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle")]

LAST = str(EPOCHS - 1)


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def sort(work: Work, times: int = 3) -> None:
    """All training data in one file, sorted by its label."""
    directory = work.path / "data" / "train"
    lines = [line for path in sorted(directory.iterdir()) for line in path.read_text().splitlines()]
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / "part-0").write_text("".join(f"{line}\n" for line in sorted(lines * times)))


def run(work: Work, runner: str, *said: str) -> Done:
    words = [word for each in said for word in ("-o", f"runner.{runner}.{each}")]
    done = work.here(runner, *words) if runner == "alone" else work.run_forked(runner, *words)
    assert done.status == 0, done.said
    return done


@pytest.mark.parametrize("runner", ["alone", "sync", "async"])
def test_sorted_data_is_warned_of_and_shuffled(work: Work, runner: str) -> None:
    sort(work)
    done = run(work, runner)
    (told,) = [line for line in done.said.splitlines() if "UM-DATA-180" in line]
    assert "samples in a row have label" in told
    assert "data/train/part-0 on" in told
    assert done.said.count("hint: shuffle it: `shuffle: 100000` in the runner") == 1
    sorted_auc = work.epochs(runner)[-1]["evaluated"]["auc"]
    work.forget("out", "steps", "run")
    done = run(work, runner, "shuffle=500")
    assert "UM-DATA-180" not in done.said
    assert work.epochs(runner)[-1]["evaluated"]["auc"] > max(0.65, sorted_auc)
    assert [row["samples"] for row in work.epochs(runner)] == [3 * SAMPLES] * EPOCHS


def test_data_of_one_class_is_warned_of(work: Work) -> None:
    for path in (work.path / "data" / "train").iterdir():
        path.write_text(path.read_text().replace("click:1", "click:0"))
    done = run(work, "alone")
    assert "warning: dataset train: all 1,200 labels of the epoch are 0 [UM-DATA-180]" in done.said


@pytest.mark.parametrize("runner", ["alone", "sync"])
def test_ordinary_data_is_not_warned_of(work: Work, runner: str) -> None:
    assert "UM-DATA-180" not in run(work, runner).said


@pytest.mark.parametrize("phase", ["train", "own"])
def test_it_goes_on_from_every_batch_to_the_same_bits(work: Work, phase: str) -> None:
    said = ("shuffle=150", f"phases=[{phase}]", "save_step_interval=1", "keep_checkpoints=99")
    run(work, "alone", *said)
    last = work.checkpoint("out", "alone", LAST)
    rows = work.epochs("alone")
    kept = work.path / "kept"
    (work.path / "steps" / "alone").rename(kept)
    for name in [f"epoch_{epoch}_batch_{batch}" for epoch, batch in ((0, 1), (0, 5), (1, 8), (1, 15))]:
        work.forget("steps", "out")
        shutil.copytree(kept / name, work.path / "steps" / "alone" / name)
        words = ["-o", "runner.alone.shuffle=150", "-o", f"runner.alone.phases=[{phase}]"]
        done = work.here("alone", "--resume", *words, "-o", "runner.alone.save_step_interval=50")
        assert f"resuming from steps/alone/{name}: " in done.said
        assert work.checkpoint("out", "alone", LAST) == last, name
        assert [row["trained"] for row in work.epochs("alone")][-1] == rows[-1]["trained"]


@pytest.mark.parametrize("runner", ["sync", "collective", "async"])
def test_trainers_that_are_stopped_go_on(work: Work, runner: str) -> None:
    words = ["-o", f"runner.{runner}.shuffle=100"]
    started = work.start(runner, *words, env=slow(0.03))
    assert started.until(lambda: work.paced() >= 9, "some batches")
    started.signal(signal.SIGTERM)
    assert started.end().status == 143
    done = work.run_forked(runner, "--resume", *words)
    assert done.status == 0, done.said
    assert [row["samples"] for row in work.epochs(runner)] == [SAMPLES] * EPOCHS, "every sample once"
    if runner == "async":
        return
    with opened() as other:
        assert other.run_forked(runner, *words).status == 0
        assert work.checkpoint("out", runner, LAST) == other.checkpoint("out", runner, LAST)


@pytest.mark.parametrize(
    ("runner", "window", "code"),
    [("alone", 200, "UM-DATA-003"), ("alone", 0, "UM-DATA-003"), ("async", 0, "UM-TRAIN-560")],
)
def test_another_shuffle_within_an_epoch_is_refused(work: Work, runner: str, window: int, code: str) -> None:
    words = ["-o", f"runner.{runner}.shuffle=100"]
    start = work.fork if runner == "alone" else work.start
    started = start(runner, *words, env=slow(0.03))
    assert started.until(lambda: work.paced() >= 3, "three batches")
    started.signal(signal.SIGTERM)
    assert started.end().status == 143
    done = work.run_forked(runner, "--resume", "-o", f"runner.{runner}.shuffle={window}")
    logs = [path.read_text() for path in Path(work.path, "run", runner).rglob("workerlog.*")]
    assert done.status != 0
    assert code in done.said + "".join(logs)


def test_lines_that_were_passed_over_are_told(work: Work) -> None:
    path = work.path / "data" / "train" / "part-0"
    path.write_text("\n" + path.read_text().replace("\n", "\n\n", 2) + "no sample\n")
    done = work.here("alone", "-o", "dataset.train.bad_lines=1")
    assert done.status == 0, done.said
    assert f"epoch 1/{EPOCHS} done  {SAMPLES:,} samples in" in done.said
    assert done.said.count(", 3 blank lines skipped, 1 bad line skipped") == EPOCHS
    rows = [json.loads(line) for line in (work.path / "run" / "alone" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["blank_lines"], row["bad_lines"]) for row in rows if row["event"] == "epoch"] == [(3, 1)] * EPOCHS


def test_hash_of_a_text_in_a_reader_is_warned_of_once(work: Work) -> None:
    reader = work.path / "reader.py"
    reader.write_text(reader.read_text().replace("found = {}", "found, _ = {}, hash(line)"))
    done = run(work, "alone", "phases=[own]")
    (told,) = [line for line in done.said.splitlines() if "UM-DATA-181" in line]
    assert told.startswith("warning: ")
    assert "reader.py:7: hash() of a text is another number in every process" in told


READER = """
    import numpy as np
    from paddle.io import IterableDataset


    class RecDataset(IterableDataset):
        def __init__(self, file_list, config):
            super().__init__()
            self.file_list = file_list

        def __iter__(self):
            for file in self.file_list:
                with open(file) as lines:
                    for line in lines:
                        found = {}
                        for each in line.split():
                            name, _, number = each.partition(":")
                            found.setdefault(name, []).append(float(number))
                        yield [np.array(found[name], "float32" if name == "numbers" else "int64")
                               for name in ("click", "a", "b", "c", "numbers")]
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("own_reader", [False, True])
def test_models_of_paddlerec_2_too(tmp_path: Path, own_reader: bool) -> None:
    """Sorted data is warned of by what `paddle.metric.Auc` has counted; with a shuffle it is not, and a run that goes on has the same bits."""
    models.story(tmp_path, samples=2400, epochs=2)
    work = Work(tmp_path)
    lines = [line for path in sorted((tmp_path / "data").iterdir()) for line in path.read_text().splitlines()]
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    (tmp_path / "data" / "part-0").write_text("".join(f"{line}\n" for line in sorted(lines)))
    if own_reader:
        (tmp_path / "reader.py").write_text(textwrap.dedent(READER))
        slots = '  sparse_slots: "click a b c"\n  dense_slots: "numbers:2"\n'
        work.change(slots, "  train_reader_path: reader\n  infer_reader_path: reader\n")
    done = work.here("train")
    assert done.status == 0, done.said
    assert "UM-DATA-180" in done.said
    work.forget("saved", "run")
    # What such a reader opens is not cut into pieces, so the window must be as long as the stretches are.
    window = 2400 if own_reader else 700
    words = [
        "-o",
        f"runner.shuffle={window}",
        "-o",
        "runner.save_step_interval=20",
        "-o",
        "runner.save_step_path=steps",
    ]
    done = work.here("train", *words)
    assert done.status == 0, done.said
    assert "UM-DATA-180" not in done.said
    last = work.checkpoint("saved", "1")
    (tmp_path / "saved").rename(tmp_path / "whole")
    done = work.here("train", *words, "--resume")
    assert "resuming from steps/epoch_1_batch_" in done.said
    assert work.checkpoint("saved", "1") == last
