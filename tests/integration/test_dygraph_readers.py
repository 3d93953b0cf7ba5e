"""A reader of PaddleRec 2 (`RecDataset`) beside its model, on 2 servers with 2 trainers: every sample once, killed, resumed.

What readers and checkpoints do shows in a few epochs. What all epochs come to is compared in sync, and in `make matrix` however
trainers meet; the same model without a reader comes to it in each mode in `test_dygraph_models`.
"""

from __future__ import annotations

import importlib.util
import textwrap
from collections import Counter

import pytest

from testbed.pytest_support import require
from tests.support import dygraph_helpers as models
from tests.support import effort
from tests.support.train_runs import Work

EPOCHS = 12
FEW = EPOCHS if effort.MATRIX else 3
SAMPLES = 1920
BATCH = 16
WITHIN = 0.002

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
                               for name in ("number", "click", "a", "b", "c", "numbers")]
"""

TELLING = """
    import os
    import re
    import time


    def is_held():
        steps = os.listdir("steps") if os.path.exists("hold") and os.path.exists("steps") else []
        return any(re.fullmatch("epoch_1_batch_[0-9]+", name) for name in steps)


    def told(batch_data):
        numbers = " ".join(map(str, batch_data[0].numpy().reshape(-1)))
        with open(f"seen.{os.getpid()}", "a") as seen:
            seen.write(f"{numbers}\\n")
        if is_held():
            open("held", "a").close()
            while os.path.exists("hold"):
                time.sleep(0.05)
            os._exit(7)
"""
"""Which samples a trainer has learned, by their numbers. On request it waits where the second epoch has a first checkpoint, and
learns nothing any more."""

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    """A directory with a model and its reader, and a run alone in it."""
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    path = tmp_path_factory.mktemp("readers")
    models.story(
        path, samples=SAMPLES, epochs=EPOCHS, noise=0.0, stepping="import telling; telling.told(batch_data)", norm="x"
    )
    number = 0
    for file in sorted((path / "data").iterdir()):
        lines = file.read_text().splitlines()
        file.write_text("".join(f"number:{number + at} {line}\n" for at, line in enumerate(lines)))
        number += len(lines)
    (path / "reader.py").write_text(textwrap.dedent(READER))
    (path / "telling.py").write_text(textwrap.dedent(TELLING))
    model = path / "dygraph_model.py"
    model.write_text(model.read_text().replace("in batch_data[:-1]", "in batch_data[1:-1]"))
    made = Work(path)
    slots = '  sparse_slots: "click a b c"\n  dense_slots: "numbers:2"\n'
    made.change(slots, "  train_reader_path: reader\n  infer_reader_path: reader\n  num_workers: 2\n")
    done = made.here("train", "-o", f"runner.train_batch_size={2 * BATCH}")
    assert done.status == 0, done.said
    return made


def told(mode: str, *more: str, epochs: int) -> list[str]:
    said = [f"runner.sync_mode={mode}", "runner.server_num=2", "runner.worker_num=2", f"runner.epochs={epochs}"]
    said += [f"runner.model_save_path=saved-{mode}", f"runner.train_batch_size={BATCH}", *more]
    said += ["runner.geo_step=2"] if mode == "geo" else []
    return [word for each in said for word in ("-o", each)]


def batches(work: Work) -> list[list[int]]:
    """What was learned, by all processes that ever were. Each of them begins with a trial of the model on the first samples."""
    found = []
    for file in work.path.glob("seen.*"):
        trial, *others = [[*map(int, line.split())] for line in file.read_text().splitlines()] or [[]]
        assert trial == [*range(BATCH)][: len(trial)]
        found += others
    return found


def learned(work: Work) -> Counter[int]:
    """How often each sample was."""
    return Counter(number for batch in batches(work) for number in batch)


def forget(work: Work) -> None:
    for file in work.path.glob("seen.*"):
        file.unlink()


def evaluated(work: Work, path: str) -> float:
    """The AUC of the last checkpoint, on all samples."""
    last = [f"runner.infer_start_epoch={EPOCHS - 1}", f"runner.infer_end_epoch={EPOCHS}"]
    said = [f"runner.infer_load_path={path}", *last]
    done = work.here("infer", *[word for each in said for word in ("-o", each)])
    assert done.status == 0, done.said
    (row,) = work.epochs("infer")
    return float(row["evaluated"]["auc"])


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_each_sample_is_read_once_and_it_comes_to_the_same(mode: str, work: Work) -> None:
    epochs = EPOCHS if mode == "sync" else FEW
    forget(work)
    done = work.run_forked("train", *told(mode, epochs=epochs))
    assert done.status == 0, done.said
    assert len([*work.path.glob("seen.*")]) == 2, "both trainers learn"
    assert learned(work) == dict.fromkeys(range(SAMPLES), epochs)
    assert [row["samples"] for row in work.epochs("train")] == [SAMPLES] * epochs
    if epochs == EPOCHS:
        assert evaluated(work, f"saved-{mode}") == pytest.approx(evaluated(work, "saved"), abs=WITHIN)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_killed_trainer_and_resume(mode: str, work: Work) -> None:
    """What was learned since the last checkpoint is learned again, and nothing else, also within an epoch."""
    forget(work)
    work.forget("steps")
    (work.path / "hold").touch()
    more = ("runner.save_step_interval=25", "runner.save_step_path=steps")
    words = told(mode, f"runner.model_save_path=killed-{mode}", *more, epochs=FEW)
    started = work.start("train", *words)
    assert started.until((work.path / "held").exists, "a checkpoint within the second epoch"), started.said
    started.kill("trainer")
    (work.path / "hold").unlink()  # and the other one leaves, too
    done = started.end()
    (work.path / "held").unlink()
    assert done.status != 0, done.said
    first = learned(work)
    forget(work)
    done = work.run_forked("train", *words, "--resume")
    assert done.status == 0, done.said
    assert "resuming from steps/epoch_1_batch_" in done.said
    again = learned(work)
    assert min(first[number] + again[number] for number in range(SAMPLES)) >= FEW, "nothing is lost"
    assert sum(again.values()) < SAMPLES * (FEW - 1), "the epoch is not learned from its beginning"
    assert [row["samples"] for row in work.epochs("train")] == [SAMPLES] * FEW
    if mode == "sync":
        if not work.names("saved-sync", str(FEW - 1)):  # of the test above, unless it was left out
            assert work.run_forked("train", *told("sync", epochs=FEW)).status == 0
        undisturbed, resumed = (work.checkpoint(f"{path}-sync", str(FEW - 1)) for path in ("saved", "killed"))
        assert resumed == undisturbed, "bit for bit"
    if FEW == EPOCHS:
        # What async has learned twice depends on the moment, and so does its AUC.
        within = WITHIN if mode == "sync" else 0.02
        assert evaluated(work, f"killed-{mode}") == pytest.approx(evaluated(work, "saved"), abs=within)
