"""What the local place decides: which launchers a job becomes, how a run is, which lines were already seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from umiak import platforms
from umiak.adapters import identity, own_modules, private_files
from umiak.core.bundle import shown
from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import FileSet, FrameworkName, Job, Replicas, Resource, RoleSpec, Transfer
from umiak.core.node_report import NodeReport
from umiak.core.status import State
from umiak.core.value import replace
from umiak.submit import configuration, places, registry
from umiak.submit.backends.local import backend, plan
from umiak.submit.backends.local.plan import plan_of
from umiak.submit.node import logs, state
from umiak.submit.node.files import RunFiles
from umiak.submit.node.plan import RunPlan, environment
from umiak.submit.states import STATES, state_of

GIB = 1 << 30
Opened: TypeAlias = Callable[..., logs.LogReader]


def planned(job: Job) -> RunPlan:
    return plan_of(
        job, "ctr-1", directory="/work", logs="/runs/ctr-1/log", python="python3", start=own_modules.start_words
    )


def flags(job: Job) -> str:
    """What is said to the only launcher, without what is said to all."""
    (launcher,) = planned(job).launchers
    before, _, after = " ".join(launcher.argv).partition(
        " --log_dir /runs/ctr-1/log/launcher --grace 600 --job_id ctr-1"
    )
    assert before.endswith("launch --tee none")
    return after.strip()


def job(*roles: RoleSpec, command: tuple[str, ...] = ("train.py", "--lr", "0.1")) -> Job:
    return Job(name="ctr", command=command, roles=roles or (RoleSpec(),))


def nodes(count: int, most: int = 0) -> Replicas:
    return Replicas(least=count, most=most or count)


SERVERS = RoleSpec(role=Role.SERVER, nodes=nodes(2))
TRAINERS = RoleSpec(nodes=nodes(3))


# ---- launchers


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (job(), "-- train.py --lr 0.1"),
        (job(command=("-m", "models.train")), "-m models.train"),
        (job(RoleSpec(workers=4)), "--nproc_per_node 4 -- train.py --lr 0.1"),
        (job(RoleSpec(workers=2, nodes=nodes(3))), "--nproc_per_node 6 -- train.py --lr 0.1"),
        (job(RoleSpec(nodes=nodes(2, 4))), "--nproc_per_node 2 -- train.py --lr 0.1"),
        (job(RoleSpec(resource=Resource(devices=2))), "--nproc_per_node 2 -- train.py --lr 0.1"),
        (job(SERVERS, TRAINERS), "--run_mode ps --server_num 2 --trainer_num 3 -- train.py --lr 0.1"),
        (
            job(SERVERS, TRAINERS, RoleSpec(role=Role.HETER)),
            "--run_mode ps-heter --server_num 2 --trainer_num 3 --heter_worker_num 1 -- train.py --lr 0.1",
        ),
    ],
)
def test_one_machine_is_one_node(made: Job, said: str) -> None:
    assert flags(made) == said


def test_what_a_job_says_for_all_launchers() -> None:
    made = replace(job(), max_restarts=3, time_limit_s=60, files=FileSet(root="src"), env=(("A", "1"),))
    plan = planned(made)
    assert plan.directory == "/work/src"
    assert plan.time_limit_s == 60
    assert plan.launchers[0].env == (("A", "1"),)
    assert "--tee none --log_dir /runs/ctr-1/log/launcher --grace 600 --job_id ctr-1 --max_restart 3" in " ".join(
        plan.launchers[0].argv
    )
    assert RunPlan.from_plain(json.loads(plan.text())) == plan


def test_roles_with_commands_of_their_own_have_launchers_of_their_own() -> None:
    plan = planned(job(replace(SERVERS, command=("serve.py",), env=(("A", "1"),)), TRAINERS))
    assert [each.name for each in plan.launchers] == ["server-0", "server-1", "trainer-0", "trainer-1", "trainer-2"]
    assert plan.launchers[1].argv[-2:] == ("--", "serve.py")
    assert plan.launchers[4].first_rank == 2
    assert RunPlan.from_plain(plan.to_plain()) == plan


@pytest.mark.parametrize(
    "made", [job(), job(SERVERS, TRAINERS), job(replace(SERVERS, command=("serve.py",)), TRAINERS)]
)
def test_what_is_written_for_a_launcher_is_what_it_detects(made: Job) -> None:
    """The law of backends. Nothing of a launcher around this one reaches it."""
    plan = planned(made)
    outer = {
        "UMIAK_JOB_ID": "outer",
        "UMIAK_RANK": "1",
        "UMIAK_NNODES": "9",
        "UMIAK_TOKEN": "x" * 32,
        "SLURM_PROCID": "3",
    }
    for index, launcher in enumerate(plan.launchers):
        environ = environment(plan, index, inherited={**outer, "HOME": "/h"}, master="127.0.0.1:4242")
        found = platforms.detect(environ)
        assert found is not None
        assert (found.platform, found.nodes, found.rank) == ("umiak", len(plan.launchers), index)
        assert found.role is launcher.role
        assert found.master == ("127.0.0.1:4242" if len(plan.launchers) > 1 else None)
        assert environ["HOME"] == "/h"
        assert "UMIAK_TOKEN" not in environ


def test_what_a_dry_run_prints() -> None:
    made = replace(job(RoleSpec(workers=2)), env=(("A", "1"),), secrets=("PASSPORT",))
    context = configuration.context({"HOME": "/h", "PASSPORT": "k5-Wq81zTtrr"}, "/work")
    (place,) = places.read([], ["local"]).places.values()
    printed = shown(backend.make(place, context).render(made, "ctr-dry-run")).replace(sys.executable, "python3")
    # Python 3.10 has another way to leave the working directory out of its path.
    printed = printed.replace(json.dumps(own_modules.start_words("umiak"))[1:-1], '"-P", "-m", "umiak"')
    assert (
        printed
        == """\
