"""Jobs submitted to a real Slurm from a machine without it, through a real sshd of its login node."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed import hosts, slurm, sshd
from testbed.pytest_support import require
from tests.support import PATIENCE_S, command_lines, contents_below, eventually, reaching
from tests.support.cluster_desks import ClusterDesk

pytestmark = [pytest.mark.slurm, pytest.mark.ssh]
SECRET = "k5-Wq81zTtrr-only-for-nodes"


class Laptop:
    """A host that sees the login node by ssh alone."""

    def __init__(self, cluster: slurm.Cluster, login: sshd.Cluster, host: hosts.Host) -> None:
        self.cluster = cluster
        self.login = login
        self.host = host

    def popen(self, words: Sequence[str], env: Mapping[str, str], cwd: Path, **more: Any) -> subprocess.Popen[str]:
        return self.host.popen(words, env=env, cwd=cwd, **more)


@pytest.fixture(scope="module")
def laptop() -> Iterator[Laptop]:
    require(slurm.available())
    require(sshd.available())
    with hosts.network(3) as net, slurm.cluster(net.hosts[:2]) as cluster, sshd.on_hosts(net.hosts[:1]) as login:
        # bash reads it for commands over ssh, as on login nodes where Slurm is not in its usual place.
        (login.machines[0].files / ".bashrc").write_text(f"export SLURM_CONF={cluster.config}\n")
        yield Laptop(cluster, login, net.hosts[2])


@pytest.fixture
def desk(tmp_path: Path, laptop: Laptop) -> Iterator[ClusterDesk]:
    made = ClusterDesk(tmp_path, f'backend = "slurm"\n{ClusterDesk.python(tmp_path)}', laptop)
    # The file that counts: workers work in the run's directory, and the desk's own is not seen by them.
    (made.directory / "umiak.toml").write_text(
        f"""
