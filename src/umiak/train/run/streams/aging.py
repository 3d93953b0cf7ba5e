"""The end of a day in online learning: rows of tables decay, and those that are not worth their memory go. A program.

gone = end_days(1, numbers, context, has_servers=True)        every trainer calls it
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from umiak.core.value import value
from umiak.ps.specs import SparseTable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from umiak.train.run.context import TrainerContext
    from umiak.train.run.trainer import Trainer

MOST_DAYS = 100_000


@value
class AgingTables:
    """The numbers of embedding tables for which a day means something, by their names."""

    counted: Mapping[str, int]
    """Those with an accessor."""
    expiring: Mapping[str, int]
    """Those whose rows go when nobody uses them."""


def aging_tables(trainer: Trainer) -> AgingTables:
    """Of all models of a run."""
    counted, expiring = {}, {}
    for name, table in trainer.engines.tables().items():
        if isinstance(table.spec, SparseTable) and table.spec.accessor is not None:
            counted[name] = table.number
        elif isinstance(table.spec, SparseTable) and table.spec.expire is not None:
            expiring[name] = table.number
    return AgingTables(counted=counted, expiring=expiring)


def end_days(days: int, numbers: Collection[int], context: TrainerContext, *, has_servers: bool) -> int:
    """Let some days pass for these tables. Returns how many rows have gone; of trainers without servers each has them all."""
    if not numbers or days < 1:
        return 0
    context.peers.meet()
    gone = 0
    if context.peers.is_first or not has_servers:
        client = context.job.client
        gone = sum(client.shrink(number) for _ in range(days) for number in numbers)
    context.peers.tell({}, "shrunk")
    return gone


def days_between(before: str, now: str) -> int:
    """How many days lie between two dates such as 2026-01-31; 0 if there is no first one, or it is the later one."""
    if not before or not now:
        return 0
    passed = dt.date.fromisoformat(now) - dt.date.fromisoformat(before)
    return min(max(0, passed.days), MOST_DAYS)
