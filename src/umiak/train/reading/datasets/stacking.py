"""Samples to a batch, as Paddle's DataLoader does it by default, and a batch to blocks of bytes and back. A decider.

    stacked([[array(2), 1.0, "a"], [array(2), 2.0, "b"]])  ->  [array(2, 2), array(2), ["a", "b"]]

Arrays are stacked, numbers become an array, texts stay a list; lists and dictionaries are gone into. What can't be stacked raises `Unequal`, which
says what differs and in which sample.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Unequal(Exception):
    """Samples that are no batch: what differs, and the number of the sample in the batch, from 0."""

    def __init__(self, what: str, sample: int) -> None:
        super().__init__(what)
        self.what, self.sample = what, sample


def stacked(samples: Sequence[Any], place: str = "") -> Any:
    """A batch of samples."""
    first = samples[0]
    if isinstance(first, np.ndarray):
        return _stacked_arrays(samples, first, place)
    if isinstance(first, numbers.Number):
        return _checked(np.array(samples), place)
    if isinstance(first, (str, bytes)):
        return [each.decode(errors="replace") if isinstance(each, bytes) else each for each in samples]
    if isinstance(first, Mapping):
        return {key: stacked([each[key] for each in samples], _inside(place, key)) for key in first}
    if isinstance(first, Sequence):
        count = len(first)
        for number, each in enumerate(samples):
            if len(each) != count:
                what = f"{_named(place)} has {len(each)} fields, and that of the first sample of the batch {count}"
                raise Unequal(what, number)
        return [stacked(fields, _inside(place, number)) for number, fields in enumerate(zip(*samples, strict=True))]
    if _is_tensor(first):
        return stacked([each.numpy() for each in samples], place)
    if isinstance(first, np.generic):  # np.bool_, which is no Number
        return np.array(samples)
    what = f"{_named(place)} is a {type(first).__name__}; arrays, numbers, texts, lists and dictionaries can be stacked"
    raise Unequal(what, 0)


def as_it_is(item: Any) -> Any:
    """What a reader gives that makes batches itself."""
    if isinstance(item, Mapping):
        return {key: as_it_is(each) for key, each in item.items()}
    if isinstance(item, (list, tuple)):
        return [as_it_is(each) for each in item]
    if _is_tensor(item):
        return item.numpy()
    return np.asarray(item) if isinstance(item, (numbers.Number, np.generic)) else item


def length(batch: Any) -> int:
    """The samples of a batch whose size nobody knows: the rows of its first field."""
    while isinstance(batch, (list, tuple)) and batch and not isinstance(batch[0], str):
        batch = batch[0]
    if isinstance(batch, Mapping):
        return length(next(iter(batch.values()))) if batch else 0
    if isinstance(batch, np.ndarray):
        return len(batch) if batch.ndim else 1
    return len(batch) if isinstance(batch, (list, tuple)) else 1


def packed(batch: Any) -> tuple[Any, list[Any]]:
    """What a batch is, as plain data, and its arrays as blocks of bytes."""
    blocks: list[Any] = []
    return _pack(batch, blocks), blocks


def unpacked(tree: Any, blocks: Sequence[bytes | memoryview]) -> Any:
    """The same batch."""
    kind, *said = tree
    if kind == "array":
        number, dtype, shape = said
        return np.frombuffer(blocks[number], np.dtype(dtype)).reshape(shape)
    if kind == "list":
        return [unpacked(each, blocks) for each in said[0]]
    if kind == "dict":
        return {key: unpacked(each, blocks) for key, each in said[0]}
    return said[0]


def _pack(item: Any, blocks: list[Any]) -> Any:
    if isinstance(item, np.ndarray):
        whole = np.ascontiguousarray(item)
        blocks.append(whole.view(np.uint8).reshape(-1).data if whole.size and whole.ndim else whole.tobytes())
        return ("array", len(blocks) - 1, item.dtype.str, item.shape)
    if isinstance(item, dict):
        return ("dict", [(key, _pack(each, blocks)) for key, each in item.items()])
    if isinstance(item, (list, tuple)):
        return ("list", [_pack(each, blocks) for each in item])
    return ("plain", item)


def _stacked_arrays(samples: Sequence[Any], first: Any, place: str) -> Any:
    shape = first.shape
    for number, each in enumerate(samples):
        if getattr(each, "shape", None) != shape:
            other = getattr(each, "shape", None)
            told = f"the shape {_spoken(other)}" if other is not None else f"a {type(each).__name__}"
            what = f"{_named(place)} has {told}, and that of the first sample of the batch {_spoken(shape)}"
            raise Unequal(what, number)
    # Several times faster than np.stack, and the same.
    made = np.concatenate(samples).reshape(len(samples), *shape) if shape else np.array(samples)
    return _checked(made, place)


def _checked(made: Any, place: str) -> Any:
    if made.dtype.hasobject:
        raise Unequal(f"{_named(place)} has values that are not all numbers", 0)
    return made


def _is_tensor(item: Any) -> bool:
    return type(item).__module__.startswith("paddle") and callable(getattr(item, "numpy", None))


def _inside(place: str, key: Any) -> str:
    return f"{place}[{key!r}]"


def _named(place: str) -> str:
    return f"field {place[1:-1]}" if place.count("[") == 1 else f"field {place}" if place else "a sample"


def _spoken(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
