"""Which messages of a stream are read next. A decider.

    next_pass({0: 100, 1: 50}, there, most=1000, ends=None)     (Span(partition=0, begin=100, end=600), ...)

A pass has a range of offsets of each partition, so what it is does not depend on who reads it, or how often. Offsets only grow: what was read is in no later pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from umiak.core.problem import Problem
from umiak.data.streams.places import PartitionBounds, Span


def next_pass(
    position: Mapping[int, int], there: Sequence[PartitionBounds], *, most: int, ends: Mapping[int, int] | None = None
) -> tuple[Span, ...]:
    """Up to so many messages, of each partition about as many as of any other; a partition that is not in ``position`` is read from its beginning."""
    begins = {each.partition: position.get(each.partition, each.low) for each in there}
    left = {each.partition: _end(each, ends) - begins[each.partition] for each in there}
    left = {partition: count for partition, count in left.items() if count > 0}
    taken: dict[int, int] = {}
    # Those that have least first: what they leave is for the others.
    for number, partition in enumerate(sorted(left, key=lambda each: (left[each], each))):
        share = -(-(most - sum(taken.values())) // (len(left) - number))
        taken[partition] = min(left[partition], share)
    return tuple(
        [
            Span(partition=partition, begin=begins[partition], end=begins[partition] + count)
            for partition, count in sorted(taken.items())
            if count
        ]
    )


def after(position: Mapping[int, int], spans: Sequence[Span]) -> dict[int, int]:
    """Where each partition goes on when these were read."""
    return {**position, **{span.partition: span.end for span in spans}}


def behind(position: Mapping[int, int], there: Sequence[PartitionBounds]) -> int:
    """How many messages are there that were not read."""
    return sum(max(0, each.high - position.get(each.partition, each.low)) for each in there)


def is_over(position: Mapping[int, int], there: Sequence[PartitionBounds], ends: Mapping[int, int] | None) -> bool:
    """Whether everything up to the ends was read."""
    if ends is None:
        return False
    return all(
        position.get(each.partition, each.low) >= ends[each.partition] for each in there if each.partition in ends
    )


def lost(position: Mapping[int, int], there: Sequence[PartitionBounds], topic: str) -> tuple[Problem, ...]:
    """Messages that nobody has read and nobody can read any more."""
    problems = []
    for each in there:
        at = position.get(each.partition)
        if at is None or each.low <= at <= each.high:
            continue
        if at < each.low:
            what = f"topic {topic}: messages {at} to {each.low - 1} of partition {each.partition} were deleted before they were read"
            hint = (
                "let the topic keep its messages for longer (retention.ms); what is left is read by a run from scratch, "
                "with `init_model_path:` and `start_from: earliest`"
            )
        else:
            what = f"topic {topic}: partition {each.partition} ends at {each.high}, and {at} was read: it is another topic of this name"
            hint = "begin with `init_model_path:` and the last checkpoint, without --resume"
        problems.append(Problem(code="UM-DATA-133", what=what, hint=hint))
    return tuple(problems)


def _end(there: PartitionBounds, ends: Mapping[int, int] | None) -> int:
    """Partitions that came later than the ends are not read."""
    return there.high if ends is None else min(there.high, ends.get(there.partition, 0))
