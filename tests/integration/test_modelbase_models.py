"""Models in the form of PaddleRec 1.8.5 (`ModelBase`), unchanged: alone beside a plain loop of paddle.fluid, evaluated, resumed, exported."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import forked_trials
from tests.support import modelbase_helpers as models
from tests.support.train_runs import Work
from umiak.fluid.saving import tensor_file
from umiak.ps import export

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]
CLOSE = 1e-6
SETTINGS = {
    "hyper_parameters": {"rows": models.WORDS, "dim": 4, "sizes": [8], "optimizer": {"learning_rate": 0.02}},
    "dataset": {"slots": {"sparse_slots": "click 1 2", "dense_slots": "price:2"}},
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    """A directory with both models, and a run alone of each."""
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    path = tmp_path_factory.mktemp("modelbase")
    models.story(path)
    made = Work(path)
    for runner in ("alone", "tasks"):
        done = made.here(runner)
        assert done.status == 0, done.said
    return made


def arrays(path: Path) -> dict[str, Any]:
    """What a checkpoint of a run alone has, by the names of variables."""
    return {name: np.asarray(each) for name, each in export.arrays(str(path), "dense.model").items()}


@pytest.mark.parametrize(("runner", "model"), [("alone", "rank"), ("tasks", "tasks")])
def test_alone_it_is_a_plain_loop(runner: str, model: str, work: Work) -> None:
    found = models.plain(work.path, model, seed=3, epochs=models.EPOCHS, settings=SETTINGS)
    saved = arrays(work.path / "out" / runner / str(models.EPOCHS - 1))
    floats = {name: each for name, each in found["values"].items() if each.dtype.kind == "f"}
    learned = [name for name in floats if name in saved]
    assert {"alone": "Words_moment1_0", "tasks": "rows"}[runner] in learned
    for name in learned:
        assert np.abs(saved[name].reshape(-1) - floats[name].reshape(-1)).max() < CLOSE, name
    told = [row["trained"]["loss"] for row in work.epochs(runner)]
    means = np.array(found["losses"]).reshape(models.EPOCHS, -1).mean(1)
    assert told == pytest.approx(means.tolist(), abs=CLOSE)
    assert told[-1] < told[0]


def test_metrics_are_of_the_epoch(work: Work) -> None:
    rows = work.epochs("tasks")
    assert {*rows[-1]["trained"]} == {"loss", "AUC_click", "buy_cost", "InsCnt", "RecallCnt", "Acc(Recall@1)"}
    for row in rows:
        assert row["trained"]["InsCnt"] == models.SAMPLES, "each epoch counts for itself"
        assert row["evaluated"]["InsCnt"] == 50
        assert 0 < row["trained"]["AUC_click"] < 1
    progress = [row for row in work.metrics("alone") if row["event"] == "progress"]
    assert len(progress) == models.EPOCHS * models.SAMPLES // models.BATCH // 2
    assert {"loss", "AUC", "BATCH_AUC"} <= {*progress[-1]["metrics"]}


def test_checkpoints_are_evaluated_with_the_program_of_inference(work: Work) -> None:
    done = work.here("infer_tasks")
    assert done.status == 0, done.said
    rows = [row["evaluated"] for row in work.metrics("infer_tasks") if row["event"] == "epoch"]
    within = [row["evaluated"] for row in work.epochs("tasks")]
    assert [row["AUC_click"] for row in rows] == [row["AUC_click"] for row in within]
    assert [row["Acc(Recall@1)"] for row in rows] == [row["Acc(Recall@1)"] for row in within]
    done = work.here("infer")
    assert done.status == 0, done.said
    (*_, last) = work.epochs("infer")
    assert last["evaluated"]["AUC"] > 0.6


@pytest.mark.parametrize("runner", ["alone", "tasks"])
def test_resumed_it_comes_to_the_same_bits(runner: str, work: Work, tmp_path: Path) -> None:
    models.story(tmp_path)
    other = Work(tmp_path)
    said = ["-o", f"runner.{runner}.epochs=1"]
    assert other.here(runner, *said).status == 0
    done = other.here(runner, "--resume")
    assert done.status == 0, done.said
    assert "resuming from" in done.said
    last = str(models.EPOCHS - 1)
    whole, resumed = (arrays(each.path / "out" / runner / last) for each in (work, other))
    assert {*whole} == {*resumed}
    for name in whole:
        assert whole[name].tobytes() == resumed[name].tobytes(), name


def test_resumed_within_an_epoch(work: Work, tmp_path: Path) -> None:
    models.story(tmp_path)
    other = Work(tmp_path)
    assert other.here("tasks").status == 0
    (step,) = [name for name in other.names("steps") if name.startswith("epoch_1")]
    other.forget("out")
    done = other.here("tasks", "--resume")
    assert done.status == 0, done.said
    assert step in done.said
    whole, resumed = (arrays(each.path / "out" / "tasks" / "1") for each in (work, other))
    assert all(whole[name].tobytes() == resumed[name].tobytes() for name in whole)
    assert work.epochs("tasks")[-1]["trained"]["AUC_click"] == other.epochs("tasks")[-1]["trained"]["AUC_click"]


def test_an_inference_model_is_what_was_named(work: Work, tmp_path: Path) -> None:
    models.story(tmp_path)
    other = Work(tmp_path)
    other.change(
        "save_checkpoint_path: out/alone",
        "save_checkpoint_path: out/alone, save_inference_path: served, save_inference_interval: 1, save_inference_feed_varnames: [price, '1', '2'], save_inference_fetch_varnames: [fc_2.tmp_2]",
    )
    done = other.here("alone", "-o", "runner.alone.epochs=1")
    assert done.status == 0, done.said
    import paddle.fluid as fluid

    with fluid.scope_guard(fluid.Scope()):
        executor = fluid.Executor(fluid.CPUPlace())
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path / "served" / "0"), executor)
        assert {*feeds} == {"price", "1", "2"}
        feed = {
            "price": np.array([[0.1, 0.9]], "float32"),
            "1": fluid.create_lod_tensor(np.array([[3], [4]]), [[2]], fluid.CPUPlace()),
            "2": fluid.create_lod_tensor(np.array([[5]]), [[1]], fluid.CPUPlace()),
        }
        (answer,) = executor.run(program, feed, targets)
    assert answer.shape == (1, 2)
    assert answer.sum() == pytest.approx(1.0, abs=1e-5)
    other.change("[fc_2.tmp_2]", "[nothing]")
    done = other.here("alone", "-o", "runner.alone.epochs=1")
    assert done.status == 2
    assert "UM-TRAIN-066" in done.said
    assert "no variable nothing" in done.said


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("self._cost = fluid", "self.cost = fluid", "UM-TRAIN-593", "net of class Model leaves self._cost nothing"),
        ("size=2, act", "size=(), act", "UM-TRAIN-021", "rank.py:{line}"),
        (
            "return fluid.optimizer.Adam(self.rate, lazy_mode=True)",
            "pass",
            "UM-TRAIN-593",
            "optimizer() of class Model returns nothing",
        ),
        ("fluid.layers.cross_entropy(", "fluid.layers.cross_entropies(", "UM-FLUID-003", "rank.py:{line}"),
    ],
)
def test_what_a_model_lacks_is_told_with_its_place(old: str, new: str, code: str, told: str, tmp_path: Path) -> None:
    models.story(tmp_path)
    work = Work(tmp_path)
    text = (tmp_path / "rank.py").read_text()
    line = text[: text.index(old)].count("\n") + 1
    (tmp_path / "rank.py").write_text(text.replace(old, new))
    done = work.here("alone")
    assert done.status in (1, 2), done.said
    assert code in done.said
    assert told.format(line=line) in done.said


def test_files_of_paddlerec_are_a_beginning(work: Work, tmp_path: Path) -> None:
    models.story(tmp_path)
    other = Work(tmp_path)
    found = models.plain(work.path, "rank", seed=3, epochs=models.EPOCHS, settings=SETTINGS)["values"]
    directory = tmp_path / "former" / "0"
    directory.mkdir(parents=True)
    for name, array in found.items():
        (directory / name).write_bytes(tensor_file.packed(array))
    done = other.here("infer", "-o", "runner.infer.init_model_path=former")
    assert done.status == 0, done.said
    work.here("infer")
    assert other.epochs("infer")[-1]["evaluated"] == work.epochs("infer")[-1]["evaluated"]


def test_the_check_records_the_model(tmp_path: Path) -> None:
    models.story(tmp_path)
    work = Work(tmp_path)
    with forked_trials.installed():
        done = work.here("tasks", "--check")
    assert done.status == 0, done.said
    text = (tmp_path / "tasks.py").read_text()
    (tmp_path / "tasks.py").write_text(text.replace("self._cost = ", "self.cost = "))
    with forked_trials.installed():
        done = work.here("tasks", "--check")
    assert done.status == 2
    assert "UM-TRAIN-593" in done.said
