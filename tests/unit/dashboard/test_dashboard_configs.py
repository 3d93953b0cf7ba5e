"""The configs that runs keep: what differs, and which earlier run of the same one was best."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.run_directories import WALL, progress, train_directory, with_config
from umiak.dashboard.index import RunIndex, id_of
from umiak.dashboard.trained import configs
from umiak.dashboard.trained.configs import EarlierRuns


def trained(
    path: Path, at_s: float, loss: float, file: str = "/c.yaml", *, ended: bool = True, **settings: object
) -> str:
    points = [progress(100, 1.0, WALL + at_s), progress(200, loss, WALL + at_s + 1)]
    train_directory(path, *points, outcome={"stopped": False} if ended else None)
    with_config(path, file, **settings)
    return id_of(str(path))


def best_of(index: RunIndex, run_id: str, known: EarlierRuns | None = None) -> tuple[str | None, int]:
    row = index.row(run_id)
    assert row is not None
    best, count = (known or EarlierRuns()).best(index.rows, index.source, row)
    return best.id if best else None, count


def test_the_best_earlier_run_of_the_same_config(tmp_path: Path) -> None:
    first = trained(tmp_path / "run" / "a", 0, 0.5, rate=0.1)
    second = trained(tmp_path / "run" / "b", 10, 0.3, rate=0.2)
    elsewhere = trained(tmp_path / "run" / "c", 15, 0.1, "/other.yaml", rate=0.3)
    now = trained(tmp_path / "run" / "d", 20, 0.4, rate=0.1)
    later = trained(tmp_path / "run" / "e", 30, 0.2, rate=0.1)
    train_directory(tmp_path / "run" / "without", outcome={"stopped": False})
    index = RunIndex([str(tmp_path)])
    index.refresh()
    known = EarlierRuns()
    assert best_of(index, now, known) == (second, 2), "the lowest loss of those that began before"
    assert best_of(index, first, known) == (None, 0)
    assert best_of(index, elsewhere, known) == (None, 0)
    assert best_of(index, later, known) == (second, 3)
    assert best_of(index, id_of(str(tmp_path / "run" / "without"))) == (None, 0)
    with_config(tmp_path / "run" / "b", "/moved.yaml", rate=0.9)
    assert best_of(index, now, known) == (first, 1), "what is known of a config is as old as its file"
    with_config(tmp_path / "run" / "c", "/moved.yaml", rate=0.1)
    assert best_of(index, now, known) == (elsewhere, 2), "the same settings are the same config wherever the file was"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"settings": 1, "config": "", "runner": ""}', "\udcff{", "[" * 10_000]
)
def test_what_is_no_config_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    assert configs.config_of(str(tmp_path)) is None


def test_a_link_is_no_config(tmp_path: Path) -> None:
    with_config(tmp_path, "/c.yaml")
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    (tmp_path / "config.json").symlink_to("other.json")
    assert configs.config_of(str(tmp_path)) is None
