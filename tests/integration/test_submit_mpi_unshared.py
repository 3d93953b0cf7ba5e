"""Jobs under real mpiruns, on hosts that share no file system: everything is sent to each, and its lines come back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import hosts, mpi, sshd
from testbed.pytest_support import require
from tests.integration.test_submit_mpi import OnHost
from tests.support import PATIENCE_S, command_lines, contents_below, eventually, reaching
from tests.support.cluster_desks import ClusterDesk

pytestmark = [pytest.mark.mpi]
SECRET = "k5-Wq81zTtrr-only-for-nodes"


@pytest.fixture(scope="module")
def cluster() -> Iterator[mpi.Cluster]:
    require(mpi.available())
    with hosts.network(2) as net, mpi.cluster(net.hosts) as opened:
        yield opened


class Apart:
    """A desk on the first host. The directory of its place is another one on the second: that host's home."""

    def __init__(self, desk: ClusterDesk, second: sshd.Machine, name: str) -> None:
        self.desk = desk
        self.second = second
        self.name = name
        self.here = second.home / name

    @property
    def there(self) -> Path:
        return self.second.files / self.name

    def said(self, handle: str) -> list[str]:
        """What the workers of both hosts wrote down, each in its own directory."""
        work = Path("runs") / handle.rpartition("/")[2] / "work"
        return [*self.desk.said(self.here / work), *self.desk.said(self.there / work)]

    def until_said(self, handle: str, *texts: str) -> None:
        eventually(lambda: {*texts} <= {*self.said(handle)})

    def go(self, handle: str) -> None:
        for directory in (self.here, self.there):
            (directory / "runs" / handle.rpartition("/")[2] / "work" / "go").touch()


@pytest.fixture(params=["openmpi", "mpich"])
def apart(tmp_path: Path, cluster: mpi.Cluster, request: pytest.FixtureRequest) -> Iterator[Apart]:
    tool, *flags = cluster.mpirun(request.param)
    at = next(number for number, word in enumerate(flags) if word in ("--hostfile", "-f"))
    second = cluster.servers.machines[1]
    desk = ClusterDesk(tmp_path, 'backend = "mpi"', OnHost(cluster.hosts[0]))
    (desk.directory / "umiak.toml").write_text(
        f"""
[place.hpc]
backend = "mpi"
shared = false
directory = "{second.home}/{tmp_path.name}"
hosts = ["node0:4", "node1:4"]
mpirun = "{tool}"
arguments = {json.dumps(flags[:at] + flags[at + 2 :])}
config = "{cluster.servers.config}"
python = "{sys.executable}"
"""
    )
    yield Apart(desk, second, tmp_path.name)
    eventually(lambda: not desk.left())


def test_a_job_whose_hosts_see_nothing_of_one_another(apart: Apart, cluster: mpi.Cluster, tmp_path: Path) -> None:
    """Files, data, secrets and launcher come to each host; lines, the exit code and results come back; no secret stays."""
    desk = apart.desk
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "part-0").write_text("rows")
    (desk.directory / "job.yaml").write_text(
        f"""
name: apart
command: train.py secret=DB_PASSWORD read=train_data/part-0 write=models/weights lines=3 until=go
nodes: 2
secrets: [DB_PASSWORD]
inputs: {{train_data: {tmp_path}/kept}}
outputs: {{models: {tmp_path}/home}}
"""
    )
    handle = desk.submit("job.yaml", env={"DB_PASSWORD": SECRET})
    run = Path("runs") / handle.rpartition("/")[2]
    said = f"DB_PASSWORD has {len(SECRET)} letters"
    apart.until_said(handle, *(f"trainer.{rank} {what}" for rank in range(2) for what in (said, "read rows")))
    assert {line.partition(" ")[0] for line in desk.said(apart.here / run / "work")} == {"trainer.0"}
    assert {line.partition(" ")[0] for line in desk.said(apart.there / run / "work")} == {"trainer.1"}
    # Each host has read its secrets, and has them in no file any more.
    readable = contents_below(apart.here, apart.there) | command_lines()
    assert len(readable) > 20
    assert [path for path, data in readable.items() if SECRET.encode() in data] == []
    with desk.start("logs", "-f", handle) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        apart.go(handle)
        lines = [first, *following.stdout]
        assert following.wait(PATIENCE_S) == 0
    for rank in range(2):
        own = [line.partition("] ")[2].strip() for line in lines if line.startswith(f"[trainer.{rank}]")]
        assert own == [f"begin trainer {rank} of 2", *(f"line {number} of {rank}" for number in range(3)), "end"]
    status = desk.wait(handle)
    assert (status["state"], status["exit_code"]) == ("succeeded", 0)
    assert (tmp_path / "home" / "weights").read_text() == "trained"
    assert desk.umiak("logs", handle, "--rank", "1").splitlines()[0] == "begin trainer 1 of 2"
    assert desk.umiak("logs", handle, "--rank", "1", "--tail", "1").splitlines() == ["end"]
    assert desk.umiak("logs", handle, "--rank", "1", "--since", "1h").splitlines()[0] == "begin trainer 1 of 2"
    again = desk.submit("--nnodes", "2", "--", "train.py", "fail=7")
    assert desk.wait(again, status=7)["exit_code"] == 7
    assert len(list((apart.there / "launchers").iterdir())) == 1
    assert len(list((apart.there / "files").iterdir())) == 1  # train.py alone, the same in both runs


def test_cancelling(apart: Apart) -> None:
    handle = apart.desk.submit("--nnodes", "2", "--", "train.py", "until=never")
    apart.until_said(handle, "trainer.0 begin", "trainer.1 begin")
    apart.desk.umiak("cancel", handle, "--grace", "60")
    assert apart.desk.status(handle)["state"] == "cancelled"
    assert any("told to end" in line for line in apart.said(handle))


def test_a_host_that_is_away_keeps_the_job_from_starting(apart: Apart) -> None:
    apart.second.kill()
    try:
        told = apart.desk.umiak("submit", "--on", "hpc", "--nnodes", "2", "--", "train.py", status=2)
    finally:
        apart.second.start()
    assert "node1: connection refused" in told
    assert list(apart.here.glob("runs/*")) == []


def test_secrets_of_a_run_that_never_began_are_removed_from_the_hosts(apart: Apart) -> None:
    place = apart.desk.directory / "umiak.toml"
    place.write_text(place.read_text().replace("arguments = [", 'arguments = ["--no-such-option", '))
    handle = apart.desk.submit("--nnodes", "2", "--", "train.py")
    apart.desk.umiak("wait", handle, status=apart.desk.status(handle).get("exit_code") or 1)
    assert list(apart.there.glob("runs/*/secrets.json")) == []
    assert list(apart.here.glob("runs/*/secrets.json")) == []


def test_each_host_gives_its_own_files(apart: Apart) -> None:
    desk = apart.desk
    handle = desk.submit("--nnodes", "2", "--", "train.py", "lines=3", "write=out/model", "until=go")
    apart.until_said(handle, "trainer.0 begin", "trainer.1 begin")
    reaching.tells_what_a_worker_sees(desk, handle, 1)
    apart.go(handle)
    assert desk.wait(handle)["state"] == "succeeded"
    reaching.fetched(desk, handle, "--to", "all")
    found = reaching.files_below(desk.directory / "all")
    assert found["node0/work/out/model"] == b"trained"
    assert "node1/work/out/model" not in found
    assert b"line 2 of 1" in found["node1/log/1/workerlog.0"]
