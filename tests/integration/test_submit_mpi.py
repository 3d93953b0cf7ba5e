"""Jobs submitted to hosts that real mpiruns reach, of Open MPI and of MPICH: started, cancelled, killed in every place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed import hosts, mpi
from testbed.pytest_support import require
from tests.support import command_lines, contents_below, eventually, reaching
from tests.support.cluster_desks import ClusterDesk
from tests.support.launching import WORKERS

pytestmark = [pytest.mark.mpi]
SECRET = "k5-Wq81zTtrr-only-for-nodes"
BEGUN = ("trainer.0 begin", "trainer.1 begin")


class OnHost:
    """Commands on the first host."""

    def __init__(self, host: hosts.Host) -> None:
        self.host = host

    def popen(self, words: Sequence[str], env: Mapping[str, str], cwd: Path, **more: Any) -> subprocess.Popen[str]:
        return self.host.popen(words, env=env, cwd=cwd, **more)


@pytest.fixture(scope="module")
def cluster() -> Iterator[mpi.Cluster]:
    require(mpi.available())
    with hosts.network(2) as net, mpi.cluster(net.hosts) as opened:
        yield opened


@pytest.fixture(params=["openmpi", "mpich"])
def desk(tmp_path: Path, cluster: mpi.Cluster, request: pytest.FixtureRequest) -> Iterator[ClusterDesk]:
    tool, *flags = cluster.mpirun(request.param)
    at = next(number for number, word in enumerate(flags) if word in ("--hostfile", "-f"))
    place = f"""
backend = "mpi"
hosts = ["node0:4", "node1:4"]
mpirun = "{tool}"
arguments = {json.dumps(flags[:at] + flags[at + 2 :])}
{ClusterDesk.python(tmp_path)}
"""
    made = ClusterDesk(tmp_path, place, OnHost(cluster.hosts[0]))
    yield made
    eventually(lambda: not made.left())


def processes(desk: ClusterDesk, word: str) -> list[int]:
    """Of this desk, those whose program has this name; the newest first."""
    return [int(line.split()[0]) for line in desk.left() if word in line.split(" ", 1)[1].split("\\x00")[0]][::-1]


def test_a_job_on_two_hosts(desk: ClusterDesk) -> None:
    """With its secrets in no file that others read, in no argument, and in no environment but that of nodes."""
    handle = desk.submit(
        *("--nnodes", "2", "--secret", "DB_PASSWORD", "--", "train.py", "secret=DB_PASSWORD", "until=go"),
        env={"DB_PASSWORD": SECRET},
    )
    said = f"DB_PASSWORD has {len(SECRET)} letters"
    desk.until_said(f"trainer.0 {said}", f"trainer.1 {said}")
    placements = desk.placements()
    assert [(each.nodes, each.rank) for each in placements] == [(2, 0), (2, 1)]
    assert {each.platform for each in placements} < {"openmpi", "mpich"}
    assert all("DB_PASSWORD" not in environ for environ in desk.environments())
    status = desk.status(handle)
    assert (status["state"], [node["name"] for node in status["nodes"]]) == ("running", ["node0", "node1"])
    assert all(node["host"] for node in status["nodes"])
    hidden = desk.run_directory(handle) / "secrets.json"
    secrets = [text.encode() for text in json.loads(hidden.read_text()).values()]
    readable = contents_below(desk.directory.parent) | command_lines()
    del readable[hidden]
    assert [path for path, data in readable.items() for secret in secrets if secret in data] == []
    desk.touch("go")
    assert desk.wait(handle)["state"] == "succeeded"
    assert not hidden.exists()
    assert desk.umiak("logs", handle, "--rank", "1").splitlines() == ["begin trainer 1 of 2", "end"]
    assert desk.umiak("logs", handle, "--rank", "1", "--tail", "1").splitlines() == ["end"]
    assert desk.umiak("logs", handle, "--rank", "1", "--since", "1h").splitlines()[0] == "begin trainer 1 of 2"


def test_a_job_that_restarts_its_workers_says_so(desk: ClusterDesk, tmp_path: Path) -> None:
    desk.restarts(tmp_path)


def test_the_exit_code_of_a_worker_is_the_jobs(desk: ClusterDesk) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "fail=7")
    status = desk.wait(handle, status=7)
    assert (status["state"], status["exit_code"]) == ("failed", 7)


def test_cancelling_gives_workers_their_time(desk: ClusterDesk) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "until=never")
    desk.until_said(*BEGUN)
    desk.umiak("cancel", handle, "--grace", "60")
    status = desk.status(handle)
    assert (status["state"], [node["state"] for node in status["nodes"]]) == ("cancelled", ["cancelled"] * 2)
    # A node whose peers ended first kills its workers: not all of them need have heard of it.
    assert any("told to end" in line for line in desk.said())
    assert desk.left() == []


def test_parameter_servers(desk: ClusterDesk) -> None:
    (desk.directory / "job.yaml").write_text(
        f"""
