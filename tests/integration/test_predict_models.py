"""`umiak predict` and `umiak serve` with models in the forms of PaddleRec: answers are those that plain Paddle, or arithmetic by hand, comes to."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import dygraph_helpers, modelbase_helpers
from tests.support.train_runs import Work
from umiak.cli import main as cli
from umiak.ps import export

pytestmark = [pytest.mark.paddle, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def predict(path: Path, monkeypatch: pytest.MonkeyPatch, *words: str, status: int = 0) -> None:
    monkeypatch.chdir(path)
    assert cli.main(["predict", "-m", "config.yaml", "-q", *words]) == status


def table(path: Path) -> dict[str, list[str]]:
    with path.open(newline="") as file:
        head, *lines = list(csv.reader(file))
    return {name: [line[number] for line in lines] for number, name in enumerate(head)}


def plain_answers(path: Path, batches: list[list[Any]]) -> Any:
    """What the model answers in plain Paddle with the weights that training has left in PaddleRec's form."""
    import paddle

    for name in ("net", "dygraph_model"):
        sys.modules.pop(name, None)
    sys.path.insert(0, str(path))
    try:
        net = importlib.import_module("net")
        model = net.Scorer(dygraph_helpers.ROWS, 4, 8, True)
    finally:
        sys.path.remove(str(path))
        sys.modules.pop("net", None)
    model.set_state_dict(paddle.load(str(path / "saved" / "1" / "rec.pdparams")))
    model.eval()
    with paddle.no_grad():
        found = [
            model([paddle.to_tensor(each) for each in batch[1:4]], paddle.to_tensor(batch[4])).numpy()
            for batch in batches
        ]
    return np.concatenate(found)


def test_a_dygraph_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = dygraph_helpers.story(tmp_path, samples=200)
    assert Work(tmp_path).here("train").status == 0
    words = ["--data", "data", "--keep", "click,b"]
    predict(tmp_path, monkeypatch, *words, "--out", "scores.csv")
    found = table(tmp_path / "scores.csv")
    assert [*found] == ["click", "b", "output_0", "output_1"]
    assert [int(each) for each in found["click"]] == np.concatenate([each[0] for each in batches])[:, 0].tolist()
    assert [int(each) for each in found["b"]] == np.concatenate([each[2] for each in batches])[:, 0].tolist()
    answers = np.array([found["output_0"], found["output_1"]], np.float32).T
    assert np.abs(answers - plain_answers(tmp_path, batches)).max() < 1e-5
    predict(tmp_path, monkeypatch, *words, "--out", "parts.csv", "--part_rows", "64")
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "scores.csv").read_bytes()


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """Trained models in the form of PaddleRec 1.8.5."""
    modelbase_helpers.story(tmp_path)
    return tmp_path


def by_hand(path: Path) -> Any:
    """What `rank.py` answers, in numpy."""
    saved = {
        name: np.asarray(each) for name, each in export.arrays(str(path / "out" / "alone" / "1"), "dense.model").items()
    }
    rows = saved["Words"].reshape(modelbase_helpers.WORDS, 4)
    layers = [(saved[f"fc_{number}.w_0"], saved[f"fc_{number}.b_0"]) for number in range(3)]
    found = []
    for sample in modelbase_helpers.samples(path / "data" / "test" / "part-0"):
        x = np.concatenate([*(rows[np.array(sample[name], int)].sum(0) for name in "12"), sample["price"]])
        for weights, bias in layers[:-1]:
            x = np.maximum(x @ weights.reshape(x.size, -1) + bias, 0)
        weights, bias = layers[-1]
        powers = np.exp(x @ weights.reshape(x.size, -1) + bias)
        found.append(powers / powers.sum())
    return np.array(found)


@pytest.mark.parametrize("said", ["fc_2.tmp_2", "[fc_2.tmp_2]"])
def test_a_model_of_1_8_5_answers_with_what_is_named(
    said: str, former: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert Work(former).here("alone").status == 0
    predict(former, monkeypatch, "--out", "none.csv", status=2)
    assert "save_inference_fetch_varnames" in capfd.readouterr().err
    words = ["-o", f"runner.infer.save_inference_fetch_varnames={said}", "--keep", "click,1"]
    predict(former, monkeypatch, "--out", "scores.csv", *words)
    assert "no effect" not in capfd.readouterr().err
    found = table(former / "scores.csv")
    assert [*found] == ["click", "1", "fc_2.tmp_2_0", "fc_2.tmp_2_1"]
    samples = modelbase_helpers.samples(former / "data" / "test" / "part-0")
    assert [each.split() for each in found["1"]] == [[f"{one:.0f}" for one in each["1"]] for each in samples]
    answers = np.array([found["fc_2.tmp_2_0"], found["fc_2.tmp_2_1"]], np.float32).T
    assert np.abs(answers - by_hand(former)).max() < 1e-5
