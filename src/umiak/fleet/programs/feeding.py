"""What a program is fed with: arrays, ragged slots, rows of tables, and Paddle's tensors. An adapter, for Paddle.

A ragged slot (``lod_level=1``) is a pair: the values of all samples, one after the other, and where each sample's begin.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from paddle.base import core

from umiak.core.value import value
from umiak.ps.layers.memory import floats_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    Fed = Any
    """An array, a pair (values, offsets), a list, or one of Paddle's tensors."""

_FLOAT32 = core.VarDesc.VarType.FP32


@value
class FedArray:
    """One variable's numbers."""

    array: NDArray[Any]
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


def tensor_of(fed: FedArray) -> Any:
    """As an executor takes it: a copy.

    Paddle gives memory back in threads of its own. Memory of an array would need Python's lock for that, and an executor that ends waits for
    these threads with the lock held: for ever.
    """
    if fed.offsets is None and fed.array.ndim == 0:
        return fed.array
    tensor = core.DenseTensor()
    tensor.set(np.ascontiguousarray(fed.array), core.CPUPlace())
    if fed.offsets is not None:
        tensor.set_lod([[int(offset) for offset in fed.offsets]])
    return tensor


class ScopeRows:
    """The rows of several lookups, which came in one array: one tensor, of which each lookup's variable in a scope is a part."""

    def __init__(self, scope: Any, names: Sequence[str]) -> None:
        self.scope = scope
        self._variables = [scope.var(name).get_tensor() for name in names]
        self._whole = core.DenseTensor()
        self._parts: list[Sequence[int]] = []
        self._pointers: list[int] = []
        """Another program of the scope may have variables of the same names, and other memory for them."""

    def put(self, rows: NDArray[np.float32], shapes: Sequence[Sequence[int]], offsets: Sequence[Any]) -> None:
        """``shapes``: of each part, whose last dimension is the rows'. ``offsets``: of those that are ragged, else None."""
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
            part = self._whole._slice(behind, behind + count)  # noqa: SLF001
            part._set_dims([*shape])  # noqa: SLF001
            variable._share_data_with(part)  # noqa: SLF001
            behind += count
        self._parts = [*shapes]
        self._pointers = self._current_pointers()

    def _current_pointers(self) -> list[int]:
        return [each._ptr() if each._is_initialized() else 0 for each in (self._whole, *self._variables)]  # noqa: SLF001


def floats_of(tensor: Any) -> NDArray[np.float32]:
    """The numbers of what was fetched, in its own memory, which lives as long as the array; numpy's way copies them."""
    if tensor._dtype() != _FLOAT32 or not tensor._place().is_cpu_place():  # noqa: SLF001
        return np.array(tensor, dtype=np.float32)
    return floats_at(tensor._ptr(), tensor.shape(), tensor)  # noqa: SLF001


class FloatViews:
    """The numbers of tensors that are looked at after each run: as `floats_of` gives them, made again only where memory or shape is another."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, int, list[int], NDArray[np.float32]]] = []

    def of(self, tensors: Sequence[Any]) -> list[NDArray[np.float32]]:
        """Of the same tensors in the same order as before, or of others."""
        found = []
        for place, tensor in enumerate(tensors):
            pointer, shape = tensor._ptr(), tensor.shape()  # noqa: SLF001
            if place < len(self._known):
                known, its_pointer, its_shape, array = self._known[place]
                if known is tensor and its_pointer == pointer and its_shape == shape:
                    found.append(array)
                    continue
            array = floats_of(tensor)
            found.append(array)
            if array.ctypes.data == pointer and place <= len(self._known):
                self._known[place : place + 1] = [(tensor, pointer, shape, array)]
        return found


def fed(feed: Mapping[str, Fed]) -> dict[str, Any]:
    """A whole feed, with ragged slots as tensors."""
    found = {}
    for name, each in feed.items():
        is_ragged = isinstance(each, (tuple, FedArray))
        found[name] = tensor_of(array_of(each)) if is_ragged else each
    return found
