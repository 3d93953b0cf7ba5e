"""Messages of a stream as samples. An adapter to the readers of tables and of slot text.

    decoder = decoder_of(dataset, lock)
    decoder.columns                         the slots of every batch
    decoder.decode(messages, "3")           their arrays, and how many samples there are

A message is one sample: a row of a table, or a line of slot text. One without a value is passed over, as a blank line is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import one_line
from umiak.core.value import replace, value
from umiak.data import ReadError
from umiak.data.tables import Format, TableFault, TableFile, TablePart, TableReader, TextReading
from umiak.data.tables.faults import CODES
from umiak.train.config.streams.settings import MessageFormat
from umiak.train.reading import checking
from umiak.train.reading.columns import Column
from umiak.train.reading.samples import slot_reader
from umiak.train.reading.tables.sources import encoder_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umiak.data import Batch
    from umiak.data.array_types import AnyArray
    from umiak.data.features.lock import FeatureLock
    from umiak.data.inputs import Input
    from umiak.train.config.values import Dataset
    from umiak.train.reading.tables.encoding import RowEncoder

    Arrays = tuple[tuple[AnyArray, NDArray[np.int64] | None], ...]

_DELIMITERS = {MessageFormat.CSV: ",", MessageFormat.TSV: "\t"}


@value
class Decoded:
    """What some messages came to."""

    arrays: Arrays
    count: int
    """Samples."""
    read: int
    """Messages that have a value."""
    seen: checking.Seen = checking.Seen()
    bad: tuple[Problem, ...] = ()
    """Some of those that were left out."""


class MessageDecoder(Protocol):
    """How messages become samples."""

    @property
    def columns(self) -> tuple[Column, ...]: ...
    def decode(self, messages: Sequence[tuple[int, bytes | None]], where: str, allowed_bad: int) -> Decoded:
        """UmiakError for a bad message, where no more bad ones are allowed; it says which partition and offset it has."""


def decoder_of(dataset: Dataset, lock: FeatureLock | None) -> MessageDecoder:
    """As the dataset says."""
    assert dataset.stream is not None
    if dataset.stream.format is MessageFormat.SLOTS:
        return SlotDecoder(dataset)
    return TableDecoder(dataset, encoder_of(dataset, lock))


class TableDecoder:
    """Messages that are rows of a table."""

    def __init__(self, dataset: Dataset, encoder: RowEncoder) -> None:
        assert dataset.stream is not None
        self._format = dataset.stream.format
        self._encoder = encoder
        self._reading = TextReading(names=dataset.column_names or None)
        self.columns = encoder.columns

    def decode(self, messages: Sequence[tuple[int, bytes | None]], where: str, allowed_bad: int) -> Decoded:
        lines = _lines(messages)
        several = None if self._format is MessageFormat.JSON else _several(lines)
        if several is not None:
            raise _bad(where, several, "a message has one row, and this one has several lines")
        content = b"".join([line.replace(b"\n", b" ") + b"\n" for _, line in lines])
        table = TableFile(
            path=where,
            size=len(content),
            format=Format.JSON if self._format is MessageFormat.JSON else Format.CSV,
            columns=(),
            delimiter=_DELIMITERS.get(self._format, ","),
            reading=self._reading,
            content=content,
        )
        arrays, count, bad = None, 0, []
        try:
            # One batch, since it has as many rows as there are lines.
            for batch in TableReader(
                (TablePart(table=table),),
                self._encoder.wanted,
                batch_rows=max(1, len(lines)),
                bad_rows=1.0 if allowed_bad else 0.0,
            ):
                arrays, count = self._encoder.arrays(batch)
                seen = checking.Seen(bad_lines=batch.bad)
                bad = [(each.line, each.reason) for each in batch.bad_examples]
        except TableFault as fault:
            raise _of_line(fault, lines, fault.line, where) from fault
        if arrays is None:
            return Decoded(arrays=_nothing(self.columns), count=0, read=0)
        told = tuple([_bad(where, _offset(lines, line), reason).problems[0] for line, reason in bad])
        return Decoded(arrays=arrays, count=count, read=len(lines), seen=seen, bad=told)


class SlotDecoder:
    """Messages that are lines of slot text."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        dense = [Column(name=slot.name, width=slot.width) for slot in dataset.dense_slots]
        self.columns = (*(Column(name=name, width=None) for name in dataset.sparse_slots), *dense)

    def decode(self, messages: Sequence[tuple[int, bytes | None]], where: str, allowed_bad: int) -> Decoded:
        lines = _lines(messages)
        several = _several(lines)
        if several is not None:
            raise _bad(where, several, "a message is one sample, and this one has several lines")
        if not lines:
            return Decoded(arrays=_nothing(self.columns), count=0, read=0)
        content: Input = b"".join([line + b"\n" for _, line in lines])
        with slot_reader(self._dataset, content, len(lines), bad_lines=allowed_bad) as reader:
            try:
                batch = next(reader, None)
            except ReadError as error:
                raise _of_line(error, lines, error.line, where) from error
            statistics = reader.statistics()
        bad = [_bad(where, _offset(lines, each.line), each.reason).problems[0] for each in statistics.bad_examples]
        arrays = _nothing(self.columns) if batch is None else _arrays(batch, self.columns)
        count = 0 if batch is None else batch.size
        return Decoded(arrays=arrays, count=count, read=len(lines), seen=checking.seen(statistics), bad=tuple(bad))


def _lines(messages: Sequence[tuple[int, bytes | None]]) -> list[tuple[int, bytes]]:
    """Those that have a value, each with its offset."""
    found = [(offset, text.strip(b"\r\n")) for offset, text in messages if text]
    return [(offset, line) for offset, line in found if line.strip()]


def _several(lines: Sequence[tuple[int, bytes]]) -> int | None:
    """The offset of a message that has a newline within."""
    return next((offset for offset, line in lines if b"\n" in line), None)


def _arrays(batch: Batch, columns: Sequence[Column]) -> Arrays:
    made: list[tuple[AnyArray, NDArray[np.int64] | None]] = []
    for column in columns:
        if column.width is None:
            ids, offsets = batch.sparse[column.name]
            made.append((ids, np.diff(offsets)))
        else:
            made.append((batch.dense[column.name], None))
    return tuple(made)


def _nothing(columns: Sequence[Column]) -> Arrays:
    return tuple(
        [
            (np.zeros(0, np.int64), np.zeros(0, np.int64))
            if column.width is None
            else (np.zeros((0, column.width), np.float32), None)
            for column in columns
        ]
    )


def _offset(lines: Sequence[tuple[int, bytes]], line: int | None) -> int:
    return lines[min(max(1, line or 1), len(lines)) - 1][0]


def _bad(where: str, offset: int, reason: str) -> UmiakError:
    what = one_line(f"{where}, offset {offset}: {reason}")
    hint = "let the program that writes them correct it, or leave some bad messages out: `bad_rows`, with slots `bad_lines`"
    return UmiakError.of(CODES["value"], what, hint=hint)


def _of_line(error: UmiakError, lines: Sequence[tuple[int, bytes]], line: int | None, where: str) -> UmiakError:
    """The same, said of a message."""
    if line is None:
        return error
    (problem,) = error.problems
    reason = getattr(error, "reason", None) or problem.what
    column = getattr(error, "column", None)
    of_column = f"column {column}: " if column else ""
    told = _bad(where, _offset(lines, line), f"{of_column}{reason}").problems[0]
    return UmiakError(replace(told, code=problem.code), exit_status=error.exit_status)
