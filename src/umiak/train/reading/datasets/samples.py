"""A trainer's batches of a reader class that opens files itself. An adapter.

With several processes batches are taken from one after the other in turn: where each has files of its own as Paddle's DataLoader does, else so that the order is that of
one process. A position says how many batches each has given; going on from it, the reader runs once more from the beginning, and what was given out is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from umiak.core.decode import encode
from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.train.config.values import Dataset
from umiak.train.reading.batches import Batch, StackedBatch
from umiak.train.reading.datasets.division import DatasetPart
from umiak.train.reading.datasets.processes import BatchStream, DatasetProcesses, PlaceProcesses
from umiak.train.reading.pool import ReaderClass
from umiak.train.reading.positions import Position, Share, place_of
from umiak.train.reading.samples import Samples
from umiak.train.reading.shuffling import pieces

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


@value
class DatasetPosition:
    """How many batches each process has given, and whose turn it is."""

    given: tuple[int, ...]
    turn: int = 0


class DatasetSamples(Samples):
    """Samples that a class of the user's reads from files."""

    def __init__(
        self,
        dataset: Dataset,
        kind: ReaderClass,
        own: DatasetPart,
        of: Share,
        begin: Position | None,
        pool: DatasetProcesses | None = None,
        *,
        shuffle: int = 0,
    ) -> None:
        """``shuffle``: samples are permuted, in windows of so many where they come one after the other; 0: they are not."""
        super().__init__(of)
        self.given = begin.samples if begin else 0
        count = max(1, dataset.reader_processes)
        place = place_of(DatasetPosition, begin.at) if begin else DatasetPosition(given=(0,) * count)
        self._given, self._turn = list(place.given), place.turn
        fits = pool is not None and pool.is_open and pool.count >= len(self._given)
        program = PlaceProcesses if dataset.by_place else DatasetProcesses
        self._pool = pool if pool is not None and fits else program(kind, len(self._given))
        self._is_own_pool = self._pool is not pool
        self._streams: list[BatchStream] = []
        self._files = own.files
        self._shuffle = shuffle
        self._questions = [self._question(dataset, own, number) for number in range(len(self._given))]

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes."""
        return self._pool.pids

    def empty(self) -> Batch:
        return StackedBatch(size=0, arrays=())

    def file(self) -> str | None:
        return self._files[0] if self._files else None

    def warnings(self) -> Sequence[Problem]:
        return self._pool.warnings

    def close(self) -> None:
        """End its processes, unless they are somebody else's and have nothing left to do."""
        is_idle = all(stream.is_done for stream in self._streams)
        for stream in self._streams:
            stream.abandon()
        if self._is_own_pool or not is_idle:
            self._pool.close()

    def _next(self) -> Batch:
        if not self._streams:
            try:
                self._streams = self._pool.read(self._questions)
            except BaseException:
                self._pool.close()
                raise
        for _ in self._streams:
            stream, number = self._streams[self._turn], self._turn
            batch = stream.next()
            self._turn = (self._turn + 1) % len(self._streams)
            if batch is not None:
                self._given[number] += 1
                return batch
        self.close()
        raise StopIteration

    def _at(self) -> str:
        return json.dumps(encode(DatasetPosition(given=tuple(self._given), turn=self._turn)))

    def _question(self, dataset: Dataset, own: DatasetPart, number: int) -> JsonObject:
        """What one of the processes is told to read."""
        count = len(self._given)
        has_own_files = own.step == 1 and len(own.files) >= count > 1 and dataset.divide_by.value == "files"
        return {
            "files": own.files[number::count] if has_own_files else own.files,
            "first": own.first,
            "step": own.step,
            "turn": 0 if has_own_files else number,
            "turns": 1 if has_own_files else count,
            "skip": self._given[number],
            "batch": dataset.batch_size,
            "drop": dataset.drop_last,
            "ready": dataset.ready_batches,
            "seed": self.of.seed,
            "epoch": self.of.epoch,
            "window": self._shuffle,
            # Trainers that take every N-th batch of the same samples must see them in the same order.
            "window_seed": pieces.window_seed(self.of) if own.step == 1 else pieces.mixed(self.of.seed, self.of.epoch),
        }
