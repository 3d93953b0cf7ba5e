"""Fields of samples that have no names: what readers of PaddleRec 1.8.5 give, as arrays and sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from umiak.train.config.paddlerec import directory
from umiak.train.reading.datasets import places
from umiak.train.reading.datasets.stacking import Unequal


def test_fields_are_arrays_or_rows_with_lengths() -> None:
    words, price, label = places.stacked([[[1, 2], [0.5, 1], 1], [[3], [0.25, 2], 0]])
    assert words["rows"].tolist() == [1, 2, 3]
    assert [each.tolist() for each in words["lengths"]] == [[2, 1]]
    assert price.tolist() == [[0.5, 1.0], [0.25, 2.0]]
    assert label.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("items", "levels", "rows", "offsets"),
    [
        ([[1, 2], [3]], 1, [1, 2, 3], [[0, 2, 3]]),
        ([[1, 2], [3, 4]], 1, [1, 2, 3, 4], [[0, 2, 4]]),
        ([[[1], [2, 3]], [[4]]], 2, [1, 2, 3, 4], [[0, 2, 3], [0, 1, 3, 4]]),
        ([[[1, 2], [3, 4]], [[5, 6]]], 1, [[1, 2], [3, 4], [5, 6]], [[0, 2, 3]]),
        ([np.array([[1, 2], [3, 4]]), np.array([[5, 6]])], 1, [[1, 2], [3, 4], [5, 6]], [[0, 2, 3]]),
        ([["7"], ["8", "9"]], 1, [7, 8, 9], [[0, 1, 3]]),
        ([[], [1]], 1, [1], [[0, 0, 1]]),
    ],
)
def test_sequences_have_as_many_levels_as_the_input(
    items: list[Any], levels: int, rows: list[Any], offsets: list[list[int]]
) -> None:
    found, levels_found = places.sequences(places.field(items), levels)
    assert found.tolist() == rows
    assert levels_found == offsets


def test_what_is_no_number_is_told_with_its_sample() -> None:
    with pytest.raises(Unequal, match="field 1 can't be made an array") as told:
        places.stacked([[1, [2]], [1, ["word"]]])
    assert told.value.sample == 1
    with pytest.raises(Unequal, match="has 1 fields, and the first sample of the batch 2"):
        places.stacked([[1, 2], [1]])
    with pytest.raises(ValueError, match="1 levels of sequences instead of 2"):
        places.sequences(places.field([[1], [2, 3]]), 2)
    with pytest.raises(ValueError, match="1 to 2 values"):
        places.whole(places.field([[1], [2, 3]]))


def test_models_are_found_by_the_class_that_they_have() -> None:
    old = "from paddlerec.core.model import ModelBase\nclass Model(ModelBase):\n    pass\n"
    found = directory.directory(
        {}, {"a.py": old, "b.py": old + "x = 'dataset.batch_size'\n", "c.py": "class Model:\n    pass\n"}
    )
    assert found.old == ("a.py", "b.py")
    assert found.old_full_batches == ("b.py",)
