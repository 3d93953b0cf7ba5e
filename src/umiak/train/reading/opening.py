"""From a dataset to a trainer's samples: finding, dividing and the two kinds of readers put together. An adapter.

found = finding.find(dataset)
opening.check(dataset, found)                                       # do the slots fit?
with opening.read(dataset, found, rank=0, world=2, epoch=3, seed=7) as samples:
    for batch in samples:
        ...
        saved = samples.position()                                  # later: read(..., position=saved)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.data.parts import Part
from umiak.train.config.paddlerec.dotted import dotted
from umiak.train.config.values import Dataset
from umiak.train.reading import checking, dividing, finding, positions
from umiak.train.reading.datasets import division
from umiak.train.reading.datasets.division import DatasetPart
from umiak.train.reading.datasets.processes import DatasetProcesses, PlaceProcesses
from umiak.train.reading.datasets.samples import DatasetSamples
from umiak.train.reading.finding import Files
from umiak.train.reading.pool import Pool, ReaderClass, ReaderProcesses
from umiak.train.reading.positions import Share
from umiak.train.reading.samples import Samples, SlotSamples, slot_reader
from umiak.train.reading.shuffling import pieces
from umiak.train.reading.shuffling.pieces import PartGroup, Shuffle
from umiak.train.reading.streams.samples import StreamSource
from umiak.train.reading.tables.samples import RowSource
from umiak.train.reading.user_samples import UserSamples

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject

FIRST_LINES = 10_000
"""So many lines are looked at before training begins."""


def read(
    dataset: Dataset,
    found: Files,
    *,
    rank: int = 0,
    world: int = 1,
    epoch: int = 0,
    seed: int = 0,
    shuffle_files: bool = False,
    shuffle: int = 0,
    position: str | None = None,
    config: str | None = None,
    settings: JsonMapping | None = None,
    pool: ReaderProcesses | None = None,
    rows: RowSource | StreamSource | None = None,
    **reader: Any,
) -> Samples:
    """What trainer ``rank`` of ``world`` reads in an epoch. ``reader`` goes to `umiak.data.SlotReader` (threads, cache, ...).

    ``shuffle``: pieces of files in an order of seed and epoch, and samples permuted in windows of so many; 0: in order. ``rows``: files are
    tables, and how they are read.
    """
    share = f"trainer {rank} of {world}"
    own: tuple[Part, ...] | DatasetPart
    if dataset.reads_files:
        files = dividing.in_order(found.files, shuffled=shuffle_files or shuffle > 0, seed=seed, epoch=epoch)
        own = division.parts_of(files, world=world, divide_by=dataset.divide_by)[rank]
        share = _text_of(share, own, dataset, shuffle)
    elif shuffle:
        how = shuffle_of(found, shuffle, rows)
        own = pieces.share(found.files, how, rank=rank, world=world, seed=seed, epoch=epoch)
        share += f", {_shuffled(shuffle)}, pieces of {pieces.piece_bytes(found.files, how, world=world)} bytes"
    else:
        files = dividing.in_order(found.files, shuffled=shuffle_files, seed=seed, epoch=epoch)
        own = dividing.share(files, rank=rank, world=world)
        share += ", files shuffled" if shuffle_files else ""
    of = Share(dataset=dataset.name, epoch=epoch, seed=seed, files=found.digest, share=share)
    return _reading(dataset, found, own, of, position, _class(dataset, config, settings), pool, shuffle, rows, reader)


def read_part(
    dataset: Dataset,
    found: Files,
    part: Part | PartGroup | DatasetPart,
    *,
    epoch: int = 0,
    seed: int = 0,
    shuffle: int = 0,
    position: str | None = None,
    config: str | None = None,
    settings: JsonMapping | None = None,
    pool: ReaderProcesses | None = None,
    rows: RowSource | StreamSource | None = None,
    **reader: Any,
) -> Samples:
    """One part that was handed out: see `work_queue`."""
    own: tuple[Part, ...] | DatasetPart
    if isinstance(part, DatasetPart):
        own = part
        share = _text_of(f"{part.text}, the first {part.files[0] if part.files else 'none'}", part, dataset, shuffle)
    else:
        own = part.pieces if isinstance(part, PartGroup) else (part,)
        share = f"{own[0].path} {own[0].start}-{'' if own[0].end is None else own[0].end}"
        share += f" and {len(own) - 1} more, {_shuffled(shuffle)}" if shuffle else ""
    of = Share(dataset=dataset.name, epoch=epoch, seed=seed, files=found.digest, share=share)
    return _reading(dataset, found, own, of, position, _class(dataset, config, settings), pool, shuffle, rows, reader)


def shuffle_of(found: Files, window: int, rows: RowSource | StreamSource | None = None) -> Shuffle:
    """How these files are shuffled in windows of so many samples."""
    # Of tables only those pieces are fetched that are read.
    is_remote = rows is None and finding.is_remote(found)
    return Shuffle(window=window, line_bytes=sample_bytes(found, rows), is_remote=is_remote)


def sample_bytes(found: Files, rows: RowSource | StreamSource | None = None) -> float:
    """About how many bytes of a file a sample takes; the same for every trainer."""
    return finding.line_bytes(found) if rows is None else rows.row_bytes(found)


def processes(
    dataset: Dataset, *, config: str | None = None, settings: JsonMapping | None = None
) -> ReaderProcesses | None:
    """Processes for a dataset's reader class, for all epochs and parts: ``read(..., pool=...)``. None if it has no such class.

    Reading that is given up before its end closes them; the next one then starts its own.
    """
    kind = _class(dataset, config, settings)
    if kind and dataset.by_place:
        return PlaceProcesses(kind, dataset.reader_processes)
    if kind and dataset.reads_files:
        return DatasetProcesses(kind, dataset.reader_processes)
    return Pool(kind, dataset.reader_processes) if kind else None


def check(
    dataset: Dataset,
    found: Files,
    *,
    where: str | None = None,
    first_lines: int = FIRST_LINES,
    extra_allowed: bool = False,
    bad_lines: int = 0,
    rows: RowSource | StreamSource | None = None,
) -> checking.Seen | None:
    """Read the first lines and raise UmiakError if the declared slots are not those of the data. The same for all trainers.

    Returns what was seen; nothing where a class of the user's reads.
    """
    if rows is not None:
        rows.check(found)
        return None
    if not dataset.has_slots:
        return None
    inputs: list[str] = []
    total = checking.Seen()
    for file in found.files:
        # One file after another, so that of many remote ones only the first are fetched.
        if total.samples >= first_lines:
            break
        inputs.append(file.path)
        with slot_reader(
            dataset, finding.fetched((Part(path=file.path),)), first_lines - total.samples, bad_lines=bad_lines
        ) as reader:
            next(reader, None)
            total = checking.together([total, checking.seen(reader.statistics())])
    UmiakError.raise_any(checking.problems(dataset, total, files=inputs, where=where, extra_allowed=extra_allowed))
    return total


def check_seen(
    dataset: Dataset,
    found: Files,
    seen: Iterable[checking.Seen | None],
    *,
    where: str | None = None,
    extra_allowed: bool = False,
) -> None:
    """The same at the end of an epoch, for what all trainers' samples have ``seen()``."""
    total = checking.together(each for each in seen if each is not None)
    files = [file.path for file in found.files]
    UmiakError.raise_any(checking.problems(dataset, total, files=files, where=where, extra_allowed=extra_allowed))


