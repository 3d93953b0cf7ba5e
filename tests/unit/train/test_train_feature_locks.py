"""The lock that the first trainer makes: the same for one trainer and for many, of the rows that are trained on, and never of a stream."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from umiak.core.problem import UmiakError
from umiak.data import features
from umiak.schema.features import reading
from umiak.train.checkpoints import feature_locks
from umiak.train.config.streams.settings import StreamSettings
from umiak.train.config.values import Dataset

SECTION = "features: {label: click, time: at, columns: [{name: user, kind: id, vocab: {min_count: 1}}, {name: price, kind: number, transform: zscore}]}\n"


def prepared(directory: Path, world: int, **more: Any) -> bytes:
    """The lock's file, as so many trainers make it."""
    (directory / "config.yaml").write_text(SECTION)
    data = directory / "data"
    data.mkdir()
    for part in range(4):
        rows = [f"{number % 2},{number},u{number % 9},{number / 7}" for number in range(part * 50, part * 50 + 50)]
        (data / f"{part}.csv").write_text("click,at,user,price\n" + "\n".join(rows) + "\n")
    section = reading.load(directory)
    dataset = Dataset(name="train", data_path=str(data), batch_size=8, features=section, **more)
    stage = SimpleNamespace(dataset=dataset, threads=1)
    run: Any = SimpleNamespace(stages=(stage,), evaluation=None)
    peers: Any = SimpleNamespace(
        world=world, is_first=True, tell=lambda *_: [], agree_on=lambda text, _: [text] * world
    )
    assert feature_locks.prepared(run, str(directory / "config.yaml"), None, peers, lambda _: None) is not None
    return (directory / "features.lock.json").read_bytes()


def test_it_is_the_same_for_one_trainer_and_for_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit, used = features.fit, []

    def counted(*given: Any, threads: int, **more: Any) -> Any:
        used.append(threads)
        return fit(*given, threads=threads, **more)

    monkeypatch.setattr(features, "fit", counted)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    found = []
    for world in (1, 3, 9):
        (tmp_path / str(world)).mkdir()
        found.append(prepared(tmp_path / str(world), world))
    assert used == [1, 3, 4], "as many as there are trainers, or cores"
    assert found[0] == found[1] == found[2]


def test_rows_that_are_evaluated_later_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "before").mkdir()
    assert b'"rows": 200' in prepared(tmp_path / "all", 1)
    assert b'"rows": 120' in prepared(tmp_path / "before", 1, rows_before=120.0)


def test_a_stream_is_not_fitted_to(tmp_path: Path) -> None:
    with pytest.raises(UmiakError, match="a stream is read once"):
        prepared(tmp_path, 1, stream=StreamSettings())
