"""`umiak machines`: Baidu's SDK talks to a stand-in of BCC that checks signatures, over a real socket; what it hands out are machines with a
real sshd. Clients are killed, answers lost; what counts is what runs in the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import sshd
from testbed.clouds import sdks
from testbed.clouds.bcc import BccStandIn
from testbed.clouds.server import ACCESS, SECRET, serving
from testbed.pytest_support import require
from tests.support import PATIENCE_S, eventually, remember_launcher, submitting

pytest.importorskip("tomllib", reason="of Python 3.11")


@pytest.fixture(scope="module")
def cluster() -> Iterator[sshd.Cluster]:
    require(sdks.available())
    require(sshd.available())
    with socket.socket() as sock:
        sock.bind(("127.0.0.2", 0))
        port = sock.getsockname()[1]
    with sshd.on_loopback(3, port=port) as running:
        yield running


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SDK and what it needs, without what is installed anyway."""
    directory = tmp_path_factory.mktemp("packages")
    own = {each.name for each in Path(pytest.__file__).parent.parent.iterdir()}
    for each in sdks.path().iterdir():
        if each.name not in own:
            (directory / each.name).symlink_to(each)
    return directory


@pytest.fixture
def cloud(cluster: sshd.Cluster) -> Iterator[BccStandIn]:
    with serving(BccStandIn([each.address for each in cluster.machines])) as running:
        yield running


class Desk:
    """A person who rents machines."""

    def __init__(self, directory: Path, cloud: BccStandIn, cluster: sshd.Cluster, packages: Path) -> None:
        self.directory = directory / "work"
        self.directory.mkdir()
        self.state = directory / "state"
        self.cloud = cloud
        self.cluster = cluster
        remember_launcher(directory)
        kept = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("UMIAK_", "PADDLE_", "XDG_", "SSH_", "BCE_"))
        }
        self.environ = {
            **kept,
            "HOME": str(directory),
            "XDG_STATE_HOME": str(self.state),
            "XDG_CACHE_HOME": os.path.expanduser("~/.cache"),
            "PYTHONPATH": str(packages),
            "NO_PROXY": "*",
            "USER": "ada",
            "BCE_ACCESS_KEY_ID": ACCESS,
            "BCE_SECRET_ACCESS_KEY": SECRET,
        }
        self.describe()

    def describe(self, **more: object) -> None:
        said: dict[str, object] = {
            "region": "bj",
            "zone": "cn-bj-d",
            "spec": "bcc.gn3.c8m32",
            "image": "m-base",
            "subnet": "sbn-1",
            "security_group": "g-1",
            "key_pair": "k-1",
            "count": 2,
            "key": str(self.cluster.identity),
            "port": self.cluster.machines[0].port,
            "endpoint": self.cloud.url,
            "timeout": 1,
            "poll": 0,
            **more,
        }
        lines = "".join(f"{name} = {json.dumps(text)}\n" for name, text in said.items())
        (self.directory / "umiak.toml").write_text(f"[machines.gpu]\n{lines}")

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*submitting.UMIAK, *words],
            cwd=self.directory,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def umiak(self, *words: str, status: int = 0) -> str:
        with self.start(*words) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, f"{words} ended with {process.returncode}:\n{out}{err}"
        assert SECRET not in out + err
        return out if status == 0 and "--json" in words else f"{out}{err}"

    def up(self, *words: str, status: int = 0) -> str:
        return self.umiak("machines", "up", "gpu", "--yes", *words, status=status)

    def down(self, *words: str, status: int = 0) -> str:
        return self.umiak("machines", "down", "gpu", *words, status=status)

    def data(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.umiak("machines", *words, "--json").splitlines()]


@pytest.fixture
def desk(tmp_path: Path, cloud: BccStandIn, cluster: sshd.Cluster, packages: Path) -> Desk:
    return Desk(tmp_path, cloud, cluster, packages)