# file /h/.local/state/umiak/local/ctr-dry-run/plan.json, mode 600
{
 "run_id": "ctr-dry-run",
 "directory": "/work",
 "time_limit_s": null,
 "machines": [],
 "is_elastic": false,
 "launchers": [
  {"name": "launcher", "argv": ["python3", "-P", "-m", "umiak", "launch", "--tee", "none", "--log_dir", \
"/h/.local/state/umiak/local/ctr-dry-run/log/launcher", "--grace", "600", "--job_id", "ctr-dry-run", "--nproc_per_node", "2", "--", "train.py", \
"--lr", "0.1"], "env": [["A", "1"]], "role": null, "first_rank": 0, "placement": [], "node": ""}
 ]
}

# request
standard input of the command: UMIAK_TOKEN, PASSPORT (values are not shown)

# run
python3 -m umiak.submit.node.supervisor /h/.local/state/umiak/local/ctr-dry-run
"""
    )


# ---- checks


def test_everything_that_this_machine_does_not_have_is_told_at_once() -> None:
    wanted = Resource(cpus=64, memory_bytes=512 * GIB, devices=8)
    made = replace(
        job(RoleSpec(resource=wanted)),
        framework=FrameworkName.PADDLE,
        inputs=(Transfer(url="s3://bucket/day1", path="data"),),
    )
    machine = plan.Machine(cpus=2, memory_bytes=4 * GIB, has_framework=False, missing_files=frozenset(made.scripts))
    assert [problem.code for problem in plan.problems(made, machine)] == ["UM-SUBMIT-020", "UM-SUBMIT-024"]
    assert [problem.code for problem in plan.missing(made, machine)] == ["UM-SUBMIT-021"]
    different = replace(made, roles=(replace(SERVERS, command=("serve.py",)), TRAINERS), framework=FrameworkName.NONE)
    assert [each.code for each in plan.problems(different, plan.Machine(cpus=2, memory_bytes=GIB))] == ["UM-SUBMIT-022"]
    assert plan.problems(job(), plan.Machine(cpus=2, memory_bytes=GIB)) == []


def test_a_job_for_larger_machines_starts_here_with_what_fits_and_says_so() -> None:
    wanted = Resource(cpus=64, memory_bytes=512 * GIB)
    machine = plan.Machine(cpus=2, memory_bytes=4 * GIB)
    fitted = plan.fit(job(RoleSpec(workers=8, resource=wanted)), machine)
    assert fitted.job == job(RoleSpec(workers=8, resource=wanted))  # cores and memory are shared
    assert [each.what for each in fitted.remarks] == [
        "trainer: cpus: 64 per node, this machine has 2: all workers share these",
        "trainer: memory: 512.0 GiB per node, this machine has 4.0 GiB: all workers share it",
    ]
    assert plan.fit(job(RoleSpec()), machine).remarks == ()


@pytest.mark.parametrize(
    ("role", "there", "started"),
    [
        (RoleSpec(resource=Resource(devices=8)), 2, 2),
        (RoleSpec(nodes=Replicas(least=4, most=4), resource=Resource(devices=8)), 2, 2),
        (RoleSpec(nodes=Replicas(least=4, most=4), resource=Resource(devices=2)), 4, 4),
        (RoleSpec(nodes=Replicas(least=4, most=4), resource=Resource(devices=2)), 5, 4),
        (RoleSpec(workers=16, resource=Resource(devices=8)), 2, 4),
        (RoleSpec(nodes=Replicas(least=2, most=2), resource=Resource(devices=2)), 4, None),
        (RoleSpec(nodes=Replicas(least=2, most=2)), 1, None),
    ],
)
def test_workers_are_started_for_the_devices_that_there_are(role: RoleSpec, there: int, started: int | None) -> None:
    machine = plan.Machine(cpus=2, memory_bytes=4 * GIB, devices=there, device=DeviceKind.GPU)
    made = job(role)
    fitted = plan.fit(made, machine)
    assert plan.problems(made, machine) == []
    if started is None:
        assert (fitted.job, fitted.remarks) == (made, ())
        return
    assert plan.workers_of(fitted.job.roles[0]) == started
    (remark,) = fitted.remarks
    assert f"{started} workers are started here instead of {plan.workers_of(role)}" in remark.what


# ---- states

FACTS = state.RunFacts(age_s=1)
SUPERVISED = replace(FACTS, is_claimed=True, is_supervised=True)
RUNNING = replace(SUPERVISED, started_s=5.0, alive=frozenset({"launcher"}))
KILLED = replace(RUNNING, is_supervised=False)
GONE = replace(KILLED, alive=frozenset())


def end(code: int, *, is_cancelled: bool = False) -> state.RunEnd:
    return state.RunEnd(exit_code=code, ended_s=9.0, is_cancelled=is_cancelled, exit_codes={"launcher": code})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (FACTS, "queued"),
        (replace(FACTS, age_s=state.WAITING_S + 1), "lost"),
        (SUPERVISED, "starting"),
        (RUNNING, "running"),
        (replace(RUNNING, is_cancelled=True), "stopping"),
        (KILLED, "stopping"),
        (GONE, "lost"),
        (replace(GONE, is_cancelled=True), "cancelled"),
        (replace(GONE, is_other_boot=True), "lost"),
        (replace(GONE, end=end(0)), "succeeded"),
        (replace(GONE, end=end(7)), "failed"),
        (replace(GONE, end=end(143, is_cancelled=True)), "cancelled"),
    ],
)
def test_a_run_is_never_running_for_ever(facts: state.RunFacts, expected: str) -> None:
    status = state.status_of(planned(job()), facts)
    assert status.state.value == expected
    assert state_of("local", status.said) is status.state
    assert (status.exit_status is None) is not status.state.is_over


RESTARTING = NodeReport(state=State.RESTARTING, host="10.0.0.1", restarts=1, reason="trainer 0 failed")
ENDED = NodeReport(state=State.FAILED, host="10.0.0.1", reason="received SIGTERM (15)", exit_code=143)


@pytest.mark.parametrize(
    ("facts", "report", "job_is", "node_is"),
    [
        (RUNNING, RESTARTING, ("restarting", "trainer 0 failed"), ("restarting", "trainer 0 failed", None)),
        (
            RUNNING,
            replace(RESTARTING, state=State.RUNNING),
            ("running", "restarted once: trainer 0 failed"),
            ("running", "restarted once: trainer 0 failed", None),
        ),
        (RUNNING, replace(RESTARTING, state=State.RUNNING, restarts=0, reason=""), ("running", ""), ("running", "", None)),
        (replace(RUNNING, is_cancelled=True), RESTARTING, ("stopping", "it was cancelled"), ("stopping", "trainer 0 failed", None)),
        # A launcher that was killed has not written that it has ended.
        (GONE, RESTARTING, ("lost", "its supervisor was killed; how the job ended is not known"), ("lost", "trainer 0 failed", None)),
        (
            GONE,
            ENDED,
            ("lost", "its supervisor was killed, and its launchers have ended their workers then"),
            ("lost", "received SIGTERM (15)", 143),
        ),
        (replace(GONE, end=end(143)), ENDED, ("failed", "exit code 143: received SIGTERM (15)"), ("failed", "received SIGTERM (15)", 143)),
        (replace(GONE, end=end(7)), ENDED, ("failed", "exit code 7"), ("failed", "received SIGTERM (15)", 7)),
        (
            replace(GONE, end=replace(end(143), is_cancelled=True, stopped="cancelled")),
            ENDED,
            ("cancelled", "cancelled"),
            ("cancelled", "received SIGTERM (15)", 143),
        ),
        (
            replace(GONE, end=replace(end(7), is_cancelled=True, stopped="cancelled")),
            ENDED,
            ("cancelled", "cancelled"),
            ("failed", "received SIGTERM (15)", 7),
        ),
    ],
)  # fmt: skip
def test_what_launchers_have_written_is_told(
    facts: state.RunFacts, report: NodeReport, job_is: tuple[str, str], node_is: tuple[str, str, int | None]
) -> None:
    status = state.status_of(planned(job()), replace(facts, reports={"launcher": report}))
    (node,) = status.nodes
    assert (status.state.value, status.reason) == job_is
    assert (node.state.value, node.reason, node.exit_code) == node_is
    assert node.host == "10.0.0.1"


def test_room_for_the_end_is_given_back_before_it_is_written(tmp_path: Path) -> None:
    files = RunFiles(str(tmp_path))
    files.reserve()
    assert (tmp_path / "reserve").stat().st_size >= 4096
    files.write_end(end(0))
    assert not (tmp_path / "reserve").exists()
    assert files.end() == end(0)


def test_every_word_of_a_place_has_a_state() -> None:
    assert {type(each) for words in STATES.values() for each in words.values()} == {State}
    for name in {*STATES} & {*registry.OURS}:
        assert {State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED} <= {*STATES[name].values()}
    assert state_of("slurm", "COMPLETING") is State.STOPPING
    assert state_of("slurm", "NEW_WORD") is None


# ---- lines


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Readers that are closed with the test."""
    made: list[logs.LogReader] = []

    def read(tmp_path: Path, position: str = "") -> logs.LogReader:
        made.append(logs.LogReader(source(tmp_path), position))
        return made[-1]

    yield read
    for reader in made:
        reader.close()


