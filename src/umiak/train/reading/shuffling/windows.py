"""What reader processes make of lines, permuted in windows. An adapter: it reads on when a window is empty.

    windows = Windows(pool.read(chunks, own, columns), size=100_000, seed=7, begin=place)
    result = windows.next()         all samples of the next window, in another order; None behind the last one
    windows.place(left)             where it stands when so many samples of that window were not given out

A window is read, permuted as the native reader does it, and given out, then the next. So the state is where a window begins, its number and how many of its samples were
given out, and it can be rebuilt exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import umiak_native
from numpy.typing import NDArray

from umiak.core.value import replace, value
from umiak.train.reading.pool import Result

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray


@value
class ReadPosition:
    """The line of the last sample that was given out; with a shuffle, of the last one before the window that is given out."""

    part: int = 0
    offset: int | None = None
    """Where it begins, in the uncompressed text; None: nothing was given out."""
    samples: int = 0
    """How many of its samples were given out."""
    file: str | None = None
    line: int | None = None
    """For people; the first line is 1."""
    window: int = 0
    """The number of the window that begins there."""
    given: int = 0
    """How many samples of it were given out."""


class Windows:
    """Windows of results, one after the other."""

    def __init__(self, results: Iterator[Result], *, size: int, seed: int, begin: ReadPosition) -> None:
        """``begin``: where results begin; samples of its window that were given out come again."""
        self._results = results
        self._size = size
        self._seed = seed
        self._begin = begin
        self._end = replace(begin, given=0)
        self._number = begin.window - 1
        self._held = 0
        self._over: list[Result] = []

    def next(self) -> Result | None:
        """The next window."""
        waiting = sum(len(each.places) for each in self._over)
        while waiting < self._size and (result := next(self._results, None)) is not None:
            self._over.append(result)
            waiting += len(result.places)
        taken, self._over = cut(self._over, min(waiting, self._size))
        if not taken:
            return None
        self._number += 1
        self._held = sum(len(each.places) for each in taken)
        self._begin = replace(self._end, window=self._number)
        self._end = replace(place_behind(taken), window=self._number + 1)
        order = umiak_native.permutation(self._seed, self._number, self._held)
        return permuted(taken, order)

    def place(self, left: int) -> ReadPosition:
        """Where to go on, if so many samples of the last window are left."""
        return replace(self._begin, given=self._held - left)


def place_behind(taken: list[Result]) -> ReadPosition:
    """Behind the last sample of some results."""
    offset, samples = taken[-1].places[-1].tolist()
    return ReadPosition(part=taken[-1].part, offset=offset, samples=samples)


def cut(waiting: list[Result], size: int) -> tuple[list[Result], list[Result]]:
    """The first so many samples, and the others."""
    taken: list[Result] = []
    for number, result in enumerate(waiting):
        count = len(result.places)
        if count > size:
            head, tail = _halves(result, size)
            return [*taken, *([head] if size else [])], [tail, *waiting[number + 1 :]]
        if count:
            taken.append(result)
        size -= count
    return taken, []


def permuted(taken: list[Result], order: AnyArray) -> Result:
    """Samples of several results in another order, as one; places stay in that of the lines."""
    arrays: list[tuple[AnyArray, NDArray[np.int64] | None]] = []
    for at in range(len(taken[0].arrays)):
        values = np.concatenate([each.arrays[at][0] for each in taken])
        if taken[0].arrays[at][1] is None:
            arrays.append((values[order], None))
            continue
        lengths = np.concatenate([lengths_of(each, at) for each in taken])
        begins = np.cumsum(lengths) - lengths
        own = lengths[order]
        # Of each value in the new order, where it was: its sample's first place, and how far behind it.
        behind = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
        arrays.append((values[np.repeat(begins[order], own) + behind], own))
    places = np.concatenate([each.places for each in taken])
    return Result(part=taken[-1].part, places=places, arrays=tuple(arrays))


def lengths_of(result: Result, at: int) -> NDArray[np.int64]:
    """How many values each sample has in a column that has any number."""
    lengths = result.arrays[at][1]
    assert lengths is not None
    return lengths


def _halves(result: Result, size: int) -> tuple[Result, Result]:
    head, tail = [], []
    for values, lengths in result.arrays:
        at = size if lengths is None else int(lengths[:size].sum())
        head.append((values[:at], None if lengths is None else lengths[:size]))
        tail.append((values[at:], None if lengths is None else lengths[size:]))
    return (
        Result(part=result.part, places=result.places[:size], arrays=tuple(head)),
        Result(part=result.part, places=result.places[size:], arrays=tuple(tail)),
    )
