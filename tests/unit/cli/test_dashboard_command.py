"""`umiak dashboard`: what its command line may say, and the runs of `umiak submit` that it hands over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from umiak.cli.dashboard import command
from umiak.cli.dashboard.flags import DASHBOARD_FLAGS
from umiak.cli.dashboard.known import SubmittedRuns
from umiak.core.problem import UmiakError
from umiak.core.status import JobStatus, State
from umiak.dashboard.options import DashboardOptions
from umiak.schema import command_line
from umiak.schema.flags import Parsed
from umiak.submit.records import Records
from umiak.submit.run_record import RunRecord


def parsed(*argv: str) -> Parsed:
    return command_line.parse(DASHBOARD_FLAGS, argv, {}, starts_program=False, arguments=1000)


def options(*argv: str) -> DashboardOptions:
    return command.options_of(parsed(*argv))


def codes(*argv: str) -> list[str]:
    with pytest.raises(UmiakError) as error:
        options(*argv)
    return [problem.code for problem in error.value.problems]


def test_directories_are_the_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    assert options().directories == (str(tmp_path),)
    assert options("a", "--port", "8200", str(tmp_path)).directories == (str(tmp_path / "a"), str(tmp_path))
    assert codes("a", "b", "c") == ["UM-DASH-004", "UM-DASH-004"]


def test_beyond_this_machine_it_needs_tls_or_a_word() -> None:
    assert codes("--host", "0.0.0.0") == ["UM-DASH-003"]
    assert codes("--host", "gpu7.lab") == ["UM-DASH-003"]
    assert options("--host", "0.0.0.0", "--insecure").host == "0.0.0.0"
    assert options("--host", "gpu7.lab", "--tls-cert", "x.pem").tls_certificate == "x.pem"
    assert options("--host", "::1").host == "::1"
    assert options("--host", "127.0.0.1").host == "127.0.0.1"
    assert codes("--tls-key", "x.pem", "nowhere") == ["UM-DASH-002", "UM-DASH-004"]


def test_a_token_of_a_file_is_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("t" * 40 + "\n")
    path.chmod(0o600)
    assert options("--token-file", str(path)).token == "t" * 40
    path.chmod(0o640)
    assert codes("--token-file", str(path)) == ["UM-DASH-005"]
    path.chmod(0o600)
    for wrong in ("short", "t" * 40 + "\nx", "ü" * 40, ""):
        path.write_text(wrong)
        assert codes("--token-file", str(path)) == ["UM-DASH-005"]
    assert codes("--token-file", str(tmp_path / "nowhere")) == ["UM-DASH-005"]


def test_a_browser_is_opened_only_where_there_is_a_screen(tmp_path: Path) -> None:
    opener = tmp_path / "xdg-open"
    opener.write_text("#!/bin/sh\n")
    opener.chmod(0o755)
    assert command.opener_of({"PATH": str(tmp_path)}) is None
    assert command.opener_of({"PATH": str(tmp_path), "DISPLAY": ":0"}) == str(opener)
    assert command.opener_of({"PATH": "/nowhere", "WAYLAND_DISPLAY": "x"}) is None


def record(run_id: str, **fields: object) -> RunRecord:
    given = {"name": "ctr", "place": "lab", "backend": "slurm", "directory": "/x", "digest": "d", "submitted_s": 1.0}
    return RunRecord(run_id=run_id, **{**given, **fields})  # type: ignore[arg-type]


def test_submitted_runs_are_read_again_only_if_they_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records(str(tmp_path))
    records.prepare()
    records.write(record("ctr-1", handle="slurm://lab/7"))
    records.write(record("ctr-2", place="local", backend="local", handle="local://local/ctr-2"))
    known = SubmittedRuns(str(tmp_path))
    found = {run.run_id: run for run in known()}
    assert (found["ctr-1"].state, found["ctr-1"].log_directory) == ("", "")
    assert found["ctr-2"].log_directory == str(tmp_path / "local" / "ctr-2" / "log")
    read: list[str] = []
    real = Records.read
    monkeypatch.setattr(Records, "read", lambda self, name: read.append(name) or real(self, name))
    assert {run.run_id for run in known()} == {"ctr-1", "ctr-2"}
    assert read == []
    records.end(record("ctr-1"), JobStatus(state=State.FAILED, reason="no"))
    assert {run.run_id: run.state for run in known()} == {"ctr-1": "failed", "ctr-2": ""}
    assert read == ["ctr-1"]
    os.unlink(tmp_path / "runs" / "ctr-1.json")
    assert [run.run_id for run in known()] == ["ctr-2"]


def test_a_record_that_can_not_be_understood_is_one_run_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "bad-1.json").write_text(json.dumps({"run_id": 7}))
    (run,) = SubmittedRuns(str(tmp_path))()
    assert (run.run_id, run.state, run.reason) == ("bad-1", "unreadable", "its record can't be understood")


def test_runs_can_be_cancelled_only_if_it_was_said(tmp_path: Path) -> None:
    assert options("--allow", "cancel", str(tmp_path)).allowed == {"cancel"}
    assert options(str(tmp_path)).allowed == frozenset()
    with pytest.raises(UmiakError, match="scale"):
        options("--allow", "scale", str(tmp_path))


def test_what_other_programs_know_is_handed_over(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    given = command.given_of(parsed(), environ)
    assert given.places is not None
    assert given.cancel is not None
    assert [*given.cancel("ctr-3f")][-3:] == ["cancel", "--json", "ctr-3f"]
    alone = command.given_of(parsed("--no_submitted"), environ)
    assert (alone.places, alone.cancel) == (None, None)
