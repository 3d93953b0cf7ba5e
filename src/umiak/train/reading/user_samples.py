"""Samples that a reader class of the user's makes, put together to batches. An adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from umiak.core.decode import Malformed, decode, encode
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.data.parts import Part
from umiak.train.config.values import Dataset
from umiak.train.reading import finding, lines
from umiak.train.reading.batches import Arrays, Batch, empty
from umiak.train.reading.columns import Column
from umiak.train.reading.finding import Files
from umiak.train.reading.pool import Pool, ReaderClass, Result
from umiak.train.reading.positions import Position, Share
from umiak.train.reading.samples import Samples
from umiak.train.reading.shuffling import pieces
from umiak.train.reading.shuffling.windows import ReadPosition, Windows, cut, lengths_of, place_behind


class UserSamples(Samples):
    """Samples that a class of the user's makes."""

    def __init__(
        self,
        dataset: Dataset,
        kind: ReaderClass,
        found: Files,
        own: tuple[Part, ...],
        of: Share,
        begin: Position | None,
        pool: Pool | None = None,
        *,
        shuffle: int = 0,
    ) -> None:
        """``shuffle``: samples are permuted in windows of so many; 0: they come in order."""
        super().__init__(of)
        self.given = begin.samples if begin else 0
        self._own = own
        self._place = _place(begin.at) if begin else ReadPosition()
        self._batch_size = dataset.batch_size
        self._waiting: list[Result] = []
        self._is_own_pool = pool is None or not pool.is_open
        self._pool = pool if pool is not None and pool.is_open else Pool(kind, dataset.reader_processes)
        self._at_end = False
        try:
            self.columns = _columns(self._pool, found)
            place = self._place
            chunks = lines.chunks(own, part=place.part, offset=place.offset, skip=place.samples)
            self._results = self._pool.read(chunks, own, self.columns)
            self._windows = (
                Windows(self._results, size=shuffle, seed=pieces.window_seed(of), begin=place) if shuffle else None
            )
            if place.given:
                self._rebuild(place.given)
        except BaseException:
            self._pool.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes."""
        return self._pool.pids

    def empty(self) -> Batch:
        dense = {column.name: column.width for column in self.columns if column.width is not None}
        return empty([column.name for column in self.columns if column.width is None], dense)

    def file(self) -> str | None:
        return self._own[self._place.part].path if self._own else None

    def warnings(self) -> Sequence[Problem]:
        return self._pool.warnings

    def close(self) -> None:
        """End its processes, unless they are somebody else's and have nothing left to do."""
        self._results.close()
        if self._is_own_pool or not self._at_end:
            self._pool.close()
        self._waiting = []

    def _next(self) -> Batch:
        waiting = sum(len(result.places) for result in self._waiting)
        while waiting < self._batch_size:
            result = self._windows.next() if self._windows else next(self._results, None)
            if result is None:
                break
            self._waiting.append(result)
            waiting += len(result.places)
        if not waiting:
            self._at_end = True
            self.close()
            raise StopIteration
        taken, self._waiting = cut(self._waiting, min(waiting, self._batch_size))
        if self._windows:
            self._place = self._windows.place(sum(len(result.places) for result in self._waiting))
        else:
            self._place = place_behind(taken)
        return self._batch(taken)

    def _rebuild(self, given: int) -> None:
        """The window of a position, of which some samples were given out before."""
        window = self._windows.next() if self._windows else None
        if window is None or len(window.places) < given:
            what = "the position does not fit: the files have fewer samples than before"
            raise UmiakError(Problem(code="UM-DATA-003", what=what))
        self._waiting = cut([window], given)[1]

    def _at(self) -> str:
        place = self._place
        if place.offset is not None:
            path = self._own[place.part].path
            place = replace(place, file=path, line=lines.line_number(path, place.offset))
        return json.dumps(encode(place))

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


def _place(text: str) -> ReadPosition:
    try:
        return decode(ReadPosition, json.loads(text))
    except (Malformed, ValueError) as error:
        problem = Problem(code="UM-DATA-003", what=f"not a position of a reader class: {error}")
        raise UmiakError(problem) from error


def _columns(pool: Pool, found: Files) -> tuple[Column, ...]:
    """What the first sample of all data says, for every trainer the same."""
    if found.digest not in pool.known:
        said = (pool.columns(finding.fetched((Part(path=file.path),))) for file in found.files)
        pool.known[found.digest] = next((columns for columns in said if columns), ())
    return pool.known[found.digest]
