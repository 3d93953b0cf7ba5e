"""Arrays in the memory of somebody else's tensors. An adapter, without a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from umiak.ps.clients.protocol import Floats


class _Memory:
    """What numpy makes an array of without copying, and keeps as long as the array."""

    def __init__(self, address: int, shape: tuple[int, ...], owner: Any) -> None:
        self._owner = owner
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": "<f4", "version": 3}


def floats_at(address: int, shape: Iterable[int], owner: Any) -> Floats:
    """The contiguous float32 numbers there. The array keeps their ``owner`` alive. Made in less than half the time that dlpack takes."""
    if not address:
        # A tensor without numbers has no memory, which numpy before 2.4 does not take.
        return np.zeros(tuple(shape), np.float32)
    return np.asarray(_Memory(address, tuple(shape), owner))
