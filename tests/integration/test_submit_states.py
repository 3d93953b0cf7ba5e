"""What is known of a run when hosts are gone, when it is over, and when it is asked about from elsewhere. On hosts with a real sshd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.pytest_support import NetworkFactory, SshFactory
from tests.integration.test_submit_ssh import Lab
from tests.support import PATIENCE_S, eventually

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
    eventually(lambda: len(lab.starts()) >= 4)
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


def elsewhere(lab: Lab, tmp_path: Path, text: str = "") -> Path:
    """Another directory, in which the person works now; perhaps with a project that has a place of the same name."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    if text:
        (path / "umiak.toml").write_text(text)
    lab.directory = path
    return path


@pytest.mark.parametrize("fate", ["off", "installed again"])
def test_a_succeeded_run_stays_so_when_its_hosts_are_gone(lab: Lab, tmp_path: Path, fate: str) -> None:
    handle = lab.submit("--nnodes", "2", "--", "train.py", "lines=3")
    lab.umiak("wait", handle)
    before = lab.status(handle)
    for machine in lab.cluster.machines:
        machine.kill()
        if fate != "off":
            machine.start()  # with an empty disk
    elsewhere(lab, tmp_path)
    lab.umiak("wait", handle, "--timeout", "60")
    told = lab.status(handle)
    assert told == before
    assert (told["state"], told["exit_code"]) == ("succeeded", 0)
    assert [row["state"] for row in told["nodes"]] == ["succeeded"] * 2
    assert lab.status("train")["handle"] == handle
    text = lab.umiak("logs", "-f", handle, status=3)
    assert "[UM-SUBMIT-360]" in text
    assert ("can be reached" if fate == "off" else "unknown run") in text
    assert "the run is over (succeeded)" in text
    assert "was already over" in lab.umiak("cancel", handle, status=None)


def test_a_running_run_is_found_from_another_project_with_a_place_of_the_same_name(lab: Lab, tmp_path: Path) -> None:
    handle = lab.submit("--nnodes", "2", "--", "train.py", "until=never")
    lab.until_started(2)
    other = '[place.lab]\nbackend = "ssh"\nhosts = ["127.0.0.1:1"]\nconnect_timeout = 1\n'
    elsewhere(lab, tmp_path, other)
    assert lab.status(handle)["state"] == "running"
    (row,) = json.loads(lab.umiak("list", "--json"))
    assert (row["handle"], row["state"]) == (handle, "running")
    lab.umiak("cancel", handle, "--grace", "1")
    assert lab.status(handle)["state"] == "cancelled"
    assert lab.processes() == []


def test_a_command_whose_answer_was_lost_finds_its_run_only_while_that_is_the_same(lab: Lab) -> None:
    words = ("submit", "--nnodes", "2", "--", "train.py", f"until={lab.shared}/go")
    with open("/dev/full", "w") as full, lab.start(*words, stdout=full) as client:
        _, err = client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 3
    handle = err.partition("the job was started: ")[2].split()[0]  # the other stream has it
    assert lab.umiak(*words).strip() == handle
    lab.umiak("wait", handle, "--timeout", "0", status=3)
    with open("/dev/full", "w") as full, lab.start("submit", "--name", "two", *words[1:], stdout=full) as client:
        client.communicate(timeout=PATIENCE_S)
    lab.go()
    runs = {row["name"]: row for row in json.loads(lab.umiak("list", "--json"))}
    lab.umiak("wait", runs["two"]["handle"])
    with lab.start("submit", "--name", "two", *words[1:]) as client:
        out, err = client.communicate(timeout=PATIENCE_S)
    assert out.strip() != runs["two"]["handle"]
    assert f"{runs['two']['handle']} was submitted before" in err
    assert "it is over: succeeded" in err
    lab.umiak("wait", out.strip())
