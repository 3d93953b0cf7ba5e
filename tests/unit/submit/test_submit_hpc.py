"""What the places `slurm` and `mpi` decide: scripts, settings, what is said of a job, hosts. Their bundles are compared with files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.paths import GOLDEN
from umiak import platforms
from umiak.core.bundle import Bundle, BundleFile, shown
from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import FileSet, Job, Replicas, Resource, RoleSpec, Transfer
from umiak.core.node_report import NodeReport
from umiak.core.problem import UmiakError
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import replace
from umiak.platforms.slurm import GROUPS
from umiak.schema.keys import BadValue
from umiak.submit import configuration, places, registry
from umiak.submit.backends.mpi import backend as mpi_backend
from umiak.submit.backends.mpi import settings as mpi
from umiak.submit.backends.mpi.settings import Family, MpiHost
from umiak.submit.backends.shared import reports
from umiak.submit.backends.shared.layout import RunInfo, SharedRole
from umiak.submit.backends.slurm import script, settings, state
from umiak.submit.node import own_directory
from umiak.submit.states import STATES
from umiak.testing.environments import environment

SLURM = """
[place.hpc]
backend = "slurm"
directory = "/shared/me"
partition = "gpu"
account = "vision team"
gres = "gpu:a100"
setup = ["module load cuda/12"]
arguments = ["--exclusive", "--mail-type=END"]
"""
MPI = """
[place.hpc]
backend = "mpi"
directory = "/shared/me"
hosts = ["node0:8", "node1"]
arguments = ["--bind-to", "none"]
"""
GIB = 1 << 30

PLAIN = Job(name="ctr", command=("train.py", "--note", "it's"), roles=(RoleSpec(nodes=Replicas(least=2, most=2)),))
FULL = Job(
    name="ctr",
    command=("train.py",),
    roles=(
        RoleSpec(role=Role.SERVER, resource=Resource(cpus=3.5, memory_bytes=8 * GIB), env=(("SIDE", "server"),)),
        RoleSpec(resource=Resource(cpus=8, devices=8, device=DeviceKind.GPU)),
    ),
    env=(("A", "1"),),
    secrets=("DB_PASSWORD",),
    files=FileSet(),
    inputs=(Transfer(url="s3://bucket/day1", path="train_data"),),
    outputs=(Transfer(url="s3://bucket/models", path="models"),),
    time_limit_s=7200,
)
ELASTIC = replace(PLAIN, roles=(RoleSpec(nodes=Replicas(least=1, most=2), workers=4),), time_limit_s=90)


@pytest.fixture(autouse=True)
def _own_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever /work is on this machine."""
    monkeypatch.setattr(own_directory, "if_own", lambda path: path)


def rendered(toml: str, job: Job, environ: Mapping[str, str] | None = None) -> Bundle:
    context = configuration.context({"HOME": "/h", "PATH": "/usr/bin", **(environ or {})}, "/work")
    reading = places.read([("umiak.toml", toml)], registry.BackendNames())
    assert reading.problems == ()
    return registry.make(reading.places["hpc"], context).render(job, "ctr-dry-run")


def golden(name: str, bundle: Bundle) -> None:
    """Compare with the file; UMIAK_REWRITE=1 writes it."""
    path = GOLDEN / "bundles" / f"{name}.txt"
    text = shown(bundle).replace(sys.executable, "python3")
    if os.environ.get("UMIAK_REWRITE"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(("name", "job"), [("plain", PLAIN), ("full", FULL), ("elastic", ELASTIC)])
def test_what_a_dry_run_prints_for_slurm(name: str, job: Job) -> None:
    bundle = rendered(SLURM, job, {"DB_PASSWORD": "k5-Wq81zTtrr"})
    golden(f"slurm-{name}", bundle)
    assert "k5-Wq81zTtrr" not in shown(bundle)


LAPTOP = SLURM.replace('directory = "/shared/me"', 'submit_host = "me@login1"\nremote_dir = "~/u"')


def test_what_a_dry_run_prints_for_slurm_from_a_laptop() -> None:
    """It asks nobody: `~` is the submit host's."""
    bundle = rendered(LAPTOP, PLAIN)
    golden("slurm-laptop", bundle)
    assert bundle.commands == (("ssh", "me@login1", "sbatch", "--parsable", "~/u/runs/ctr-dry-run/job.sh"),)


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize(("name", "job"), [("plain", PLAIN), ("full", FULL)])
def test_what_a_dry_run_prints_for_mpi(name: str, job: Job, family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_backend, "_own_name", lambda: "node1.cluster")
    golden(f"mpi-{family.value}-{name}", rendered(f'{MPI}family = "{family.value}"\n', job))


def test_what_a_dry_run_prints_for_mpi_without_a_shared_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_backend, "_own_name", lambda: "node1.cluster")
    bundle = rendered(f'{MPI}family = "openmpi"\nshared = false\n', FULL)
    golden("mpi-unshared", bundle)
    names = [each.path.rpartition("/")[2] for each in bundle.files]
    assert not {"before.json", "after.json"} & {*names}
    assert "over ssh, at once, to node0: " in bundle.requests[-1]


