"""Jobs, handles, states and bundles: what they say of themselves."""

from __future__ import annotations

import pytest

from umiak.core.bundle import Bundle, BundleFile, SecretFile, shown
from umiak.core.cluster import Mode, Role
from umiak.core.decode import Malformed
from umiak.core.job import Handle, Job, Replicas, RoleSpec, handle, replicas
from umiak.core.status import JobStatus, State

SERVERS = RoleSpec(role=Role.SERVER, nodes=Replicas(least=2, most=2), env=(("LR", "0.2"), ("SHARDS", "4")))
TRAINERS = RoleSpec(nodes=Replicas(least=2, most=4), command=("eval.py",))


@pytest.mark.parametrize("text", ["1", "2:4", "16", "3:3"])
def test_numbers_of_nodes(text: str) -> None:
    least, _, most = text.partition(":")
    found = replicas(text)
    assert (found.least, found.most) == (int(least), int(most or least))
    assert replicas(str(found)) == found


@pytest.mark.parametrize("text", ["", "0", "4:2", "-1", "2:", ":2", "a", "1:2:3", "9999999999", "1.5", "\u0662"])
def test_what_is_no_number_of_nodes(text: str) -> None:
    with pytest.raises(Malformed, match="expected a number of nodes"):
        replicas(text)


@pytest.mark.parametrize("text", ["slurm://hpc/4242", "local:///run-7", "kubernetes://lab/team-a/ctr-1"])
def test_a_handle_is_read_back(text: str) -> None:
    assert str(handle(text)) == text


def test_the_parts_of_a_handle() -> None:
    assert handle("slurm://hpc/4242") == Handle(backend="slurm", place="hpc", id="4242")
    assert handle("kubernetes://lab/team-a/ctr-1").id == "team-a/ctr-1"


@pytest.mark.parametrize(
    "text", ["", "4242", "slurm:hpc/1", "slurm://hpc", "slurm://hpc/", "x://a/..", "x://a/b;c", "x://a/-f"]
)
def test_what_is_no_handle(text: str) -> None:
    with pytest.raises(Malformed, match="expected a handle such as"):
        handle(text)


def test_roles_say_how_workers_work_together() -> None:
    job = Job(name="ctr", command=("train.py",))
    assert (job.mode, str(job.nodes)) == (Mode.COLLECTIVE, "1")
    job = Job(name="ctr", command=("train.py",), roles=(SERVERS, TRAINERS), env=(("LR", "0.1"),))
    assert (job.mode, str(job.nodes)) == (Mode.PS, "4:6")
    assert job.role(Role.SERVER) is SERVERS
    assert job.role(Role.HETER) is None
    assert [job.command_of(each) for each in job.roles] == [("train.py",), ("eval.py",)]
    assert job.environment_of(SERVERS) == {"LR": "0.2", "SHARDS": "4"}
    assert job.environment_of(TRAINERS) == {"LR": "0.1"}
    assert Job(name="h", command=("x",), roles=(SERVERS, RoleSpec(role=Role.HETER))).mode is Mode.PS_HETER


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        (State.RUNNING, None, None),
        (State.RESTARTING, 1, None),
        (State.SUCCEEDED, 0, 0),
        (State.FAILED, 137, 137),
        (State.FAILED, None, 1),
        (State.FAILED, 0, 1),  # a place that calls it failed is believed
        (State.CANCELLED, None, 1),
        (State.LOST, None, 3),
    ],
)
def test_a_job_that_is_over_has_an_exit_status(state: State, code: int | None, expected: int | None) -> None:
    assert JobStatus(state=state, exit_code=code).exit_status == expected


def test_a_bundle_is_printed_whole_and_without_secrets() -> None:
    bundle = Bundle(
        files=(
            BundleFile(path="job.sh", text="umiak launch train.py\x1b[2J", mode=0o755),
            SecretFile(path="token", variable="UMIAK_TOKEN"),
        ),
        commands=(("sbatch", "--comment", "two words", "job.sh"),),
        requests=('{"name": "ctr"}',),
    )
    assert shown(bundle) == (
        "# file job.sh, mode 755\numiak launch train.py\\x1b[2J\n\n"
        "# file token, mode 600: the value of UMIAK_TOKEN, not shown\n\n"
        '# request\n{"name": "ctr"}\n\n'
        "# run\nsbatch --comment 'two words' job.sh\n"
    )
    assert shown(Bundle()) == ""
