"""`umiak exec` and `umiak fetch` on this machine and on hosts with a real sshd: what a worker sees, nothing left behind, whole files or none."""

from __future__ import annotations

import filecmp
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.pytest_support import SshFactory
from tests.integration.test_submit_ssh import Lab
from tests.support import PATIENCE_S, eventually, reaching
from tests.support.submitting import Desk, opened

MIB = 1 << 20
LARGE = 512 * MIB
"""Takes long enough to be broken off in the middle; with holes, since the hosts' disks are small."""
WRITER = """
import os, pathlib, time
here = pathlib.Path("out")
here.mkdir(exist_ok=True)
rank = os.environ["UMIAK_RANK"]
(here / f"model.{rank}").write_bytes(bytes([int(rank)]) * 300_000)
(here / "latest").symlink_to(f"model.{rank}")
(here / "secret").symlink_to("/etc/passwd")
os.mkfifo(here / "pipe")
pathlib.Path(f"written.{rank}").touch()
print("written", flush=True)
while not pathlib.Path("SHARED/go").exists():
    time.sleep(0.01)
"""
"""A worker that leaves files of all kinds, and waits."""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def lab(tmp_path: Path, ssh_cluster: SshFactory) -> Iterator[Lab]:
    made = Lab(tmp_path, ssh_cluster(3))
    yield made
    made.go()


def running(desk: Desk, workers: int = 2) -> str:
    handle = desk.submit("--nproc_per_node", str(workers), "--", "train.py", "until=go")
    eventually(lambda: len(desk.starts()) == workers)
    return handle


def large_file(path: Path) -> None:
    with open(path, "wb") as file:
        for offset in range(0, LARGE, 64 * MIB):
            file.seek(offset)
            file.write(os.urandom(4096))
        file.truncate(LARGE)


def same(one: Path, other: Path) -> bool:
    return filecmp.cmp(one, other, shallow=False)


# ---- commands


def test_a_command_sees_what_a_worker_sees(desk: Desk) -> None:
    handle = running(desk)
    reaching.tells_what_a_worker_sees(desk, handle, 1, str(desk.directory))
    reaching.passes_bytes_on(desk, handle)
    assert desk.status(handle)["state"] == "running"
    assert len(desk.starts()) == 2, "a worker was started again"


def test_a_command_ends_with_its_client(desk: Desk) -> None:
    handle = running(desk)
    mark = reaching.unique_mark()
    reaching.ends_with_its_client(desk, handle, reaching.processes_with, mark)
    reaching.passes_signals_on(desk, handle)
    left, err, status = reaching.output(desk, "exec", handle, "--", "sh", "-c", f"sleep 1002.{mark} & echo left")
    assert (left, status) == ("left\n", 0)
    assert "left 1 processes" in err
    assert not reaching.processes_with(mark)
    assert desk.status(handle)["state"] == "running"


def test_a_shell_has_a_terminal(desk: Desk) -> None:
    reaching.has_a_shell(desk, running(desk), "--rank", "0")


def test_what_can_not_be_run_is_told(desk: Desk) -> None:
    handle = running(desk)
    assert "UM-SUBMIT-394" in desk.umiak("exec", handle, "--", "no-such-command", status=127)
    told = desk.umiak("exec", handle, "--rank", "7", "--", "true", status=3)
    assert "UM-SUBMIT-393" in told
    assert "trainer 0, trainer 1" in told
    assert "UM-SUBMIT-393" in desk.umiak("exec", handle, "--node", "5", "--", "true", status=2)
    told = desk.umiak("exec", handle, "--all", "--tty", "--node", "1", status=2)
    assert told.count("UM-SUBMIT-402") == 4, told
    (desk.directory / "go").touch()
    desk.umiak("wait", handle)
    told = desk.umiak("exec", handle, "--", "true", status=3)
    assert "UM-SUBMIT-391" in told
    assert "umiak fetch" in told


