"""An inference model that the engine for `dygraph_model.py` has written answers as the model does, also in a process of plain Paddle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.support import dygraph_helpers as models
from tests.support import plain_inference
from tests.unit.train import test_train_dygraph
from tests.unit.train.test_train_dygraph import Alone, engine, learned, stacked

pytestmark = test_train_dygraph.pytestmark


def test_an_inference_model_answers_as_the_model(tmp_path: Path) -> None:
    from umiak.train.checkpoints import runs
    from umiak.train.checkpoints.progress import Progress
    from umiak.train.engines import paddle_export

    batches = models.story(tmp_path, samples=96)
    made = engine(tmp_path)
    learned(made, batches)
    saved, path = str(tmp_path / "saved" / "0"), str(tmp_path / "inference" / "0")
    made.buffers.store(Alone())
    runs.save(made.job, saved, Progress(runner="train", mode="alone", trainers_in_all=1, seed=11, epoch=1, stage=0))
    made.export(path, saved, feeds=["1"], fetches=["sigmoid_0.tmp_0"], sample=lambda: stacked(batches[0]))
    signature = json.loads(Path(path, "signature.json").read_text())
    assert [each["name"] for each in signature["inputs"]] == ["ids_0", "ids_1", "ids_2", "numbers"]
    few = {
        **{f"ids_{at}": batches[1][1 + at][:5] for at in range(3)},
        "numbers": batches[1][4][:5],
    }
    (answer,) = paddle_export.answered(path, few)
    assert answer.shape == (5, 2), "another number of samples than it was traced with"
    expected = made.predict(stacked([each[:5] for each in batches[1]]))["output"]
    assert np.abs(answer - expected).max() < 1e-5
    prefix = f"{path}/inference"
    plain = plain_inference.predictions({prefix: few})[prefix]
    for way in plain_inference.WAYS:
        assert np.abs(plain[way][0] - expected).max() < 1e-5, way
