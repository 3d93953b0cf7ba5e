"""Online learning by day and pass: which directories belong to which pass. A decider.

    passes(Online(start_day="20260131", end_day="20260201", split_interval=30, split_per_pass=2))
        -> Pass(day="20260131", number=1, splits=("20260131/0000", "20260131/0030")), ...

A day's data comes in directories ``YYYYMMDD/HHMM``, one for each ``split_interval`` minutes. A pass is ``split_per_pass`` of
them. Where that does not come out even, the last pass of a day is shorter: nothing is left out.
"""

from __future__ import annotations

from umiak.core.value import replace, value
from umiak.train.config.kinds import following

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.train.config.values import Online

DAY_MINUTES = 24 * 60


@value
class Pass:
    """The data that is trained on between two evaluations."""

    day: str
    number: int
    """Among those of its day, from 1."""
    splits: tuple[str, ...]
    """Directories below the dataset's ``data_path``."""
    is_last: bool
    """Whether the day ends with it: then rows are decayed and evicted, and a base model is saved."""


def passes(online: Online) -> Iterator[Pass]:
    """Every pass of every day, in order."""
    day = online.start_day
    while day <= online.end_day:
        yield from _of_day(day, online)
        day = following(day)


def left(online: Online, until: str) -> tuple[Pass, ...]:
    """The passes of which something comes after the directory ``until``, and of these what comes after it."""
    found = []
    for each in passes(online):
        rest = tuple([split for split in each.splits if split > until])
        if rest:
            found.append(replace(each, splits=rest))
    return tuple(found)


def passes_per_day(online: Online) -> int:
    """How many passes each day has."""
    return -(-(DAY_MINUTES // online.split_interval) // online.split_per_pass)


def days(online: Online) -> int:
    """How many days there are."""
    count, day = 0, online.start_day
    while day <= online.end_day:
        count, day = count + 1, following(day)
    return count


def _of_day(day: str, online: Online) -> Iterator[Pass]:
    starts = range(0, DAY_MINUTES, online.split_interval)
    splits = [f"{day}/{minute // 60:02}{minute % 60:02}" for minute in starts]
    for first in range(0, len(splits), online.split_per_pass):
        own = splits[first : first + online.split_per_pass]
        last = first + online.split_per_pass >= len(splits)
        yield Pass(day=day, number=first // online.split_per_pass + 1, splits=tuple(own), is_last=last)
