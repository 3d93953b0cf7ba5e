"""`umiak features`: what it writes and prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umiak.cli import main as cli

CONFIG = """features:
  columns:
    - {name: user, kind: id}
    - {name: city, kind: id, vocab: fit}
    - {name: price, kind: number, transform: zscore}
  label: click
"""


def umiak(*words: str) -> int:
    return cli.main(["features", *words])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "day.csv").write_text("user,city,price,click\nu1,x,1,0\nu2,y,3,1\n,x,5,1\n")
    return tmp_path


def test_fit_show_and_check(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(model / "day.csv")
    assert umiak("fit", "-m", str(model), "--data", data) == 0
    assert capsys.readouterr().out == f"{model}/features.lock.json: 3 rows, 2 words\n"
    assert umiak("fit", "-m", str(model), "--data", data, "--threads", "2", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], len(told["files"]), len(told["sha256"])) == (3, 2, 64)
    assert umiak("fit", "-m", str(model / "config.yaml"), "--data", data) == 0
    assert "2 words, 2 of them from the older lock" in capsys.readouterr().out
    assert umiak("show", "-m", str(model)) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert lines[0] == ["user", "id", "user", "user", "on", "demand", "33.3%", "-", "-"]
    assert lines[1] == ["city", "id", "city", "city", "5", "0.0%", "-", "-"]
    assert lines[2][:4] + lines[2][6:] == ["price", "number", "price", "-", "3", "1.63299"]
    assert umiak("show", "-m", str(model), "--json") == 0
    assert json.loads(capsys.readouterr().out)["sha256"] == told["sha256"]
    assert umiak("check", "-m", str(model), "--data", data) == 0
    assert "it belongs to the config, 3 rows read" in capsys.readouterr().out


def test_check_says_what_does_not_fit(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert umiak("check", "-m", str(model)) == 3
    assert "UM-DATA-121" in capsys.readouterr().err
    assert umiak("fit", "-m", str(model), "--data", str(model / "day.csv"), "-q") == 0
    (model / "other.csv").write_text("user,city,click\nu1,x,0\n")
    (model / "bad.csv").write_text("user,city,price,click\nu1,x,cheap,0\n")
    capsys.readouterr()
    assert (
        umiak("check", "-m", str(model), "--data", str(model / "other.csv"), "--data", str(model / "bad.csv"), "--json")
        == 2
    )
    told = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in told["problems"]] == ["UM-DATA-113", "UM-DATA-112"]
    (model / "config.yaml").write_text(CONFIG.replace("vocab: fit", "hash: 5"))
    assert umiak("check", "-m", str(model)) == 2
    err = capsys.readouterr().err
    assert "UM-DATA-124" in err
    assert "different: city" in err


def test_what_is_missing_or_has_no_effect_is_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert umiak("fit") == 2
    err = capsys.readouterr().err
    assert "-m is missing" in err
    assert "--data is missing" in err
    assert umiak("show", "-m", str(model), "--threads", "2") == 2
    assert "--threads has no effect" in capsys.readouterr().err
    assert umiak("fit", "-m", str(model), "--data", "x", "--bad_rows", "2") == 2
    assert "a share from 0 to 1" in capsys.readouterr().err
    assert umiak("fitt") == 2
    assert "unknown command: fitt" in capsys.readouterr().err
