"""Workers fail, are killed, hang, run out of memory; and the launcher says which, stops the rest, and restarts if it may."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.ports import free_port
from testbed.pytest_support import NetworkFactory, require
from tests.support.launching import WORKERS, Stage, until

MASTER = "--master 10.88.0.1:7000"


def last_words(text: str) -> str:
    """What stands behind the last `error:`."""
    return text.rpartition("error: ")[2]


# ---- the first failure


@pytest.mark.netns
def test_the_first_failure_stops_everything_on_both_nodes(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = f"--nnodes 2 --nproc_per_node 2 {MASTER}"
    launchers = [stage.launch(flags, host=host) for host in (a, b)]
    lives = stage.story.until_alive(generation=1, world=4)
    stage.story.order("raise", rank=2)
    assert [launcher.wait() for launcher in launchers] == [1, 1]
    failed = lives[2]
    for launcher in launchers:
        words = last_words(launcher.stderr)
        address = "10.88.0.1" if failed.host == "node0" else "10.88.0.2"
        assert words.startswith(f"trainer 2 on node {address} failed with exit code 1 [UM-JOB-001]\n")
        assert "in fail_on_purpose" in words
        assert "RuntimeError: trainer 2 raises, as it was told" in words
        assert "workerlog.0" in words
    assert all(life.moment("done") is None for life in stage.story.lives())


@pytest.mark.netns
def test_the_failure_that_was_first_in_time_wins_wherever_it_happened(stage: Stage, network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    flags = f"--nnodes 2 --heartbeat_timeout 40 {MASTER}"
    first, second = stage.launch(flags, host=a), stage.launch(flags, host=b)
    assert [life.host for life in stage.story.until_alive(generation=1, world=2)] == ["node0", "node1"]
    net.cut(a, b)  # what happens on the second node is now told late
    stage.story.order("exit 5", rank=1)
    second.expect("trainer 1 on node 10.88.0.2 failed with exit code 5")
    stage.story.order("exit 6", rank=0)
    first.expect("trainer 0 on node 10.88.0.1 failed with exit code 6")
    net.heal(a, b)
    assert [first.wait(), second.wait()] == [5, 5]
    for launcher in (first, second):
        assert last_words(launcher.stderr).startswith(
            "trainer 1 on node 10.88.0.2 failed with exit code 5 [UM-JOB-001]\n"
        )


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ("exit 7", 7, "failed with exit code 7"),
        ("exit 255", 255, "failed with exit code 255"),
        ("signal 9", 137, "was killed by SIGKILL (9)"),
        ("signal 11", 139, "was killed by SIGSEGV (11)"),
        ("signal 15", 143, "was killed by SIGTERM (15)"),
    ],
)
def test_the_exit_status_is_that_of_the_worker_that_failed(stage: Stage, order: str, status: int, words: str) -> None:
    launcher = stage.launch("--nproc_per_node 2")
    stage.story.until_alive(generation=1, world=2)
    stage.story.order(order, rank=1)
    assert launcher.wait() == status
    said = last_words(launcher.stderr)
    assert said.startswith(f"trainer 1 on node 127.0.0.1 {words}")
    assert "the end of its output:\n  born as trainer 1\n" in said


@pytest.mark.parametrize(
    ("program", "status", "words", "hint"),
    [
        ("no-such-program", 127, "No such file or directory", "is it on PATH, or in the working directory, there?"),
        ("./unreadable", 126, "Permission denied", "a program must be executable, `chmod +x` makes it so"),
    ],
)
def test_a_program_that_cannot_be_started_is_named(
    stage: Stage, program: str, status: int, words: str, hint: str
) -> None:
    place = stage.directory / "place"
    place.mkdir()
    (place / "unreadable").write_text("echo")
    launcher = stage.launch("--max_restart 2", program, cwd=place)
    assert launcher.wait() == status
    assert last_words(launcher.stderr).startswith(
        f"trainer 0 on node 127.0.0.1 could not be started: {program}: {words}"
    )
    assert f"  hint: {hint}" in launcher.stderr


@contextlib.contextmanager
def small_memory(name: str, most_bytes: int) -> Iterator[Path]:
    """A control group with little memory: the file that takes the id of a process that is to live in it."""
    old, new = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    if (old / "memory.limit_in_bytes").exists():
        group, limit = old / name, "memory.limit_in_bytes"
    elif "memory" in _text(new / "cgroup.subtree_control").split():
        group, limit = new / name, "memory.max"
    else:
        require("memory control groups can't be made here")
        return
    try:
        group.mkdir()
        (group / limit).write_text(str(most_bytes))
    except OSError as error:
        require(f"memory control groups can't be made here: {error}")
    try:
        yield group / "cgroup.procs"
    finally:
        until(lambda: not _text(group / "cgroup.procs"), "the group is empty")
        group.rmdir()


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_worker_that_was_killed_for_want_of_memory_is_named(stage: Stage) -> None:
    with small_memory(f"umiak-test-{os.getpid()}", 64 * 1024 * 1024) as group:
        launcher = stage.launch("--nproc_per_node 2", WORKERS / "hungry.py", group)
        assert launcher.wait() == 137
    assert re.match(
        r"trainer [01] on node 127\.0\.0\.1 was killed by SIGKILL \(9\): .*OOM kill", last_words(launcher.stderr)
    )


# ---- restarts


@pytest.mark.parametrize("discovery", ["alone", "address", pytest.param("etcd", marks=pytest.mark.etcd)])
def test_restarts_work_with_every_kind_of_master(stage: Stage, discovery: str, request: pytest.FixtureRequest) -> None:
    masters = {"alone": "", "address": f"--nnodes 2 --master 127.0.0.1:{free_port()}"}
    if discovery == "etcd":
        masters["etcd"] = f"--nnodes 2 --master etcd://{request.getfixturevalue('etcd_server').endpoint}"
    flags = f"{masters[discovery]} --nproc_per_node 2 --max_restart 2 --failure_grace 2"
    launchers = [stage.launch(flags) for _ in range(1 if discovery == "alone" else 2)]
    for restart, order in enumerate(["signal 9", "exit 3"]):
        lives = stage.story.until_alive(generation=restart + 1)
        assert {life.restarts for life in lives} == {restart}
        assert {life.env["TORCHELASTIC_RESTART_COUNT"] for life in lives} == {str(restart)}
        assert {life.env["TORCHELASTIC_MAX_RESTARTS"] for life in lives} == {"2"}
        stage.story.order(order, rank=1)
        launchers[0].expect(f"restart {restart + 1} of 2")
    stage.story.until_alive(generation=3)
    stage.story.order("exit 4", rank=0)
    assert {launcher.wait() for launcher in launchers} == {4}
    assert max(life.generation for life in stage.story.lives()) == 3


def test_nothing_restarts_unless_it_is_asked_for(stage: Stage) -> None:
    launcher = stage.launch("")
    stage.story.until_alive(generation=1)
    stage.story.order("exit 3", rank=0)
    assert launcher.wait() == 3
    assert len(stage.story.lives()) == 1


def test_a_restarted_job_can_end_well(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2 --max_restart 1")
    stage.story.until_alive(generation=1)
    stage.story.order("raise", rank=1)
    stage.story.until_alive(generation=2)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert "error: " not in launcher.stderr


@pytest.mark.netns
def test_level_0_lets_the_failed_node_go_and_holds_the_others_for_another(
    stage: Stage, network: NetworkFactory
) -> None:
    a, b, c = network(3).hosts
    flags = f"--nnodes 2 --elastic_level 0 --elastic_timeout 30 --failure_grace 2 {MASTER}"
    first, second = stage.launch(flags, host=a), stage.launch(flags, host=b)
    assert [life.host for life in stage.story.until_alive(generation=1, world=2)] == ["node0", "node1"]
    stage.story.order("exit 9", rank=1)
    assert second.wait() == 9
    until(lambda: not first.workers(), "the first node holds", talk=stage.transcript)
    third = stage.launch(flags, host=c)
    assert [life.host for life in stage.story.until_alive(generation=2, world=2)] == ["node0", "node2"]
    stage.story.order("end")
    assert [first.wait(), third.wait()] == [0, 0]


def test_a_worker_that_finds_its_port_taken_gets_another_and_no_restart_is_counted(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2", WORKERS / "port_user.py")
    before = stage.story.until_alive(generation=1, rank=1, count=1)
    after = stage.story.until_alive(generation=2)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert "found its port taken, trying others" in launcher.stderr
    assert before[0].env["UMIAK_TRAINERS"] != after[0].env["UMIAK_TRAINERS"]
    assert {life.restarts for life in after} == {0}


# ---- ports that were asked for


@pytest.mark.parametrize("flags", ["--start_port {port}", "--ips 127.0.0.1 --start_port {port}"])
def test_a_port_that_was_asked_for_and_is_taken_is_an_error(stage: Stage, flags: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        launcher = stage.launch(f"--nproc_per_node 2 {flags.format(port=port - 1)}")
        assert launcher.wait() == 3
    assert "UM-PORT-001" in launcher.stderr
    assert f"port {port} is taken" in launcher.stderr
    assert "hint:" in launcher.stderr
    assert stage.story.lives() == []


def test_the_masters_port_may_be_used_again_at_once(stage: Stage) -> None:
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()}"
    for _ in range(2):
        launchers = [stage.launch(flags, WORKERS / "facts.py") for _ in range(2)]
        assert [launcher.wait() for launcher in launchers] == [0, 0]


# ---- hangs


def test_a_hang_is_noticed_and_the_stacks_of_all_ranks_are_kept(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2 --hang_timeout 3", WORKERS / "silent.py", "--progress")
    stage.story.until_alive(generation=1)
    stage.story.order("hang", rank=1)
    assert launcher.wait() == 1
    assert last_words(launcher.stderr).startswith(
        "trainer 1 on node 127.0.0.1 hung: no output and no umiak.progress() for 3 s"
    )
    assert "in wait_for_a_message_that_never_comes" in launcher.log("stacks.trainer.1")
    assert "in live" in launcher.log("stacks.trainer.0")


@pytest.mark.netns
def test_a_hang_on_one_node_dumps_stacks_on_all_and_restarts_the_group(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = f"--nnodes 2 --hang_timeout 3 --max_restart 1 --failure_grace 2 {MASTER}"
    launchers = [stage.launch(flags, WORKERS / "silent.py", "--progress", host=host) for host in (a, b)]
    stage.story.until_alive(generation=1)
    stage.story.order("hang", rank=1)
    lives = stage.story.until_alive(generation=2)
    assert {life.restarts for life in lives} == {1}
    assert "in wait_for_a_message_that_never_comes" in launchers[1].log("stacks.trainer.0")
    assert "in live" in launchers[0].log("stacks.trainer.0")
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0, 0]


def test_progress_keeps_a_silent_worker_alive(stage: Stage) -> None:
    launcher = stage.launch("--hang_timeout 2", WORKERS / "silent.py", "--progress")
    (life,) = stage.story.until_alive(generation=1)
    until(lambda: stage.story.lives()[0].last > life.first + 5, "it has been silent for more than twice the limit")
    stage.story.order("end")
    assert launcher.wait() == 0


def test_without_progress_a_silent_worker_counts_as_hung(stage: Stage) -> None:
    launcher = stage.launch("--hang_timeout 2", WORKERS / "silent.py")
    assert launcher.wait() == 1
    assert "hung: no output and no umiak.progress() for 2 s" in last_words(launcher.stderr)


# ---- the journal


@pytest.mark.netns
def test_the_journal_of_a_real_run_replays_to_the_same_decisions(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = f"--nnodes 1:2 --max_restart 1 --failure_grace 2 {MASTER}"
    first, _ = stage.launch(flags, host=a), stage.launch(flags, host=b)
    stage.story.until_alive(generation=1, world=2)
    stage.story.order("raise", rank=1)
    stage.story.until_alive(generation=2, world=2)
    b.kill()
    stage.story.until_alive(generation=3, world=1)
    stage.story.order("end")
    assert first.wait() == 0
    kinds = {entry["event"]["is"] for entry in first.events() if "event" in entry}
    assert {
        "Start",
        "LinkUp",
        "MessageFromMaster",
        "WorkerExited",
        "PortsHeld",
        "MessageFromNode",
        "NodeClosed",
    } <= kinds
    said = [entry["event"]["message"]["is"] for entry in first.events() if "message" in entry.get("event", {})]
    assert {"Join", "Form", "Stop", "Stopped", "Failed", "Done", "Finish"} <= set(said)
    assert first.check_replay() == len([entry for entry in first.events() if "event" in entry]) > 15


def test_a_program_that_fails_again_and_again_is_restarted_after_a_pause(stage: Stage) -> None:
    launcher = stage.launch("--max_restart 2", WORKERS / "failing_at_once.py")
    assert launcher.wait() == 9
    said = re.search(r"trainer 0 failed, restarting in ([0-9.]+) s \(restart 2 of 2\)", launcher.stderr)
    assert said, launcher.stderr
    assert "trainer 0 failed, restart 1 of 2" in launcher.stderr
    formed = [
        entry["t"]
        for entry in launcher.events()
        for action in entry.get("actions", [])
        if action["is"] == "StartWorkers"
    ]
    assert len(formed) == 3
    assert formed[2] - formed[1] >= float(said[1]) - 0.1
