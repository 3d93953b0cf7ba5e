"""The cache of parsed files: it is used only if it is whole and belongs to its file, and gives what the text gives."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.support import chance
from tests.support.slot_helpers import CRITEO_DENSE, CRITEO_SPARSE, criteo, packed, rows
from umiak import data

SLOTS = {"sparse": CRITEO_SPARSE, "dense": CRITEO_DENSE}


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_bytes(criteo(300))
    return path


def caches(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.endswith(".slots"))


def reasons(reader: data.SlotReader) -> list[str]:
    return [why for _, why in reader.statistics().caches_made]


def test_the_second_time_the_cache_is_read(train: Path) -> None:
    text = rows(data.SlotReader(train, **SLOTS))
    first = data.SlotReader(train, **SLOTS, cache=True)
    assert rows(first) == text
    assert reasons(first) == ["there was none"]
    (cache,) = caches(train.parent)
    assert cache.name.startswith(".train.txt.")
    made = cache.stat().st_mtime_ns
    second = data.SlotReader(train, **SLOTS, cache=True, batch_size=7)
    assert rows(second) == text
    assert reasons(second) == []
    assert second.statistics().cache_bytes > 300 * 26 * 8
    assert cache.stat().st_mtime_ns == made


def test_a_directory_of_caches(train: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.txt").write_bytes(criteo(10, seed=2))
    files = [train, other / "train.txt"]
    place = tmp_path / "deep" / "caches"
    whole = rows(data.SlotReader(files, **SLOTS))
    assert rows(data.SlotReader(files, **SLOTS, cache=place)) == whole
    assert rows(data.SlotReader(files, **SLOTS, cache=place)) == whole
    assert len(caches(place)) == 2
    assert len(list(place.iterdir())) == 2


def test_each_set_of_slots_and_each_part_has_a_cache_of_its_own(train: Path) -> None:
    for slots in (SLOTS, {"sparse": ["click"]}, {"sparse": ["click"], "padding": 3}):
        expected = rows(data.SlotReader(train, **slots))
        for _ in range(2):
            assert rows(data.SlotReader(train, **slots, cache=True)) == expected
    halves = [part for share in data.split([train], 2) for part in share]
    assert rows(data.SlotReader(halves, **SLOTS, cache=True)) == rows(data.SlotReader(train, **SLOTS))
    assert len(caches(train.parent)) == 5


def test_a_changed_file_has_its_cache_made_again(train: Path) -> None:
    list(data.SlotReader(train, **SLOTS, cache=True))
    stat = train.stat()
    changed = train.read_bytes().replace(b"click:1", b"click:0")
    train.write_bytes(changed)
    reader = data.SlotReader(train, **SLOTS, cache=True)
    assert rows(reader) == rows(data.SlotReader(changed, **SLOTS))
    assert reasons(reader) == ["its file has changed"]
    # The same size and time, and other bytes at its end.
    train.write_bytes(changed[:-2] + b"7\n")
    os.utime(train, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    os.utime(train, ns=(train.stat().st_atime_ns, stat.st_mtime_ns))
    assert rows(data.SlotReader(train, **SLOTS, cache=True)) == rows(data.SlotReader(changed[:-2] + b"7\n", **SLOTS))


def test_a_torn_or_damaged_cache_is_never_trusted(train: Path) -> None:
    train.write_bytes(criteo(5) + b"click:1 1:5 1:6 1:7\n")
    expected = rows(data.SlotReader(train, **SLOTS))
    list(data.SlotReader(train, **SLOTS, cache=True))
    (cache,) = caches(train.parent)
    whole = cache.read_bytes()
    draw = chance()
    damages = [whole[:length] for length in (0, 1, 8, 17, 100, len(whole) // 2, len(whole) - 33, len(whole) - 1)]
    damages += [whole + b"x", b"UMSLOTS\x02" + whole[8:], bytes(len(whole)), b"something else entirely"]
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        damages.append(bytes(damaged))
    unnoticed = 0
    for damaged in damages:
        cache.write_bytes(damaged)
        reader = data.SlotReader(train, **SLOTS, cache=True)
        assert rows(reader) == expected
        unnoticed += not reasons(reader)
        assert not reasons(reader) or cache.read_bytes() == whole
    # Bytes between the blocks mean nothing.
    assert unnoticed < 10


def test_damage_in_the_middle_is_noticed_in_the_middle(train: Path) -> None:
    train.write_bytes(criteo(9000))
    list(data.SlotReader(train, **SLOTS, cache=True))
    (cache,) = caches(train.parent)
    damaged = bytearray(cache.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    for shuffle in (0, 100):
        expected = rows(data.SlotReader(train, **SLOTS, cache=True, shuffle=shuffle))
        cache.write_bytes(damaged)
        reader = data.SlotReader(train, **SLOTS, cache=True, shuffle=shuffle)
        assert rows(reader) == expected
        assert reasons(reader) == ["a block of it is damaged"]


def test_nothing_half_made_is_left_behind(train: Path) -> None:
    train.write_bytes(criteo(100) + b"bad\n")
    with pytest.raises(data.ReadError) as caught:
        list(data.SlotReader(train, **SLOTS, cache=True))
    assert caught.value.line == 101
    assert list(train.parent.iterdir()) == [train]


def test_bad_lines_count_with_a_cache_as_without(train: Path) -> None:
    train.write_bytes(criteo(10) + b"bad\nclick:1 x:1\n\n")
    for _ in range(2):
        reader = data.SlotReader(train, **SLOTS, cache=True, bad_lines=1)
        assert len(rows(reader)) == 11
        seen = reader.statistics()
        assert seen.bad_by_reason == {"no_colon": 1}
        assert [line.line for line in seen.bad_examples] == [11]
        assert seen.blank_lines == 1
        assert seen.samples == 11
        assert seen.missing["1"] == 1
        assert seen.unknown["x"] == data.SlotTimes(values=1, samples=1)
    with pytest.raises(data.ReadError) as caught:
        list(data.SlotReader(train, **SLOTS, cache=True))
    assert caught.value.line == 11


def test_shuffling_goes_over_blocks_and_windows(train: Path) -> None:
    train.write_bytes(b"".join(b"click:%d\n" % number for number in range(20_000)))
    slots = {"sparse": ["click"], "cache": True, "shuffle": 500, "batch_size": 1000}
    orders = []
    for epoch in (0, 1, 0):
        batches = list(data.SlotReader(train, **slots, epoch=epoch, threads=1 + epoch))
        orders.append([number for batch in batches for number in batch.sparse["click"][0].tolist()])
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == list(range(20_000))
    # Blocks of 4,096 samples come in another order.
    assert [order[0] // 4096 for order in orders[:2]] != [0, 0]


def test_compressed_files_have_caches_too(tmp_path: Path) -> None:
    path = tmp_path / "train.zst"
    path.write_bytes(packed(criteo(50), "zstd", 3))
    expected = rows(data.SlotReader(path, **SLOTS))
    for _ in range(2):
        assert rows(data.SlotReader(path, **SLOTS, cache=tmp_path / "cache", threads=2)) == expected


def test_two_that_make_the_same_cache_do_not_disturb_each_other(train: Path) -> None:
    expected = rows(data.SlotReader(train, **SLOTS))
    found: list[bool] = []

    def make() -> None:
        found.append(rows(data.SlotReader(train, **SLOTS, cache=True)) == expected)

    makers = [threading.Thread(target=make) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert found == [True] * 4
    assert len(list(train.parent.iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_an_error(train: Path) -> None:
    with pytest.raises(data.ReadError) as caught:
        list(data.SlotReader(train, **SLOTS, cache=train / "impossible"))
    assert caught.value.problems[0].code == "UM-DATA-002"


def test_a_changed_number_of_samples_makes_a_position_void(train: Path) -> None:
    reader = data.SlotReader(train, **SLOTS, cache=True, batch_size=200)
    next(reader)
    train.write_bytes(criteo(100))
    with pytest.raises(data.ReadError, match="it has 100 samples, and 200 were read before"):
        list(data.SlotReader(train, **SLOTS, cache=True, position=reader.position()))
