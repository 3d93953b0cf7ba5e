"""What `umiak train` keeps: behind URLs, from one strategy to another, and as models for serving that are asked before they are believed."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support.train_runs import EPOCHS, SAMPLES, Whole, Work

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.usefixtures("paddle"),
    pytest.mark.filterwarnings("ignore:No ccache"),
]


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def test_checkpoints_and_models_behind_a_url(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    there = work.path / "there"
    (work.path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(work.path / "tmp"))
    words = [
        *("-o", f"runner.alone.save_checkpoint_path=file://{there}/models"),
        *("-o", f"runner.alone.save_inference_path=file://{there}/served"),
        *(
            "-o",
            "runner.alone.keep_checkpoints=1",
            "-o",
            "runner.alone.save_step_path=",
            "-o",
            "runner.alone.save_step_interval=-1",
        ),
    ]
    done = work.here("alone", *words)
    assert done.status == 0, done.said
    assert work.names("there", "models") == [str(EPOCHS - 1)]
    assert work.names("there", "served") == [str(epoch) for epoch in range(EPOCHS)]
    # As on another machine: nothing is here but what is there.
    shutil.rmtree(work.path / "tmp")
    (work.path / "tmp").mkdir()
    done = work.here("alone", *words, "-o", f"runner.alone.epochs={EPOCHS + 1}", "--resume")
    assert done.status == 0, done.said
    assert f"resuming from file://{there}/models/{EPOCHS - 1}" in done.said
    kept = json.loads((work.path / "run" / "alone" / "config.json").read_text())
    assert (kept["config"], kept["runner"]) == (str(work.path / "config.yaml"), "alone")
    assert kept["settings"]["runner.epochs"] == EPOCHS + 1, "as it was overridden"
    assert kept["settings"]["runner.save_checkpoint_path"] == f"file://{there}/models"
    assert work.names("there", "models") == [str(EPOCHS)]
    done = work.here("infer", "-o", f"runner.infer.init_model_path=file://{there}/models")
    assert done.status == 0, done.said
    judged = work.epochs("infer")[-1]["evaluated"]["auc"]
    assert judged == pytest.approx(work.epochs("alone")[-1]["evaluated"]["auc"], abs=1e-9)


def test_a_model_for_serving_answers_what_was_trained(work: Work) -> None:
    done = work.here("alone", "-o", "runner.alone.save_inference_path=served")
    assert done.status == 0, done.said
    from umiak.train.engines import paddle_export

    path = work.path / "served" / str(EPOCHS - 1)
    signature = json.loads((path / "signature.json").read_text())
    assert [each["name"] for each in signature["inputs"]] == ["price", "1", "2", "3", "4"]
    arrays = {"price": np.zeros((2, 2), np.float32)}
    arrays |= {str(slot): np.full((2, 1), -1, np.int64) for slot in range(1, 5)}
    (answers,) = paddle_export.answered(str(path), arrays)
    assert answers.shape == (2, 1)
    assert answers[0] == answers[1], "two samples that have nothing"


def test_a_model_for_serving_that_answers_otherwise_is_an_error(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    from umiak.train.engines import paddle_export

    honest = paddle_export.answered
    monkeypatch.setattr(paddle_export, "answered", lambda *args: [answer + 0.01 for answer in honest(*args)])
    done = work.here("alone", "-o", "runner.alone.save_inference_path=served")
    assert done.status == 1
    assert "UM-TRAIN-041" in done.said


@pytest.mark.parametrize("strategy", ["geo", "sync"])
def test_a_model_for_serving_of_a_job_with_servers(work: Work, strategy: str) -> None:
    """In geo a trainer has rows of its own; what is served is what the servers have."""
    done = work.run_forked(strategy, "-o", f"runner.{strategy}.save_inference_path=served")
    assert done.status == 0, done.said
    assert work.names("served") == [str(epoch) for epoch in range(EPOCHS)]


def test_from_steps_in_common_to_none(work: Work) -> None:
    done = work.run_forked("sync")
    assert done.status == 0, done.said
    done = work.run_forked("async", "-o", f"runner.async.init_model_path=out/sync/{EPOCHS - 1}")
    assert done.status == 0, done.said
    assert [row["samples"] for row in work.epochs("async")] == [SAMPLES] * EPOCHS


def test_a_directory_with_spaces_and_letters_of_other_languages(work: Work, whole: Whole, tmp_path: Path) -> None:
    """Config, model, data, checkpoints, models for serving, through the launcher: the figures are the same as anywhere."""
    place = tmp_path / "Übungen zu 推荐 (neu)"
    shutil.copytree(work.path, place)
    elsewhere = Work(place)
    done = elsewhere.run("sync", "-o", "runner.sync.save_inference_path=my modéls")
    assert done.status == 0, done.said
    assert elsewhere.names("my modéls") == [str(epoch) for epoch in range(EPOCHS)]
    usual = whole.of("sync")
    assert [row["evaluated"] for row in elsewhere.epochs("sync")] == [row["evaluated"] for row in usual.epochs("sync")]
