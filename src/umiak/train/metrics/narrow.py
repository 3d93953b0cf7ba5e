"""Vectors of float64 for a carrier that adds float32, such as the tables of parameter servers. A decider.

    wide(sum of narrow(vector) over trainers) == sum of vectors

Added as they are, counts in float32 stop growing at 2^24, and a click-through job sees more than that in an hour. So each number is cut
into six pieces of 12 bits, each a multiple of a power of two of its own. Up to 4096 of a kind add up in float32 without rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.train.metrics.batch import misfit

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST = 4096
"""So many vectors may be added."""

_UNITS = tuple(2.0**power for power in (36, 24, 12, 0, -12, -24))


def narrow(vector: NDArray[np.float64]) -> NDArray[np.float32]:
    """Six times as many numbers; whole ones below 2^48 exactly, others to 2^-24."""
    if not (np.abs(vector) < 2.0**48).all():
        raise misfit("numbers of 2^48 and more, and such as are not finite, can't be cut into pieces of float32")
    pieces = np.empty((len(_UNITS), len(vector)), np.float32)
    rest = vector.copy()
    for piece, unit in zip(pieces, _UNITS, strict=True):
        part = np.trunc(rest / unit) * unit
        piece[:] = part
        rest -= part
    return pieces.reshape(-1)


def wide(pieces: NDArray[np.float32]) -> NDArray[np.float64]:
    """The numbers whose pieces these are, or sums of them."""
    total: NDArray[np.float64] = pieces.reshape(len(_UNITS), -1).sum(axis=0, dtype=np.float64)
    return total
