"""What a run directory keeps of its config: what was used, overrides and all, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support import chance
from umiak.train.reports.kept_config import UsedParts, kept_config
from umiak.train.reports.rundir import RunDirectory

WRITTEN = {
    "mode": ["alone"],
    "workspace": "/data",
    "debug": None,
    "hyper_parameters": {"optimizer": {"class": "adam", "learning_rate": 1e-3}, "vocabulary": {}},
    "runner": [{"name": "alone", "epochs": 2, "phases": ["train"]}, {"name": "other", "epochs": 9}],
    "phase": [{"name": "train", "model": "m.py"}, {"name": "spare", "model": "n.py"}],
    "dataset": [{"name": "days", "data_path": "s3://ada:pw@lake/days", "fs_ugi": "ada,pw"}, {"name": "spare"}],
}
PARTS = UsedParts(runner="alone", phases=("train",), datasets=("days",))


def test_what_a_runner_uses_is_kept_by_its_names() -> None:
    assert kept_config("/home/ada/ctr.yaml", WRITTEN, PARTS) == {
        "config": "/home/ada/ctr.yaml",
        "runner": "alone",
        "settings": {
            "dataset.days.data_path": "***",
            "dataset.days.fs_ugi": "***",
            "debug": None,
            "hyper_parameters.optimizer.class": "adam",
            "hyper_parameters.optimizer.learning_rate": 1e-3,
            "hyper_parameters.vocabulary": "{}",
            "phase.train.model": "m.py",
            "runner.epochs": 2,
            "runner.phases": '["train"]',
            "workspace": "/data",
        },
    }


def test_the_newer_layout_is_kept_as_it_is_written() -> None:
    kept = kept_config("c.yaml", {"runner": {"epochs": 3, "train_data_dir": "data"}}, UsedParts(runner="runner"))
    assert kept["settings"] == {"runner.epochs": 3, "runner.train_data_dir": "data"}


def test_it_is_small_and_hides_what_looks_secret_whatever_the_config_is() -> None:
    random = chance()
    for _ in range(50):
        tree: dict[str, object] = {f"k{number}": random.random() for number in range(random.randrange(3000))}
        tree |= {"access_token": "topsecret", "deep": [{"password": "topsecret"}], "long": "x" * 5000}
        text = json.dumps(kept_config("c.yaml", tree, UsedParts(runner="r")))
        assert "topsecret" not in text
        assert len(text) < 200_000


def test_it_lies_in_the_run_directory_whole(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path), "alone")
    run.open_metrics(goes_on=False).close()
    run.write_config({"config": "c.yaml"})
    run.write_config({"config": "d.yaml"})
    assert json.loads((tmp_path / "alone" / "config.json").read_text()) == {"config": "d.yaml"}
    assert sorted(each.name for each in (tmp_path / "alone").iterdir()) == ["config.json", "metrics.jsonl"]
