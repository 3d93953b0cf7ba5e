"""What a reader has seen: samples, slots, bad lines. Values."""

from __future__ import annotations

import json
from collections.abc import Mapping

from umiak.core.value import value


@value
class SlotTimes:
    """How often a slot that was not asked for occurred: values, and samples that have any of them."""

    values: int
    samples: int


@value
class BadLine:
    """A line that gave no sample. Lines and columns count from 1, ``offset`` is the line's first byte."""

    file: str
    line: int
    column: int
    offset: int
    token: str
    reason: str
    detail: str


@value
class Statistics:
    """What a reader has seen since it was made.

    With threads, a shuffle or a cache this may be some samples more than it has given out; at the end it is exact.
    """

    samples: int
    missing: Mapping[str, int]
    """For each slot that was asked for, the samples that lack it."""
    unknown: Mapping[str, SlotTimes]
    """Slots that were not asked for (``unknown="count"``)."""
    unknown_others: int
    """Values of further such slots, beyond the first 1,024 names."""
    bad_lines: int
    bad_by_reason: Mapping[str, int]
    bad_examples: tuple[BadLine, ...]
    """The first few bad lines."""
    blank_lines: int
    """Lines without a token, which are passed over."""
    caches_made: tuple[tuple[str, str], ...]
    """Caches that were written, each with the reason."""
    cache_bytes: int
    """Bytes of caches that were read."""

    @property
    def never(self) -> tuple[str, ...]:
        """Slots that were asked for and that no sample has."""
        return tuple(name for name, times in self.missing.items() if self.samples and times == self.samples)

    @property
    def always(self) -> tuple[str, ...]:
        """Slots that were not asked for and that every sample has."""
        return tuple(name for name, times in self.unknown.items() if self.samples and times.samples == self.samples)


def from_json(text: str) -> Statistics:
    """What the native reader tells."""
    plain = json.loads(text)
    return Statistics(
        samples=plain["samples"],
        missing=plain["missing"],
        unknown={name: SlotTimes(**times) for name, times in plain["unknown"].items()},
        unknown_others=plain["unknown_others"],
        bad_lines=plain["bad_lines"],
        bad_by_reason=plain["bad_by_reason"],
        bad_examples=tuple(BadLine(**line) for line in plain["bad_examples"]),
        caches_made=tuple((path, why) for path, why in plain["caches_made"]),
        blank_lines=plain["blank_lines"],
        cache_bytes=plain["cache_bytes"],
    )