def _reading(
    dataset: Dataset,
    found: Files,
    own: tuple[Part, ...] | DatasetPart,
    of: Share,
    position: str | None,
    kind: ReaderClass | None,
    pool: ReaderProcesses | None,
    shuffle: int,
    rows: RowSource | StreamSource | None,
    reader: JsonObject,
) -> Samples:
    begin = positions.from_json(position, of) if position is not None else None
    if rows is not None and not isinstance(own, DatasetPart):
        return rows.samples(dataset.batch_size, own, of, begin, shuffle=shuffle)
    if dataset.has_slots and not isinstance(own, DatasetPart):
        return SlotSamples(dataset, finding.fetched(own), of, begin, {**reader, "shuffle": shuffle})
    if reader:
        what = f"dataset {dataset.name} is read by a class of its own, which has no {', '.join(sorted(reader))}"
        raise UmiakError.of("UM-DATA-004", what)
    if kind is None:
        what = f"dataset {dataset.name} has neither slots nor a reader class"
        raise UmiakError.of("UM-DATA-004", what)
    if isinstance(own, DatasetPart):
        paths = [part.path for part in finding.fetched(tuple([Part(path=path) for path in own.files]))]
        processes = pool if isinstance(pool, DatasetProcesses) else None
        local = replace(own, files=tuple(paths))
        return DatasetSamples(dataset, kind, local, of, begin, processes, shuffle=shuffle)
    handed = pool if isinstance(pool, Pool) else None
    return UserSamples(dataset, kind, found, finding.fetched(own), of, begin, handed, shuffle=shuffle)


def _text_of(whose: str, part: DatasetPart, dataset: Dataset, shuffle: int) -> str:
    """A part of what a class reads that opens files itself, in words."""
    return f"{whose}, {part.text}, batches of {dataset.batch_size}" + (f", {_shuffled(shuffle)}" if shuffle else "")


def _shuffled(window: int) -> str:
    return f"shuffled in windows of {window}"


def _class(dataset: Dataset, config: str | None, settings: JsonMapping | None) -> ReaderClass | None:
    if dataset.has_slots or dataset.data_converter is None:
        return None
    told = dict(settings or {})
    if dataset.by_place:
        told = {"config": config, "settings": told}
    elif dataset.reads_files:  # PaddleRec's code gets the config as one dictionary
        told = dotted(told, os.path.abspath(config or ""))
    return ReaderClass(file=dataset.data_converter, name=dataset.reader_class, config=config, settings=told)