def source(tmp_path: Path) -> logs.LogSource:
    return logs.LogSource(name="trainer.0", path=str(tmp_path / "workerlog.0"), role=Role.TRAINER, rank=0)


def rotate(tmp_path: Path) -> None:
    """As the launcher does."""
    for number in (2, 1):
        younger = tmp_path / ("workerlog.0.1" if number == 2 else "workerlog.0")
        if younger.exists():
            younger.replace(tmp_path / f"workerlog.0.{number}")


def write(tmp_path: Path, text: str) -> None:
    with open(tmp_path / "workerlog.0", "a", encoding="utf-8") as file:
        file.write(text)


def test_a_line_is_given_when_it_is_whole(tmp_path: Path, opened: Opened) -> None:
    reader = opened(tmp_path)
    assert [*reader.lines(is_over=False)] == []
    write(tmp_path, "one\ntw")
    assert [line.text for line in reader.lines(is_over=False)] == ["one"]
    write(tmp_path, "o\r\nthree")
    assert [line.text for line in reader.lines(is_over=False)] == ["two"]
    assert [line.text for line in reader.lines(is_over=True)] == ["three"]
    assert [*reader.lines(is_over=True)] == []


@pytest.mark.parametrize("resumed", [False, True])
def test_no_line_is_lost_or_given_twice_across_rotation(tmp_path: Path, opened: Opened, resumed: bool) -> None:
    reader = opened(tmp_path)
    seen = []
    for number in range(30):
        write(tmp_path, f"line {number}\nbegin of ")
        if number % 4 == 0:
            rotate(tmp_path)
        write(tmp_path, f"{number}\n")
        if number % 3 == 0 and number % 4:
            rotate(tmp_path)
        seen += [*reader.lines(is_over=False)]
        if resumed:
            reader = opened(tmp_path, seen[-1].position)
    seen += [*reader.lines(is_over=True)]
    expected = [text for number in range(30) for text in (f"line {number}", f"begin of {number}")]
    assert [line.text for line in seen] == expected


