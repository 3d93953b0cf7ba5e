"""Who reads what: shares, parts handed out, steps in common."""

from __future__ import annotations

import pytest

from umiak.core.decode import decode, encode
from umiak.core.problem import UmiakError
from umiak.data.parts import File, Part
from umiak.train.reading import dealing, dividing, stepping
from umiak.train.reading.batches import Arrays, empty
from umiak.train.reading.dealing import Deal, Over, Stale, Table, Wait

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


def test_parts_go_to_whoever_asks_and_come_back_from_the_dead() -> None:
    table = Table(parts=3)
    table, zero = dealing.ask(table, "0")
    table, one = dealing.ask(table, "1")
    assert (zero, one) == (Deal(part=0, ticket=1), Deal(part=1, ticket=2))
    assert dealing.ask(table, "0") == (table, zero), "an answer that was lost is given again"
    table, stale = dealing.note(table, 1, "here")
    assert stale is None
    table = dealing.lose(table, "0")
    table, _ = dealing.finish(table, 2)
    table, back = dealing.ask(table, "1")
    assert back == Deal(part=0, ticket=3, position="here")
    table, last = dealing.ask(table, "2")
    assert last == Deal(part=2, ticket=4)
    assert dealing.ask(table, "3") == (table, Wait())
    assert dealing.finish(table, 1) == (table, Stale(ticket=1)), "the dead one was only slow"
    assert dealing.note(table, 1, "further") == (table, Stale(ticket=1))
    for ticket in (3, 4):
        table, stale = dealing.finish(table, ticket)
        assert stale is None
    assert dealing.finish(table, 4) == (table, Stale(ticket=4)), "twice"
    assert dealing.ask(table, "3") == (table, Over())
    assert (table.done, table.is_over) == (3, True)


def test_a_table_is_plain_data_and_begins_anew_after_a_stop() -> None:
    table = Table(parts=3)
    for trainer in "01":
        table, _ = dealing.ask(table, trainer)
    table = dealing.begun_anew(decode(Table, encode(table)))
    assert [each.part for each in table.returned] == [0, 1]
    assert not table.held
    assert dealing.ask(table, "0")[1] == Deal(part=0, ticket=3)


# ---- steps in common


def batch(size: int) -> Arrays:
    return Arrays(size=size, dense={}, sparse={})


def test_a_trainer_that_ran_out_takes_part_without_samples() -> None:
    mine = [4, 1]
    others = [[4, 4, 4], [1, 4, 2], [0, 4, 0], [0, 0, 0]]
    told = []

    def agree(size: int) -> list[int]:
        told.append(size)
        return others[len(told) - 1]

    turns = list(stepping.in_step(iter([batch(size) for size in mine]), agree, 0))
    assert told == [4, 1, 0, 0]
    assert [turn.size for turn in turns] == [4, 1, 0]
    assert turns[2].batch is None
    assert [turn.total for turn in turns] == [12, 7, 4]
    assert [turn.share for turn in turns] == [4 / 12, 1 / 7, 0.0]
    assert turns[1].weight == pytest.approx(3 / 7)


def test_an_iterator_that_ended_is_not_asked_again() -> None:
    def once():
        yield batch(1)
        yield None

    answers = iter([(1, 1), (0, 1), (0, 1), (0, 0)])
    turns = list(stepping.in_step(once(), lambda size: next(answers), 0))
    assert [turn.batch and turn.batch.size for turn in turns] == [1, None, None]


def test_steps_that_are_known_beforehand() -> None:
    assert stepping.steps_in_common([10, 21, 0], 10) == 3
    assert stepping.steps_in_common([], 10) == 0


def test_a_batch_without_samples_has_all_slots() -> None:
    made = empty(["click"], {"price": 3})
    assert made.matrix(["click"]).shape == (0, 1)
    assert made.dense["price"].shape == (0, 3)
