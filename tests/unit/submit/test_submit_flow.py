"""From a job to a run: the records, a place of another package, flags, tables and the schema."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from umiak.cli import main
from umiak.cli.runs import submit, tables
from umiak.cli.runs.submit_flags import job_of
from umiak.core.bundle import Bundle
from umiak.core.cluster import Role
from umiak.core.job import Handle, Job, Replicas, RoleSpec
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.status import JobStatus, State
from umiak.core.value import replace
from umiak.schema.flags import FlagFindings
from umiak.submit import configuration, job_file, job_schema, known_runs, registry, run_choice
from umiak.submit.backend import AnswerLost, LogLine, LogsWanted, Secrets, Submission, SubmitContext
from umiak.submit.flow import Flow, run_id_of
from umiak.submit.places import NamedPlace
from umiak.submit.records import Records
from umiak.submit.run_record import RunRecord

JOB = Job(name="ctr", command=("train.py",), secrets=("PASSPORT",))


class Cloud:
    """A place that starts jobs and may forget to answer."""

    def __init__(self) -> None:
        self.started: dict[str, Submission] = {}
        self.troubles: list[BaseException] = []

    def check(self, job: Job) -> list[Problem]:
        return []

    def render(self, job: Job, run_id: str) -> Bundle:
        return Bundle(commands=((run_id,),))

    def submit(self, submission: Submission) -> Handle:
        trouble = self.troubles.pop(0) if self.troubles else None
        if not isinstance(trouble, UmiakError) or isinstance(trouble, AnswerLost):
            self.started.setdefault(submission.run_id, submission)
        if trouble:
            raise trouble
        return Handle(backend="cloud", place="lab", id=submission.run_id)

    def status(self, handle: Handle) -> JobStatus:
        return JobStatus(state=State.SUCCEEDED, exit_code=0)

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        return iter(())

    def cancel(self, handle: Handle, grace_s: float) -> None:
        pass

    def list(self) -> list[Handle]:
        return []


@pytest.fixture
def context(tmp_path: Path) -> SubmitContext:
    environ = {"HOME": str(tmp_path), "PASSPORT": "k5-Wq81zTtrr"}
    return configuration.context(environ, str(tmp_path))


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    made = Cloud()
    monkeypatch.setitem(registry.OURS, "cloud", f"{__name__}:the_cloud")
    monkeypatch.setitem(sys.modules, __name__, type(sys)(__name__))
    monkeypatch.setattr(sys.modules[__name__], "the_cloud", lambda place, context: made, raising=False)
    return made


def lab(flow: Flow) -> NamedPlace:
    return replace(flow.place("local"), name="lab", backend="cloud")


# ---- submitting


def test_a_run_has_its_record_and_a_token_of_its_own(context: SubmitContext, cloud: Cloud) -> None:
    flow = Flow(context)
    first, second = (flow.submit(JOB, lab(flow)) for _ in range(2))
    assert first.handle != second.handle  # this very process submits both: no answer was lost
    tokens = {cloud.started[each.record.run_id].secrets["UMIAK_TOKEN"] for each in (first, second)}
    assert len(tokens) == 2
    assert {len(token) for token in tokens} == {32}
    assert cloud.started[first.record.run_id].secrets["PASSPORT"] == "k5-Wq81zTtrr"
    assert "k5" not in repr(cloud.started[first.record.run_id])
    assert flow.records.read(first.record.run_id) == first.record
    text = "".join(path.read_text() for path in Path(context.state_directory).rglob("*") if path.is_file())
    assert not [token for token in (*tokens, "k5-Wq81zTtrr") if token in text]


def forget_the_client(flow: Flow) -> None:
    """As if the process that submitted had been killed."""
    for path in (Path(flow.context.state_directory) / "runs" / "pending").iterdir():
        plain = json.loads(path.read_text())
        path.write_text(json.dumps({**plain, "start_ticks": plain["start_ticks"] + 1}))


def test_a_lost_answer_is_asked_for_again_and_starts_nothing(context: SubmitContext, cloud: Cloud) -> None:
    cloud.troubles = [AnswerLost("lab", "timeout"), KeyboardInterrupt()]
    cloud.status = lambda _: JobStatus(state=State.RUNNING)  # type: ignore[method-assign,assignment]
    flow = Flow(context)
    with pytest.raises(AnswerLost, match="may have been started"):
        flow.submit(JOB, lab(flow))
    with pytest.raises(KeyboardInterrupt):
        flow.submit(JOB, lab(flow))
    assert len(cloud.started) == 1
    again = flow.submit(JOB, lab(flow))
    assert (again.is_repeated, len(cloud.started)) == (True, 1)
    forget_the_client(flow)
    third = flow.submit(JOB, lab(flow))  # the answer came, and nobody has seen it
    assert (third.handle, len(cloud.started)) == (again.handle, 1)
    flow.told(third)
    assert flow.submit(JOB, lab(flow)).handle != third.handle
    assert len(cloud.started) == 2


def test_another_job_is_not_taken_for_the_lost_one(context: SubmitContext, cloud: Cloud) -> None:
    flow = Flow(context)
    first = flow.submit(JOB, lab(flow))
    forget_the_client(flow)
    assert flow.submit(replace(JOB, command=("train.py", "--lr", "1")), lab(flow)).handle != first.handle


def test_a_place_that_refuses_leaves_no_run(context: SubmitContext, cloud: Cloud) -> None:
    cloud.troubles = [UmiakError(Problem(code="UM-SUBMIT-026", what="no"))]
    flow = Flow(context)
    with pytest.raises(UmiakError):
        flow.submit(JOB, lab(flow))
    assert (cloud.started, flow.records.all()) == ({}, [])


def test_a_key_names_a_run(context: SubmitContext, cloud: Cloud) -> None:
    flow = Flow(context)
    first = flow.submit(JOB, lab(flow), key="nightly")
    flow.told(first)
    assert flow.submit(JOB, lab(flow), key="nightly").handle == first.handle
    assert first.record.run_id == run_id_of("ctr", "nightly") != run_id_of("ctr", "weekly")
    with pytest.raises(UmiakError, match="another job"):
        flow.submit(replace(JOB, command=("other.py",)), lab(flow), key="nightly")


def test_secrets_that_are_missing_or_spelled_out_are_told(context: SubmitContext, cloud: Cloud) -> None:
    flow = Flow(context)
    made = replace(JOB, secrets=("PASSPORT", "NOWHERE"), env=(("A", "k5-Wq81zTtrr"),))
    assert [problem.code for problem in flow.check(made, lab(flow))] == ["UM-SUBMIT-008", "UM-SUBMIT-014"]
    assert flow.check(JOB, lab(flow)) == []
    assert "k5" not in f"{Secrets({'A': 'k5-Wq81zTtrr'})}"


# ---- finding


def test_a_run_is_found_by_handle_by_id_and_by_its_beginning(context: SubmitContext, cloud: Cloud) -> None:
    flow = Flow(context)
    run = flow.submit(JOB, lab(flow), key="nightly")
    for text in (str(run.handle), run.record.run_id, run.record.run_id[:6]):
        assert flow.find(text).handle == run.handle
    flow.submit(JOB, lab(flow), key="weekly")
    for text, code in (("ctr-", "011"), ("xyz", "012"), ("cloud:/lab", "012"), ("cloud://lab", "010"), ("", "012")):
        with pytest.raises(UmiakError) as told:
            flow.find(text)
        assert told.value.problems[0].code == f"UM-SUBMIT-{code}", text
    known = flow.find(str(run.handle))
    assert flow.status(known).state is State.SUCCEEDED
    record = flow.records.read(run.record.run_id)
    assert record is not None
    assert record.status is not None  # kept: a list need not ask the place again


def test_of_several_runs_the_only_one_that_is_not_over_is_meant(
    context: SubmitContext, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(context)
    runs = [flow.submit(JOB, lab(flow), key=key) for key in ("a", "b", "c")]
    states = {each.handle: State.SUCCEEDED for each in runs}

    def status(_: Cloud, handle: Handle) -> JobStatus:
        return JobStatus(state=states[handle])

    monkeypatch.setattr(Cloud, "status", status)
    states[runs[1].handle] = State.QUEUED
    start = str(runs[1].handle).removesuffix(runs[1].record.run_id)
    for text in ("ctr", f"{start}ctr-"):
        assert flow.find(text).handle == runs[1].handle
    assert flow.newest_running().handle == runs[1].handle
    states[runs[2].handle] = State.RUNNING
    # The ends that were seen are recorded: who runs again is another run.
    other = flow.submit(JOB, lab(flow), key="d")
    states[other.handle] = State.RUNNING
    with pytest.raises(UmiakError) as told:
        flow.find("ctr")
    problem = told.value.problems[0]
    assert problem.code == "UM-SUBMIT-011"
    assert f"{other.record.run_id} (running, on lab)" in str(problem.why)
    assert f"{runs[1].record.run_id} (queued, on lab)" in str(problem.why)
    assert runs[0].record.run_id not in str(problem.why)
    assert flow.newest_running().handle == other.handle


def test_no_older_run_is_taken_for_the_newest_whose_place_is_silent(
    context: SubmitContext, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(context)
    with pytest.raises(UmiakError, match="no run that you submitted is running"):
        flow.newest_running()
    flow.submit(JOB, lab(flow), key="a")
    flow.submit(JOB, lab(flow), key="b")

    def status(_: Cloud, __: Handle) -> JobStatus:
        raise UmiakError(Problem(code="UM-SUBMIT-100", what="nobody answers"), exit_status=3)

    monkeypatch.setattr(Cloud, "status", status)
    with pytest.raises(UmiakError) as told:
        flow.newest_running()
    assert told.value.problems[0].code == "UM-SUBMIT-410"
    with pytest.raises(UmiakError) as told:
        flow.find("ctr")
    assert "unknown" in str(told.value.problems[0].why)


def test_a_number_is_a_whole_handle() -> None:
    def record(handle: str) -> RunRecord:
        return RunRecord(
            run_id=handle.rpartition("/")[2],
            name="ctr",
            place="hpc",
            backend="x",
            directory="/",
            digest="",
            submitted_s=0.0,
            handle=handle,
        )

    known = [record("x://hpc/4242"), record("x://hpc/ctr-3f2a"), record("x://hpc/ctr-3f2a9c")]
    assert run_choice.with_handle(known, "x://hpc/42") == []
    assert run_choice.with_handle(known, "x://hpc/4242") == known[:1]
    assert run_choice.with_handle(known, "x://hpc/ctr-3f2a") == known[1:2]
    assert run_choice.with_handle(known, "x://hpc/ctr-3f2") == known[1:]


def test_an_end_that_was_seen_is_kept_when_the_place_forgets_it(context: SubmitContext, cloud: Cloud) -> None:
    flow = Flow(context)
    submitted = flow.submit(JOB, lab(flow))
    flow.places.places["lab"] = lab(flow)  # type: ignore[index]
    handle = str(submitted.handle)
    assert flow.status(flow.find(handle)).state is State.SUCCEEDED
    cloud.status = lambda _: JobStatus(state=State.LOST)  # type: ignore[method-assign,assignment]
    assert flow.status(flow.find(handle)).state is State.SUCCEEDED
    record = flow.records.read(submitted.record.run_id)
    assert record is not None
    assert record.status is not None
    assert record.status.state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("job", "what"),
    [
        (replace(JOB, name="a b"), "expected a name of a job, got a b"),
        (replace(JOB, name="../../a"), "expected a name of a job, got ../../a"),
        (replace(JOB, name=""), "expected a name of a job, got nothing"),
        (replace(JOB, command=()), "the job has no command"),
        (replace(JOB, roles=()), "the job has no roles"),
        (replace(JOB, roles=(RoleSpec(), RoleSpec())), "the same role twice: trainer"),
        (
            replace(JOB, roles=(RoleSpec(nodes=Replicas(least=0, most=0)),)),
            "trainer: expected a number of nodes, got 0 to 0",
        ),
    ],
)
def test_jobs_made_in_python_are_checked_as_those_of_files(
    context: SubmitContext, cloud: Cloud, job: Job, what: str
) -> None:
    flow = Flow(context)
    assert [each.what for each in flow.check(job, lab(flow))] == [what]


def test_waiting_goes_on_while_a_place_is_away(
    context: SubmitContext, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(context)
    handle = str(flow.submit(JOB, lab(flow)).handle)
    flow.places.places["lab"] = lab(flow)  # type: ignore[index]
    away = UmiakError(Problem(code="UM-SUBMIT-101", what="login1: unreachable"), exit_status=Exit.REFUSED)
    running, done = JobStatus(state=State.RUNNING), JobStatus(state=State.SUCCEEDED, exit_code=0)

    def answers(*given: JobStatus | UmiakError) -> None:
        left = list(given)

        def status(_: Handle) -> JobStatus:
            answer = left.pop(0)
            if isinstance(answer, UmiakError):
                raise answer
            return answer

        cloud.status = status  # type: ignore[method-assign]

    answers(running, away, away, done)
    assert flow.wait(flow.find(handle)).state is State.SUCCEEDED
    handle = str(flow.submit(JOB, lab(flow)).handle)
    answers(away, done)
    with pytest.raises(UmiakError):  # it has never answered: the place may be wrong
        flow.wait(flow.find(handle))
    monkeypatch.setattr(known_runs, "AWAY_S", -1.0)
    answers(running, away, done)
    with pytest.raises(UmiakError):
        flow.wait(flow.find(handle))


def test_records_that_can_not_be_read_are_left_out(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    records.prepare()
    made = RunRecord(
        run_id="a-1", name="a", place="p", backend="b", directory="/", digest="d", submitted_s=1.0, handle="b://p/1"
    )
    records.write(made)
    (tmp_path / "runs" / "broken.json").write_text("{")
    (tmp_path / "runs" / "older.json").write_text('{"run_id": "older"}')
    assert records.all() == [made]
    assert Records(str(tmp_path / "nothing")).all() == []


# ---- places


def test_a_package_brings_a_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: SubmitContext) -> None:
    (tmp_path / "umiak_mars.py").write_text("def make(place, context):\n    return (place.name, context.directory)\n")
    metadata = tmp_path / "umiak_mars-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: umiak-mars\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[umiak.backends]\nmars = umiak_mars:make\nvenus = umiak_venus:make\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "umiak.toml").write_text('default_place = "base"\n[place.base]\nbackend = "mars"\n')
    flow = Flow(context)
    assert flow.backend(flow.place(None)) == ("base", str(tmp_path))
    for backend, code in (("venus", "004"), ("pluto", "003")):
        with pytest.raises(UmiakError) as told:
            registry.make(replace(flow.place(None), backend=backend), context)
        assert told.value.problems[0].code == f"UM-SUBMIT-{code}"


def test_the_projects_file_is_found_above_and_hides_the_users(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    own = tmp_path / "home" / ".config" / "umiak"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('default_place = "mine"\n[place.mine]\nbackend = "local"\n')
    at = configuration.context({"HOME": str(tmp_path / "home")}, str(below))
    assert Flow(at).place(None).name == "mine"
    (tmp_path / "umiak.toml").write_text('default_place = "ours"\n[place.ours]\nbackend = "local"\n')
    flow = Flow(at)
    assert (flow.place(None).name, flow.place("mine").name, flow.place("local").name) == ("ours", "mine", "local")
    with pytest.raises(UmiakError, match="unknown place: ourz"):
        flow.place("ourz")
    assert configuration.context({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/").state_directory == "/s/umiak"
    assert configuration.context({"XDG_STATE_HOME": "s", "HOME": "/h"}, "/").state_directory == "/h/.local/state/umiak"


# ---- flags


def read(words: str) -> tuple[Job, list[str]]:
    parsed = submit.parse(words.split(), {})
    findings = FlagFindings(parsed)
    return job_of(parsed, findings), [problem.code for problem in findings.problems]


def test_a_job_without_a_file() -> None:
    made, wrong = read(
        "--nnodes 2:4 --nproc_per_node 8 --env A=1 --env B=x=y --max_restart 2 -- models/train.py --lr 0.1"
    )
    assert wrong == []
    assert made == Job(
        name="train",
        command=("models/train.py", "--lr", "0.1"),
        roles=(RoleSpec(nodes=Replicas(least=2, most=4), workers=8),),
        env=(("A", "1"), ("B", "x=y")),
        max_restarts=2,
    )
    made, wrong = read("--server_num 2 --trainer_num 4 --time_limit 2h --secret A -- -m models.ctr")
    assert (made.name, made.command, made.time_limit_s, made.secrets) == ("ctr", ("-m", "models.ctr"), 7200, ("A",))
    assert [(each.role, each.nodes.most) for each in made.roles] == [(Role.SERVER, 2), (Role.TRAINER, 4)]


@pytest.mark.parametrize(
    "words",
    ["--nnodes none -- a.py", "--trainer_num 2 -- a.py", "--server_num 1 --nnodes 2 -- a.py", "--env A -- a.py",
     "--secret A=1 -- a.py", "--name a/b -- a.py"],
)  # fmt: skip
def test_flags_that_make_no_sense(words: str) -> None:
    assert read(words)[1] == ["UM-SUBMIT-015"]


def test_flags_may_stand_behind_the_file() -> None:
    parsed = submit.parse(["job.yaml", "--on", "lab", "--dry-run"], {})
    assert (parsed.arguments, parsed.text("on"), parsed.truth("dry_run"), parsed.problems) == (
        ("job.yaml",),
        "lab",
        True,
        (),
    )
    assert [each.code for each in submit.parse(["a.yaml", "b.yaml"], {}).problems] == ["UM-CLI-005"]


# ---- tables


def test_tables_are_as_wide_as_they_must_be() -> None:
    record = RunRecord(
        run_id="ctr-1",
        name="ctr",
        place="lab",
        backend="ssh",
        directory="/d",
        digest="",
        submitted_s=100.0,
        handle="ssh://lab/1",
    )
    status = JobStatus(state=State.FAILED, reason="exit code 7", exit_code=7, started_s=110.0, ended_s=170.0)
    assert tables.list_text([(record, status)], 3820.0) == (
        "RUN    STATE   PLACE  SUBMITTED    RAN    EXIT  HANDLE\n"
        "ctr-1  failed  lab    1 h 2 min ago  1 min  7     ssh://lab/1\n"
    ).replace("SUBMITTED    RAN", "SUBMITTED      RAN")
    assert "failed: exit code 7" in tables.status_text(Handle(backend="ssh", place="lab", id="1"), record, status, 0.0)
    assert [tables.span(each) for each in (0, 59, 60, 3600, 3660, 90000)] == [
        "0 s",
        "59 s",
        "1 min",
        "1 h",
        "1 h 1 min",
        "1 d 1 h",
    ]


# ---- the schema for editors

jsonschema = pytest.importorskip("jsonschema")
GOOD = (
    "name: ctr\ncommand: train.py --lr 0.1\nnodes: 2:4\nworkers: 4\nmemory: 16GiB\ntime_limit: 1d12h\n",
    "name: ctr\ncommand: [train.py, --lr, 0.1]\nnodes: 2\nframework: Paddle\nenv: {A: 1, B: x, C: true}\nsecrets: [A]\n",
    "name: ctr\ncommand: train.py\nroles: {server: {nodes: 2}, trainer: {cpus: 1.5}, heter: }\nfiles: .\ninclude: '*.py'\n",
    "name: ctr\ncommand: train.py\ninputs: {data: 's3://b/d'}\noutputs:\nrestarts: 0\ndevice: npu\ntime_limit: 60\nmemory: 1000\n",
)
BAD = (
    "command: train.py\n",
    "name: a b/c\ncommand: train.py\n",
    "name: ctr\ncommand: train.py\nworkers: 0\n",
    "name: ctr\ncommand: train.py\nworkerz: 2\n",
    "name: ctr\ncommand: train.py\nmemory: much\n",
    "name: ctr\ncommand: train.py\nroles: {worker: {}}\n",
    "name: ctr\ncommand: train.py\nframework: mxnet\n",
    "name: ctr\ncommand: train.py\nenv: [A]\n",
)  # fmt: skip


@pytest.mark.parametrize(("text", "is_right"), [*((text, True) for text in GOOD), *((text, False) for text in BAD)])
def test_the_schema_and_the_reader_agree(text: str, is_right: bool) -> None:
    assert (job_file.read(text, "job.yaml").job is not None) is is_right
    found = [*jsonschema.Draft7Validator(job_schema.schema()).iter_errors(yaml.safe_load(text))]
    assert (not found) is is_right, found


def test_the_schema_is_in_the_package_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["submit", "--schema"]) == 0
    assert capsys.readouterr().out == job_schema.text()
    path = Path(job_schema.__file__).with_name(job_schema.FILE)
    assert path.read_text(encoding="utf-8") == job_schema.text()
    jsonschema.Draft7Validator.check_schema(job_schema.schema())
    assert os.path.basename(path) == "job.schema.json"
