"""Signals reach the workers, with time to save; then everything is killed. Whatever kills the launcher, nobody is left."""

from __future__ import annotations

import os
import signal

import pytest

from testbed.pytest_support import NetworkFactory
from tests.support.launching import WORKERS, Stage, until, zombies_of

STUBBORN = WORKERS / "stubborn.py"
FAMILY = 5
"""A stubborn worker and its kin are at least so many processes."""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_workers_get_the_signal_and_time_to_save(stage: Stage, number: signal.Signals, status: int) -> None:
    launcher = stage.launch("--nproc_per_node 2 --grace 60", WORKERS / "saving.py")
    stage.story.until_told("ready", count=2)
    launcher.signal(number)
    assert launcher.wait() == status
    assert [life.moment(f"got {number.name}") is not None for life in stage.story.lives()] == [True, True]
    assert [life.moment("saved") is not None for life in stage.story.lives()] == [True, True]
    assert f"received {number.name} ({int(number)}), 2 workers have 60 s to end" in launcher.stderr


def test_a_worker_that_ignores_sigterm_is_killed_after_the_grace_with_all_its_kin(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2 --grace 0.5", STUBBORN)
    stage.story.until_told("has a family", count=2)
    assert len(launcher.family()) > 2 * FAMILY
    launcher.signal(signal.SIGTERM)
    assert launcher.wait() == 143  # and nobody is left
    assert [life.moment("got SIGTERM") is not None for life in stage.story.lives()] == [True, True]
    assert "still running after 0.5 s, killed: trainer.0, trainer.1" in launcher.stderr


def test_a_failure_ends_stubborn_workers_as_well(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2 --failure_grace 0.5", STUBBORN)
    stage.story.until_told("has a family", count=2)
    stage.story.order("exit 6", rank=0)
    assert launcher.wait() == 6


def test_a_second_signal_is_immediate(stage: Stage) -> None:
    launcher = stage.launch("--grace 600", STUBBORN)
    stage.story.until_told("has a family")
    launcher.signal(signal.SIGTERM)
    launcher.expect("received SIGTERM")
    stage.story.until_told("got SIGTERM")
    launcher.signal(signal.SIGINT)
    assert launcher.wait() == 143
    assert "second signal: killing all workers now" in launcher.stderr


def test_the_two_signals_of_timeout_are_one(stage: Stage) -> None:
    """`timeout -s INT` sends one to its child and one to the process group, within a millisecond."""
    launcher = stage.launch("--nproc_per_node 2 --grace 60", WORKERS / "saving.py")
    stage.story.until_told("ready", count=2)
    for _ in range(2):
        launcher.signal(signal.SIGINT)
    assert launcher.wait() == 130
    assert [life.moment("saved") is not None for life in stage.story.lives()] == [True, True]
    assert "second signal: killing" not in launcher.stderr


def test_what_a_worker_leaves_behind_ends_with_the_job(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2", STUBBORN)
    stage.story.until_told("has a family", count=2)
    stage.story.order("end")
    assert launcher.wait() == 0  # and nobody is left


def test_what_a_worker_leaves_behind_does_not_live_into_the_next_generation(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2 --max_restart 1 --failure_grace 0.5", STUBBORN)
    stage.story.until_told("has a family", count=2)
    before = {relative.pid for relative in launcher.family()} - set(launcher.halves())
    stage.story.order("signal 9", rank=1)
    stage.story.until_alive(generation=2)
    assert not before & {relative.pid for relative in launcher.family()}
    launcher.signal(signal.SIGKILL)
    launcher.until_nobody_is_left()


@pytest.mark.parametrize("half", [0, 1], ids=["the one that was started", "the one that works"])
def test_no_worker_or_grandchild_outlives_a_launcher_that_is_killed(stage: Stage, half: int) -> None:
    launcher = stage.launch("--nproc_per_node 2", STUBBORN)
    stage.story.until_told("has a family", count=2)
    assert len(launcher.family()) > 2 * FAMILY
    os.kill(launcher.halves()[half], signal.SIGKILL)
    launcher.until_nobody_is_left()
    assert launcher.wait() == 137
    said = "error: the launcher was killed by SIGKILL (9), so its watchdog ended all its workers [UM-JOB-017]"
    assert (said in launcher.stderr) is (half == 1), "the half that is left says it"


def test_orphans_that_have_ended_do_not_stay_as_zombies_while_the_job_runs(stage: Stage) -> None:
    launcher = stage.launch("", WORKERS / "deserted.py")
    stage.story.until_told("deserted")
    _, working = launcher.halves()
    until(lambda: zombies_of(working) == 0, "no zombie is left", talk=stage.transcript)
    assert len(launcher.workers()) == 1
    stage.story.order("end")
    assert launcher.wait() == 0


def test_a_launcher_that_is_killed_while_it_waits_leaves_nothing(stage: Stage) -> None:
    launcher = stage.launch("--nnodes 2")
    launcher.expect("Copy the following command")
    os.kill(launcher.halves()[0], signal.SIGKILL)
    launcher.until_nobody_is_left()


def test_a_signal_before_the_job_is_formed_ends_the_launcher(stage: Stage) -> None:
    launcher = stage.launch("--nnodes 2")
    launcher.expect("Copy the following command")
    launcher.signal(signal.SIGINT)
    assert launcher.wait() == 130


def test_a_signal_at_any_moment_of_the_start_ends_the_launcher(stage: Stage) -> None:
    launchers = []
    for _ in range(8):
        launcher = stage.launch("--nproc_per_node 2")
        launchers.append(launcher)
        until(lambda launcher=launcher: len(launcher.family()) > len(launchers) % 4, "so far has it come")
        launcher.signal(signal.SIGTERM)
    assert {launcher.wait() for launcher in launchers} == {143}


@pytest.mark.netns
def test_a_signal_to_one_node_ends_a_job_of_fixed_size_on_both(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 2 --master 10.88.0.1:7000 --grace 60"
    first, second = (stage.launch(flags, WORKERS / "saving.py", host=host) for host in (a, b))
    stage.story.until_told("ready", count=2)
    second.signal(signal.SIGTERM)
    assert [first.wait(), second.wait()] == [143, 143]
    assert [life.moment("saved") is not None for life in stage.story.lives()] == [True, True]
    assert "node 10.88.0.2 was told to stop by signal 15" in first.stderr


def test_signals_that_mean_something_to_workers_are_passed_on_to_those_that_listen(stage: Stage) -> None:
    launcher = stage.launch("--nproc_per_node 2", WORKERS / "checkpointing.py")
    stage.story.until_told("ready", count=2)
    launcher.signal(signal.SIGUSR1)
    stage.story.until_told("got SIGUSR1", rank=0)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert stage.story.lives(rank=1)[0].moment("done") is not None
