"""With a shuffle each sample is still read exactly once in an epoch, and a run that goes on gets the very batches that an unbroken one gets."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.test_reading_law import datasets, written
from tests.support.effort import effort
from tests.support.reader_helpers import joined
from umiak.core.decode import decode, encode
from umiak.data.parts import File, Part
from umiak.train import reading
from umiak.train.reading.pool import Result
from umiak.train.reading.shuffling import pieces
from umiak.train.reading.shuffling.windows import ReadPosition, Windows, cut

windows = st.integers(1, 60)


def batches(samples: reading.Samples) -> list[list[int]]:
    with samples:
        return [batch.sparse["id"][0].tolist() for batch in samples]


@given(files=datasets(), world=st.integers(1, 5), window=windows, seed=st.integers(0, 3), epoch=st.integers(0, 3))
def test_shuffled_shares_together_are_all_samples(
    files: list[tuple[str, bytes]], world: int, window: int, seed: int, epoch: int
) -> None:
    with TemporaryDirectory() as root:
        dataset = written(root, files)
        found = reading.find(dataset)
        every = sorted(joined(batches(reading.read(dataset, found))))
        options: dict[str, Any] = {"world": world, "seed": seed, "epoch": epoch, "shuffle": window}
        read = [batches(reading.read(dataset, found, rank=rank, **options)) for rank in range(world)]
        assert sorted(each for own in read for batch in own for each in batch) == every
        again = [batches(reading.read(dataset, found, rank=rank, threads=2, **options)) for rank in range(world)]
        assert again == read


@given(files=datasets(), world=st.integers(1, 3), window=windows, stop=st.integers(0, 8), data=st.data())
def test_a_shuffle_goes_on_with_the_batches_that_would_have_come(
    files: list[tuple[str, bytes]], world: int, window: int, stop: int, data: st.DataObject
) -> None:
    with TemporaryDirectory() as root:
        dataset = written(root, files)
        found = reading.find(dataset)
        options: dict[str, Any] = {
            "rank": data.draw(st.integers(0, world - 1)),
            "world": world,
            "seed": 7,
            "epoch": data.draw(st.integers(0, 2)),
            "shuffle": window,
        }
        whole = batches(reading.read(dataset, found, **options))
        with reading.read(dataset, found, **options) as samples:
            first = [batch.sparse["id"][0].tolist() for _, batch in zip(range(stop), samples, strict=False)]
            position = samples.position()
        assert first + batches(reading.read(dataset, found, position=position, **options)) == whole


@given(files=datasets(), world=st.integers(1, 3), window=windows, part_bytes=st.integers(1, 400), data=st.data())
@effort(0.5)
def test_shuffled_parts_that_are_handed_out_are_all_samples(
    files: list[tuple[str, bytes]], world: int, window: int, part_bytes: int, data: st.DataObject
) -> None:
    with TemporaryDirectory() as root:
        dataset = written(root, files)
        found = reading.find(dataset)
        every = sorted(joined(batches(reading.read(dataset, found))))
        how = reading.shuffle_of(found, window)
        parts = pieces.groups(found.files, how, world=world, part_bytes=part_bytes, seed=1, epoch=2)
        options: dict[str, Any] = {"seed": 1, "epoch": 2, "shuffle": window}
        read = [batches(reading.read_part(dataset, found, part, **options)) for part in parts]
        assert sorted(each for own in read for batch in own for each in batch) == every
        if parts:
            number = data.draw(st.integers(0, len(parts) - 1))
            with reading.read_part(dataset, found, parts[number], **options) as samples:
                first = [batch.sparse["id"][0].tolist() for _, batch in zip(range(2), samples, strict=False)]
                position = samples.position()
            rest = batches(reading.read_part(dataset, found, parts[number], position=position, **options))
            assert first + rest == read[number]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 50_000), st.booleans()), min_size=1, max_size=8),
    world=st.integers(1, 9),
    window=st.integers(1, 10_000),
    line_bytes=st.floats(1, 1000),
    is_remote=st.booleans(),
    part_bytes=st.integers(1, 5_000),
)
def test_pieces_cover_every_byte_once(
    sizes: list[tuple[int, bool]], world: int, window: int, line_bytes: float, is_remote: bool, part_bytes: int
) -> None:
    files = [File(path=f"f{at}", size=size, packed=packed) for at, (size, packed) in enumerate(sizes)]
    how = pieces.Shuffle(window=window, line_bytes=line_bytes, is_remote=is_remote)
    common: dict[str, Any] = {"world": world, "seed": 3, "epoch": 1}
    shares = [pieces.share(files, how, rank=rank, **common) for rank in range(world)]
    groups = [group.pieces for group in pieces.groups(files, how, part_bytes=part_bytes, **common)]
    for division in (shares, groups):
        assert _covered([piece for own in division for piece in own], files)


def _covered(found: list[Part], files: list[File]) -> bool:
    for file in files:
        ranges = sorted(
            (piece.start, file.size if piece.end is None else piece.end) for piece in found if piece.path == file.path
        )
        if file.packed:
            if ranges != [(0, file.size)]:
                return False
            continue
        at = 0
        for start, end in ranges:
            if start != at or end <= start:
                return False
            at = end
        if at != file.size:
            return False
    return True


@st.composite
def results(draw: st.DrawFn) -> list[Result]:
    """What reader processes make: some samples for each piece of text, of one sparse and one dense column."""
    made, number = [], 0
    for part in range(draw(st.integers(1, 5))):
        for _ in range(draw(st.integers(1, 3))):
            count = draw(st.integers(0, 9))
            lengths = np.array(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), np.int64)
            ids = np.repeat(np.arange(number, number + count), lengths)
            dense = np.arange(number, number + count, dtype=np.float32).reshape(-1, 1)
            places = np.stack([np.arange(number, number + count), np.ones(count, np.int64)], axis=1).astype(np.int64)
            made.append(Result(part=part, places=places, arrays=((ids, lengths), (dense, None))))
            number += count
    return made


def _rows(found: list[Result]) -> list[tuple[float, tuple[int, ...]]]:
    rows = []
    for result in found:
        (ids, lengths), (dense, _) = result.arrays
        assert lengths is not None
        ends = np.cumsum(lengths)
        rows += [
            (float(number), tuple(ids[end - length : end].tolist()))
            for number, length, end in zip(dense[:, 0], lengths, ends, strict=True)
        ]
    return rows


@given(given_out=results(), size=st.integers(1, 25), batch=st.integers(1, 12), stop=st.integers(0, 12))
def test_windows_of_a_reader_class_are_rebuilt_exactly(
    given_out: list[Result], size: int, batch: int, stop: int
) -> None:
    whole = _drained(Windows(iter(given_out), size=size, seed=5, begin=ReadPosition()), batch)
    assert sorted(joined(whole)) == sorted(_rows(given_out))
    windows, waiting, first = Windows(iter(given_out), size=size, seed=5, begin=ReadPosition()), [], []
    place = ReadPosition()
    for _ in range(min(stop, len(whole))):
        while sum(len(each.places) for each in waiting) < batch and (window := windows.next()) is not None:
            waiting.append(window)
        taken, waiting = cut(waiting, min(batch, sum(len(each.places) for each in waiting)))
        first.append(_rows(taken))
        place = windows.place(sum(len(each.places) for each in waiting))
    place = decode(ReadPosition, encode(place))
    behind = -1 if place.offset is None else place.offset
    left = [_behind(each, behind) for each in given_out]
    again = Windows(iter(left), size=size, seed=5, begin=place)
    window = again.next() if place.given else None
    waiting = cut([window], place.given)[1] if window is not None else []
    assert first + _drained(again, batch, waiting) == whole


def _behind(result: Result, number: int) -> Result:
    """What of a result is behind the sample of this number, which is where its line begins here."""
    left = cut([result], int((result.places[:, 0] <= number).sum()))[1]
    (ids, lengths), (dense, _) = result.arrays
    assert lengths is not None
    nothing = Result(part=result.part, places=result.places[:0], arrays=((ids[:0], lengths[:0]), (dense[:0], None)))
    return left[0] if left else nothing


def _drained(
    windows: Windows, batch: int, waiting: list[Result] | None = None
) -> list[list[tuple[float, tuple[int, ...]]]]:
    waiting, found = waiting or [], []
    while True:
        while sum(len(each.places) for each in waiting) < batch and (window := windows.next()) is not None:
            waiting.append(window)
        count = min(batch, sum(len(each.places) for each in waiting))
        if not count:
            return found
        taken, waiting = cut(waiting, count)
        found.append(_rows(taken))
