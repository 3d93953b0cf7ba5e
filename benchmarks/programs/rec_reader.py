"""A reader in the form that PaddleRec 2 wants, for slot text of `benchmarks.clicks`: an array for each slot of each line. An adapter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from paddle.io import IterableDataset

SLOTS = ["click", *map(str, range(1, 27))]


class RecDataset(IterableDataset):  # type: ignore[misc]
    """Label, 26 ids, 13 numbers."""

    def __init__(self, file_list: list[str], config: Any) -> None:
        super().__init__()
        self.file_list = file_list
        self.config = config

    def __iter__(self) -> Iterator[list[Any]]:
        for path in self.file_list:
            with open(path) as lines:
                for line in lines:
                    found: dict[str, list[int]] = {}
                    dense: list[float] = []
                    for token in line.split():
                        name, value = token.split(":")
                        if name == "dense_feature":
                            dense.append(float(value))
                        else:
                            found.setdefault(name, []).append(int(value))
                    fields = [np.array(found.get(name, [0])).astype("int64") for name in SLOTS]
                    yield [*fields, np.array(dense).astype("float32")]
