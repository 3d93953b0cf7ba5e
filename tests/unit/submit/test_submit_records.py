"""What records know: ends that are final, places that are found from anywhere, repetitions, and full disks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import disks
from testbed.pytest_support import require
from umiak.cli import main
from umiak.core.bundle import Bundle
from umiak.core.job import FileSet, Handle, Job
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import replace
from umiak.submit import configuration, place_record, registry, run_choice
from umiak.submit.backend import AnswerLost, LogLine, LogsWanted, Pinning, Reviving, Submission, SubmitContext
from umiak.submit.flow import Flow
from umiak.submit.places import NamedPlace
from umiak.submit.records import Records
from umiak.submit.run_record import from_plain, to_plain

JOB = Job(name="ctr", command=("train.py",))
DONE = JobStatus(
    state=State.SUCCEEDED,
    exit_code=0,
    reason="lost: node2",
    started_s=5.0,
    ended_s=9.0,
    nodes=(NodeStatus(name="a", host="10.0.0.1", state=State.SUCCEEDED), NodeStatus(name="b", state=State.LOST)),
)
AWAY = UmiakError(Problem(code="UM-SUBMIT-101", what="node0: unreachable"), exit_status=Exit.REFUSED)


class Cloud(Pinning, Reviving):
    """One cloud for all places of its backend; it remembers which of them was asked what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.started: list[str] = []
        self.answer: JobStatus | UmiakError = JobStatus(state=State.RUNNING)
        self.context = "current"
        self.comes_back = False
        self.at_submit: Any = None
        self.secret = ""

    def at(self, place: NamedPlace, context: SubmitContext) -> Cloud:
        made = Cloud()
        made.__dict__ = {**self.__dict__, "shared": self, "place": place, "directory": context.directory}
        return made

    def where(self) -> str:
        entry = self.__dict__["place"].settings.get("region")
        return str(entry.node.text) if entry else ""

    def pinned(self) -> dict[str, str]:
        return {"context": self.context}

    def may_come_back(self, status: JobStatus) -> bool:
        return bool(self.__dict__["shared"].comes_back)

    def check(self, job: Job) -> list[Problem]:
        return []

    def render(self, job: Job, run_id: str) -> Bundle:
        return Bundle()

    def submit(self, submission: Submission) -> Handle:
        shared = self.__dict__["shared"]
        if submission.run_id not in shared.started:
            shared.started.append(submission.run_id)
        if shared.at_submit:
            shared.at_submit()
        return Handle(backend="cloud", place=self.__dict__["place"].name, id=submission.run_id)

    def status(self, handle: Handle) -> JobStatus:
        shared = self.__dict__["shared"]
        shared.asked.append((self.where(), self.__dict__["directory"]))
        if isinstance(shared.answer, UmiakError):
            raise shared.answer
        return shared.answer  # type: ignore[no-any-return]

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        if wanted.follow:
            yield LogLine(source="trainer.0", text="for ever")
        shared = self.__dict__["shared"]
        if isinstance(shared.answer, UmiakError):
            raise shared.answer
        yield LogLine(source="trainer.0", text="end")

    def cancel(self, handle: Handle, grace_s: float) -> None:
        raise AssertionError("it was over")

    def list(self) -> list[Handle]:
        return []


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    made = Cloud()
    monkeypatch.setitem(registry.OURS, "cloud", f"{__name__}:the_cloud")
    monkeypatch.setitem(sys.modules, __name__, type(sys)(__name__))
    monkeypatch.setattr(sys.modules[__name__], "the_cloud", made.at, raising=False)
    return made


def project(tmp_path: Path, name: str, region: str, more: str = "") -> Path:
    path = tmp_path / name
    path.mkdir(exist_ok=True)
    (path / "umiak.toml").write_text(f'[place.lab]\nbackend = "cloud"\nregion = "{region}"\n{more}')
    (path / "train.py").write_text("print('one')\n")
    return path


def at(path: Path, told: list[str] | None = None) -> Flow:
    environ = {"HOME": str(path.parent)}
    return Flow(configuration.context(environ, str(path), tell=told.append if told is not None else None))


