"""What `umiak train --check` looks at where data is a stream: the broker, the topic, and the first messages that are there. An adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.value import replace
from umiak.data.streams import places
from umiak.data.streams.kafka import KafkaTopic
from umiak.train.reading.streams.decoding import decoder_of
from umiak.train.reading.tables import locks

if TYPE_CHECKING:
    from umiak.train.config.values import Dataset

FIRST_MESSAGES = 100


def check(dataset: Dataset, config: str) -> None:
    """UmiakError if the topic can't be read, or the first messages of a partition are not as the config says."""
    assert dataset.stream is not None
    lock = None
    if dataset.features is not None:
        lock = locks.known_or_given(dataset.features, config)
    topic = KafkaTopic(places.address(dataset.data_path), dataset.stream.client)
    try:
        there = [each for each in topic.bounds() if each.high > each.low]
        if not there or (dataset.features is not None and lock is None):
            return  # messages may come later; features that were not fitted are told when training begins
        span = places.Span(partition=there[0].partition, begin=there[0].low, end=there[0].high)
        span = replace(span, end=min(span.end, span.begin + FIRST_MESSAGES))
        decoder = decoder_of(dataset, lock)
        for messages in topic.read(span):
            allowed = dataset.bad_lines if dataset.has_slots else int(dataset.bad_rows > 0)
            decoder.decode(messages, f"topic {topic.address.topic}, partition {span.partition}", allowed)
    finally:
        topic.close()
