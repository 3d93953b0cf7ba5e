"""A trainer's samples of one epoch, read in any way; of declared slots, read by the native reader; and those that come as results, of reader processes or of
tables, which are permuted in windows. An adapter."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.decode import encode
from umiak.core.problem import Problem, UmiakError
from umiak.data import SlotReader
from umiak.data.parts import Part
from umiak.train.config.values import Dataset
from umiak.train.reading import checking
from umiak.train.reading.batches import Arrays, Batch, empty
from umiak.train.reading.columns import Column
from umiak.train.reading.pool import Result
from umiak.train.reading.positions import Position, Share, place_of
from umiak.train.reading.shuffling import pieces
from umiak.train.reading.shuffling.windows import ReadPosition, Windows, cut, lengths_of, place_behind

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.data.inputs import Input


class Samples(ABC):
    """An iterator of batches that knows where it is."""

    def __init__(self, of: Share) -> None:
        self.of = of
        self.given = 0
        """Samples that were given out, those before the position that it began at included."""

    def __iter__(self) -> Samples:
        return self

    def __next__(self) -> Batch:
        batch = self._next()
        self.given += batch.size
        return batch

    def position(self) -> str:
        """JSON: from here on nothing was given out."""
        return Position(of=self.of, samples=self.given, at=self._at()).to_json()

    @abstractmethod
    def empty(self) -> Batch:
        """A batch without samples that has all slots."""

    def seen(self) -> checking.Seen | None:
        """How often declared slots occurred; None: there are none."""
        return None

    def file(self) -> str | None:
        """The file that is read now, or the first of several; None: there is none."""
        return None

    def warnings(self) -> Sequence[Problem]:
        """What is odd about the code that reads, as far as it is known by now. It only grows."""
        return ()

    @abstractmethod
    def close(self) -> None: ...
    @abstractmethod
    def _next(self) -> Batch: ...
    @abstractmethod
    def _at(self) -> str: ...

    def __enter__(self) -> Samples:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class SlotSamples(Samples):
    """Samples that the native reader reads."""

    def __init__(
        self, dataset: Dataset, own: tuple[Part, ...], of: Share, begin: Position | None, reader: JsonObject
    ) -> None:
        super().__init__(of)
        self.given = begin.samples if begin else 0
        self._dataset = dataset
        self._own = own
        self._reader = slot_reader(
            dataset,
            own,
            dataset.batch_size,
            seed=pieces.window_seed(of),
            position=begin.at if begin else None,
            **reader,
        )

    def empty(self) -> Batch:
        return empty(self._dataset.sparse_slots, {slot.name: slot.width for slot in self._dataset.dense_slots})

    def seen(self) -> checking.Seen:
        return checking.seen(self._reader.statistics())

    def file(self) -> str | None:
        number = int(json.loads(self._reader.position())["input"])
        return self._own[min(number, len(self._own) - 1)].path if self._own else None

    def close(self) -> None:
        self._reader.close()

    def _next(self) -> Batch:
        return next(self._reader)

    def _at(self) -> str:
        return self._reader.position()


class WindowedSamples(Samples):
    """A trainer's samples of some parts. `_start` is called when everything is there that `_results_from` needs."""

    columns: tuple[Column, ...] = ()
    """The slots of every batch."""

    def __init__(
        self, batch_size: int, own: tuple[Part, ...], of: Share, begin: Position | None, *, shuffle: int = 0
    ) -> None:
        """``shuffle``: samples are permuted in windows of so many; 0: they come in order."""
        super().__init__(of)
        self.given = begin.samples if begin else 0
        self._own = own
        self._place = place_of(ReadPosition, begin.at) if begin else ReadPosition()
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._waiting: list[Result] = []

    def _start(self) -> None:
        place = self._place
        self._results = self._results_from(place)
        self._windows = (
            Windows(self._results, size=self._shuffle, seed=pieces.window_seed(self.of), begin=place)
            if self._shuffle
            else None
        )
        if place.given:
            self._rebuild(place.given)

    @abstractmethod
    def _results_from(self, place: ReadPosition) -> Generator[Result, None, None]:
        """All results from a place on."""

    @abstractmethod
    def _spoken(self, place: ReadPosition) -> ReadPosition:
        """The same with what people want to know."""

    def empty(self) -> Batch:
        dense = {column.name: column.width for column in self.columns if column.width is not None}
        return empty([column.name for column in self.columns if column.width is None], dense)

    def file(self) -> str | None:
        return self._own[self._place.part].path if self._own else None

    def _next(self) -> Batch:
        waiting = sum(len(result.places) for result in self._waiting)
        while waiting < self._batch_size:
            result = self._windows.next() if self._windows else next(self._results, None)
            if result is None:
                break
            self._waiting.append(result)
            waiting += len(result.places)
        if not waiting:
            self._ended()
            raise StopIteration
        taken, self._waiting = cut(self._waiting, min(waiting, self._batch_size))
        if self._windows:
            self._place = self._windows.place(sum(len(result.places) for result in self._waiting))
        else:
            self._place = place_behind(taken)
        return self._batch(taken)

    def _ended(self) -> None:
        """Nothing is left."""
        self.close()

    def _rebuild(self, given: int) -> None:
        """The window of a position, of which some samples were given out before."""
        window = self._windows.next() if self._windows else None
        if window is None or len(window.places) < given:
            what = "the position does not fit: the files have fewer samples than before"
            raise UmiakError.of("UM-DATA-003", what)
        self._waiting = cut([window], given)[1]

    def _at(self) -> str:
        place = self._place
        return json.dumps(encode(place if place.offset is None else self._spoken(place)))

    def _batch(self, taken: list[Result]) -> Batch:
        size = sum(len(result.places) for result in taken)
        dense, sparse = {}, {}
        for at, column in enumerate(self.columns):
            values = np.concatenate([result.arrays[at][0] for result in taken])
            if column.width is not None:
                dense[column.name] = values
                continue
            offsets = np.zeros(size + 1, np.int64)
            np.cumsum(np.concatenate([lengths_of(result, at) for result in taken]), out=offsets[1:])
            sparse[column.name] = (values, offsets)
        return Arrays(size=size, dense=dense, sparse=sparse)


def slot_reader(dataset: Dataset, own: tuple[Part, ...] | Input, batch_size: int, **others: Any) -> SlotReader:
    """The native reader for a dataset's slots."""
    return SlotReader(
        own,
        sparse=dataset.sparse_slots,
        dense={slot.name: slot.width for slot in dataset.dense_slots},
        batch_size=batch_size,
        padding=dataset.padding,
        dense_padding=float(dataset.padding),
        **others,
    )
