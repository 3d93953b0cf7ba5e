"""Scalars for VisualDL and TensorBoard: stand-ins with the few names of theirs that are used. Both were tried for real by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from umiak.train.reports.scalars import Scalars

WRITER = """
class {name}:
    def __init__(self, directory):
        {first}
        self.directory, self.told = directory, []
        written.append(self)
    def add_scalar(self, name, number, step):
        self.told.append((name, number, step))
    def close(self):
        self.told.append("closed")

written = []
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("visualdl", "tensorboard", "tensorboard.summary"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_each_package_that_is_installed_is_told(packages: Path) -> None:
    (packages / "visualdl.py").write_text(WRITER.format(name="LogWriter", first=""))
    (packages / "tensorboard").mkdir()
    (packages / "tensorboard" / "__init__.py").touch()
    (packages / "tensorboard" / "summary.py").write_text(WRITER.format(name="Writer", first=""))
    notes: list[str] = []
    scalars = Scalars("run/x", notes.append)
    scalars.put("train/loss", 0.5, 100)
    scalars.close()
    import tensorboard.summary
    import visualdl

    for module, name in ((visualdl, "visualdl"), (tensorboard.summary, "tensorboard")):
        (writer,) = module.written
        assert writer.directory == f"run/x/{name}"
        assert writer.told == [("train/loss", 0.5, 100), "closed"]
    assert notes == []


def test_one_that_fails_is_a_note_and_no_more(packages: Path) -> None:
    (packages / "visualdl.py").write_text(WRITER.format(name="LogWriter", first="raise OSError('no room')"))
    notes: list[str] = []
    scalars = Scalars("run/x", notes.append)
    scalars.put("train/loss", 0.5, 100)
    scalars.close()
    assert notes == ["no scalars for visualdl: OSError: no room"]
