"""The job's secret: where it is read, what is refused, and what is made up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from umiak.core.problem import UmiakError
from umiak.launch import job_token

LONG = "sixteen letters."


def code_of(environ: dict[str, str]) -> str:
    with pytest.raises(UmiakError) as caught:
        job_token.read(environ)
    (problem,) = caught.value.problems
    assert LONG[:15] not in "".join(problem.lines()), "a secret is not shown"
    return problem.code


def test_a_token_is_a_variable_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{LONG}\n")
    assert job_token.read({}) is None
    assert job_token.read({"UMIAK_TOKEN": ""}) is None
    assert job_token.read({"UMIAK_TOKEN": LONG}) == LONG.encode()
    assert job_token.read({"UMIAK_TOKEN_FILE": str(file)}) == LONG.encode()
    assert job_token.read({"UMIAK_TOKEN": f"{LONG}\n"}) == LONG.encode(), "as a Secret with a newline in it"


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(LONG[:15])
    assert code_of({"UMIAK_TOKEN": LONG[:15]}) == "UM-MEET-030"
    assert code_of({"UMIAK_TOKEN_FILE": str(file)}) == "UM-MEET-030"
    file.write_text("")
    assert code_of({"UMIAK_TOKEN_FILE": str(file)}) == "UM-LAUNCH-204"
    assert code_of({"UMIAK_TOKEN_FILE": str(tmp_path / "none")}) == "UM-LAUNCH-203"


def test_a_token_need_not_be_text() -> None:
    assert job_token.read({"UMIAK_TOKEN": os.fsdecode(b"\xff" * 16)}) == b"\xff" * 16
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "umiak.launch",
            "--nnodes",
            "2",
            "--master",
            "127.0.0.1:1",
            "--join_timeout",
            "0.1",
            "true",
        ],
        env={**os.environ, "UMIAK_TOKEN": os.fsdecode(b"\xff\xfe" * 8)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "bug in umiak" not in done.stderr
    assert done.returncode == 3


def test_a_token_that_is_made_up_is_for_this_user_alone(tmp_path: Path) -> None:
    made = job_token.generated_token({"HOME": str(tmp_path)}, "abc")
    file = Path(made.path)
    assert file.read_bytes().strip() == made.token
    assert len(made.token) == 32
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert job_token.read({"UMIAK_TOKEN_FILE": made.path}) == made.token
    job_token.forget(made)
    assert not file.exists()
    job_token.forget(made)


def test_where_it_can_not_be_written_a_person_is_told(tmp_path: Path) -> None:
    (tmp_path / ".umiak").write_text("a file")
    with pytest.raises(UmiakError) as caught:
        job_token.generated_token({"HOME": str(tmp_path)}, "abc")
    assert caught.value.problems[0].code == "UM-MEET-032"


def test_the_command_makes_a_token_that_is_long_enough() -> None:
    umiak = [sys.executable, "-m", "umiak.cli.main", "token"]
    one, other = (subprocess.check_output(umiak, text=True).strip() for _ in range(2))
    assert one != other
    assert job_token.read({"UMIAK_TOKEN": one}) == one.encode()
    refused = subprocess.run([*umiak, "more"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