@pytest.mark.parametrize("toml", [SLURM, f'{MPI}family = "openmpi"\n'])
def test_scripts_are_scripts(toml: str) -> None:
    for job in (PLAIN, FULL):
        scripts = [each for each in rendered(toml, job).files if each.path.endswith(".sh")]
        assert len(scripts) == 2
        for each in scripts:
            assert isinstance(each, BundleFile)
            subprocess.run(["bash", "-n"], input=each.text, text=True, check=True)


def test_what_an_sbatch_script_says_is_read_back() -> None:
    """The law, with simulated nodes: components in the order of the script are the roles that platforms finds."""
    text = next(each.text for each in rendered(SLURM, FULL).files if isinstance(each, BundleFile))
    groups = next(line for line in text.splitlines() if line.startswith("export")).partition("=")[2]
    for rank, role in enumerate(Role.SERVER if not rank else Role.TRAINER for rank in range(2)):
        environ = {**environment("slurm", 2, rank, servers=1), GROUPS: groups}
        found = platforms.detect(environ)
        assert found is not None
        assert (found.nodes, found.rank, found.role) == (2, rank, role)


# ---- settings


def problems(toml: str) -> list[str]:
    context = configuration.context({"HOME": "/h", "PATH": ""}, "/work")
    reading = places.read([("umiak.toml", toml)], registry.BackendNames())
    with pytest.raises(UmiakError) as caught:
        registry.make(reading.places["hpc"], context)
    return [f"{each.code} {each.what}" for each in caught.value.problems]


def test_everything_that_is_wrong_with_a_place_is_told_at_once() -> None:
    said = SLURM + 'partitoin = "x"\nstop_time = "soon"\nrequeue = "yes"\n'
    said = said.replace('"--exclusive"', '"--array=1-4", "-x"').replace(
        '"module load', '"echo 1\\nrm -r /", "module load'
    )
    assert problems(said) == [
        "UM-CONFIG-014 place hpc: setup: more than one line: echo 1 rm -r /",
        "UM-CONFIG-014 place hpc: arguments: job arrays are not supported",
        "UM-CONFIG-012 place hpc: unknown key: partitoin",
        "UM-CONFIG-014 place hpc: stop_time: expected a time span, got soon",
        'UM-CONFIG-013 place hpc: requeue must be a boolean, not the text "yes"',
    ]
    assert problems(SLURM + 'remote_dir = "/x"\nkey = "id"\n') == [
        "UM-CONFIG-014 place hpc: remote_dir is for places with `submit_host`",
        "UM-CONFIG-014 place hpc: key is for places with `submit_host`",
    ]
    assert problems(SLURM + 'submit_host = "login 1"\n') == [
        "UM-CONFIG-014 place hpc: submit_host: expected a host, got login 1"
    ]
    assert problems(SLURM + 'submit_host = "login1"\n') == [
        "UM-CONFIG-014 place hpc: both submit_host and directory are said"
    ]
    assert problems(MPI + 'key = "id"\n') == ["UM-CONFIG-014 place hpc: key is for places with `shared = false`"]
    assert problems(MPI + 'hostfile = "x"\n') == ["UM-CONFIG-014 place hpc: both hosts and hostfile are said"]
    assert problems(MPI.replace("node1", "a b; rm")) == ["UM-CONFIG-014 place hpc: hosts: expected a host, got a b; rm"]


