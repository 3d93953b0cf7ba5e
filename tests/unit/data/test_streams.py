"""Streams as ranges of offsets: passes take every message once, whatever there is and whenever it is looked; addresses and spans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umiak.core.problem import UmiakError
from umiak.data.streams import passes
from umiak.data.streams.places import PartitionBounds, Span, address, is_stream, span_of

COUNTS = st.dictionaries(st.integers(0, 5), st.integers(0, 40), min_size=1, max_size=5)


@given(st.lists(COUNTS, min_size=1, max_size=6), st.integers(1, 50), st.data())
def test_passes_take_every_message_once_however_it_comes(
    arriving: list[dict[int, int]], most: int, data: st.DataObject
) -> None:
    low = {partition: data.draw(st.integers(0, 9)) for each in arriving for partition in each}
    high, position, read = {}, {}, []
    for more in arriving:
        for partition, count in more.items():
            high[partition] = high.get(partition, low[partition]) + count
        there = [PartitionBounds(partition=each, low=low[each], high=high[each]) for each in sorted(high)]
        for _ in range(data.draw(st.integers(0, 3))):
            spans = passes.next_pass(position, there, most=most)
            assert sum(span.count for span in spans) == min(most, passes.behind(position, there))
            read += [(span.partition, offset) for span in spans for offset in range(span.begin, span.end)]
            position = passes.after(position, spans)
            assert passes.lost(position, there, "t") == ()
    while spans := passes.next_pass(position, there, most=most):
        read += [(span.partition, offset) for span in spans for offset in range(span.begin, span.end)]
        position = passes.after(position, spans)
    assert sorted(read) == [
        (partition, at) for partition in sorted(high) for at in range(low[partition], high[partition])
    ]
    assert passes.behind(position, there) == 0


def test_a_pass_takes_about_as_much_of_each_partition_and_what_one_leaves_is_for_the_others() -> None:
    there = [PartitionBounds(partition=each, low=0, high=high) for each, high in enumerate((1000, 10, 1000))]
    assert passes.next_pass({}, there, most=210) == (
        Span(partition=0, begin=0, end=100),
        Span(partition=1, begin=0, end=10),
        Span(partition=2, begin=0, end=100),
    )


def test_it_ends_where_it_shall_and_new_partitions_are_not_waited_for() -> None:
    there = [PartitionBounds(partition=0, low=0, high=50), PartitionBounds(partition=1, low=0, high=50)]
    ends = {0: 30}
    assert not passes.is_over({0: 29}, there, ends)
    assert passes.next_pass({0: 20}, there, most=100, ends=ends) == (Span(partition=0, begin=20, end=30),)
    assert passes.is_over({0: 30}, there, ends)
    assert not passes.is_over({0: 50, 1: 50}, there, None)


def test_what_is_gone_is_told_and_what_is_another_topic_too() -> None:
    there = [PartitionBounds(partition=0, low=10, high=50)]
    (problem,) = passes.lost({0: 4}, there, "clicks")
    assert problem.what == "topic clicks: messages 4 to 9 of partition 0 were deleted before they were read"
    (problem,) = passes.lost({0: 51}, there, "clicks")
    assert "partition 0 ends at 50, and 51 was read" in problem.what
    assert passes.lost({0: 10}, there, "clicks") == passes.lost({0: 50}, there, "clicks") == ()


def test_addresses_and_spans() -> None:
    found = address("kafka://b1:9092,b2:9092/clicks.v1")
    assert (found.brokers, found.topic) == ("b1:9092,b2:9092", "clicks.v1")
    assert is_stream("KAFKA://b/t")
    assert not is_stream("s3://b/t")
    span = Span(partition=3, begin=1200, end=1800)
    assert span_of(f"kafka://b/t/{span.text}") == span
    for wrong in ("kafka://b", "kafka:///t", "kafka://b/t/u", "kafka://b/t u"):
        with pytest.raises(UmiakError, match="expected a stream such as"):
            address(wrong)
    with pytest.raises(UmiakError) as refused:
        address("kafka://me:secret@b/t")
    assert "secret" not in str(refused.value)
