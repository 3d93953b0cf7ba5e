"""Jobs submitted to a real Slurm: started, followed, cancelled, requeued, found again after a lost answer, with secrets nowhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed import hosts, slurm
from testbed.pytest_support import require
from tests.integration.cluster_desks import ClusterDesk
from tests.integration.launching import WORKERS
from tests.support import eventually

pytestmark = pytest.mark.slurm
SECRET = "k5-Wq81zTtrr-only-for-nodes"


class OnCluster:
    """Commands on the first host."""

    def __init__(self, cluster: slurm.Cluster) -> None:
        self.cluster = cluster

    def popen(self, words: Sequence[str], env: Mapping[str, str], cwd: Path, **more: Any) -> subprocess.Popen[str]:
        return self.cluster.hosts[0].popen(words, env={**env, **self.cluster.env}, cwd=cwd, **more)


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    require(slurm.available())
    with hosts.network(3) as net, slurm.cluster(net.hosts) as opened:
        yield opened


@pytest.fixture
def desk(tmp_path: Path, cluster: slurm.Cluster) -> Iterator[ClusterDesk]:
    made = ClusterDesk(tmp_path, f'backend = "slurm"\npython = "{sys.executable}"', OnCluster(cluster))
    yield made
    cluster.run(["scancel", "--me"])
    eventually(lambda: cluster.run(["squeue", "--noheader"]).stdout == "", within_s=60)
    eventually(lambda: not made.left(), within_s=60)


def job_of(desk: ClusterDesk, handle: str) -> str:
    return os.readlink(desk.run_directory(handle) / "job")


def test_a_job_on_two_nodes(desk: ClusterDesk, cluster: slurm.Cluster) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "lines=3", "until=go")
    desk.until_said("trainer.0 begin", "trainer.1 begin")
    status = desk.status(handle)
    assert status["state"] == "running"
    assert [node["name"] for node in status["nodes"]] == ["node0", "node1"]
    assert cluster.job(job_of(desk, handle))["JobName"] == handle.rpartition("/")[2]
    desk.touch("go")
    status = desk.wait(handle)
    assert (status["state"], status["exit_code"], status["said"]) == ("succeeded", 0, "COMPLETED")
    lines = desk.umiak("logs", handle, "--rank", "1").splitlines()
    assert [line for line in lines if "line" in line] == [f"[trainer.1] line {number} of 1" for number in range(3)]
    assert not (desk.run_directory(handle) / "secrets.json").exists()
    by_number = f"slurm://hpc/{job_of(desk, handle)}"
    assert desk.status(by_number)["state"] == "succeeded"
    assert handle in desk.umiak("list")
