"""The runners of PaddleRec 1.8.5: which are run, how, and what the page says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docs import zoo_1_8_page
from tools import zoo_1_8

CONFIG = """\
runner:
- name: first
  class: train
- name: second
  class: cluster_train
- name: judged
  class: infer
- name: without
"""


def test_runners_that_train(tmp_path: Path) -> None:
    for name in ("rank/b", "rank/a"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "config.yaml").write_text(CONFIG)
    (tmp_path / "models" / "backend.yaml").write_text("job: 1\n")
    names = [f"rank/{each}/config.yaml" for each in "ab"]
    assert zoo_1_8.runners(tmp_path) == [(name, runner) for runner in ("first", "second") for name in names]


def test_how_they_are_run() -> None:
    alone = zoo_1_8.words("rank/a/config.yaml", "first", "alone", ["dataset.x.batch_size=2"])
    assert alone[:4] == ["train", "-m", "models/rank/a/config.yaml", "-q"]
    assert "mode=[first]" in alone
    assert "runner.first.class=train" in alone
    assert alone[-2:] == ["-o", "dataset.x.batch_size=2"]
    (config, runner), before = next(iter(zoo_1_8.BEFORE.items()))
    both = zoo_1_8.words(config, runner, "alone", [])
    assert {f"mode=[{before},{runner}]", f"runner.{before}.class=train", f"runner.{runner}.class=train"} <= set(both)
    served = zoo_1_8.words("rank/a/config.yaml", "first", "2 + 2", [])
    assert {"runner.first.class=local_cluster_train", "runner.first.server_num=2"} <= set(served)


def test_what_is_known_is_kept_in_order(tmp_path: Path) -> None:
    lines = [{"config": "b", "runner": "r", "way": way, "verdict": "trains"} for way in ("2 + 2", "alone")]
    zoo_1_8.save({(each["config"], each["runner"], each["way"]): each for each in lines}, tmp_path / "known")
    assert list(zoo_1_8.load(tmp_path / "known")) == [("b", "r", "alone"), ("b", "r", "2 + 2")]


def line(config: str, way: str, verdict: str, **more: Any) -> str:
    told = {"config": f"{config}/config.yaml", "runner": "r", "way": way, "verdict": verdict, "seconds": 7.6}
    return json.dumps({**told, **more})


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = "warning: x\nerror: a slot | is missing [UM-DATA-009]\n  because: y\n"
    lines = [
        line("rank/a", "alone", "trains", overrides=["k=1"]),
        line("rank/a", "2 + 2", "trains", overrides=["k=1"]),
        line("rank/b", "alone", "fails", said=slots),
        line("rank/b", "2 + 2", "timeout", said="warning: nothing\n"),
        line("rank/c", "alone", "fails", said="error: it broke [UM-TRAIN-021]\n"),
        line("recall/fasttext", "alone", "fails", said="FileNotFoundError: [Errno 2] No such file or directory: 'x'\n"),
        line("rank/d", "alone", "memory"),
    ]
    (tmp_path / "known").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(zoo_1_8_page, "RESULTS", tmp_path / "known")
    total, _, _, _, *rows = zoo_1_8_page.runners().splitlines()
    assert total.startswith("5 runners of 5 configs; 1 of the configs have one that trains both ways.")
    assert rows == [
        "| rank/a | r | trains | trains | 8, 8 | `-o k=1` |",
        "| rank/b | r | slots | over time | 8, 8 | `a slot / is missing [UM-DATA-009]` |",
        "| rank/c | r | **fails** | not measured | 8 | `it broke [UM-TRAIN-021]` |",
        "| rank/d | r | over 6 GB | not measured | 8 |  |",
        f"| recall/fasttext | r | no data | not measured | 8 | {zoo_1_8_page.NOTES['recall/fasttext/config.yaml']} |",
    ]
