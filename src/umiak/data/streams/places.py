"""Where a stream is, and which of its messages are meant. Values.

address("kafka://b1:9092,b2:9092/clicks")      StreamAddress(brokers="b1:9092,b2:9092", topic="clicks")
Span(partition=3, begin=1200, end=1800).text   "3@1200-1800"
"""

from __future__ import annotations

import re

from umiak.core.problem import UmiakError
from umiak.core.value import value

SCHEME = "kafka://"
_ADDRESS = re.compile(r"kafka://(?P<brokers>[^/@\s]+)/(?P<topic>[A-Za-z0-9._-]{1,249})/?")
_SPAN = re.compile(r"(\d+)@(\d+)-(\d+)")


@value
class StreamAddress:
    """A topic, and the brokers that are asked for it first."""

    brokers: str
    topic: str


@value
class Span:
    """Messages of a partition that follow one another."""

    partition: int
    begin: int
    """The offset of the first one."""
    end: int
    """The offset behind the last one."""

    @property
    def count(self) -> int:
        """How many offsets it has; not each of them needs to have a message."""
        return self.end - self.begin

    @property
    def text(self) -> str:
        return f"{self.partition}@{self.begin}-{self.end}"


@value
class PartitionBounds:
    """What there is of a partition."""

    partition: int
    low: int
    """The first offset that was not deleted."""
    high: int
    """The offset that the next message gets."""


def is_stream(path: str) -> bool:
    """Whether a path of data is that of a stream."""
    return path.lower().startswith(SCHEME)


def address(path: str) -> StreamAddress:
    """UmiakError if it is none."""
    found = _ADDRESS.fullmatch(path)
    if found is None:
        # What is in front of an @ may be a password, so the path is not shown.
        what = "expected a stream such as kafka://broker:9092/topic, got another address"
        why = "a user and a password have no place in it" if "@" in path else None
        raise UmiakError.of(
            "UM-DATA-134", what, why=why, hint="settings of the client stand in `stream: {client: ...}`"
        )
    return StreamAddress(brokers=found["brokers"], topic=found["topic"])


def span_of(text: str) -> Span:
    """A span from its text, which may be the end of a path."""
    found = _SPAN.fullmatch(text.rpartition("/")[2])
    if found is None:
        raise UmiakError.of("UM-DATA-003", f"not a part of a stream: {text}")
    partition, begin, end = map(int, found.groups())
    return Span(partition=partition, begin=begin, end=end)
