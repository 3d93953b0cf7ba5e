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
from collections.abc import Iterable, Mapping
from typing import Any

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.data.parts import Part
from umiak.train.config.paddlerec.dotted import dotted
from umiak.train.config.values import Dataset
from umiak.train.reading import checking, dividing, finding, positions
from umiak.train.reading.datasets import division
from umiak.train.reading.datasets.division import DatasetPart
from umiak.train.reading.datasets.processes import DatasetProcesses
from umiak.train.reading.datasets.samples import DatasetSamples
from umiak.train.reading.finding import Files
from umiak.train.reading.pool import Pool, ReaderClass
from umiak.train.reading.positions import Share
from umiak.train.reading.samples import Samples
from umiak.train.reading.shuffling import pieces
from umiak.train.reading.shuffling.pieces import PartGroup, Shuffle
from umiak.train.reading.slot_samples import SlotSamples, slot_reader
from umiak.train.reading.user_samples import UserSamples

ReaderProcesses = Pool | DatasetProcesses

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
    settings: Mapping[str, Any] | None = None,
    pool: ReaderProcesses | None = None,
    **reader: Any,
) -> Samples:
    """What trainer ``rank`` of ``world`` reads in an epoch. ``reader`` goes to `umiak.data.SlotReader` (threads, cache, ...).

    ``shuffle``: pieces of files in an order of seed and epoch, and samples permuted in windows of so many; 0: in order.
    """
    said = f"trainer {rank} of {world}"
    if dataset.reads_files:
        files = dividing.in_order(found.files, shuffled=shuffle_files or shuffle > 0, seed=seed, epoch=epoch)
        part = division.parts_of(files, world=world, divide_by=dataset.divide_by)[rank]
        return _dataset(dataset, found, part, said, epoch, seed, shuffle, position, config, settings, pool)
    if shuffle:
        how = shuffle_of(found, shuffle)
        own = pieces.share(found.files, how, rank=rank, world=world, seed=seed, epoch=epoch)
        said += f", {_shuffled(shuffle)}, pieces of {pieces.piece_bytes(found.files, how, world=world)} bytes"
        reader = {**reader, "shuffle": shuffle}
    else:
        files = dividing.in_order(found.files, shuffled=shuffle_files, seed=seed, epoch=epoch)
        own = dividing.share(files, rank=rank, world=world)
        said += ", files shuffled" if shuffle_files else ""
    of = Share(dataset=dataset.name, epoch=epoch, seed=seed, files=found.digest, share=said)
    return _reading(dataset, found, own, of, position, _class(dataset, config, settings), pool, reader)


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
    settings: Mapping[str, Any] | None = None,
    pool: ReaderProcesses | None = None,
    **reader: Any,
) -> Samples:
    """One part that was handed out: see `work_queue`."""
    if isinstance(part, DatasetPart):
        whose = f"{part.text}, the first {part.files[0] if part.files else 'none'}"
        return _dataset(dataset, found, part, whose, epoch, seed, shuffle, position, config, settings, pool)
    own = part.pieces if isinstance(part, PartGroup) else (part,)
    said = f"{own[0].path} {own[0].start}-{'' if own[0].end is None else own[0].end}"
    if shuffle:
        said += f" and {len(own) - 1} more, {_shuffled(shuffle)}"
        reader = {**reader, "shuffle": shuffle}
    of = Share(dataset=dataset.name, epoch=epoch, seed=seed, files=found.digest, share=said)
    return _reading(dataset, found, own, of, position, _class(dataset, config, settings), pool, reader)


def shuffle_of(found: Files, window: int) -> Shuffle:
    """How these files are shuffled in windows of so many samples."""
    return Shuffle(window=window, line_bytes=finding.line_bytes(found), is_remote=finding.is_remote(found))


def processes(
    dataset: Dataset, *, config: str | None = None, settings: Mapping[str, Any] | None = None
) -> ReaderProcesses | None:
    """Processes for a dataset's reader class, for all epochs and parts: ``read(..., pool=...)``. None if it has no such class.

    Reading that is given up before its end closes them; the next one then starts its own.
    """
    kind = _class(dataset, config, settings)
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
) -> checking.Seen | None:
    """Read the first lines and raise UmiakError if the declared slots are not those of the data. The same for all trainers.

    Returns what was seen; nothing where a class of the user's reads.
    """
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
    _judge(checking.problems(dataset, total, files=inputs, where=where, extra_allowed=extra_allowed))
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
    _judge(checking.problems(dataset, total, files=files, where=where, extra_allowed=extra_allowed))


def _judge(problems: tuple[Problem, ...]) -> None:
    if problems:
        raise UmiakError(*problems)


def _reading(
    dataset: Dataset,
    found: Files,
    own: tuple[Part, ...],
    of: Share,
    position: str | None,
    kind: ReaderClass | None,
    pool: ReaderProcesses | None,
    reader: dict[str, Any],
) -> Samples:
    begin = positions.from_json(position, of) if position is not None else None
    own = finding.fetched(own)
    if dataset.has_slots:
        return SlotSamples(dataset, own, of, begin, reader)
    shuffle = reader.pop("shuffle", 0)
    if reader:
        what = f"dataset {dataset.name} is read by a class of its own, which has no {', '.join(sorted(reader))}"
        raise UmiakError(Problem(code="UM-DATA-004", what=what))
    if kind is None:
        what = f"dataset {dataset.name} has neither slots nor a reader class"
        raise UmiakError(Problem(code="UM-DATA-004", what=what))
    return UserSamples(dataset, kind, found, own, of, begin, pool if isinstance(pool, Pool) else None, shuffle=shuffle)


def _dataset(
    dataset: Dataset,
    found: Files,
    part: DatasetPart,
    whose: str,
    epoch: int,
    seed: int,
    shuffle: int,
    position: str | None,
    config: str | None,
    settings: Mapping[str, Any] | None,
    pool: ReaderProcesses | None,
) -> Samples:
    """What a class that opens files itself reads of a part."""
    said = f"{whose}, {part.text}, batches of {dataset.batch_size}" + (f", {_shuffled(shuffle)}" if shuffle else "")
    of = Share(dataset=dataset.name, epoch=epoch, seed=seed, files=found.digest, share=said)
    begin = positions.from_json(position, of) if position is not None else None
    kind = _class(dataset, config, settings)
    if kind is None:
        what = f"dataset {dataset.name} has neither slots nor a reader class"
        raise UmiakError(Problem(code="UM-DATA-004", what=what))
    local = replace(part, files=tuple([each.path for each in finding.fetched(tuple(map(_whole, part.files)))]))
    own = pool if isinstance(pool, DatasetProcesses) else None
    return DatasetSamples(dataset, kind, local, of, begin, own, shuffle=shuffle)


def _shuffled(window: int) -> str:
    return f"shuffled in windows of {window}"


def _whole(path: str) -> Part:
    return Part(path=path)


def _class(dataset: Dataset, config: str | None, settings: Mapping[str, Any] | None) -> ReaderClass | None:
    if dataset.has_slots or dataset.data_converter is None:
        return None
    if dataset.reads_files:
        # PaddleRec's code gets the config as one dictionary.
        told = dotted(settings or {}, os.path.abspath(config or ""))
        return ReaderClass(file=dataset.data_converter, name=dataset.reader_class, config=config, settings=told)
    return ReaderClass(
        file=dataset.data_converter, name=dataset.reader_class, config=config, settings=dict(settings or {})
    )