def test_a_command_is_no_worker(desk: Desk) -> None:
    """What `exec` has started has a worker's variables, and is never taken for one."""
    handle = running(desk, workers=1)
    script = "echo begun; exec sleep 1000"
    with desk.start("exec", handle, "--", "sh", "-c", script, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(desk.workers()[0], signal.SIGSTOP)  # it is there, and older than the command
        try:
            out, err, _ = reaching.output(
                desk, "exec", handle, "--", "sh", "-c", "tr '\\0' ' ' </proc/$PPID/cmdline; env"
            )
        finally:
            os.kill(desk.workers()[0], signal.SIGCONT)
        assert out.count("UMIAK_EXEC=1") == 1, err
        process.kill()


def test_hosts_are_told_apart(lab: Lab) -> None:
    handle = lab.submit("--nnodes", "3", "--", "train.py", f"until={lab.shared}/go")
    lab.until_started(3)
    reaching.tells_what_a_worker_sees(lab, handle, 2)
    lines = lab.umiak("exec", handle, "--all", "--", "sh", "-c", "echo $UMIAK_RANK").splitlines()
    assert sorted(lines) == ["[node0] 0", "[node1] 1", "[node2] 2"]
    assert lab.umiak("exec", handle, "--node", "node1", "--", "sh", "-c", "echo $UMIAK_RANK") == "1\n"
    assert lab.umiak("exec", handle, "--node", "2", "--", "sh", "-c", "echo $UMIAK_RANK") == "2\n"
    out = lab.umiak("exec", handle, "--all", "--", "sh", "-c", "exit $((UMIAK_RANK * 4))", status=4)
    assert out == ""
    assert lab.status(handle)["state"] == "running"


def test_over_ssh_a_command_ends_with_its_client(lab: Lab) -> None:
    handle = lab.submit("--", "train.py", f"until={lab.shared}/go")
    lab.until_started(1)
    reaching.ends_with_its_client(lab, handle, reaching.processes_with)
    reaching.passes_signals_on(lab, handle)
    reaching.passes_bytes_on(lab, handle)
    reaching.has_a_shell(lab, handle)


# ---- files


def test_files_of_each_host_are_its_own(lab: Lab) -> None:
    (lab.directory / "train.py").write_text(WRITER.replace("SHARED", str(lab.shared)))
    handle = lab.submit("--nnodes", "2", "--", "train.py")
    run = handle.rpartition("/")[2]
    written = [machine.files for machine in lab.cluster.machines[:2]]
    eventually(lambda: all(list(each.glob(".umiak/runs/*/*/work/written.*")) for each in written))
    listed = lab.umiak("fetch", handle, "--list")
    assert "node0/work/out/latest -> model.0" in listed
    assert "secret" not in listed
    assert not (lab.directory / run).exists(), "a list has written something"
    found = reaching.fetched(lab, handle)
    assert found["left_out"]["links"]["names"] == [f"node{rank}/work/out/secret" for rank in range(2)]
    assert found["left_out"]["special"]["count"] == 2
    for rank in range(2):
        out = lab.directory / run / f"node{rank}" / "work" / "out"
        assert (out / f"model.{rank}").read_bytes() == bytes([rank]) * 300_000
        assert os.readlink(out / "latest") == f"model.{rank}"
        assert sorted(each.name for each in out.iterdir()) == ["latest", f"model.{rank}"]
    only = reaching.fetched(lab, handle, "--node", "1", "--to", "one", "*/model.*", "out/model.1")
    assert [each["path"] for each in only["files"]] == ["node1/work/out/model.1"]
    lab.go()
    lab.umiak("wait", handle)
    again = reaching.fetched(lab, handle, "out")
    assert {each["state"] for each in again["files"]} == {"unchanged"}, (
        "after its end, what is here is not brought again"
    )


def test_a_changed_file_is_not_lost(desk: Desk) -> None:
    handle = running(desk, workers=1)
    (desk.directory / "out").mkdir()
    theirs = desk.directory / "out" / "metrics"
    theirs.write_text("1\n")
    reaching.fetched(desk, handle, "--to", "here", "out")
    ours = desk.directory / "here" / "local" / "work" / "out" / "metrics"
    theirs.write_text("1\n2\n")
    grown = reaching.fetched(desk, handle, "--to", "here", "out")
    assert ([each["state"] for each in grown["files"]], ours.read_text()) == (["updated"], "1\n2\n")
    ours.write_text("mine\n")
    theirs.write_text("1\n2\n3\n")
    assert "UM-SUBMIT-396" in desk.umiak("fetch", handle, "--to", "here", "out", status=2)
    assert ours.read_text() == "mine\n"
    done = reaching.fetched(desk, handle, "--to", "here", "--overwrite", "out")
    assert ([each["state"] for each in done["files"]], ours.read_text()) == (["overwritten"], "1\n2\n3\n")
    for path in ("../out", "/etc/passwd", "no-such-file"):
        assert "UM-SUBMIT-397" in desk.umiak("fetch", handle, path, status=2)


def test_a_client_that_is_killed_leaves_no_half_file_and_goes_on(lab: Lab) -> None:
    handle = lab.submit("--", "train.py", f"until={lab.shared}/go")
    lab.until_started(1)
    work = next(lab.cluster.machines[0].files.glob(".umiak/runs/*/*/work"))
    big = work / "out.bin"
    large_file(big)
    with lab.start("fetch", handle, "--to", "here") as process:
        parts = eventually(
            lambda: [
                each for each in (lab.directory / "here").rglob(".out.bin.*.umiak-part") if each.stat().st_size > MIB
            ],
        )
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    assert not (lab.directory / "here" / "node0" / "work" / "out.bin").exists()
    kept = parts[0].stat().st_size
    assert kept < LARGE, "it was whole before it was killed"
    found = reaching.fetched(lab, handle, "--to", "here")
    assert same(lab.directory / "here" / "node0" / "work" / "out.bin", big)
    assert found["bytes_copied"] < LARGE + MIB - kept, "it began again"
    reaching.files_below(lab.directory / "here")


def test_a_node_that_is_lost_keeps_no_other_from_being_fetched(lab: Lab) -> None:
    handle = lab.submit("--nnodes", "2", "--", "train.py", f"until={lab.shared}/go")
    lab.until_started(2)
    work = next(lab.cluster.machines[1].files.glob(".umiak/runs/*/*/work"))
    large_file(work / "out.bin")
    with lab.start("fetch", handle, "--to", "here") as process:
        eventually(
            lambda: [
                each for each in (lab.directory / "here").rglob(".out.bin.*.umiak-part") if each.stat().st_size > MIB
            ],
        )
        lab.cluster.machines[1].kill()
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert "UM-SUBMIT-392" in err
    assert "node1" in err
    found = [each.name for each in (lab.directory / "here" / "node0").rglob("workerlog.0")]
    assert found == ["workerlog.0"]
    assert not (lab.directory / "here" / "node1" / "work" / "out.bin").exists()


def test_a_list_has_sizes(desk: Desk) -> None:
    handle = running(desk, workers=1)
    data = json.loads(desk.umiak("fetch", handle, "--list", "--json"))
    sizes = {each["path"]: each["size_bytes"] for each in data["files"]}
    log = desk.run_directory(handle) / "log" / "launcher" / "workerlog.0"
    assert sizes["local/log/launcher/workerlog.0"] == log.stat().st_size
    assert data["left_out"]["in_place"]["names"] == [str(desk.directory)]
