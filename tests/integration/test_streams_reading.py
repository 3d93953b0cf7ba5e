"""Messages of a real Kafka as samples: the same as rows of a file, divided and gone on from anywhere, whatever becomes of transactions and the broker."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from testbed.kafka import Broker
from tests.support import chance
from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.data import features
from umiak.data.streams.kafka import KafkaTopic
from umiak.data.streams.places import Span, address
from umiak.schema.features import reading as sections
from umiak.train import reading
from umiak.train.config.slots import DenseSlot
from umiak.train.config.streams.settings import MessageFormat, StreamSettings
from umiak.train.config.values import Dataset
from umiak.train.reading.streams.samples import StreamSource
from umiak.train.reading.tables import sources

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SECTION = """features:
  label: click
  columns:
  - {name: user, kind: id}
  - {name: price, kind: number, missing: 0, transform: log1p}
  - {name: seen, kind: sequence, hash: 50, separator: "|", max_len: 3}
"""
ROWS = 240


def rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    return [
        {
            "click": int(rng.integers(0, 2)),
            "user": None if number % 13 == 0 else f'u "{rng.integers(0, 40)}", é',
            "price": None if number % 7 == 0 else round(float(rng.random()) * 100, 3),
            "seen": [f"i{each}" for each in rng.integers(0, 20, number % 5)] or None,
        }
        for number in range(ROWS)
    ]


def as_csv(row: dict[str, Any], delimiter: str) -> bytes:
    texts = ["" if each is None else "|".join(each) if isinstance(each, list) else str(each) for each in row.values()]
    return delimiter.join('"' + text.replace('"', '""') + '"' for text in texts).encode()


def stream(broker: Broker, messages: list[bytes | None], split: int, **more: Any) -> Dataset:
    topic = f"r{time.monotonic_ns()}"
    broker.topic(topic, 2)
    broker.write(topic, messages[:split], partition=0)
    broker.write(topic, messages[split:], partition=1)
    return Dataset(name="clicks", data_path=f"kafka://{broker.bootstrap}/{topic}", **{"batch_size": 16, **more})


def plain(samples: Any) -> list[Any]:
    """Every sample, column by column."""
    found: list[Any] = []
    for batch in samples:
        columns = [np.split(ids, offsets[1:-1]) for ids, offsets in batch.sparse.values()]
        columns += [list(array) for array in batch.dense.values()]
        found += [tuple(tuple(each.tolist()) for each in row) for row in zip(*columns, strict=True)]
    return found


@pytest.mark.parametrize("form", [MessageFormat.JSON, MessageFormat.CSV, MessageFormat.TSV])
def test_a_message_is_the_sample_that_its_row_is(tmp_path: Path, kafka_broker: Broker, form: MessageFormat) -> None:
    (tmp_path / "config.yaml").write_text(SECTION)
    section, there = sections.load(tmp_path), rows()
    lock = features.of_section(section)
    parquet.write_table(pa.Table.from_pylist(there), tmp_path / "rows.parquet")
    file = Dataset(name="clicks", data_path=str(tmp_path / "rows.parquet"), batch_size=16, features=section)
    expected = plain(reading.read(file, reading.find(file), rows=sources.source(file, lock)))
    if form is MessageFormat.JSON:
        messages: list[bytes | None] = [json.dumps(each, indent=1).encode() for each in there]
    else:
        messages = [as_csv(each, "," if form is MessageFormat.CSV else "\t") for each in there]
    messages[100:100] = [None, b"\n"]
    settings = StreamSettings(format=form)
    names = ("click", "user", "price", "seen")
    dataset = stream(kafka_broker, messages, 150, features=section, stream=settings, column_names=names)
    source = StreamSource(dataset, lock)
    found = reading.find(dataset, below=("0@0-150", "1@0-92"))
    assert plain(reading.read(dataset, found, rows=source)) == expected
    for world in (2, 3):
        shares = [plain(reading.read(dataset, found, rank=each, world=world, rows=source)) for each in range(world)]
        assert [*itertools.chain(*shares)] == expected, "each by one trainer, in order"
        assert all(shares)
    for shuffle in (0, 50):
        samples = reading.read(dataset, found, rows=source, shuffle=shuffle)
        whole = plain(reading.read(dataset, found, rows=source, shuffle=shuffle))
        assert sorted(whole) == sorted(expected)
        before = plain([next(samples) for _ in range(chance().randrange(1, 15))])
        assert (
            before + plain(reading.read(dataset, found, rows=source, shuffle=shuffle, position=samples.position()))
            == whole
        )
    source.close()


def test_bad_messages_are_named_or_counted(tmp_path: Path, kafka_broker: Broker) -> None:
    (tmp_path / "config.yaml").write_text(SECTION)
    section = sections.load(tmp_path)
    good = b'{"click": 1, "user": "a", "price": 1.5, "seen": []}'
    messages: list[bytes | None] = [good, good.replace(b"1.5", b'"dear"'), good]
    dataset = stream(kafka_broker, messages, 0, features=section, stream=StreamSettings())
    lock = features.of_section(section)
    found = reading.find(dataset, below=("1@0-3",))
    topic = address(dataset.data_path).topic
    with pytest.raises(UmiakError, match=f"topic {topic}, partition 1, offset 1: column price"):
        plain(reading.read(dataset, found, rows=StreamSource(dataset, lock)))
    allowed = replace(dataset, bad_rows=0.5)
    samples = reading.read(allowed, found, rows=StreamSource(allowed, lock))
    assert len(plain(samples)) == 2
    seen = samples.seen()
    assert seen is not None
    assert seen.bad_lines == 1
    assert "offset 1" in samples.warnings()[0].what
    slots = stream(
        kafka_broker,
        [b"click:1 price:2 3:4", b"click:x", b"click:0 price:1 3:5\nclick:1 price:1 3:5"],
        3,
        sparse_slots=("click", "3"),
        dense_slots=(DenseSlot(name="price", shape=(1,)),),
        stream=StreamSettings(format=MessageFormat.SLOTS),
    )
    topic = address(slots.data_path).topic
    with pytest.raises(UmiakError, match=f"topic {topic}, partition 0, offset 1"):
        plain(reading.read(slots, reading.find(slots, below=("0@0-2",)), rows=StreamSource(slots, None)))
    with pytest.raises(UmiakError, match="offset 2: a message is one sample, and this one has several lines"):
        plain(reading.read(slots, reading.find(slots, below=("0@2-3",)), rows=StreamSource(slots, None)))


def test_transactions_and_a_broker_that_hangs(kafka_broker: Broker) -> None:
    name = f"r{time.monotonic_ns()}"
    kafka_broker.topic(name)
    kafka_broker.transaction(name, [b"a", b"b"], partition=0)
    kafka_broker.transaction(name, [b"lost"] * 3, partition=0, aborted=True)
    kafka_broker.write(name, [b"c", b"d"], partition=0)
    topic = KafkaTopic(address(f"kafka://{kafka_broker.bootstrap}/{name}"), {})
    (bounds,) = topic.bounds()
    assert bounds.high == 9, "a mark behind each transaction"

    def read(begin: int, end: int) -> list[tuple[int, bytes | None]]:
        return [each for found in topic.read(Span(partition=0, begin=begin, end=end)) for each in found]

    everything = read(0, 9)
    assert [text for _, text in everything] == [b"a", b"b", b"c", b"d"]
    for cut in range(10):
        assert read(0, cut) + read(cut, 9) == everything, cut
    kafka_broker.pause()
    threading.Timer(1.0, kafka_broker.resume).start()
    topic.close()
    assert read(0, 9) == everything
    topic.close()