def test_the_whole_path(desk: Desk) -> None:
    """Document 002: machines, an image, one more machine, a job over ssh, its logs, and the release."""
    told = desk.up()
    assert "CNY 7.50 an hour each, CNY 15.00 an hour together, CNY 120.00 until their release" in told
    assert "the cloud releases the machines after 8 h by itself" in told
    assert len(desk.cloud.running) == 2
    assert all(each.releases for each in desk.cloud.running)
    tags = desk.cloud.running[0].tags
    assert (tags["umiak"], tags["umiak-user"]) == ("gpu", "ada")
    assert desk.cloud.count("create") == 1

    assert "m-0" in desk.umiak("machines", "image", "gpu", "--image_name", "ctr_1")
    assert [each["of"] for each in desk.cloud.images.values()] == ["i-0"]
    desk.describe(image="m-0")
    assert "there: 2 of 3: i-0, i-1" in desk.up("--count", "3")
    assert [each.body["imageId"] for each in desk.cloud.running] == ["m-base", "m-base", "m-0"]
    assert [each.body["purchaseCount"] for each in desk.cloud.running] == [2, 2, 1]

    rows = desk.data("list")
    assert [each["id"] for each in rows] == ["i-0", "i-1", "i-2"]
    assert all(each["so_far"] == pytest.approx(15, abs=0.5) for each in rows)
    assert all(each["release_s"] == pytest.approx(time.time() + 8 * 3600, abs=200) for each in rows)
    shown = desk.umiak("machines", "list")
    assert "2 h ago" in shown
    assert "in 7 h 59 min" in shown

    (desk.directory / "train.py").write_text(
        "import os, sys, time\nprint('rank', os.environ['UMIAK_RANK'], 'of', os.environ['UMIAK_WORLD_SIZE'])\n"
        "while sys.argv[1:]:\n    time.sleep(0.1)\n"
    )
    handle = desk.umiak("submit", "--on", "gpu", "--nnodes", "3", "--json", "--", "train.py")
    run = json.loads(handle)["handle"]
    desk.umiak("wait", run)
    lines = desk.umiak("logs", run)
    assert all(f"rank {rank} of 3" in lines for rank in range(3))

    # What is known when the machines are gone: ends that were seen, ends that nobody had asked for, and a run that went on.
    unseen = desk.umiak("submit", "--on", "gpu", "--", "train.py").splitlines()[0]
    desk.umiak("logs", "-f", unseen)
    unfinished = desk.umiak("submit", "--on", "gpu", "--", "train.py", "forever").splitlines()[0]
    told = desk.down()
    assert "3 machines were released" in told
    assert f"a run is not over there: {unfinished}" in told
    assert not desk.cloud.running
    for each, state in ((run, "succeeded"), (unseen, "succeeded"), (unfinished, "lost")):
        data = json.loads(desk.umiak("status", each, "--json"))
        assert (data["handle"], data["state"]) == (each, state)
    assert "its machines were released" in data["reason"]
    desk.umiak("wait", run)
    assert not list((desk.state / "umiak/machines").glob("gpu.[jtk]*"))
    assert "no machines are rented" in desk.umiak("machines", "list")
    assert "unknown place: gpu" in desk.umiak("submit", "--on", "gpu", "--", "train.py", status=2)


@pytest.mark.parametrize(
    "faults",
    [
        ["create:lost"],
        ["create:hang"],
        [
            "list:500",
            "price:500",
            "create:500",
            "create:429",
            "create:lost",
            "schedule:lost",
            "schedule:429",
            "list:lost",
        ],
    ],
    ids=",".join,
)
def test_nothing_is_created_twice(desk: Desk, faults: list[str]) -> None:
    desk.cloud.faults += faults
    desk.cloud.unseen_for = 2
    desk.up()
    assert not desk.cloud.faults
    assert len(desk.cloud.machines) == 2
    assert all(each.releases for each in desk.cloud.running)
    desk.cloud.faults += ["list:500", "release:lost", "release:500", "list:lost"]
    desk.down()
    assert not desk.cloud.running