[place.hpc]
backend = "slurm"
submit_host = "node0"
remote_dir = "{made.shared}"
config = "{laptop.login.config}"
submit_python = "{sys.executable}"
{ClusterDesk.python(tmp_path)}
"""
    )
    yield made
    laptop.cluster.run(["scancel", "--me"])
    eventually(lambda: laptop.cluster.run(["squeue", "--noheader"]).stdout == "")
    eventually(lambda: not made.left())


def work_of(desk: ClusterDesk, handle: str) -> Path:
    return desk.run_directory(handle) / "work"


def begun(desk: ClusterDesk, handle: str) -> None:
    desk.until_said("trainer.0 begin", "trainer.1 begin", where=work_of(desk, handle))


def test_a_job_from_a_laptop(desk: ClusterDesk, laptop: Laptop) -> None:
    """Submitted, followed, waited for; secrets in one file that only its owner reads, and then nowhere."""
    assert desk.umiak("submit", "--on", "hpc", "--dry-run", "--", "train.py").count("ssh node0 sbatch") == 1
    words = ("--secret", "DB_PASSWORD", "--", "train.py", "secret=DB_PASSWORD", "lines=3", "until=go")
    handle = desk.submit("--nnodes", "2", *words, env={"DB_PASSWORD": SECRET})
    begun(desk, handle)
    said = f"DB_PASSWORD has {len(SECRET)} letters"
    desk.until_said(f"trainer.0 {said}", f"trainer.1 {said}", where=work_of(desk, handle))
    assert [(each.platform, each.nodes, each.rank) for each in desk.placements()] == [("slurm", 2, 0), ("slurm", 2, 1)]
    status = desk.status(handle)
    assert (status["state"], [node["name"] for node in status["nodes"]]) == ("running", ["node0", "node1"])
    hidden = desk.run_directory(handle) / "secrets.json"
    assert oct(hidden.stat().st_mode & 0o777) == "0o600"
    secrets = [text.encode() for text in json.loads(hidden.read_text()).values()]
    readable = contents_below(desk.directory.parent, laptop.cluster.directory) | command_lines()
    del readable[hidden]
    assert [path for path, data in readable.items() for secret in secrets if secret in data] == []
    with desk.start("logs", "-f", handle) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        (work_of(desk, handle) / "go").touch()
        lines = [first, *following.stdout]
        assert following.wait(PATIENCE_S) == 0
    for rank in range(2):
        own = [line.partition("] ")[2].strip() for line in lines if line.startswith(f"[trainer.{rank}]")]
        assert own == [f"begin trainer {rank} of 2", *(f"line {number} of {rank}" for number in range(3)), "end"]
    status = desk.wait(handle)
    assert (status["state"], status["exit_code"], status["said"]) == ("succeeded", 0, "COMPLETED")
    assert not hidden.exists()
    assert desk.umiak("logs", handle, "--rank", "1").splitlines()[0] == "begin trainer 1 of 2"
    assert desk.umiak("logs", handle, "--rank", "1", "--tail", "1").splitlines() == ["end"]
    assert desk.umiak("logs", handle, "--rank", "1", "--since", "1h").splitlines()[0] == "begin trainer 1 of 2"
    number = os.readlink(desk.run_directory(handle) / "job")
    assert desk.status(f"slurm://hpc/{number}")["state"] == "succeeded"
    assert handle in desk.umiak("list")


def test_files_are_sent_once_for_the_same_content(desk: ClusterDesk) -> None:
    (desk.directory / "job.yaml").write_text("name: files\ncommand: train.py fail=7\nfiles: .\nnodes: 2\n")
    first, second = [desk.submit("job.yaml") for _ in range(2)]
    assert [desk.wait(each, status=7)["exit_code"] for each in (first, second)] == [7, 7]
    assert len(list((desk.shared / "files").iterdir())) == 1
    assert len(list((desk.shared / "launchers").iterdir())) == 1
    (desk.directory / "more.py").write_text("")
    desk.wait(desk.submit("job.yaml"), status=7)
    assert len(list((desk.shared / "files").iterdir())) == 2


@pytest.mark.parametrize("kind", ["running", "queued"])
def test_cancelling(desk: ClusterDesk, laptop: Laptop, kind: str) -> None:
    handle = desk.submit("--nnodes", "9" if kind == "queued" else "2", "--", "train.py", "until=never")
    if kind == "running":
        begun(desk, handle)
    desk.umiak("cancel", handle, "--grace", "60")
    assert desk.status(handle)["state"] == "cancelled"
    told = [line for line in desk.said(work_of(desk, handle)) if "told to end" in line]
    assert bool(told) is (kind == "running")
    assert not (desk.run_directory(handle) / "secrets.json").exists()


def test_a_client_that_is_killed_starts_nothing_twice(desk: ClusterDesk, laptop: Laptop) -> None:
    """sbatch has taken the job, and the laptop is gone before it hears of it."""
    wrapped = desk.directory.parent / "wrapped"
    wrapped.mkdir()
    for name in ("squeue", "scontrol", "scancel", "sacct"):
        (wrapped / name).symlink_to(f"/usr/bin/{name}")
    (wrapped / "sbatch").write_text(
        f'#!/bin/sh\n/usr/bin/sbatch "$@" >{wrapped}/answer\nuntil [ -e {wrapped}/go ]; do sleep 0.1; done\ncat {wrapped}/answer\n'
    )
    (wrapped / "sbatch").chmod(0o755)
    place = desk.directory / "umiak.toml"
    place.write_text(f'{place.read_text()}commands = "{wrapped}"\n')
    words = ("submit", "--on", "hpc", "--nnodes", "2", "--", "train.py", "until=go")
    with desk.start(*words) as client:
        eventually(lambda: (wrapped / "answer").exists() and (wrapped / "answer").read_text() != "")
        client.send_signal(signal.SIGKILL)
        # The client is a child of the command that enters the host.
        for line in desk.left():
            if "submit" in line and "--nnodes" in line:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.split()[0]), signal.SIGKILL)
    (wrapped / "go").touch()
    handle = desk.umiak(*words).strip()
    begun(desk, handle)
    (work_of(desk, handle) / "go").touch()
    desk.wait(handle)
    name = handle.rpartition("/")[2]
    jobs = laptop.cluster.run(["squeue", "--noheader", "--states=all", f"--name={name}", "--format=%i"]).stdout.split()
    assert jobs == [os.readlink(desk.run_directory(handle) / "job")]
    assert sorted(desk.said(work_of(desk, handle))) == ["trainer.0 begin", "trainer.1 begin"]


def test_a_login_node_that_is_away(desk: ClusterDesk, laptop: Laptop) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "until=go")
    begun(desk, handle)
    machine = laptop.login.machines[0]
    with desk.start("logs", "-f", handle) as following:
        assert following.stdout is not None
        assert following.stdout.readline()
        machine.kill()
        assert "node0: connection refused" in desk.umiak("status", handle, status=3)
        assert "node0: connection refused" in desk.umiak("submit", "--on", "hpc", "--", "train.py", status=2)
        machine.start()
        (machine.files / ".bashrc").write_text(f"export SLURM_CONF={laptop.cluster.config}\n")
        (work_of(desk, handle) / "go").touch()
        rest = following.stdout.read()
        assert following.wait(PATIENCE_S) == 0
    assert "[trainer.1] end" in rest
    assert "[trainer.0] end" in rest


def test_what_is_missing_on_the_login_node_is_told(desk: ClusterDesk) -> None:
    place = desk.directory / "umiak.toml"
    place.write_text(f'{place.read_text()}commands = "{desk.directory}"\n')
    told = desk.umiak("submit", "--on", "hpc", "--", "train.py", "nowhere.py", status=2)
    assert told.count("[UM-SUBMIT-140]") == 4
    assert "node0" in told
    assert "[UM-SUBMIT-140]" in desk.umiak("doctor", "--on", "hpc", "--only", "place", status=1)


def test_commands_and_files_go_through_the_login_node(desk: ClusterDesk) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "lines=3", "write=out/model", "until=go")
    work = work_of(desk, handle)
    eventually(lambda: {"trainer.0 begin", "trainer.1 begin"} <= {*desk.said(work)})
    reaching.tells_what_a_worker_sees(desk, handle, 1, str(work))
    reaching.passes_bytes_on(desk, handle)
    reaching.ends_with_its_client(desk, handle, reaching.processes_with)
    reaching.has_a_shell(desk, handle)
    (work / "go").touch()
    assert desk.wait(handle)["state"] == "succeeded"
    reaching.fetched(desk, handle, "--to", "all")
    found = reaching.files_below(desk.directory / "all" / "shared")
    assert found["work/out/model"] == b"trained"
    assert b"line 2 of 1" in found["log/1/workerlog.0"]
    assert not [path for path in found if "secret" in path]
