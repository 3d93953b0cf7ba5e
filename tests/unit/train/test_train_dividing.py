"""Who reads what: shares, parts handed out, steps in common."""

from __future__ import annotations

import pytest

from umiak.core.problem import UmiakError
from umiak.data.parts import File, Part
from umiak.train.reading import dividing
from umiak.train.reading.batches import Step, empty
from umiak.train.reading.dividing import Holder
from umiak.train.reading.work_queue import WorkQueue

FILES = (
    File(path="a", size=100),
    File(path="b", size=10, packed=True),
    File(path="c", size=0),
    File(path="d", size=50),
)


def test_a_share_is_a_range_of_bytes() -> None:
    assert dividing.share(FILES, rank=0, world=1) == (Part(path="a"), Part(path="b"), Part(path="d"))
    assert dividing.share(FILES, rank=0, world=2) == (Part(path="a", start=0, end=95),)
    assert dividing.share(FILES, rank=1, world=2) == (
        Part(path="a", start=95, end=100),
        Part(path="b"),
        Part(path="d"),
    )
    with pytest.raises(UmiakError, match="no trainer 2 of 2"):
        dividing.share(FILES, rank=2, world=2)


def test_parts_that_are_handed_out_cover_everything() -> None:
    assert dividing.hand(FILES, world=2, piece_bytes=40) == (
        Part(path="a", start=0, end=33),
        Part(path="a", start=33, end=66),
        Part(path="a", start=66, end=100),
        Part(path="b"),
        Part(path="d", start=0, end=25),
        Part(path="d", start=25, end=50),
    )
    large = (File(path="a", size=1 << 30),)
    assert len(dividing.hand(large, world=2)) == 64  # of 16 MiB
    assert len(dividing.hand(large, world=8)) == 128  # 16 for each
    assert dividing.hand((File(path="a", size=1000),), world=8) == (Part(path="a"),)


def test_the_order_of_files_is_shuffled_by_seed_and_epoch() -> None:
    files = tuple(File(path=str(number), size=1) for number in range(20))
    assert dividing.in_order(files) == files
    first = dividing.in_order(files, shuffled=True, seed=1, epoch=0)
    assert sorted(first, key=lambda file: int(file.path)) == list(files)
    assert first == dividing.in_order(files, shuffled=True, seed=1, epoch=0)
    assert len({first, *(dividing.in_order(files, shuffled=True, seed=1, epoch=epoch) for epoch in (1, 2))}) == 3


# ---- parts on demand


def place(part: int | None, position: str | None, drawn: int) -> dict[str, object]:
    return {"part": part, "position": position, "drawn": drawn}


def test_what_was_begun_comes_first_after_a_stop() -> None:
    queue = WorkQueue(trainers=3)
    assert [queue.part(number) for number in range(3)] == [(0, None), (1, None), (2, None)]
    queue = queue.after([place(0, "here", 1), place(None, None, 3), place(1, "there", 2)])
    assert queue == WorkQueue(leftovers=((0, "here"), (1, "there")), begun=3, trainers=3)
    assert [queue.part(number) for number in range(4)] == [(0, "here"), (1, "there"), (3, None), (4, None)]
    # Stopped again before everything that was left was drawn.
    assert queue.after([place(0, "further", 1)]) == WorkQueue(
        leftovers=((0, "further"), (1, "there")), begun=3, trainers=3
    )


# ---- steps in common


def test_a_trainer_counts_by_its_share() -> None:
    step = Step(batch=None, sizes=(1, 4, 2), rank=0)
    assert (step.size, step.total, step.share) == (1, 7, 1 / 7)


def test_a_batch_without_samples_has_all_slots() -> None:
    made = empty(["click"], {"price": 3})
    assert made.matrix(["click"]).shape == (0, 1)
    assert made.dense["price"].shape == (0, 3)


class TestDataOfItsOwn:
    """Trainers 0 and 2 are on one node, 1 on another, 3 on a third with copies of the first one's files."""

    TOLD = (
        Holder(held="a", digest="x", size=10),
        Holder(held="b", digest="y", size=7),
        Holder(held="a", digest="x", size=10),
        Holder(held="c", digest="x", size=10),
    )

    def test_trainers_divide_what_they_see(self) -> None:
        found = [dividing.held(self.TOLD, rank) for rank in range(4)]
        assert [(each.rank, each.world, each.first, each.number) for each in found] == [
            (0, 2, 0, 0),
            (0, 1, 1, 1),
            (1, 2, 0, 0),
            (0, 1, 3, 2),
        ]

    def test_everybody_knows_all_data(self) -> None:
        for rank in range(4):
            found = dividing.held(self.TOLD, rank)
            assert (found.size, found.digests, found.copies) == (27, ("x", "y", "x"), 2)
