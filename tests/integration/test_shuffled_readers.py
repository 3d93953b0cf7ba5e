"""Reader classes of users in real processes, with a shuffle: every sample once, another order in each epoch, and the same batches after a stop."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_reading_datasets import MAP_STYLE, READER, made
from tests.support.reader_helpers import csv, user_class
from umiak.train import reading
from umiak.train.config.values import Dataset, DivideBy
from umiak.train.reading import lines
from umiak.train.reading.batches import StackedBatch


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 100)


def batches(samples: reading.Samples) -> list[list[int]]:
    """Numbers that tell samples apart."""
    with samples:
        return [_numbers(batch) for batch in samples]


def _numbers(batch: Any) -> list[int]:
    if isinstance(batch, StackedBatch):
        return [int(each) for each in batch.arrays[0].reshape(-1)]
    clicks: list[int] = batch.sparse["click"][0].tolist()
    assert batch.dense["price"][:, 0].tolist() == [each + 0.25 for each in clicks], "slots of one sample stay together"
    return clicks


def _check(dataset: Dataset, found: reading.Files) -> None:
    pool = reading.processes(dataset)
    assert pool is not None
    try:
        every = sorted(itertools.chain(*batches(reading.read(dataset, found, pool=pool))))
        assert len(set(every)) == len(every)
        common: dict[str, Any] = {"seed": 5, "shuffle": 10, "pool": pool}
        orders = [batches(reading.read(dataset, found, epoch=epoch, **common)) for epoch in range(2)]
        assert all(sorted(itertools.chain(*order)) == every for order in orders)
        assert orders[0] != orders[1]
        assert every not in [list(itertools.chain(*order)) for order in orders]
        shares = [batches(reading.read(dataset, found, rank=rank, world=2, **common)) for rank in range(2)]
        assert sorted(itertools.chain(*itertools.chain(*shares))) == every
        with reading.read(dataset, found, rank=1, world=2, **common) as samples:
            first = [_numbers(batch) for batch in itertools.islice(samples, 2)]
            position = samples.position()
        common["pool"] = None
        assert first + batches(reading.read(dataset, found, rank=1, world=2, position=position, **common)) == shares[1]
    finally:
        pool.close()


def test_classes_that_are_given_lines(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(3):
        (data / f"part-{number}").write_text(csv(15, 15 * number))
    dataset = user_class(tmp_path, data)
    _check(dataset, reading.find(dataset))


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("divide_by", [DivideBy.FILES, DivideBy.SAMPLES])
@pytest.mark.parametrize("reader", [READER, MAP_STYLE.replace("random.shuffle(self.numbers)", "")])
def test_classes_that_open_files(tmp_path: Path, reader: str, divide_by: DivideBy, processes: int) -> None:
    _check(*made(tmp_path, reader, files=3, lines=12, reader_processes=processes, divide_by=divide_by))


def test_classes_that_give_whole_batches(tmp_path: Path) -> None:
    reader = """
import numpy as np

class RecDataset:
    def __init__(self, file_list, config):
        self.file_list = file_list

    def __iter__(self):
        for file in self.file_list:
            numbers = np.loadtxt(file, dtype=np.int64)
            for at in range(0, len(numbers), 5):
                yield [numbers[at : at + 5]]
"""
    _check(*made(tmp_path, reader, files=3, lines=20, ready_batches=True))


def test_sorted_data_comes_out_mixed(tmp_path: Path) -> None:
    """Though a window is a small part of it: it has samples from many places."""
    dataset, found = made(tmp_path, MAP_STYLE.replace("random.shuffle(self.numbers)", ""), lines=2000)
    first = batches(reading.read(dataset, found, shuffle=50))[:100]
    upper = sum(each >= 1000 for batch in first for each in batch)
    assert 100 < upper < 300


def test_a_sample_that_does_not_fit_is_told_by_its_own_number(tmp_path: Path) -> None:
    reader = READER.replace("np.array([number * self.scale])", "np.zeros(2 if number == 7 else 1)")
    dataset, found = made(tmp_path, reader)
    with pytest.raises(reading.UserCodeError, match=r"sample \d+ can't be stacked") as raised:
        batches(reading.read(dataset, found, shuffle=10))
    assert raised.value.file is None
