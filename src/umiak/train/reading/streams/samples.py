"""A trainer's samples of a stream. An adapter.

A range of offsets stands where a file does, and an offset where a byte does: so parts are made, divided, handed out and shuffled as those of files are. A place is the
offset of a message and the number of samples behind it that were given out; going on, messages are read from there, and these samples left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.data.parts import Part
from umiak.data.streams import places
from umiak.data.streams.kafka import KafkaTopic
from umiak.data.streams.places import Span
from umiak.data.tables.faults import too_many
from umiak.data.tables.reading import FEWEST_ROWS
from umiak.train.reading import checking
from umiak.train.reading.finding import Files
from umiak.train.reading.pool import Result
from umiak.train.reading.positions import Position, Share
from umiak.train.reading.samples import WindowedSamples
from umiak.train.reading.shuffling.windows import ReadPosition
from umiak.train.reading.streams.decoding import decoder_of
from umiak.train.reading.tables.samples import MOST_EXAMPLES, without

if TYPE_CHECKING:
    from umiak.data.features.lock import FeatureLock
    from umiak.train.config.values import Dataset

CHECKED_SAMPLES = 10_000
"""Behind so many it is looked whether the declared slots are those of the messages."""


class StreamSource:
    """How the messages of a dataset are read: for all passes and parts."""

    kept: tuple[str, ...] = ()

    def __init__(
        self, dataset: Dataset, lock: FeatureLock | None, idle: Callable[[str], None] = lambda _: None
    ) -> None:
        """``idle`` is called while a message is waited for."""
        assert dataset.stream is not None
        self.dataset = dataset
        self.decoder = decoder_of(dataset, lock)
        self.topic = KafkaTopic(places.address(dataset.data_path), dataset.stream.client, idle=idle)
        self._seen = checking.Seen()
        self._is_checked = not dataset.has_slots

    def row_bytes(self, _: Files) -> float:
        """A message is the unit in which its files are measured."""
        return 1.0

    def check(self, _: Files) -> None:
        """Messages are looked at when they are read."""

    def samples(
        self, batch_size: int, own: tuple[Part, ...], of: Share, begin: Position | None, *, shuffle: int = 0
    ) -> StreamSamples:
        """Those of some parts."""
        return StreamSamples(batch_size, own, of, begin, source=self, shuffle=shuffle)

    def look(self, seen: checking.Seen) -> None:
        """Once enough was read: UmiakError if the declared slots are not those of the messages."""
        if self._is_checked:
            return
        self._seen = checking.together([self._seen, seen])
        if self._seen.samples >= CHECKED_SAMPLES:
            self._is_checked = True
            dataset = self.dataset
            found = checking.problems(
                dataset, self._seen, files=[dataset.data_path], extra_allowed=dataset.extra_slots_allowed
            )
            UmiakError.raise_any(found)

    def close(self) -> None:
        self.topic.close()


class StreamSamples(WindowedSamples):
    """Samples that are messages."""

    def __init__(
        self,
        batch_size: int,
        own: tuple[Part, ...],
        of: Share,
        begin: Position | None,
        *,
        source: StreamSource,
        shuffle: int = 0,
    ) -> None:
        """``shuffle``: samples are permuted in windows of so many; 0: they come in order."""
        super().__init__(batch_size, own, of, begin, shuffle=shuffle)
        self._source = source
        self._read = self._bad = self._blank = 0
        self._examples: list[Problem] = []
        self.columns = source.decoder.columns
        self._start()

    def seen(self) -> checking.Seen:
        return checking.Seen(samples=self.given, bad_lines=self._bad, blank_lines=self._blank)

    def warnings(self) -> Sequence[Problem]:
        return tuple(self._examples)

    def close(self) -> None:
        self._results.close()
        self._waiting = []

    def _results_from(self, place: ReadPosition) -> Generator[Result, None, None]:
        for number in range(place.part, len(self._own)):
            span = span_of(self._own[number])
            skip = 0
            if number == place.part and place.offset is not None:
                span, skip = replace(span, begin=place.offset), place.samples
            for result in self._of_span(number, span):
                # The messages that came together before may come in several pieces now.
                left_out = min(skip, len(result.places))
                skip -= left_out
                yield without(result, left_out)

    def _of_span(self, number: int, span: Span) -> Generator[Result, None, None]:
        topic = self._source.topic
        where = f"topic {topic.address.topic}, partition {span.partition}"
        for messages in topic.read(span):
            decoded = self._source.decoder.decode(messages, where, self._allowed())
            self._count(decoded.read, len(messages), decoded.seen.bad_lines, decoded.bad)
            self._source.look(decoded.seen)
            found = np.empty((decoded.count, 2), np.int64)
            found[:, 0] = messages[0][0]
            found[:, 1] = np.arange(1, decoded.count + 1)
            yield Result(part=number, places=found, arrays=decoded.arrays)

    def _allowed(self) -> int:
        """How many bad messages may come; of a share at least one."""
        dataset = self._source.dataset
        return max(0, dataset.bad_lines - self._bad) if dataset.has_slots else int(dataset.bad_rows > 0)

    def _count(self, read: int, messages: int, bad: int, examples: Sequence[Problem]) -> None:
        self._read += read
        self._blank += messages - read
        self._bad += bad
        self._examples += examples[: MOST_EXAMPLES - len(self._examples)]
        allowed = self._source.dataset.bad_rows
        if not self._source.dataset.has_slots and self._bad > allowed * max(self._read, FEWEST_ROWS):
            raise too_many(self._bad, self._read, allowed, self._examples[-1].what if self._examples else "")

    def _spoken(self, place: ReadPosition) -> ReadPosition:
        return replace(place, file=self._own[place.part].path)


def span_of(part: Part) -> Span:
    """The messages that a part stands for."""
    whole = places.span_of(part.path)
    end = whole.end if part.end is None else whole.begin + part.end
    return Span(partition=whole.partition, begin=whole.begin + part.start, end=end)