@pytest.mark.parametrize("resumed", [False, True])
def test_what_was_rotated_away_is_left_out_and_the_rest_is_read(tmp_path: Path, opened: Opened, resumed: bool) -> None:
    """Also where a new file has the inode of a deleted one."""
    write(tmp_path, "a\n")
    reader = opened(tmp_path)
    (line,) = reader.lines(is_over=False)
    write(tmp_path, "late\n")
    if resumed:
        reader.close()
        reader = opened(tmp_path, line.position)
    for text in ("b\n", "c\n", "d\n", "e\n"):
        rotate(tmp_path)
        write(tmp_path, text)
    left = [] if resumed else ["late"]  # a reader that is there still has its file open
    lines = list(reader.lines(is_over=True))
    assert [line.text for line in lines if not line.is_note] == [*left, "c", "d", "e"]
    assert [line.is_note for line in lines].count(True) == resumed, (
        "who had read it before is told that lines are missing"
    )


# ---- processes and files


def test_a_process_is_not_taken_for_another_one_with_its_number() -> None:
    own = identity.of(os.getpid())
    assert own is not None
    assert identity.is_alive(own)
    assert identity.ProcessIdentity.from_plain(own.to_plain()) == own
    later = replace(own, start_ticks=own.start_ticks + 1)
    assert not identity.is_alive(later)
    assert not identity.send(later, 0)
    assert not identity.is_alive(replace(own, boot="another"))


def test_a_process_that_nobody_waited_for_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        known = identity.of(child.pid)
        assert known is not None
        assert identity.is_alive(known)
        assert identity.send(known, 9)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not identity.is_alive(known)
        assert not identity.send(known, 9)


def test_files_are_private_and_one_writer_is_first(tmp_path: Path) -> None:
    private_files.make_directory(str(tmp_path / "a" / "b"))
    path = tmp_path / "a" / "b" / "x"
    assert private_files.write_once(str(path), "1")
    assert not private_files.write_once(str(path), "2")
    assert path.read_text() == "1"
    private_files.write(str(path), "3")
    assert path.read_text() == "3"
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert oct(path.parent.stat().st_mode & 0o777) == "0o700"
    assert os.listdir(path.parent) == ["x"]