def test_what_sbatch_is_given() -> None:
    text = "#!/bin/bash\n#SBATCH --partition=gpu\n#SBATCH --time=3\n"
    inherited = {
        "PATH": "/bin",
        "EDITOR": "vi",
        "DB_PASSWORD": "x",
        "UMIAK_TOKEN": "x",
        "UMIAK_RANK": "1",
        "SLURM_JOB_ID": "7",
        "SLURM_CONF": "/etc/slurm.conf",
        "SBATCH_PARTITION": "other",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_ACCOUNT": "mine",
        "SBATCH_ARRAY_INX": "1-9",
    }
    said = settings.SlurmSettings(directory="/d")
    secrets = ("DB_PASSWORD", "UMIAK_TOKEN")
    kept = {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SBATCH_ACCOUNT": "mine"}
    assert script.sbatch_environment(inherited, secrets, said, text) == {**kept, "EDITOR": "vi"}
    assert script.sbatch_environment(inherited, secrets, replace(said, export="none"), text) == kept


# ---- what Slurm says

INFO = RunInfo(
    run_id="ctr-1", directory="/work", roles=(SharedRole(role="server", nodes=1), SharedRole(role="trainer", nodes=2))
)
LINE = (
    "JobId={} JobName=ctr-1 JobState={} Reason=None Restarts={} ExitCode={} SubmitTime=100 EligibleTime=100 "
    "StartTime=110 EndTime=Unknown NodeList={} WorkDir=/x ExitCode=9:9 Comment=umiak"
)


def scontrol(said: str, code: str = "0:0", restarts: int = 0) -> tuple[state.SlurmJob, ...]:
    rows = [LINE.format(7, said, restarts, code, "n3"), LINE.format(8, said, restarts, code, "n[0-1]")]
    return state.from_scontrol("\n".join(rows))


@pytest.mark.parametrize(
    ("facts", "expected", "exit_code"),
    [
        (state.SlurmFacts(job_id="7", jobs=scontrol("PENDING")), "queued", None),
        (state.SlurmFacts(job_id="7", jobs=scontrol("PENDING", restarts=1), exit_code=1), "queued", None),
        (state.SlurmFacts(job_id="7", jobs=scontrol("RUNNING")), "running", None),
        (state.SlurmFacts(job_id="7", jobs=scontrol("RUNNING"), is_cancelled=True), "stopping", None),
        (state.SlurmFacts(job_id="7", jobs=scontrol("COMPLETED"), exit_code=0), "succeeded", 0),
        (state.SlurmFacts(job_id="7", jobs=scontrol("FAILED", "7:0")), "failed", 7),
        (state.SlurmFacts(job_id="7", jobs=scontrol("FAILED", "0:9")), "failed", 137),
        (state.SlurmFacts(job_id="7", jobs=scontrol("FAILED", "143:0"), is_cancelled=True), "cancelled", 143),
        (state.SlurmFacts(job_id="7", jobs=scontrol("FRESH_WORD")), "running", None),
        (state.SlurmFacts(job_id="7", exit_code=0, ended_s=9.0), "succeeded", 0),
        (state.SlurmFacts(job_id="7", exit_code=3, ended_s=9.0), "failed", 3),
        (state.SlurmFacts(job_id="7"), "lost", None),
        (state.SlurmFacts(), "lost", None),
        (state.SlurmFacts(is_cancelled=True), "cancelled", None),
    ],
)
def test_how_a_run_is(facts: state.SlurmFacts, expected: str, exit_code: int | None) -> None:
    status = state.status_of(INFO, facts)
    assert (status.state.value, status.exit_code) == (expected, exit_code)
    if status.state is State.RUNNING:
        assert [(each.name, each.role, each.rank) for each in status.nodes] == [
            ("n3", Role.SERVER, 0),
            ("n0", Role.TRAINER, 0),
            ("n1", Role.TRAINER, 1),
        ]


@pytest.mark.parametrize(("ended_s", "reason"), [(650, "SIGTERM: the time limit is near"), (300, "exit code 143")])
def test_a_signal_near_the_time_limit_is_told(ended_s: int, reason: str) -> None:
    jobs = tuple(replace(each, ended_s=float(ended_s)) for each in scontrol("FAILED", "143:0"))
    status = state.status_of(replace(INFO, time_limit_s=600, stop_time_s=60), state.SlurmFacts(job_id="7", jobs=jobs))
    assert status.reason == reason


def test_what_accounting_says() -> None:
    (job,) = state.from_sacct("7|CANCELLED by 1000|0:15|100|110|120|None assigned|None\n")
    assert (job.said, job.exit_code, job.submitted_s, job.ended_s, job.nodes) == ("CANCELLED", 143, 100.0, 120.0, "")
    assert job.state is State.CANCELLED


def test_every_state_that_this_slurm_can_print_is_in_the_table() -> None:
    """Words of the library of Slurm's commands, where it is installed."""
    libraries = [*Path("/usr/lib").glob("*/slurm*/libslurmfull.so")]
    if not libraries:
        pytest.skip("needs Slurm's commands: install slurm-client")
    data = libraries[0].read_bytes()
    words = b"BOOT_FAIL NODE_FAIL OUT_OF_MEMORY RESV_DEL_HOLD REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT STAGE_OUT SIGNALING".split()
    assert [word for word in words if word not in data or word.decode() not in STATES["slurm"]] == []


# ---- hosts


def test_host_files_of_both_families() -> None:
    expected = (MpiHost(name="node0", slots=8), MpiHost(name="10.0.0.2"))
    assert mpi.hosts_in("# mine\nnode0 slots=8 max_slots=9\n\n10.0.0.2 # last\n") == expected
    assert mpi.hosts_in("node0:8\n10.0.0.2\n") == expected
    for text in ("node0\nnode0:2", "-x", "node0 slots=many"):
        with pytest.raises(BadValue):
            mpi.hosts_in(text)


@pytest.mark.parametrize(
    ("said", "family"),
    [
        ("mpirun (Open MPI) 5.0.3", Family.OPENMPI),
        ("mpirun.openmpi (OpenRTE) 4.1.4", Family.OPENMPI),
        ("HYDRA build details:\n    Version: 4.0.2", Family.MPICH),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.10", Family.MPICH),
        ("mpirun 1.0", None),
    ],
)
def test_whose_mpirun_it_is(said: str, family: Family | None) -> None:
    assert mpi.family_of(said) is family


# ---- what launchers have written


NODES = tuple(NodeStatus(name=f"node{rank}", rank=rank, state=State.RUNNING) for rank in (0, 1))
AT_WORK = JobStatus(state=State.RUNNING, nodes=NODES, started_s=100.4)
RESTARTS = NodeReport(state=State.RESTARTING, host="10.0.0.1", restarts=1, reason="trainer 0 failed", changed_s=101.0)


def test_a_job_restarts_while_one_of_its_launchers_does() -> None:
    status = reports.merged(AT_WORK, {1: RESTARTS})
    assert (status.state, status.reason) == (State.RESTARTING, "trainer 0 failed")
    assert [each.state for each in status.nodes] == [State.RUNNING, State.RESTARTING]
    assert [each.host for each in status.nodes] == ["", "10.0.0.1"]
    status = reports.merged(AT_WORK, {1: replace(RESTARTS, state=State.RUNNING)})
    assert (status.state, status.reason) == (State.RUNNING, "restarted once: trainer 0 failed")


def test_what_was_written_before_a_job_was_requeued_does_not_count() -> None:
    assert reports.merged(AT_WORK, {1: replace(RESTARTS, changed_s=99.0)}) == AT_WORK
    waits = replace(AT_WORK, state=State.QUEUED, started_s=None, nodes=())
    assert reports.merged(waits, {1: RESTARTS}) == waits


def test_the_first_node_that_failed_is_the_reason() -> None:
    ended = replace(AT_WORK, state=State.FAILED, reason="exit code 7", exit_code=7)
    told = {
        0: replace(RESTARTS, state=State.FAILED, exit_code=7, reason="second", changed_s=103.0),
        1: replace(RESTARTS, state=State.FAILED, exit_code=7, reason="first", changed_s=102.0),
    }
    status = reports.merged(ended, told)
    assert status.reason == "exit code 7: first"
    assert [(each.exit_code, each.reason) for each in status.nodes] == [(7, "second"), (7, "first")]
    assert reports.merged(replace(ended, reason="the time limit is over"), told).reason == "the time limit is over"


def test_launchers_that_have_ended_stay_so_while_the_job_stops() -> None:
    ends = replace(AT_WORK, state=State.STOPPING)
    done = replace(RESTARTS, state=State.SUCCEEDED, exit_code=0)
    status = reports.merged(ends, {0: done, 1: RESTARTS})
    assert [each.state for each in status.nodes] == [State.SUCCEEDED, State.STOPPING]


def test_nodes_of_a_cancelled_job_are_cancelled_and_every_node_has_its_host() -> None:
    nodes = tuple(replace(each, host=each.name, state=State.CANCELLED) for each in NODES)
    cancelled = replace(AT_WORK, state=State.CANCELLED, nodes=nodes, exit_code=143)
    told = {
        0: replace(RESTARTS, state=State.FAILED, exit_code=143),
        1: replace(RESTARTS, state=State.FAILED, exit_code=7, host="node1"),
    }
    status = reports.merged(cancelled, told)
    assert [each.state for each in status.nodes] == [State.CANCELLED, State.FAILED]
    assert [each.host for each in status.nodes] == ["10.0.0.1", "node1"]


def test_an_elastic_job_has_succeeded_if_one_of_its_launchers_says_so() -> None:
    failed = replace(AT_WORK, state=State.FAILED, reason="exit code 1", exit_code=1)
    told = {0: replace(RESTARTS, state=State.SUCCEEDED, exit_code=0), 1: RESTARTS}
    assert reports.merged(failed, told).state is State.FAILED
    status = reports.merged(failed, told, is_elastic=True)
    assert (status.state, status.exit_code, status.reason) == (State.SUCCEEDED, 0, "")
    assert reports.merged(failed, {1: RESTARTS}, is_elastic=True).state is State.FAILED
