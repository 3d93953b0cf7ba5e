"""The working half of a launcher is frozen, or hangs: its watchdog ends everything, and says why. Ctrl-Z is no freeze."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from testbed.pytest_support import NetworkFactory
from tests.support.launching import LAUNCH, OBEDIENT, WORKERS, Stage, freeze, thaw, until

ENDED = "so its watchdog ended it and all its workers [UM-JOB-016]"


def stands_still(pid: int) -> bool:
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return text[text.rindex(")") + 2] == "T"


def test_nothing_outlives_a_working_half_that_is_frozen(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2 --heartbeat_timeout 6", WORKERS / "stubborn.py")
    stage.story.until_told("has a family", count=2)
    freeze(launcher.halves()[1])
    assert launcher.wait() == 1  # and nobody is left
    assert ENDED in launcher.stderr


def test_a_launcher_that_is_frozen_while_it_waits_for_others_ends(stage: Stage) -> None:
    launcher = stage.launch("--nnodes 2 --heartbeat_timeout 6")
    launcher.expect("Copy the following command")
    launcher.expect("waiting for 1 of 2 nodes")
    freeze(launcher.halves()[1])
    assert launcher.wait() == 1
    assert ENDED in launcher.stderr


@pytest.mark.netns
@pytest.mark.parametrize("frozen", [0, 2], ids=["the master", "another node"])
def test_a_frozen_node_has_no_workers_any_more_when_the_others_go_on(
    stage: Stage, network: NetworkFactory, frozen: int
) -> None:
    """That no two formations overlap is checked for every stage."""
    flags = "--nnodes 1:3 --master 10.88.0.1:7000 --heartbeat_timeout 6 --failure_grace 2"
    launchers = [stage.launch(flags, host=host) for host in network(3).hosts]
    stage.story.until_alive(generation=1, world=3)
    freeze(launchers[frozen].halves()[1])
    assert launchers.pop(frozen).wait() == 1
    hosts = {life.host for life in stage.story.until_alive(generation=2, world=2)}
    assert f"node{frozen}" not in hosts
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0, 0]


def test_a_short_freeze_of_the_working_half_changes_nothing(stage: Stage) -> None:
    launcher = stage.launch("--heartbeat_timeout 60")
    (life,) = stage.story.until_alive(world=1)
    working = launcher.halves()[1]
    freeze(working)
    until(lambda: stage.story.lives()[0].last > life.last + 1, "a second has passed")
    thaw(working)
    stage.story.order("end")
    assert launcher.wait() == 0


def test_a_machine_that_slept_with_its_watchdog_loses_nothing(stage: Stage) -> None:
    launcher = stage.launch("--heartbeat_timeout 6")
    (life,) = stage.story.until_alive(world=1)
    everybody = launcher.halves()
    freeze(*everybody)
    # The worker runs, so that it can be seen how time passes: longer than the watchdog would wait.
    until(lambda: stage.story.lives()[0].last > life.last + 4, "four seconds have passed")
    thaw(*everybody)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert ENDED not in launcher.stderr


def test_ctrl_z_stops_the_whole_job_and_fg_lets_it_go_on(stage: Stage) -> None:
    """With a parent as a shell is one: it waits for a child in a process group of its own, and continues it."""
    shell = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], preexec_fn=os.setpgrp)\n"
        "_, status = os.waitpid(child.pid, os.WUNTRACED)\n"
        "print('stopped by', os.WSTOPSIG(status), flush=True)\n"
        "sys.stdin.readline()\n"
        "os.killpg(child.pid, 18)\n"
        "sys.exit(child.wait())\n"
    )
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", shell, *LAUNCH, "--heartbeat_timeout", "6", "--hang_timeout", "5", str(OBEDIENT)]
    launcher = stage.start(command, stdin=read_end)
    os.close(read_end)
    (life,) = stage.story.until_alive(world=1)
    watchdog = launcher.halves()[1]
    family = [relative for relative in launcher.family() if relative.pid != launcher.process.pid]
    assert len(family) >= 3

    os.killpg(watchdog, signal.SIGTSTP)
    launcher.expect(f"stopped by {int(signal.SIGTSTP)}")
    assert all(stands_still(relative.pid) for relative in family)
    stopped = stage.story.lives()[0].last
    begin = time.monotonic()
    until(lambda: time.monotonic() > begin + 7, "longer than the watchdog waits, and than a worker may hang")
    assert stage.story.lives()[0].last == stopped

    os.write(write_end, b"fg\n")
    until(lambda: stage.story.lives()[0].last > stopped, "the worker goes on", talk=stage.transcript)
    assert len(stage.story.lives()) == 1
    stage.story.order("end")
    os.close(write_end)
    assert launcher.wait() == 0
    assert life.generation == 1