def submitted(flow: Flow, **more: Any) -> str:
    made = flow.submit(more.pop("job", JOB), flow.place("lab"), **more)
    flow.told(made)
    return str(made.handle)


# ---- what is over stays over


@pytest.mark.parametrize(
    "answer", [AWAY, JobStatus(state=State.LOST), JobStatus(state=State.RUNNING, said="unreachable")]
)
@pytest.mark.parametrize(
    "end", [DONE, replace(DONE, state=State.FAILED, exit_code=7), replace(DONE, state=State.CANCELLED)]
)
def test_a_recorded_end_is_final_and_nobody_is_asked(tmp_path: Path, cloud: Cloud, end: JobStatus, answer: Any) -> None:
    path = project(tmp_path, "one", "eu")
    handle = submitted(at(path))
    cloud.answer = end
    first = at(path).status(at(path).find(handle))
    cloud.answer, cloud.asked = answer, []
    elsewhere = project(tmp_path, "two", "us")
    for flow in (at(path), at(elsewhere)):
        assert flow.status(flow.find(handle)) == first
        assert flow.wait(flow.find(handle), 0) == first
    assert (first.nodes, first.ended_s, first.exit_code, first.reason) == (end.nodes, 9.0, end.exit_code, end.reason)
    assert cloud.asked == []


def test_a_run_that_is_lost_may_be_found_again_and_else_stays_lost(tmp_path: Path, cloud: Cloud) -> None:
    flow = at(project(tmp_path, "one", "eu"))
    handle = submitted(flow)
    cloud.answer = JobStatus(state=State.LOST, reason="gone")
    assert flow.status(flow.find(handle)).state is State.LOST
    for answer in (AWAY, JobStatus(state=State.RUNNING, said="unreachable")):
        cloud.answer = answer
        assert flow.wait(flow.find(handle)).reason == "gone"
    cloud.answer = JobStatus(state=State.RUNNING)
    assert flow.status(flow.find(handle)).state is State.RUNNING
    cloud.answer = AWAY
    with pytest.raises(UmiakError):  # it is not over any more
        flow.status(flow.find(handle))
    cloud.answer = DONE
    assert flow.status(flow.find(handle)).state is State.SUCCEEDED
    cloud.answer = AWAY
    assert flow.status(flow.find(handle)).state is State.SUCCEEDED


def test_an_end_that_may_not_be_the_last_word_is_not_kept(tmp_path: Path, cloud: Cloud) -> None:
    flow = at(project(tmp_path, "one", "eu"))
    handle = submitted(flow)
    cloud.answer, cloud.comes_back = JobStatus(state=State.FAILED, said="NODE_FAIL"), True
    assert flow.status(flow.find(handle)).state is State.FAILED
    cloud.answer = JobStatus(state=State.QUEUED)
    assert flow.status(flow.find(handle)).state is State.QUEUED


def test_lines_of_a_run_that_is_over_are_there_or_an_error_says_why_not(tmp_path: Path, cloud: Cloud) -> None:
    flow = at(project(tmp_path, "one", "eu"))
    handle = submitted(flow)
    cloud.answer = DONE
    flow.status(flow.find(handle))
    follow = LogsWanted(follow=True)
    assert [line.text for line in flow.logs(flow.find(handle), follow)] == ["end"]  # nothing more can come
    cloud.answer = AWAY
    with pytest.raises(UmiakError) as told:
        list(flow.logs(flow.find(handle), follow))
    (problem,) = told.value.problems
    assert (problem.code, told.value.exit_status) == ("UM-SUBMIT-360", Exit.REFUSED)
    assert "node0: unreachable" in str(problem.why)
    assert "succeeded" in str(problem.hint)


