"""Checkpoints behind URLs: sent whole, fetched whole, removed; with fsspec's own file systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from umiak.core.problem import UmiakError
from umiak.ps import manifest
from umiak.train.checkpoints.mirror import Mirror, Mirrors

pytest.importorskip("fsspec")


def checkpoint(root: Path, name: str, content: str = "rows") -> Path:
    path = root / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "shard-00000.umiak").write_text(content)
    (path / manifest.FILE_NAME).write_text("{}")
    return path


def contents(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_what_was_saved_is_sent_and_comes_back(tmp_path: Path) -> None:
    here, there, elsewhere = tmp_path / "here", tmp_path / "there", tmp_path / "elsewhere"
    mirror = Mirror(url=f"file://{there}", path=str(here))
    checkpoint(here, "0")
    checkpoint(here, "1", "more rows")
    mirror.send("0")
    mirror.send("1")
    assert contents(there) == contents(here)
    other = Mirror(url=f"file://{there}", path=str(elsewhere))
    other.fetch()
    assert contents(elsewhere) == contents(here)


def test_what_is_not_whole_is_not_fetched(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    checkpoint(there, "0")
    (checkpoint(there, "1") / manifest.FILE_NAME).unlink()
    checkpoint(here, "of an earlier run")
    Mirror(url=f"file://{there}", path=str(here)).fetch()
    assert sorted(path.name for path in here.iterdir()) == ["0"]


def test_one_of_the_same_name_is_replaced_and_its_manifest_comes_last(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    mirror = Mirror(url=f"file://{there}", path=str(here))
    checkpoint(here, "0", "old")
    mirror.send("0")
    checkpoint(here, "0", "new")
    (here / "0" / "shard-00001.umiak").write_text("second")
    mirror.send("0")
    assert contents(there) == contents(here)


def test_what_is_gone_here_goes_there(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    mirrors = Mirrors((Mirror(url=f"file://{there}", path=str(here)),))
    for name in ("0", "1"):
        mirrors.send(str(checkpoint(here, name)))
    for file in (here / "0").iterdir():
        file.unlink()
    (here / "0").rmdir()
    mirrors.prune(str(here))
    assert sorted(path.name for path in there.iterdir()) == ["1"]
    assert mirrors.spoken(str(here / "1")) == f"file://{there}/1"
    assert mirrors.spoken("elsewhere/1") == "elsewhere/1"


def test_an_empty_store_is_no_error_and_one_that_refuses_is(tmp_path: Path) -> None:
    Mirror(url="memory://umiak-nothing", path=str(tmp_path / "a")).fetch()
    with pytest.raises(UmiakError) as caught:
        Mirror(url="nosuchscheme://x/y", path=str(tmp_path / "b")).fetch()
    assert caught.value.problems[0].code == "UM-DATA-007"
    (tmp_path / "file").write_text("in the way")
    checkpoint(tmp_path / "c", "0")
    with pytest.raises(UmiakError) as caught:
        Mirror(url=f"file://{tmp_path}/file/below", path=str(tmp_path / "c")).send("0")
    assert caught.value.problems[0].code == "UM-TRAIN-040"
