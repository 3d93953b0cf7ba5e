"""`umiak data`: what it prints, and how it ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from umiak.cli import main as cli


def umiak(*words: str) -> int:
    return cli.main(["data", *words])


def test_show_prints_columns_and_first_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"user": ["a", None, "b\x1b[31m"], "tags": [["x"], [], None], "deep": [[[1]]] * 3}), file)
    assert umiak("show", str(file), "--rows", "3") == 0
    out = capsys.readouterr().out
    assert "rows     3 in 1 row groups" in out
    assert "\x1b" not in out
    lines = [line.split(maxsplit=2) for line in out.splitlines()[-3:]]
    assert lines[0][:2] == ["user", "text"]
    assert lines[0][2].startswith("'a', -, ")
    assert out.splitlines()[-2].split(maxsplit=3) == ["tags", "list", "of", "text     ['x'], [], -"]
    assert "lists of lists are not read" in out.splitlines()[-1]
    assert umiak("show", str(file), "--json", "--column", "user", "--rows", "2") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["rows"], told["row_groups"]) == ("Parquet", 3, 1)
    assert told["first_rows"] == [{"user": "a"}, {"user": None}]
    assert told["columns"][2] == {
        "name": "deep",
        "type": "integer",
        "list": True,
        "refused": "lists of lists are not read",
    }


def test_check_reads_first_rows_or_all_and_counts_bad_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.csv.gz"
    file.write_bytes(gzip.compress(b"n,s\n" + b"1,x\n" * 200 + b"x,y\n3\n"))
    assert umiak("check", str(file), "--number", "n") == 0
    assert "rows read  100, the first ones of each file" in capsys.readouterr().out
    assert umiak("check", str(file), "--number", "n", "--whole") == 2
    told = capsys.readouterr()
    assert "rows read  202, all" in told.out
    assert "bad rows   2" in told.out
    assert "t.csv.gz:202, column 'n': a number is expected: 'x'" in told.err
    assert umiak("check", str(file), "--number", "n", "--whole", "--json") == 2
    assert json.loads(capsys.readouterr().out)["bad_rows"] == 2


def test_files_that_do_not_fit_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("user,price\nx,1\n")
    (tmp_path / "b.csv").write_text("user,prize\nx,1\n")
    assert umiak("check", str(tmp_path / "*.csv")) == 2
    err = capsys.readouterr().err
    assert "b.csv: column 'price' is missing" in err
    assert "is it called 'prize' here?" in err
    assert "[UM-DATA-116]" in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["look"], "UM-CLI-004"),
        (["show"], "UM-CLI-005"),
        (["check", "--delimiter", ",,", "x"], "UM-CLI-005"),
        (["show", "nowhere.csv"], "UM-DATA-006"),
        (["check", "nowhere.csv"], "UM-DATA-006"),
    ],
)
def test_wrong_requests_are_refused(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert umiak(*words) == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_a_file_without_a_header_or_with_its_own_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.txt"
    file.write_text('1\t"x\n\\N\ty\n')
    assert umiak("show", str(file), "--names", "a,b", "--delimiter", "\\t", "--no_quotes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["first_rows"] == [{"a": "1", "b": '"x'}, {"a": "\\N", "b": "y"}]
    assert (
        umiak(
            "check",
            str(file),
            "--names",
            "a,b",
            "--delimiter",
            "\\t",
            "--no_quotes",
            "--number",
            "a",
            "--missing",
            "\\N",
        )
        == 0
    )


def test_rows_that_are_left_out_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b\n1,2\n3\n4,5\n")
    assert umiak("show", str(file)) == 0
    told = capsys.readouterr()
    assert "'1', '4'" in told.out
    assert "1 row can't be read: `umiak data check --whole" in told.err
    assert umiak("show", str(file), "--json") == 0
    assert json.loads(capsys.readouterr().out)["bad_rows"] == 1


def test_what_can_not_be_reached_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert umiak("show", "memory://nowhere/t.parquet") == 3
    assert "FileNotFoundError" in capsys.readouterr().err

    def denied(*_: object) -> bool:
        raise PermissionError(13, "Permission denied", str(tmp_path / "a"))

    (tmp_path / "a").write_text("x")
    monkeypatch.setattr(Path, "is_file", denied)
    assert umiak("check", str(tmp_path)) == 3
    assert f"{tmp_path / 'a'}: it can't be read: Permission denied" in capsys.readouterr().err