def test_a_request_that_arrives_late_is_repeated_by_the_next_up_and_counts_once(desk: Desk) -> None:
    desk.cloud.faults += ["create:late", "create:400"]
    told = desk.up(status=3)
    assert "UM-MACHINES-006" in told
    assert not desk.cloud.machines
    desk.cloud.release()
    desk.cloud.unseen_for = 3
    assert "a request for 2 machines was broken off" in desk.up()
    assert len(desk.cloud.machines) == 2
    desk.down()


def test_down_waits_for_a_request_that_may_still_arrive(desk: Desk) -> None:
    desk.describe(timeout=12, poll=0.1)
    desk.cloud.faults += ["create:late", "create:400"]
    desk.up(status=3)
    with desk.start("machines", "down", "gpu") as process:
        before = desk.cloud.count("list")
        eventually(lambda: desk.cloud.count("list") > before + 2)
        desk.cloud.release()
        assert len(desk.cloud.running) == 2
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "2 machines were released" in err
    assert not desk.cloud.running


@pytest.mark.parametrize("moment", ["price", "create", "schedule"])
def test_a_killed_up_leaves_nothing_unseen(desk: Desk, moment: str) -> None:
    """Killed while the cloud has not answered this request; what was begun gets its release time all the same."""
    desk.describe(timeout=3)
    desk.cloud.faults += [f"{moment}:lost" if moment == "create" else f"{moment}:hang"]
    with desk.start("machines", "up", "gpu", "--yes") as process:
        eventually(lambda: desk.cloud.count(moment))
        process.kill()
    if moment in ("create", "schedule"):
        eventually(lambda: all(each.releases for each in desk.cloud.running) and len(desk.cloud.running) == 2)
    else:
        assert not desk.cloud.machines
    assert desk.up()
    assert len(desk.cloud.machines) == 2
    desk.down()
    assert not desk.cloud.running


def test_down_after_a_killed_up(desk: Desk) -> None:
    with desk.start("machines", "up", "gpu", "--yes") as process:
        eventually(desk.cloud.created.is_set)
        process.kill()
    desk.down()
    assert len(desk.cloud.machines) == 2
    assert not desk.cloud.running


def test_without_a_terminal_and_yes_nothing_is_created(desk: Desk) -> None:
    told = desk.umiak("machines", "up", "gpu", status=2)
    assert "UM-MACHINES-015" in told
    assert "CNY 15.00 an hour together" in told
    assert not desk.cloud.count("create")


@pytest.mark.parametrize(("answer", "created"), [("n\n", 0), ("y\n", 2)])
def test_a_person_is_asked(desk: Desk, answer: str, created: int) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*submitting.UMIAK, "machines", "up", "gpu"],
        cwd=desk.directory,
        env=desk.environ,
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(theirs)
        os.write(ours, answer.encode())
        _, err = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert "create 2 machines? [y/N]" in err
    assert process.returncode == (0 if created else 2), err
    assert len(desk.cloud.machines) == created


def test_machines_of_others_are_not_touched(desk: Desk) -> None:
    desk.up()
    desk.environ["USER"] = "bob"
    desk.up("--count", "1")
    assert len(desk.cloud.running) == 3
    assert len(desk.data("list")) == 1
    assert len(desk.data("list", "--all")) == 3
    desk.down()
    assert [each.tags["umiak-user"] for each in desk.cloud.running] == ["ada", "ada"]


@pytest.mark.parametrize(
    ("fault", "code"),
    [("create:400", "UM-MACHINES-012"), ("list:403", "UM-MACHINES-010")],
)
def test_what_the_cloud_refuses_is_told(desk: Desk, fault: str, code: str) -> None:
    desk.cloud.faults.append(fault)
    assert code in desk.up(status=3)
    assert not desk.cloud.machines
    desk.up()
    assert len(desk.cloud.machines) == 2