def test_a_run_that_is_over_needs_no_backend_any_more(
    tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = at(project(tmp_path, "one", "eu"))
    over, running = submitted(flow), submitted(flow)
    cloud.answer = DONE
    flow.status(flow.find(over))
    monkeypatch.delitem(registry.OURS, "cloud")  # the package that brought it was removed
    flow = at(tmp_path / "one")
    assert flow.status(flow.find(over)).state is State.SUCCEEDED
    with pytest.raises(UmiakError, match="can't be read"):
        list(flow.logs(flow.find(over), LogsWanted()))
    with pytest.raises(UmiakError, match="unknown backend"):
        flow.find(running)


# ---- a handle is enough


def test_a_run_is_found_from_every_directory_and_no_other_project_speaks_for_it(tmp_path: Path, cloud: Cloud) -> None:
    one, two = project(tmp_path, "one", "eu"), project(tmp_path, "two", "us")
    (tmp_path / "nowhere").mkdir()
    handle = submitted(at(one))
    other = submitted(at(two))
    (one / "umiak.toml").write_text('[place.lab]\nbackend = "cloud"\nregion = "moved"\n')
    for path in (one, two, tmp_path / "nowhere"):
        flow = at(path)
        for each, expected in ((handle, ("eu", str(one))), (other, ("us", str(two)))):
            cloud.asked = []
            assert flow.status(flow.find(each)).state is State.RUNNING
            assert cloud.asked == [expected]  # as it was submitted, whatever the files say today


def test_records_of_older_versions_are_found_by_the_file_of_their_directory(tmp_path: Path, cloud: Cloud) -> None:
    one, two = project(tmp_path, "one", "eu"), project(tmp_path, "two", "us")
    flow = at(one)
    handle = submitted(flow)
    run_id = handle.rpartition("/")[2]
    path = Path(flow.context.state_directory) / "runs" / f"{run_id}.json"
    plain = json.loads(path.read_text())
    path.write_text(json.dumps({name: item for name, item in plain.items() if name not in ("place_file", "files")}))
    flow = at(two)
    flow.status(flow.find(handle))
    assert cloud.asked == [("eu", str(one))]
    (one / "umiak.toml").unlink()  # then as before: the file of the working directory
    flow = at(two)
    flow.status(flow.find(handle))
    assert cloud.asked[1:] == [("us", str(one))]


def test_a_kept_place_has_its_settings_and_no_secret(tmp_path: Path, cloud: Cloud) -> None:
    more = (
        'sk = "plain-9f31"\nak = "$CLOUD_AK"\npassword_from = "LAB_PASSWORD"\nendpoint = "https://me:hunter2@api"\n'
        'hosts = ["a", "b:22"]\nretries = 0\n[place.lab.volumes.data]\nmount = "/data"\nread_only = false\n'
    )
    one = project(tmp_path, "one", "eu", more)
    flow = at(one)
    handle = submitted(flow)
    kept = Path(flow.context.state_directory) / "runs" / "places"
    (file,) = kept.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert not [word for word in ("plain-9f31", "hunter2") if word in file.read_text()]
    record = flow.records.read(handle.rpartition("/")[2])
    assert record is not None
    place, hidden = flow.records.place(record.place_file) or (None, [])
    assert place is not None
    assert sorted(hidden) == ["endpoint", "sk"]
    original = flow.place("lab").settings
    for name in ("region", "ak", "password_from", "hosts", "retries", "volumes"):
        kept_entry, entry = place.settings.get(name), original.get(name)
        assert kept_entry is not None
        assert entry is not None
        from umiak.schema.yaml_tree import free

        assert free(kept_entry.node) == free(entry.node)
        assert str(kept_entry.place) == str(entry.place)
    pinned = place.settings.get("context")
    assert pinned is not None
    assert free(pinned.node) == "current"
    # What was left out comes from the project's file of today; another backend's place has nothing to add.
    today = flow.place("lab")
    filled = place_record.with_secrets(place, hidden, today)
    assert free(filled.settings)["sk"] == "plain-9f31"
    assert place_record.with_secrets(place, hidden, replace(today, backend="local")) == place
    submitted(flow)
    assert len([*kept.iterdir()]) == 1  # one for all runs with the same settings


def test_the_newest_runs_of_two_places_with_one_name_are_listed_each_from_its_own(
    tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = project(tmp_path, "one", "eu"), project(tmp_path, "two", "us")
    submitted(at(one))
    submitted(at(two))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main.main(["list"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]] == ["running"] * 2
    assert sorted(cloud.asked) == [("eu", str(one)), ("us", str(two))]


# ---- repetitions


def lost(flow: Flow, **more: Any) -> str:
    """A submission whose handle nobody has seen: its client was killed."""
    made = flow.submit(more.pop("job", JOB), flow.place("lab"), **more)
    for path in (Path(flow.context.state_directory) / "runs" / "pending").iterdir():
        path.write_text("{}")
    return str(made.handle)


@pytest.mark.parametrize("changed", ["nothing", "files", "job", "settings", "over", "old", "directory"])
def test_a_repetition_finds_a_run_that_is_young_not_over_and_the_same(
    tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    path = project(tmp_path, "one", "eu")
    first, job, told = lost(at(path)), JOB, []
    match changed:
        case "files":
            (path / "train.py").write_text("print('two')\n")
        case "job":
            job = replace(JOB, env=(("A", "1"),))
        case "settings":
            project(tmp_path, "one", "us")
        case "over":
            cloud.answer = DONE
        case "old":
            monkeypatch.setattr(run_choice, "YOUNG_S", -1.0)
        case "directory":
            path = project(tmp_path, "two", "eu")
    flow = at(path, told)
    second = flow.submit(job, flow.place("lab"))
    is_same = changed == "nothing"
    assert second.is_repeated is is_same
    assert (str(second.handle) == first) is is_same
    assert len(cloud.started) == (1 if is_same else 2)
    is_said = changed in ("files", "settings", "over", "old")
    assert [line for line in told if "this is a new run" in line and first in line] == (told if is_said else [])
    assert len(told) == is_said


def test_files_that_are_sent_are_compared_by_their_content(tmp_path: Path, cloud: Cloud) -> None:
    path = project(tmp_path, "one", "eu")
    (path / "model.py").write_text("a = 1\n")
    job = replace(JOB, files=FileSet(root="."))
    first = lost(at(path), job=job)
    (path / "model.py").write_text("a = 1\n")  # another time, the same bytes
    assert str(at(path).submit(job, at(path).place("lab")).handle) == first
    lost(at(path), job=job)
    (path / "model.py").write_text("a = 2\n")
    assert not at(path).submit(job, at(path).place("lab")).is_repeated


def test_a_place_that_cannot_be_asked_about_a_lost_answer_starts_nothing_twice(tmp_path: Path, cloud: Cloud) -> None:
    path = project(tmp_path, "one", "eu")
    first = lost(at(path))
    cloud.answer = AWAY
    assert lost(at(path)) == first


def test_a_submission_that_was_never_answered_and_is_over_by_now_is_not_taken(tmp_path: Path, cloud: Cloud) -> None:
    path = project(tmp_path, "one", "eu")

    def fail() -> None:
        cloud.at_submit = None
        raise AnswerLost("lab", "timeout")

    cloud.at_submit = fail
    with pytest.raises(AnswerLost):
        at(path).submit(JOB, at(path).place("lab"))
    cloud.answer, told = DONE, []
    flow = at(path, told)
    again = flow.submit(JOB, flow.place("lab"))
    assert (again.is_repeated, len(cloud.started)) == (False, 2)
    assert "it is over: succeeded" in told[0]


def test_a_key_is_one_run_for_ever_of_one_job_and_one_content(tmp_path: Path, cloud: Cloud) -> None:
    path = project(tmp_path, "one", "eu")
    first = submitted(at(path), key="build-7")
    cloud.answer = replace(DONE, state=State.FAILED)
    at(path).status(at(path).find(first))
    assert submitted(at(path), key="build-7") == first  # also if it is over, however it ended
    (path / "train.py").write_text("print('two')\n")
    with pytest.raises(UmiakError) as told:
        submitted(at(path), key="build-7")
    (problem,) = told.value.problems
    assert (problem.code, "other files" in str(problem.why)) == ("UM-SUBMIT-009", True)
    assert len(cloud.started) == 1


# ---- full disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, disks.Disk]]:
    require(disks.unavailable())
    with disks.mounted(tmp_path / "disk") as disk:
        yield tmp_path / "disk", disk


def test_a_full_state_disk_is_told_before_anything_is_started(
    small_disk: tuple[Path, disks.Disk],
    cloud: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory, disk = small_disk
    path = project(directory.parent, "one", "eu")
    monkeypatch.setenv("HOME", str(directory.parent))
    monkeypatch.setenv("XDG_STATE_HOME", str(directory))
    monkeypatch.chdir(path)
    words = ["submit", "--on", "lab", "--", "train.py"]
    assert main.main(words) == 0
    kept = capsys.readouterr().out.strip()
    disk.fill()
    assert main.main(words) == 3
    out, err = capsys.readouterr()
    assert (out, len(cloud.started)) == ("", 1)
    assert "[UM-SUBMIT-007]" in err
    assert "No space left on device" in err
    assert "bug in umiak" not in err
    cloud.answer = DONE
    for command in (["status", kept], ["list"], ["wait", kept]):
        assert main.main(command) == 0, command
    assert "succeeded" in capsys.readouterr().out
    cloud.answer = AWAY
    assert main.main(["wait", kept]) == 0  # the end was kept though the disk is full
    disk.make_room()
    cloud.answer = JobStatus(state=State.RUNNING)
    assert main.main(words) == 0


def test_a_disk_that_is_full_when_the_job_was_started_does_not_cost_its_handle(
    small_disk: tuple[Path, disks.Disk],
    cloud: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory, disk = small_disk
    path = project(directory.parent, "one", "eu")
    monkeypatch.setenv("HOME", str(directory.parent))
    monkeypatch.setenv("XDG_STATE_HOME", str(directory))
    monkeypatch.chdir(path)
    cloud.at_submit = disk.fill
    assert main.main(["submit", "--on", "lab", "--", "train.py"]) == 0
    handle = capsys.readouterr().out.strip()
    assert handle.startswith("cloud://lab/train-")
    assert main.main(["status", handle, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["handle"], data["run"]) == (handle, handle.rpartition("/")[2])  # its record was changed where it is


def test_a_handle_that_cannot_be_recorded_is_printed_all_the_same(
    tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project(tmp_path, "one", "eu")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(path)
    real = Records.write

    def write(self: Records, record: Any) -> None:
        if record.handle:
            raise UmiakError(Problem(code="UM-SUBMIT-007", what="runs can't be recorded: x"), exit_status=Exit.REFUSED)
        real(self, record)

    monkeypatch.setattr(Records, "write", write)
    words = ["submit", "--on", "lab", "--", "train.py"]
    assert main.main(words) == 0
    out, err = capsys.readouterr()
    assert "warning: runs can't be recorded: x: keep the handle of this run" in err
    (pending,) = (tmp_path / ".local/state/umiak/runs/pending").iterdir()
    pending.write_text("{}")  # as if this process had ended
    assert main.main(words) == 0
    assert capsys.readouterr().out == out  # the same command finds it: nothing is started twice
    assert len(cloud.started) == 1


def test_records_can_be_read_by_and_from_older_versions() -> None:
    plain = {
        "run_id": "a-1", "name": "a", "place": "p", "backend": "b", "directory": "/", "digest": "d", "submitted_s": 1.0, "handle": "b://p/1",
    }  # fmt: skip
    record = from_plain(plain)
    assert (record.place_file, record.files, record.is_final) == ("", "", False)
    status = {
        "state": "succeeded",
        "said": "",
        "reason": "",
        "exit_code": 0,
        "submitted_s": 1.0,
        "started_s": None,
        "ended_s": 3.0,
    }
    assert from_plain({**plain, "status": status}).is_final
    assert not from_plain({**plain, "status": {**status, "state": "lost"}}).is_final
    made = replace(record, place_file="9f", files="31", status=replace(DONE, nodes=()))
    assert from_plain(json.loads(json.dumps(to_plain(made)))) == made
