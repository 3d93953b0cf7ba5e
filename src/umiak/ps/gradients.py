"""Gradients as pushes have them: those of dense parameters that are not there, and rows that count. A decider.

A parameter without a gradient in a step stays as it is: it does not decay, its moments do not move it, and the step does not count for
it. A gradient of zeros would do all of that, so among the numbers of a push a parameter without one has a mark in each of its places:
a NaN with bits that no computation gives (`native/src/table/absent.rs`).

    Missing.ABSENT      no gradient
    Missing.CLEARED     zeros stand where the last one was, as behind Paddle's `clear_grad()`: zeros for a parameter that has ever learned
    Missing.FROZEN      no gradient, and nobody wants one: not even sent where a whole table is so
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Keys = NDArray[np.uint64] | NDArray[np.int64]
    Gradients = Floats | list[Floats]
    """Of all elements of a dense table: one array, or several that follow each other."""
    Push = tuple[int, Keys, Floats]
    """Gradients of rows: table, keys, rows."""
    Absent = Literal["initial", "zeros"]
    """What a row that is only read, and is not there, reads as: what it would begin with, or zeros."""


STATISTICS = 3
"""Columns before the gradients of a pushed row with an accessor: slot, show, click."""


class Missing(enum.IntEnum):
    """Why there is no gradient; the value is the bits of its mark."""

    ABSENT = 0x7FC05AB1
    CLEARED = 0x7FC05AB2
    FROZEN = -1

    @property
    def bits(self) -> int:
        return int(Missing.ABSENT if self is Missing.FROZEN else self)


class Marks:
    """Arrays of marks of any length, each kind in memory that is made once."""

    def __init__(self) -> None:
        self._rooms: dict[int, Floats] = {}

    def of(self, missing: Missing, size: int) -> Floats:
        room = self._rooms.get(missing.bits)
        if room is None or room.size < size:
            room = self._rooms[missing.bits] = np.full(size, missing.bits, np.uint32).view(np.float32)
        return room[:size]


def mark_of(piece: Floats) -> Missing | None:
    """What a parameter's numbers in a push say; None if they are a gradient."""
    if not piece.size:
        return None
    bits = int(piece.reshape(-1)[:1].view(np.uint32)[0])
    return Missing(bits) if bits in (Missing.ABSENT, Missing.CLEARED) else None


def joined(gradients: Floats | list[Floats], scale: float, *, out: Floats | None = None) -> Floats:
    """A copy of all pieces end to end, times ``scale``; marks stay marks."""
    pieces = [piece.reshape(-1) for piece in (gradients if isinstance(gradients, list) else [gradients])]
    whole: Floats = np.concatenate(pieces) if out is None else np.concatenate(pieces, out=out)
    if scale == 1.0:
        return whole
    if not any(mark_of(piece) for piece in pieces):
        whole *= np.float32(scale)
        return whole
    behind = 0
    for piece in pieces:
        place = slice(behind, behind + piece.size)
        behind = place.stop
        if mark_of(piece) is None:
            whole[place] *= np.float32(scale)
    return whole


def summed(parts: Sequence[Floats]) -> Floats:
    """The sum of one parameter's gradients. Those that are not there count nothing; if none is, the sum is not there either."""
    there = [part for part in parts if mark_of(part) is None]
    if not there:
        cleared = [part for part in parts if mark_of(part) is Missing.CLEARED]
        return (cleared or parts)[0]
    return there[0] if len(there) == 1 else np.add.reduce(there)


def scaled(rows: Floats, scale: float, *, statistics: bool) -> Floats:
    """Rows whose gradients are multiplied; what is counted stays. The rows themselves if there is nothing to do."""
    if scale == 1.0:
        return rows
    product: Floats = rows * np.float32(scale)
    if statistics:
        product[:, :STATISTICS] = rows[:, :STATISTICS]
    return product
