"""Samples of declared slots, read by the native reader. An adapter."""

from __future__ import annotations

import json
from typing import Any

from umiak.data import SlotReader
from umiak.data.parts import Part
from umiak.train.config.values import Dataset
from umiak.train.reading import checking
from umiak.train.reading.batches import Batch, empty
from umiak.train.reading.positions import Position, Share
from umiak.train.reading.samples import Samples
from umiak.train.reading.shuffling import pieces


class SlotSamples(Samples):
    """Samples that the native reader reads."""

    def __init__(
        self, dataset: Dataset, own: tuple[Part, ...], of: Share, begin: Position | None, reader: dict[str, Any]
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


def slot_reader(dataset: Dataset, own: tuple[Part, ...], batch_size: int, **others: Any) -> SlotReader:
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
