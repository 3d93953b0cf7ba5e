"""Ways in which an inference model finds rows by id. An adapter, for Paddle.

    searched(keys, rows, ids)     [ids, dim]: with one operation, of Paddle
    halved(keys, rows, ids)       the same with operations that ONNX has too

Keys are in order, for `halved` also `filled`, and rows have one more at their end, which is what an id without a row reads. Both look at ids of any shape and give a
row for each, end to end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import paddle
from numpy.typing import NDArray

from umiak.core.value import value
from umiak.train.modeling.inputs import PADDING

LARGEST = 2**63 - 1


def searched(keys: paddle.Tensor, rows: paddle.Tensor, ids: paddle.Tensor) -> paddle.Tensor:
    """With `searchsorted`."""
    last = rows.shape[0] - 1
    place = paddle.searchsorted(keys, ids)
    here = paddle.gather(keys, paddle.clip(place, max=keys.shape[0] - 1).flatten()).reshape(paddle.shape(ids))
    known = paddle.logical_and(here == ids, ids != PADDING)
    chosen = paddle.where(known, place, paddle.full_like(place, last))
    return paddle.gather(rows, chosen.flatten())


def halved(keys: paddle.Tensor, rows: paddle.Tensor, ids: paddle.Tensor) -> paddle.Tensor:
    """By halves: as many steps as the number of keys has binary digits, each a gather and a comparison."""
    flat, steps = ids.flatten(), keys.shape[0].bit_length() - 1
    place = paddle.zeros_like(flat)
    for power in reversed(range(steps)):
        further = paddle.add(place, _whole(2**power))
        is_behind = paddle.gather(keys, paddle.subtract(further, _whole(1))) < flat
        place = paddle.where(is_behind, further, place)
    known = paddle.logical_and(paddle.gather(keys, place) == flat, flat != PADDING)
    chosen = paddle.where(known, place, paddle.full_like(place, rows.shape[0] - 1))
    return paddle.gather(rows, chosen)


def _whole(number: int) -> paddle.Tensor:
    """A tensor: with a number of Python, Paddle scales, and ONNX would do that in floats."""
    return paddle.full([1], number, "int64")


def filled(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """As many as a power of two, so that no step looks behind the end."""
    more = 2 ** keys.size.bit_length() - keys.size
    return np.concatenate([keys, np.full(more, LARGEST, np.int64)])


@value
class RowLookup:
    """A way, and what it wants keys to be."""

    find: Callable[[paddle.Tensor, paddle.Tensor, paddle.Tensor], paddle.Tensor]
    prepared: Callable[[NDArray[np.int64]], NDArray[np.int64]]


SEARCHED = RowLookup(find=searched, prepared=lambda keys: keys)
HALVED = RowLookup(find=halved, prepared=filled)