def test_machines_that_the_cloud_could_not_make_are_told_and_released(desk: Desk) -> None:
    desk.cloud.makes_bad = True
    told = desk.up(status=3)
    assert "UM-MACHINES-013" in told
    assert "umiak machines down gpu" in told
    desk.down()
    assert not desk.cloud.running


def test_another_host_key_is_refused(desk: Desk, cluster: sshd.Cluster) -> None:
    desk.up()
    cluster.machines[0].change_host_key(trusted=True)
    assert "UM-MACHINES-007" in desk.up(status=3)
    desk.down()


def test_keys_are_in_no_file_and_no_argument(desk: Desk) -> None:
    seen = set()
    with desk.start("machines", "up", "gpu", "--yes") as process:
        while process.poll() is None:
            time.sleep(0.05)
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.add(each.read_bytes())
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert any(b"umiak.submit.machines.creator" in each for each in seen)
    assert not [each for each in seen if SECRET.encode() in each]
    for each in desk.state.parent.rglob("*"):
        if each.is_file():
            assert SECRET.encode() not in each.read_bytes(), each
            assert desk.state not in each.parents or not each.stat().st_mode & 0o077
    desk.down()


def test_a_machine_without_a_release_time_is_told_and_gets_it_by_the_next_up(desk: Desk) -> None:
    desk.cloud.faults += ["schedule:400"]
    told = desk.up()
    assert "UM-MACHINES-005" in told
    (left,) = [each for each in desk.cloud.running if not each.releases]
    assert f"{left.id} has no release time" in told
    assert "NEVER" in desk.umiak("machines", "list")
    desk.up()
    assert left.releases
    desk.down()


def test_an_image_that_the_cloud_could_not_make_is_told(desk: Desk) -> None:
    desk.up()
    desk.cloud.image_word = "CreateFailed"
    told = desk.umiak("machines", "image", "gpu", "--image_name", "ctr_1", status=3)
    assert "UM-MACHINES-008" in told
    assert "m-0: CreateFailed" in told
    desk.down()


def test_machines_that_do_not_go_are_named(desk: Desk) -> None:
    desk.up()
    desk.cloud.keeps_released = True
    told = desk.down("--timeout", "1", status=3)
    assert "UM-MACHINES-009" in told
    assert "i-0 (Stopping), i-1 (Stopping)" in told
    desk.cloud.keeps_released = False
    desk.down()


def test_a_cloud_that_does_not_answer_is_told(desk: Desk) -> None:
    desk.cloud.faults += ["list:503"] * 50
    assert "UM-MACHINES-011" in desk.up(status=3)
    assert not desk.cloud.machines


def test_notes_that_can_not_be_read_stop_everything(desk: Desk) -> None:
    desk.up()
    (notes,) = (desk.state / "umiak/machines").glob("gpu.json")
    kept = notes.read_text()
    notes.write_text(kept[:-5])
    for word in ("up", "down"):
        told = desk.umiak("machines", word, "gpu", "--yes", status=3)
        assert "UM-MACHINES-004" in told
        assert str(notes) in told
    notes.write_text(kept)
    desk.down()
    assert not desk.cloud.running


def test_each_cloud_has_its_own_way(desk: Desk) -> None:
    assert "UM-MACHINES-014" in desk.umiak("machines", "up", "gpu", "--render", "terraform", status=2)
    desk.describe(cloud="alibaba")
    for word in ("up", "down"):
        assert "UM-MACHINES-014" in desk.umiak("machines", word, "gpu", status=2)
    assert '"alicloud_instance"' in desk.umiak("machines", "up", "gpu", "--render", "terraform")


def test_missing_keys_and_packages_are_told(desk: Desk) -> None:
    del desk.environ["BCE_SECRET_ACCESS_KEY"]
    assert "UM-MACHINES-002" in desk.umiak("machines", "list", status=2)
    desk.environ |= {"BCE_SECRET_ACCESS_KEY": SECRET, "PYTHONPATH": ""}
    told = desk.umiak("machines", "list", status=3)
    assert "install umiak with the extra `baidu`" in told
