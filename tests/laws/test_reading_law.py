"""Each sample is read exactly once in an epoch, no matter who reads it and whatever happens meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import PATIENCE_S
from tests.support.effort import effort
from tests.support.reader_helpers import joined
from tests.support.slot_helpers import packed
from umiak.core.decode import decode, encode
from umiak.data.parts import Part
from umiak.train import reading
from umiak.train.config.values import Dataset
from umiak.train.reading import dividing, lines
from umiak.train.reading.batches import Step
from umiak.train.run.feeds import LockstepFeed, StopOrSave
from umiak.train.run.stopwatch import Stopwatch


@st.composite
def datasets(draw: st.DrawFn) -> list[tuple[str, bytes]]:
    """Files of numbered lines of uneven length, some compressed, some empty, some without a last newline."""
    number = 0
    files = []
    for at in range(draw(st.integers(1, 5))):
        made = []
        for _ in range(draw(st.integers(0, 30))):
            made.append(f"id:{number}" + " pad:1" * draw(st.integers(0, 5)))
            number += 1
        text = "\n".join(made) + ("\n" if made and draw(st.booleans()) else "")
        files.append(
            (
                f"{draw(st.sampled_from('abc'))}{at}",
                packed(text.encode(), draw(st.sampled_from(["plain", "plain", "gzip", "zstd", "bzip2", "xz"]))),
            )
        )
    return files


def written(root: str, files: list[tuple[str, bytes]]) -> Dataset:
    for name, content in files:
        Path(root, name).write_bytes(content)
    return Dataset(name="d", data_path=root, batch_size=7, sparse_slots=("id",))


def ids(samples: reading.Samples) -> list[int]:
    with samples:
        return [each for batch in samples for each in batch.sparse["id"][0].tolist()]


@given(files=datasets(), world=st.integers(1, 9), epoch=st.integers(0, 3), shuffled=st.booleans())
def test_shares_together_are_all_samples(
    files: list[tuple[str, bytes]], world: int, epoch: int, shuffled: bool
) -> None:
    with TemporaryDirectory() as root:
        dataset = written(root, files)
        found = reading.find(dataset)
        every = ids(reading.read(dataset, found))
        assert sorted(every) == list(range(len(every)))
        options = {"world": world, "epoch": epoch, "shuffle_files": shuffled}
        read = [ids(reading.read(dataset, found, rank=rank, **options)) for rank in range(world)]
        assert sorted(joined(read)) == sorted(every)
        if not shuffled:
            assert joined(read) == every


@given(files=datasets(), piece_bytes=st.integers(1, 200), chunk_bytes=st.integers(1, 300))
@effort(0.5)
def test_lines_read_in_python_are_those_of_the_native_reader(
    files: list[tuple[str, bytes]], piece_bytes: int, chunk_bytes: int
) -> None:
    with TemporaryDirectory() as root:
        dataset = written(root, files)
        found = reading.find(dataset)
        parts = dividing.hand(found.files, world=1, piece_bytes=piece_bytes)
        for part in parts:
            native = ids(reading.read_part(dataset, found, part))
            chunks = list(lines.chunks((part,), chunk_bytes=chunk_bytes))
            text = b"".join(chunk.text for chunk in chunks).decode()
            assert [int(line.split()[0][3:]) for line in text.splitlines()] == native
            for chunk in chunks[1:]:
                again = list(lines.chunks((part,), offset=chunk.offset, chunk_bytes=chunk_bytes))
                assert b"".join(each.text for each in again) == text.encode()[chunk.offset - chunks[0].offset :]
        assert sorted(each for part in parts for each in ids(reading.read_part(dataset, found, part))) == sorted(
            ids(reading.read(dataset, found))
        )


@given(files=datasets(), world=st.integers(1, 4), stop=st.integers(0, 6), data=st.data())
@effort(0.5)
def test_a_position_goes_on_with_what_was_not_given_out(
    files: list[tuple[str, bytes]], world: int, stop: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, world - 1))
    with TemporaryDirectory() as root:
        dataset = written(root, files)
        found = reading.find(dataset)
        whole = ids(reading.read(dataset, found, rank=rank, world=world))
        first = []
        with reading.read(dataset, found, rank=rank, world=world) as samples:
            for _, batch in zip(range(stop), samples, strict=False):
                first += batch.sparse["id"][0].tolist()
            position = samples.position()
            assert samples.given == len(first)
        rest = ids(reading.read(dataset, found, rank=rank, world=world, position=position))
        assert first + rest == whole


class Meeting:
    """Trainers in threads that tell one another something."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.barrier = threading.Barrier(world)
        self.said: list[dict[str, Any]] = [{}] * world


class Seat:
    """What `LockstepFeed` needs of `umiak.train.run.peers.Peers`."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting = meeting
        self.rank = rank

    def tell(self, message: dict[str, Any], name: str) -> list[dict[str, Any]]:
        assert name == "block"
        self.meeting.said[self.rank] = message
        self.meeting.barrier.wait(PATIENCE_S)
        every = list(self.meeting.said)
        self.meeting.barrier.wait(PATIENCE_S)
        return every


@given(files=datasets(), world=st.integers(1, 4))
@effort(0.3)
def test_uneven_ends_neither_hang_nor_drop_samples(files: list[tuple[str, bytes]], world: int) -> None:
    with TemporaryDirectory() as root:
        dataset = written(root, files)
        found = reading.find(dataset)
        meeting = Meeting(world)

        def train(rank: int) -> list[tuple[list[int], float, int]]:
            """For each step this trainer's ids, its share, and the samples of all."""
            with reading.read(dataset, found, rank=rank, world=world) as samples:
                steps = LockstepFeed(samples, Seat(meeting, rank), Stopwatch()).steps(StopOrSave)  # type: ignore[arg-type]
                return [
                    (step.batch.sparse["id"][0].tolist() if step.batch else [], step.share, step.total)
                    for step in steps
                    if isinstance(step, Step)
                ]

        with ThreadPoolExecutor(world) as threads:
            trained = list(threads.map(train, range(world)))
        every = ids(reading.read(dataset, found))
    assert joined(each for trainer in trained for each, _, _ in trainer) == every
    counts = [sum(len(each) for each, _, _ in trainer) for trainer in trained]
    assert {len(trainer) for trainer in trained} == {max(-(-count // dataset.batch_size) for count in counts)}
    for step in zip(*trained, strict=True):
        assert sum(share for _, share, _ in step) == pytest.approx(1)
        means = sum(share * sum(each) / len(each) for each, share, _ in step if each)
        assert means == pytest.approx(sum(sum(each) for each, _, _ in step) / step[0][2])


def test_a_part_is_a_value_that_can_be_sent() -> None:
    part = Part(path="a", start=3, end=9)
    assert decode(Part, encode(part)) == part
