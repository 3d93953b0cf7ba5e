"""Models in the form of PaddleRec 1.8.5 (`ModelBase`) with parameter servers in each strategy, and collectively."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import modelbase_helpers as models
from tests.support.train_runs import Work
from umiak.ps import export

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]
CLOSE = 1e-5
LOCAL = "class: local_cluster_train, device: cpu"
MORE = "\n".join(
    [
        f"- {{name: one, {LOCAL}, worker_num: 1, server_num: 1, distribute_strategy: sync, save_checkpoint_path: out/one, {models.COMMON}}}",
        *(
            f"- {{name: {mode}, {LOCAL}, worker_num: 2, server_num: 2, distribute_strategy: {mode}, save_checkpoint_path: out/{mode}, {models.TASKS_COMMON}}}"
            for mode in ("sync", "async", "half_async", "geo")
        ),
        f"- {{name: collective, {LOCAL}, worker_num: 2, fleet_mode: collective, save_checkpoint_path: out/collective, {models.TASKS_COMMON}}}",
    ]
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    """A directory with runs alone: of both models, the second with the batches of two trainers together."""
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    path = tmp_path_factory.mktemp("modelbase_shared")
    models.story(path, MORE)
    made = Work(path)
    done = made.here("alone")
    assert done.status == 0, done.said
    done = made.here("tasks", "-o", f"dataset.lines.batch_size={2 * models.BATCH}")
    assert done.status == 0, done.said
    return made


def weights(path: Path) -> dict[str, Any]:
    """All weights that a checkpoint has, rows in order."""
    found: dict[str, Any] = {}
    for table, spec in export.specs_of(str(path)).items():
        if spec["kind"] == "sparse":
            keys, rows = export.rows(str(path), table)
            found[table] = rows[np.argsort(keys)].reshape(-1)
        else:
            found |= {name: np.asarray(each).reshape(-1) for name, each in export.arrays(str(path), table).items()}
    return found


def apart(one: Path, other: Path, names: tuple[str, ...]) -> float:
    first, second = weights(one), weights(other)
    return max(float(np.abs(first[name] - second[name]).max()) for name in names)


def test_one_server_and_one_trainer_in_sync_are_one_process(work: Work) -> None:
    done = work.run_forked("one")
    assert done.status == 0, done.said
    last = str(models.EPOCHS - 1)
    names = ("Words", "fc_0.w_0", "fc_1.w_0", "fc_2.b_0")
    assert apart(work.path / "out" / "alone" / last, work.path / "out" / "one" / last, names) < CLOSE
    alone, one = (work.epochs(name)[-1]["trained"] for name in ("alone", "one"))
    assert one["loss"] == pytest.approx(alone["loss"], abs=CLOSE)
    assert one["AUC"] == pytest.approx(alone["AUC"], abs=0.01)


@pytest.mark.parametrize("mode", ["sync", "collective"])
def test_two_trainers_in_step_are_one_with_their_batches(mode: str, work: Work) -> None:
    done = work.run_forked(mode)
    assert done.status == 0, done.said
    last = str(models.EPOCHS - 1)
    names = ("rows", "fc_0.w_0", "gru_0.w_0", "fc_1.w_0", "fc_2.w_0")
    assert apart(work.path / "out" / "tasks" / last, work.path / "out" / mode / last, names) < CLOSE
    alone, found = (work.epochs(name)[-1] for name in ("tasks", mode))
    assert found["samples"] == models.SAMPLES
    for name in ("loss", "buy_cost", "AUC_click", "InsCnt", "Acc(Recall@1)"):
        assert found["trained"][name] == pytest.approx(alone["trained"][name], abs=1e-4), name
    assert found["evaluated"]["AUC_click"] == pytest.approx(alone["evaluated"]["AUC_click"], abs=0.01)


@pytest.mark.parametrize("mode", ["async", "half_async", "geo"])
def test_trainers_that_do_not_wait_learn_as_well(mode: str, work: Work) -> None:
    done = work.run_forked(mode)
    assert done.status == 0, done.said
    rows = work.epochs(mode)
    assert rows[-1]["samples"] == models.SAMPLES
    assert rows[-1]["trained"]["loss"] < rows[0]["trained"]["loss"]
    assert rows[-1]["trained"]["InsCnt"] == models.SAMPLES, "of all trainers"


def test_resumed_in_sync_to_the_bit(work: Work, tmp_path: Path) -> None:
    whole = work.path / "out" / "sync" / "1"
    if not whole.is_dir():
        assert work.run_forked("sync").status == 0
    models.story(tmp_path, MORE)
    other = Work(tmp_path)
    done = other.run_forked("sync", "-o", "runner.sync.epochs=1")
    assert done.status == 0, done.said
    done = other.run_forked("sync", "--resume")
    assert done.status == 0, done.said
    assert "resuming from" in done.said
    first, second = weights(whole), weights(tmp_path / "out" / "sync" / "1")
    assert {*first} == {*second}
    assert [name for name in first if first[name].tobytes() != second[name].tobytes()] == []


def test_what_was_in_tables_is_evaluated_alone(work: Work) -> None:
    if not (work.path / "out" / "sync").is_dir():
        assert work.run_forked("sync").status == 0
    done = work.here("infer_tasks", "-o", "runner.infer_tasks.init_model_path=out/sync/1")
    assert done.status == 0, done.said
    (row,) = work.epochs("infer_tasks")
    within = work.epochs("sync")[-1]["evaluated"]
    assert row["evaluated"]["AUC_click"] == pytest.approx(within["AUC_click"], abs=1e-6)
