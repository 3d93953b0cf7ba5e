"""Commands about runs with wrong and strange input: what they tell, as text and as JSON, and what keeps working."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from umiak.cli import main
from umiak.cli.runs import list as list_command
from umiak.cli.runs import tables
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.status import JobStatus, State
from umiak.submit import configuration
from umiak.submit.flow import Flow
from umiak.submit.records import Records
from umiak.submit.run_record import RunRecord

BAD_TOML = """\
default_place = "labb"
[place.lab]
backend = "ssh"
hots = ["a"]
[place.x]
backend = "shh"
"""


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 2) -> str:
    assert main.main(list(words)) == status
    return capsys.readouterr().err


def record(number: int, place: str = "local", backend: str = "local", **more: object) -> RunRecord:
    return RunRecord(
        run_id=f"ctr-{number:08x}",
        name="ctr",
        place=place,
        backend=backend,
        directory="/work",
        digest="0",
        handle=f"{backend}://{place}/ctr-{number:08x}",
        submitted_s=time.time() - number,
        **more,  # type: ignore[arg-type]
    )


def keep(*records: RunRecord) -> Records:
    kept = Records(configuration.context(os.environ).state_directory)
    kept.prepare()
    for each in records:
        kept.write(each)
    return kept


def test_problems_are_json_on_standard_output_where_json_was_asked_for(
    at_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (at_home / "bad.yaml").write_text("name: a b\nwokers: 3\ncommand: train.py\n")
    for words in (
        ("submit", "bad.yaml", "--json"),
        ("status", "nothing", "--json"),
        ("image", "--device", "x", "--json"),
    ):
        assert main.main(list(words)) == 2
        out, err = capsys.readouterr()
        problems = json.loads(out)["problems"]
        assert [each["code"] in err for each in problems] == [True] * len(problems)
        assert set(problems[0]) == {"code", "what", "why", "hint", "where"}
    assert main.main(["submit", "bad.yaml"]) == 2
    assert capsys.readouterr().out == ""
    assert main.main(["submit", "--", "nowhere.py", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_what_is_no_yaml_is_all_that_is_told(at_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (at_home / "bad.yaml").write_text("name: x\n  command: [\n")
    assert [line for line in told(capsys, "submit", "bad.yaml").splitlines() if "error:" in line] == [
        "error: bad.yaml:2:10: not YAML: mapping values are not allowed here [UM-CONFIG-003]"
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "nowhere.yaml"),
        ("submit", "binary.yaml"),
        ("submit", "--nnodes", "0", "--", "train.py"),
        ("submit", "/"),
        ("submit", "--", "nowhere.py"),
        ("kubeconfig", "nowhere"),
    ],
)
def test_every_error_has_a_hint(at_home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    (at_home / "binary.yaml").write_bytes(b"\xbb\xff")
    assert main.main(list(words)) in (2, 3)
    err = capsys.readouterr().err
    assert err.count("error: ") == err.count("  hint: ") >= 1


def test_everything_wrong_in_the_files_and_in_the_asked_place_is_told_at_once(
    at_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (at_home / "umiak.toml").write_text(BAD_TOML)
    (at_home / "train.py").touch()
    err = told(capsys, "submit", "--on", "lab", "--", "train.py")
    assert [line.partition("umiak.toml:")[2].partition(":")[0] for line in err.splitlines() if "error:" in line] == [
        "1",
        "6",
        "4",
    ]
    assert "did you mean `hosts`?" in err
    (at_home / "umiak.toml").write_text("[place.lab\n")
    assert "  hint: tables are `[place.lab]`" in told(capsys, "submit", "--", "train.py")


def test_a_mistake_in_another_place_keeps_nobody_from_asking_about_a_run(at_home: Path) -> None:
    (at_home / "umiak.toml").write_text(f'{BAD_TOML}[place.near]\nbackend = "slurm"\n')
    keep(record(1), record(2, "near", "slurm"), record(3, "x", "shh"))
    flow = Flow(configuration.context(os.environ))
    assert flow.find("ctr-00000001").handle.place == "local"
    assert flow.find("ctr-00000002").handle.backend == "slurm"
    with pytest.raises(UmiakError, match="labb"):
        flow.find("ctr-00000003")


def test_doctor_names_file_and_line(at_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (at_home / "umiak.toml").write_text(BAD_TOML)
    assert main.main(["doctor", "--on", "lab", "--only", "place"]) == 1
    assert f"{at_home}/umiak.toml:1:1: default_place" in capsys.readouterr().out


def test_a_place_that_does_not_answer_is_asked_once_and_its_runs_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = JobStatus(state=State.SUCCEEDED, exit_code=0)
    keep(*[record(number, "lab", "ssh") for number in range(5)], record(9, status=done))
    asked = []

    def find(_: Flow, text: str) -> object:
        asked.append(text)
        raise UmiakError(Problem(code="UM-SUBMIT-101", what="lab1: unreachable"), exit_status=Exit.REFUSED)

    monkeypatch.setattr(Flow, "find", find)
    assert main.main(["list"]) == 0
    out, err = capsys.readouterr()
    assert len(asked) == 1
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["unknown"] * 5 + ["succeeded"]
    assert err == "note: runs of lab can't be asked about: lab1: unreachable [UM-SUBMIT-101]\n"
    assert main.main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert (rows[0]["state"], rows[0]["reason"]) == (None, "lab1: unreachable [UM-SUBMIT-101]")
    assert list_command.UNKNOWN_RUNS


def test_watching_a_run_ends_with_it_and_outlasts_a_place_that_is_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(record(1))
    away = UmiakError(Problem(code="UM-SUBMIT-101", what="lab1: unreachable"), exit_status=Exit.REFUSED)
    answers: list[JobStatus | UmiakError] = [
        JobStatus(state=State.RUNNING), away, JobStatus(state=State.SUCCEEDED, exit_code=0),
    ]  # fmt: skip

    def status(_: Flow, __: object) -> JobStatus:
        answer = answers.pop(0)
        if isinstance(answer, UmiakError):
            raise answer
        return answer

    monkeypatch.setattr(Flow, "status", status)
    assert main.main(["status", "ctr-00000001", "--watch", "--interval", "0.1"]) == 0
    out, err = capsys.readouterr()
    assert out.count("handle") == 2
    assert "warning: lab1: unreachable [UM-SUBMIT-101]" in err
    answers[:] = [away]
    assert main.main(["status", "ctr-00000001", "--watch", "--interval", "0.1"]) == 3


def test_a_rank_without_lines_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from umiak.submit.backends.local.backend import LocalBackend

    keep(record(1))
    monkeypatch.setattr(LocalBackend, "logs", lambda *_: iter(()))
    assert "note: no lines of trainer 9: " in told(capsys, "logs", "ctr-00000001", "--rank", "9", status=0)
    assert told(capsys, "logs", "ctr-00000001", status=0) == ""


def test_image_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["image", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["dockerfile"].startswith("FROM ")
    assert (data["tag"], data["commands"]) == (None, [])
    assert main.main(["image", "--json", "--tag", "a/b:1", "--dry_run"]) == 0
    assert json.loads(capsys.readouterr().out)["commands"][0][0] == "docker"


def test_states_have_colours_and_nothing_else() -> None:
    table = tables.rows(
        [
            ["RUN", "STATE", "PLACE"],
            ["running-1", "failed", "lost"],
            ["ctr-1", "succeeded", "running"],
            ["ctr-2", "cancelled", "lab"],
        ]
    )
    made = tables.coloured(table)
    assert re.sub("\x1b\\[[0-9;]*m", "", made) == table
    assert re.findall("\x1b\\[[0-9;]+m([a-z]+)\x1b", made) == ["failed", "succeeded"]
    nodes = tables.rows([["NODE", "ROLE", "RANK", "STATE"], ["node0", "server", "0", "running"], ["x", "", "", "lost"]])
    assert re.findall("\x1b\\[[0-9;]+m([a-z]+)\x1b", tables.coloured(nodes)) == ["running", "lost"]
    status = tables.rows([["ctr-1", "failed: exit code 1"], ["handle", "slurm://hpc/running"]])
    assert re.findall("\x1b\\[[0-9;]+m([a-z]+)\x1b", tables.coloured(status)) == ["failed"]
