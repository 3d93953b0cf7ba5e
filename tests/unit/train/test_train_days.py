"""Days and passes of online learning."""

from __future__ import annotations

import datetime as dt

import pytest

from umiak.train.config import days, kinds
from umiak.train.config.values import Online


def online(start: str, end: str, interval: int, per_pass: int) -> Online:
    return Online(start_day=start, end_day=end, split_interval=interval, split_per_pass=per_pass)


def test_passes_of_two_days() -> None:
    found = list(days.passes(online("20260131", "20260201", 360, 2)))
    assert [(each.day, each.number, each.splits, each.is_last) for each in found] == [
        ("20260131", 1, ("20260131/0000", "20260131/0600"), False),
        ("20260131", 2, ("20260131/1200", "20260131/1800"), True),
        ("20260201", 1, ("20260201/0000", "20260201/0600"), False),
        ("20260201", 2, ("20260201/1200", "20260201/1800"), True),
    ]


def test_a_last_pass_that_is_shorter() -> None:
    found = list(days.passes(online("20260131", "20260131", 360, 3)))
    assert [each.splits for each in found] == [
        ("20260131/0000", "20260131/0600", "20260131/1200"),
        ("20260131/1800",),
    ]
    assert [each.is_last for each in found] == [False, True]


@pytest.mark.parametrize("interval", [1, 5, 30, 60, 1440])
@pytest.mark.parametrize("per_pass", [1, 2, 7, 2000])
def test_nothing_is_left_out(interval: int, per_pass: int) -> None:
    asked = online("20240228", "20240301", interval, per_pass)
    found = list(days.passes(asked))
    splits = [split for each in found for split in each.splits]
    assert splits == sorted({*splits})
    assert len(splits) == 3 * 1440 // interval
    assert len(found) == 3 * days.passes_per_day(asked)
    assert sum(each.is_last for each in found) == 3 == days.days(asked)


def test_days_are_those_of_the_calendar() -> None:
    day, text = dt.date(1999, 12, 30), "19991230"
    for _ in range(1600):
        assert kinds.is_day(text)
        day, text = day + dt.timedelta(days=1), days.following(text)
        assert text == day.strftime("%Y%m%d")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026013",
        "202601311",
        "20260230",
        "20261301",
        "20260100",
        "00000101",
        "2026013a",
        "\uff11\uff12\uff13\uff14\uff10\uff11\uff10\uff11",
    ],
)
def test_what_is_no_day(text: str) -> None:
    assert not kinds.is_day(text)


def test_the_last_day_of_all() -> None:
    assert days.days(online("99991231", "99991231", 60, 1)) == 1


def test_what_is_left_behind_a_directory() -> None:
    asked = online("20260131", "20260201", 360, 2)
    assert days.left(asked, "") == tuple(days.passes(asked))
    assert [(each.day, each.number) for each in days.left(asked, "20260131/0600")] == [
        ("20260131", 2),
        ("20260201", 1),
        ("20260201", 2),
    ]
    assert days.left(asked, "20260201/1800") == ()
    later = online("20260201", "20260201", 360, 2)
    assert days.left(later, "20260131/0600")[0].splits == ("20260201/0000", "20260201/0600")


def test_a_pass_that_was_begun_when_passes_were_shorter() -> None:
    first, second, *_ = days.left(online("20260131", "20260131", 360, 3), "20260131/0000")
    assert (first.number, first.splits) == (1, ("20260131/0600", "20260131/1200"))
    assert (second.number, second.splits, second.is_last) == (2, ("20260131/1800",), True)
