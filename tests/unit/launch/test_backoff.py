"""Pauses before restarts: none at first, then growing up to a limit, never exactly the same for two jobs."""

from __future__ import annotations

import itertools

import pytest

from umiak.core.backoff import JITTER, LONGEST_S
from umiak.launch.master.backoff import RAN_WELL_S, Backoff


def pauses(name: str, count: int) -> list[float]:
    backoff, now, found = Backoff(name), 0.0, []
    for restart in range(1, count + 1):
        found.append(backoff.pause_s(now, restart))
        now += found[-1]
        backoff.began(now)
    return found


def test_the_first_restart_is_immediate_and_the_others_wait_longer_and_longer() -> None:
    first, *others = pauses("ctr", 12)
    assert first == 0
    for pause, middle in zip(others, itertools.chain((1, 2, 4, 8, 16), itertools.repeat(LONGEST_S)), strict=False):
        assert pause == pytest.approx(middle, rel=JITTER)


def test_a_job_always_waits_as_long_and_two_jobs_not_equally_long() -> None:
    assert pauses("ctr", 10) == pauses("ctr", 10)
    assert len({pauses(f"job {number}", 10)[-1] for number in range(50)}) == 50


def test_what_ran_well_for_a_while_is_restarted_at_once() -> None:
    backoff = Backoff("ctr")
    assert [backoff.pause_s(1.0, 1), backoff.pause_s(2.0, 2) > 0] == [0, True]
    backoff.began(10.0)
    assert backoff.pause_s(9.0 + RAN_WELL_S, 3) > 0
    backoff.began(100.0)
    assert backoff.pause_s(100.0 + RAN_WELL_S, 4) == 0
    backoff.began(200.0)
    assert backoff.pause_s(201.0, 5) == pytest.approx(1.0, rel=JITTER)


def test_a_million_failures_are_no_trouble() -> None:
    backoff = Backoff("ctr")
    assert max(backoff.pause_s(0.0, number) for number in range(100_000)) <= (1 + JITTER) * LONGEST_S