name: sums
command: [{WORKERS / "summing.py"}, found]
roles: {{server: {{nodes: 1}}, trainer: {{nodes: 1}}}}
"""
    )
    (desk.directory / "found").mkdir()
    desk.wait(desk.submit("job.yaml"))
    assert [each.role.value for each in desk.placements() if each.role] == ["server", "trainer"]
    found = {path.name: json.loads(path.read_text())["sum"] for path in (desk.directory / "found").glob("*.json")}
    assert found == {"server.0.json": 1, "trainer.0.json": 1}


@pytest.mark.parametrize("victim", ["mpirun", "daemon", "supervisor", "stubborn workers"])
def test_whatever_is_killed_leaves_nothing(desk: ClusterDesk, victim: str) -> None:
    """The client is gone from the beginning: submitting does not wait."""
    words = ["stubborn"] if victim == "stubborn workers" else []
    handle = desk.submit("--nnodes", "2", "--", "train.py", *words, "until=never")
    desk.until_said(*BEGUN)
    if victim == "stubborn workers":
        desk.umiak("cancel", handle, "--grace", "2")
        assert desk.status(handle)["state"] == "cancelled"
    else:
        names = {"mpirun": ("mpirun", "mpiexec"), "daemon": ("orted", "hydra_pmi_proxy")}
        if victim == "supervisor":
            (pid,) = [int(line.split()[0]) for line in desk.left() if "node.supervisor" in line]
        else:
            (pid, *_) = [pid for name in names[victim] for pid in processes(desk, name)]
        os.kill(pid, signal.SIGKILL)
        expected = "lost" if victim == "supervisor" else "failed"
        eventually(lambda: desk.status(handle)["state"] == expected)
        assert desk.status(handle)["exit_code"] != 0
    eventually(lambda: not desk.left())


def test_commands_run_beside_the_workers(desk: ClusterDesk, cluster: mpi.Cluster, tmp_path: Path) -> None:
    """On this host without ssh, on the other one over the person's own ssh."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh" / "config").write_text(cluster.servers.config.read_text())
    handle = desk.submit("--nnodes", "2", "--", "train.py", "lines=3", "until=go")
    desk.until_said(*BEGUN)
    for rank in range(2):
        reaching.tells_what_a_worker_sees(desk, handle, rank, str(desk.directory))
    lines = desk.umiak("exec", handle, "--all", "--", "sh", "-c", "echo $UMIAK_RANK $(hostname)").splitlines()
    assert sorted(lines) == ["[node0] 0 node0", "[node1] 1 node1"]
    desk.touch("go")
    assert desk.wait(handle)["state"] == "succeeded"
    reaching.fetched(desk, handle, "--to", "all")
    found = reaching.files_below(desk.directory / "all" / "shared")
    assert b"line 2 of 0" in found["log/0/workerlog.0"]
    assert b"line 2 of 1" in found["log/1/workerlog.0"]
