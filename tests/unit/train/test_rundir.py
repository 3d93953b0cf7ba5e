"""The run directory: one run at a time, and how it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from umiak.core.problem import UmiakError
from umiak.train.reports.rundir import RunDirectory


def test_how_a_run_ended_is_read_back(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path), "r")
    assert run.outcome() is None
    run.forget_outcome()
    run.open_metrics(goes_on=False).close()
    run.write_outcome({"stopped": True, "saved": "out/0"})
    assert run.outcome() == {"stopped": True, "saved": "out/0"}
    assert sorted(each.name for each in (tmp_path / "r").iterdir()) == ["metrics.jsonl", "outcome.json"]
    run.forget_outcome()
    assert run.outcome() is None


def test_what_is_torn_was_not_told(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "outcome.json").write_text('{"stopped": tr')
    assert RunDirectory(str(tmp_path), "r").outcome() is None


def test_metrics_have_one_writer(tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path), "r")
    with run.open_metrics(goes_on=False) as file:
        file.write("1\n")
        file.flush()
        with pytest.raises(UmiakError) as raised:
            run.open_metrics(goes_on=False)
        assert [problem.code for problem in raised.value.problems] == ["UM-TRAIN-065"]
        assert Path(run.metrics).read_text() == "1\n"
    with run.open_metrics(goes_on=True) as file:
        file.write("2\n")
    assert Path(run.metrics).read_text() == "1\n2\n"
    run.open_metrics(goes_on=False).close()
    assert Path(run.metrics).read_text() == ""


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    """Somebody else may have made the directory, with a link to a file of this user's."""
    own = tmp_path / "thesis.tex"
    own.write_text("all of it")
    run = RunDirectory(str(tmp_path), "r")
    (tmp_path / "r").mkdir()
    for name in ("metrics.jsonl", "outcome.json.tmp", "curve.svg"):
        (tmp_path / "r" / name).symlink_to(own)
    with pytest.raises(OSError, match="symbolic links"):
        run.open_metrics(goes_on=False)
    with pytest.raises(OSError, match="symbolic links"):
        run.write_outcome({})
    with pytest.raises(OSError, match="symbolic links"):
        run.write_plot("<svg/>")
    assert own.read_text() == "all of it"
