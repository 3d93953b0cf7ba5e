"""What is known of a run when hosts are gone, when it is over, and when it is asked about from elsewhere. On hosts with a real sshd."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.pytest_support import NetworkFactory, SshFactory
from tests.integration.test_submit_ssh import Lab
from tests.support import eventually

pytestmark = [pytest.mark.ssh, pytest.mark.netns]


@pytest.fixture
def lab(tmp_path: Path, network: NetworkFactory, ssh_cluster: SshFactory) -> Lab:
    """Three hosts with networks of their own, and a fourth where the person is."""
    net = network(4)
    return Lab(tmp_path, ssh_cluster(net.hosts[1:]), net.hosts[0])


@pytest.mark.parametrize("lost", [0, 2], ids=["the first host", "the last host"])
def test_an_elastic_job_that_lost_a_host_and_finished_has_succeeded(lab: Lab, lost: int) -> None:
    handle = lab.submit("--nnodes", "2:3", "--", "train.py", f"until={lab.shared}/go")
    lab.until_started(3)
    gone = lab.cluster.machines[lost]
    gone.kill()
    others = [each.name for each in lab.cluster.machines if each is not gone]
    # Both others start their workers again, in a job of two.
    eventually(lambda: len(lab.starts()) >= 4, within_s=100)
    told = lab.status(handle)
    rows = {row["name"]: row for row in told["nodes"]}
    assert rows[gone.name]["state"] == "running"  # it counts as lost after `lost_after` seconds only
    assert "unreachable" in rows[gone.name]["reason"]
    assert told["state"] in ("running", "restarting", "starting")
    lab.go()
    lab.umiak("wait", handle, "--timeout", "90")  # less than the 300 s of `lost_after`
    told = lab.status(handle)
    assert (told["state"], told["exit_code"]) == ("succeeded", 0)
    assert gone.name in told["reason"]
    rows = {row["name"]: row["state"] for row in told["nodes"]}
    assert rows == {**dict.fromkeys(others, "succeeded"), gone.name: "lost"}
    assert lab.processes() == []


def test_cancelled_nodes_are_cancelled(lab: Lab) -> None:
    handle = lab.submit("--nnodes", "3", "--", "train.py", "until=never")
    lab.until_started(3)
    lab.umiak("cancel", handle, "--grace", "5")
    told = lab.status(handle)
    assert (told["state"], {row["state"] for row in told["nodes"]}) == ("cancelled", {"cancelled"})
