"""A model in the form of PaddleRec 2, unchanged: alone, collectively and with parameter servers; killed and resumed; evaluated."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import dygraph_helpers as models
from tests.support import forked_trials
from tests.support.train_runs import Work

EPOCHS = 12
SAMPLES = 3200
WITHIN = 0.002
PACED = "import os, time; os.path.exists('slow') and (time.sleep(0.1), open('paced', 'a').write('.'))"

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    """A directory with a model, and a run alone in it."""
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    path = tmp_path_factory.mktemp("dygraph")
    more = ("runner_result_dump_path: dump",)
    models.story(path, *more, samples=SAMPLES, epochs=EPOCHS, noise=0.0, stepping=PACED)
    made = Work(path)
    made.change("learning_rate: 0.01", "learning_rate: 0.03")
    done = made.here("train")
    assert done.status == 0, done.said
    return made


def evaluated(work: Work, path: str) -> float:
    """The AUC of the last checkpoint."""
    said = [
        f"runner.infer_load_path={path}",
        f"runner.infer_start_epoch={EPOCHS - 1}",
        f"runner.infer_end_epoch={EPOCHS}",
    ]
    done = work.here("infer", *[word for each in said for word in ("-o", each)])
    assert done.status == 0, done.said
    (row,) = work.epochs("infer")
    return float(row["evaluated"]["auc"])


def test_alone_it_is_a_plain_loop(work: Work) -> None:
    batches = models.write_data(work.path / "data", SAMPLES, noise=0.0)
    losses, aucs = models.plain_losses(work.path / "dygraph_model.py", batches, epochs=EPOCHS)
    dumps = [json.loads((work.path / f"dump_epoch_{epoch}").read_text()) for epoch in range(EPOCHS)]
    found = [each["loss"] for dump in dumps for each in dump]
    # Its BatchNorm makes rounding grow, in plain loops as well: the first steps are compared, and what all of them come to.
    assert np.abs(np.array(found) - losses)[:10].max() < 1e-5
    assert [row["trained"]["auc"] for row in work.epochs("train")] == pytest.approx(aucs, abs=WITHIN)
    assert aucs[-1] > 0.97


@pytest.mark.parametrize("mode", ["collective", "sync", "async", "half_async", "geo"])
def test_with_others_it_comes_to_the_same(mode: str, work: Work) -> None:
    said = ["runner.use_fleet=true"] if mode == "collective" else [f"runner.sync_mode={mode}", "runner.server_num=2"]
    said += ["runner.worker_num=2", f"runner.model_save_path=saved-{mode}", "runner.train_batch_size=16"]
    said += [f"runner.runner_result_dump_path=dump-{mode}"]
    said += ["runner.geo_step=2"] if mode == "geo" else []
    done = work.run_forked("train", *[word for each in said for word in ("-o", each)])
    assert done.status == 0, done.said
    row = work.epochs("train")[-1]
    assert row["samples"] == SAMPLES, "each sample is read once"
    assert evaluated(work, f"saved-{mode}") == pytest.approx(evaluated(work, "saved"), abs=WITHIN)
    assert np.isfinite(row["trained"]["acc"])


def test_killed_and_resumed(work: Work) -> None:
    whole = json.loads((work.path / f"dump_epoch_{EPOCHS - 1}").read_text())
    (work.path / "slow").touch()
    words = ("-o", "runner.model_save_path=saved-killed", "-o", "runner.runner_result_dump_path=again")
    started = work.fork("train", *words)
    assert started.until((work.path / "saved-killed" / "0" / "rec.pdparams").exists, "the first epoch")
    assert started.until(lambda: work.paced() > SAMPLES // models.BATCH + 3, "some batches of the second")
    started.signal(9)
    started.end()
    (work.path / "slow").unlink()
    done = work.here("train", *words, "--resume")
    assert done.status == 0, done.said
    assert f"1 of {EPOCHS} epochs is done" in done.said
    again = json.loads((work.path / f"again_epoch_{EPOCHS - 1}").read_text())
    assert [each["loss"] for each in again] == [each["loss"] for each in whole], "bit for bit"


def test_people_come_and_go(work: Work) -> None:
    """Weights of PaddleRec's own layout are begun with and evaluated, and put aside before they would be replaced."""
    theirs = work.path / "theirs"
    (theirs / str(EPOCHS - 1)).mkdir(parents=True)
    shutil.copy(work.path / "saved" / str(EPOCHS - 1) / "rec.pdparams", theirs / str(EPOCHS - 1))
    assert evaluated(work, "theirs") == evaluated(work, "saved")
    words = (
        "-o",
        f"runner.model_init_path=theirs/{EPOCHS - 1}",
        "-o",
        "runner.epochs=1",
        "-o",
        "runner.model_save_path=more",
    )
    done = work.here("train", *words, "-o", "runner.use_inference=true")
    assert done.status == 0, done.said
    assert f"starts from theirs/{EPOCHS - 1}" in done.said
    assert work.epochs("train")[-1]["trained"]["auc"] > 0.97, "it has not begun from scratch"
    done = work.here("train", "-o", "runner.epochs=1", "-o", "runner.model_save_path=theirs")
    assert done.status == 0, done.said
    assert (work.path / "more" / "0" / "inference" / "signature.json").exists()
    assert (work.path / "more" / "0" / "rec.pdparams").exists(), "the checkpoint is still there"
    assert Path(theirs, "previous-1", str(EPOCHS - 1), "rec.pdparams").exists()


def test_explain_shows_tables(work: Work) -> None:
    done = work.here("train", "--explain", "-o", "runner.sync_mode=async")
    assert done.status == 0, done.said
    assert "table embedding: 60 rows of 4" in done.out
    with forked_trials.installed():
        done = work.here("train", "--check")
    assert done.status == 0, done.said
