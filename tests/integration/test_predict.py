"""`umiak predict`: the answers are those of an evaluation to the bit, in the order of the data; kills leave no half file, and are gone on from."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import PATIENCE_S, eventually, is_running, train_runs
from tests.support.train_runs import Done, Work
from umiak.ps import checkpoint
from umiak.ps.manifest import FILE_NAME
from umiak.train.checkpoints import runs
from umiak.train.predicting import output_lock

pytestmark = [pytest.mark.paddle]


def predict(work: Work, *words: str, status: int = 0) -> Done:
    done = work.command("predict", *words)
    assert done.status == status, done.said
    return done


def table(path: Path) -> dict[str, list[str]]:
    with path.open(newline="") as file:
        head, *lines = list(csv.reader(file))
    return {name: [line[number] for line in lines] for number, name in enumerate(head)}


@pytest.fixture
def trained(work: Work) -> Work:
    done = work.here("alone")
    assert done.status == 0, done.said
    return work


def evaluated(work: Work, data: str = "data/test") -> dict[str, Any]:
    """What the engine of an evaluation answers, batch by batch, in this process."""
    found: dict[str, list[Any]] = {"probability": [], "click": [], "1": []}
    with work.trainer("alone", "-o", f"dataset.test.data_path={data}") as trainer:
        from contextlib import ExitStack

        from umiak.train import reading
        from umiak.train.checkpoints import runs

        with ExitStack() as closing:
            trainer._begin(closing, None)
            (engine,) = trainer.engines
            runs.start_from(trainer.context.job, str(work.path / "out/alone/1"), engine.tables())
            engine.restore()
            stage = trainer.evaluation
            metrics = engine.metric_set()
            with reading.read(stage.dataset, stage.found, **stage.more) as samples:
                for batch in samples:
                    answers: dict[str, Any] = {}
                    engine.evaluate(batch, metrics, answers)
                    found["probability"].append(answers["probability"].reshape(-1))
                    found["click"].append(batch.sparse["click"][0])
                    found["1"].append(batch.sparse["1"][0])
    return {name: np.concatenate(each) for name, each in found.items()}


def test_answers_are_those_of_an_evaluation_to_the_bit(trained: Work) -> None:
    done = predict(trained, "--out", "scores.csv", "--keep", "click,1", "--part_rows", "200", "--json")
    told = json.loads(done.out)
    expected = evaluated(trained)
    found = table(trained.path / "scores.csv")
    assert [*found] == ["click", "1", "probability"]
    assert told["rows"] == len(found["click"]) == len(expected["click"]) == train_runs.SAMPLES // 3
    assert told["checkpoint"] == "out/alone/1"
    assert [int(each) for each in found["click"]] == expected["click"].tolist()
    assert [int(each) for each in found["1"]] == expected["1"].tolist()
    assert np.array_equal(np.array(found["probability"], np.float32), expected["probability"])
    assert not (trained.path / "scores.csv.parts").exists()
    assert "out/alone/1" in done.said


def test_several_processes_parts_and_parquet_come_to_the_same(trained: Work) -> None:
    predict(trained, "--out", "one.csv", "--data", "data/train", "-q")
    done = predict(
        trained, "--out", "several.csv", "--data", "data/train", "--workers", "2", "--part_rows", "200", "--json"
    )
    told = json.loads(done.out)
    assert told["parts"] == -(-train_runs.SAMPLES // 200)
    assert (trained.path / "one.csv").read_bytes() == (trained.path / "several.csv").read_bytes()
    parquet = pytest.importorskip("pyarrow.parquet")
    predict(trained, "--out", "one.parquet", "--data", "data/train", "--part_rows", "400", "--keep", "1", "-q")
    read = parquet.read_table(trained.path / "one.parquet")
    assert read.column("probability").to_pylist() == [
        float(np.float32(each)) for each in table(trained.path / "one.csv")["probability"]
    ]
    assert parquet.ParquetFile(trained.path / "one.parquet").num_row_groups == 3


def test_a_label_may_be_missing_and_other_slots_may_not(trained: Work) -> None:
    data = trained.path / "unlabelled"
    data.mkdir()
    for path in sorted((trained.path / "data" / "test").iterdir()):
        lines = [line.split() for line in path.read_text().splitlines()]
        kept = [" ".join(word for word in line if not word.startswith("click:")) for line in lines]
        (data / path.name).write_text("\n".join(kept) + "\n")
    predict(trained, "--out", "all.csv", "-q")
    predict(trained, "--out", "unlabelled.csv", "--data", "unlabelled", "-q")
    assert (trained.path / "all.csv").read_bytes() == (trained.path / "unlabelled.csv").read_bytes()
    for path in data.iterdir():
        path.write_text(path.read_text().replace(" 2:", " 22:"))
    done = predict(trained, "--out", "wrong.csv", "--data", "unlabelled", status=2)
    assert "UM-DATA-009" in done.said
    assert not (trained.path / "wrong.csv").exists()


def slowed(work: Work) -> None:
    """A model that takes its time for each batch, and says how many it has looked at."""
    model = work.path / "model.py"
    text = model.read_text().replace(
        "    def logit(self, inputs):\n",
        "    def logit(self, inputs):\n        if not self.training:\n"
        '            with open("looked", "a") as file:\n                file.write(".")\n'
        "            time.sleep(0.05)\n",
    )
    assert "looked" in text
    model.write_text(text)


@pytest.mark.parametrize(("workers", "number"), [("1", signal.SIGTERM), ("2", signal.SIGKILL)])
def test_a_kill_leaves_no_half_file_and_is_gone_on_from(trained: Work, workers: str, number: signal.Signals) -> None:
    predict(trained, "--out", "whole.csv", "--data", "data/train", "--part_rows", "200", "-q")
    slowed(trained)
    words = ["--out", "scores.csv", "--data", "data/train", "--part_rows", "200", "--workers", workers]
    command = [sys.executable, "-m", "umiak.cli.main", "predict", "-m", "config.yaml", *words]
    started = subprocess.Popen(command, cwd=trained.path, stderr=subprocess.DEVNULL)
    parts = trained.path / "scores.csv.parts"
    assert eventually(lambda: len(list(parts.glob("part-*.json"))) >= 2)
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    started.send_signal(number)
    started.wait(PATIENCE_S)
    assert started.returncode == -number
    # Nobody is left who writes files of a prediction that somebody goes on with.
    assert eventually(lambda: not any(is_running(int(child)) for child in children))
    assert not (trained.path / "scores.csv").exists()
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in parts.glob("part-*.csv")}
    for note in parts.glob("part-*.json"):
        assert json.loads(note.read_text())["sha256"] == there[note.name.replace(".json", ".csv")]
    # Another model's answers are not mixed in.
    refused = predict(trained, *words, "--resume", "--checkpoint", "out/alone/0", status=2)
    assert "UM-PREDICT-005" in refused.said
    if workers == "2":  # one of them may have been slower with the first part than the other with all of its own
        for path in parts.glob("part-000000.*"):
            path.unlink()
    looked = (trained.path / "looked").stat().st_size
    told = json.loads(predict(trained, *words, "--resume", "--json").out)
    assert told["resumed_parts"] >= 1
    assert (trained.path / "looked").stat().st_size - looked < -(-train_runs.SAMPLES // 200) + 2
    assert (trained.path / "scores.csv").read_bytes() == (trained.path / "whole.csv").read_bytes()
    assert not parts.exists()


def test_a_worker_that_is_killed_ends_all_of_it_and_is_told(trained: Work) -> None:
    slowed(trained)
    words = ["--out", "scores.csv", "--data", "data/train", "--part_rows", "200", "--workers", "2"]
    command = [sys.executable, "-m", "umiak.cli.main", "predict", "-m", "config.yaml", *words]
    started = subprocess.Popen(command, cwd=trained.path, stderr=subprocess.PIPE, text=True)
    assert eventually((trained.path / "looked").exists)
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    assert len(children) == 2
    os.kill(int(children[0]), signal.SIGKILL)
    _, said = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 1
    assert "UM-PREDICT-008" in said
    assert "signal 9 ended it" in said
    assert not (trained.path / "scores.csv").exists()
    predict(trained, *words, "--resume", "-q")
    assert len(table(trained.path / "scores.csv")["probability"]) == train_runs.SAMPLES


def test_two_at_a_time_are_kept_apart(trained: Work) -> None:
    with output_lock.held(str(trained.path / "scores.csv")):
        for words in ([], ["--resume"]):
            done = predict(trained, "--out", "scores.csv", *words, status=2)
            assert "UM-PREDICT-012" in done.said
            assert f"process {os.getpid()} on " in done.said
        assert not (trained.path / "scores.csv.parts").exists()
        predict(trained, "--out", "others.csv", "-q")
    predict(trained, "--out", "scores.csv", "-q")
    assert [each for each in trained.names() if each.endswith(".lock")] == []


def test_the_best_that_early_stopping_found_is_taken_and_said(trained: Work) -> None:
    runs.mark_best(str(trained.path / "out" / "alone" / "0"))
    done = predict(trained, "--out", "best.csv", "--workers", "2", "--part_rows", "200")
    assert "predicts with out/alone/0 (the best that early stopping found; the newest is out/alone/1)" in done.said
    predict(trained, "--out", "first.csv", "--checkpoint", "out/alone/0", "-q")
    assert (trained.path / "best.csv").read_bytes() == (trained.path / "first.csv").read_bytes()
    # The best of a run before this one has nothing to do with it.
    manifest = trained.path / "out" / "alone" / "0" / FILE_NAME
    (run,) = {
        json.loads(each)["run"] for each in [json.dumps(checkpoint.read(str(manifest.parent)).metadata["umiak_train"])]
    }
    manifest.write_text(manifest.read_text().replace(run, "another"))
    done = predict(trained, "--out", "newest.csv")
    assert "predicts with out/alone/1, " in done.said


def test_what_cannot_be_done_is_told(trained: Work) -> None:
    (trained.path / "there.csv").write_text("mine\n")
    done = predict(trained, "--out", "there.csv", status=2)
    assert "UM-PREDICT-006" in done.said
    assert (trained.path / "there.csv").read_text() == "mine\n"
    (trained.path / "other.csv.parts").mkdir()
    (trained.path / "other.csv.parts" / "mine").write_text("mine\n")
    assert "UM-PREDICT-006" in predict(trained, "--out", "other.csv", status=2).said
    assert (trained.path / "other.csv.parts" / "mine").exists()
    assert "UM-PREDICT-004" in predict(trained, "--out", "s.csv", "--keep", "user", status=2).said
    assert not (trained.path / "s.csv.parts").exists(), "nothing was predicted, so there is nothing to resume"
    (trained.path / "torn").write_text("click:0 price:abc\n")
    done = predict(trained, "--out", "s.csv", "--data", "torn", status=2)
    assert "torn:1:" in done.said
    assert "bad_lines" not in done.said, "which does not count here"
    done = predict(trained, "--out", "/proc/s.csv", status=3)
    assert "[UM-PREDICT-011]" in done.said
    assert "bug in umiak" not in done.said
    assert "UM-PREDICT-002" in predict(trained, "--out", "s.csv", "--phase", "tset", status=2).said
    done = predict(trained, status=2)
    assert done.said.count("UM-PREDICT-009") == 1
    assert "--out is missing" in done.said


def test_a_reader_class_predicts_too(trained: Work) -> None:
    predict(trained, "--out", "slots.csv", "--data", "data/train", "--phase", "train", "-q")
    words = ["--data", "data/train", "--phase", "own", "-q"]
    predict(trained, "--out", "own.csv", *words)
    predict(trained, "--out", "own2.csv", "--workers", "2", "--part_rows", "150", *words)
    assert (trained.path / "own.csv").read_bytes() == (trained.path / "own2.csv").read_bytes()
    one, other = (table(trained.path / name)["probability"] for name in ("slots.csv", "own.csv"))
    assert np.allclose(np.array(one, np.float32), np.array(other, np.float32), atol=1e-6)
