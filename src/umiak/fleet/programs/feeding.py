"""What a program is fed with: arrays, ragged slots, rows of tables, and Paddle's tensors. An adapter, for Paddle.

A ragged slot (``lod_level=1``) is a pair: the values of all samples,
one after the other, and where each sample's begin.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from paddle.base import core

from umiak.core.value import value
from umiak.ps import paddle_internals
from umiak.ps.tables.memory import floats_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.ps.paddle_types import Fed, Scope, Tensor


_FLOAT32 = core.VarDesc.VarType.FP32


@value
class FedArray:
    """One variable's numbers."""

    array: AnyArray
    offsets: NDArray[np.int64] | None = None


def array_of(fed: Fed) -> FedArray:
    """The numbers of anything that can be fed."""
    if isinstance(fed, FedArray):
        return fed
    if isinstance(fed, tuple) and len(fed) == 2 and isinstance(fed[1], np.ndarray) and isinstance(fed[0], np.ndarray):
        return FedArray(array=fed[0], offsets=fed[1].astype(np.int64, copy=False))
    if isinstance(fed, core.DenseTensor):
        levels = fed.lod()
        offsets = np.asarray(levels[-1], np.int64) if levels else None
        return FedArray(array=np.array(fed), offsets=offsets)
    return FedArray(array=fed if isinstance(fed, np.ndarray) else np.asarray(fed))


def tensor_of(fed: FedArray) -> Tensor:
    """As an executor takes it: a copy.

    Paddle gives memory back in threads of its own. Memory of an array would need Python's lock for that,
    and an executor that ends waits for these threads with the lock held: for ever.
    """
    if fed.offsets is None and fed.array.ndim == 0:
        return fed.array
    tensor = core.DenseTensor()
    tensor.set(np.ascontiguousarray(fed.array), core.CPUPlace())
    if fed.offsets is not None:
        tensor.set_lod([[int(offset) for offset in fed.offsets]])
    return tensor


class ScopeRows:
    """The rows of several lookups, which came in one array:
    one tensor, of which each lookup's variable in a scope is a part.
    """

    def __init__(self, scope: Scope, names: Sequence[str]) -> None:
        self.scope = scope
        self._variables = [scope.var(name).get_tensor() for name in names]
        self._whole = core.DenseTensor()
        self._parts: list[Sequence[int]] = []
        self._pointers: list[int] = []
        """Another program of the scope may have variables of the same names, and other memory for them."""

    def put(
        self, rows: NDArray[np.float32], shapes: Sequence[Sequence[int]], offsets: Sequence[NDArray[np.int64] | None]
    ) -> None:
        """``shapes``: of each part, whose last dimension is the rows'.
        ``offsets``: of those that are ragged, else None.
        """
        self._whole.set(np.ascontiguousarray(rows), core.CPUPlace())
        if self._parts != [*shapes] or self._pointers != self._current_pointers():
            self._share(shapes)
        for variable, each in zip(self._variables, offsets, strict=True):
            if each is not None:
                variable.set_lod([[int(offset) for offset in each]])

    def _share(self, shapes: Sequence[Sequence[int]]) -> None:
        behind = 0
        for variable, shape in zip(self._variables, shapes, strict=True):
            count = math.prod(shape[:-1])
            if not count:
                variable.set(np.zeros(shape, np.float32), core.CPUPlace())
                continue
            paddle_internals.share(variable, paddle_internals.part_of(self._whole, behind, behind + count), shape)
            behind += count
        self._parts = [*shapes]
        self._pointers = self._current_pointers()

    def _current_pointers(self) -> list[int]:
        tensors = (self._whole, *self._variables)
        return [
            paddle_internals.pointer(tensor) if paddle_internals.is_initialized(tensor) else 0 for tensor in tensors
        ]


def floats_of(tensor: Tensor) -> NDArray[np.float32]:
    """The numbers of what was fetched, in its own memory, which lives as long as the array; numpy's way copies them."""
    if paddle_internals.element_type(tensor) != _FLOAT32 or not paddle_internals.is_on_cpu(tensor):
        return np.array(tensor, dtype=np.float32)
    return floats_at(paddle_internals.pointer(tensor), tensor.shape(), tensor)


class FloatViews:
    """The numbers of tensors that are looked at after each run:
    as `floats_of` gives them, made again only where memory or shape is another.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Tensor, int, list[int], NDArray[np.float32]]] = []

    def of(self, tensors: Sequence[Tensor]) -> list[NDArray[np.float32]]:
        """Of the same tensors in the same order as before, or of others."""
        views = []
        for place, tensor in enumerate(tensors):
            pointer, shape = paddle_internals.pointer(tensor), tensor.shape()
            if place < len(self._known):
                known, its_pointer, its_shape, array = self._known[place]
                if known is tensor and its_pointer == pointer and its_shape == shape:
                    views.append(array)
                    continue
            array = floats_of(tensor)
            views.append(array)
            if array.ctypes.data == pointer and place <= len(self._known):
                self._known[place : place + 1] = [(tensor, pointer, shape, array)]
        return views


def fed(feed: Mapping[str, Fed]) -> dict[str, Fed]:
    """A whole feed, with ragged slots as tensors."""
    return {
        name: tensor_of(array_of(each)) if isinstance(each, (tuple, FedArray)) else each for name, each in feed.items()
    }
