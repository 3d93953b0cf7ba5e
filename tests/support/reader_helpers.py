"""What the tests of reading for training share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from umiak.train import reading
from umiak.train.config.slots import DenseSlot
from umiak.train.config.values import Dataset

PLAIN_READER = """
    from paddlerec.core.reader import ReaderBase


    class Reader(ReaderBase):
        def init(self):
            self.base = 1000

        def generate_sample(self, line):
            def samples():
                label, price, *ids = line.split(",")
                yield [
                    ("click", [int(label)]),
                    ("price", [float(price), 0.5]),
                    ("ids", [self.base + int(each) for each in ids]),
                ]

            return samples
"""


def slots(path: Path | str, *, sparse: str = "click 1", dense: str = "", batch_size: int = 4) -> Dataset:
    """A dataset with declared slots: ``dense="price:2"``."""
    widths = [each.split(":") for each in dense.split()]
    return Dataset(
        name="train_data",
        data_path=str(path),
        batch_size=batch_size,
        sparse_slots=tuple(sparse.split()),
        dense_slots=tuple(DenseSlot(name=name, shape=(int(width),)) for name, width in widths),
    )


def user_class(
    directory: Path, data: Path | str, text: str = PLAIN_READER, *, batch_size: int = 4, processes: int = 2
) -> Dataset:
    """A dataset that is read by a class in ``directory/reader.py``."""
    (directory / "reader.py").write_text(textwrap.dedent(text).lstrip())
    return Dataset(
        name="train_data",
        data_path=str(data),
        batch_size=batch_size,
        data_converter=str(directory / "reader.py"),
        reader_processes=processes,
    )


def csv(count: int, first: int = 0) -> str:
    """Lines for `PLAIN_READER`; the label is the line's number."""
    return "".join(
        f"{number},{number}.25" + "".join(f",{each}" for each in range(number % 4)) + "\n"
        for number in range(first, first + count)
    )


def labels(samples: reading.Samples, slot: str = "click") -> list[int]:
    """All labels, in order."""
    with samples:
        return [each for batch in samples for each in batch.sparse[slot][0].tolist()]


def joined(lists: Iterable[list[int]]) -> list[int]:
    """One list after the other."""
    return list(chain.from_iterable(lists))
