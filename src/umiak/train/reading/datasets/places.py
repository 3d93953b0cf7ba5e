"""Fields of samples that have no names: to arrays, whole or with the lengths of their sequences, and back to rows and offsets. A decider.

    stacked([[[1, 2], 0.5], [[3], 0.7]])    -> [{"rows": array([1, 2, 3]), "lengths": [array([2, 1])]}, array([0.5, 0.7])]
    rows, offsets = sequences(field, 1)     -> array([1, 2, 3]), [[0, 2, 3]]

PaddleRec 1.8.5 gives the fields of a sample to a program's inputs by their places; whether a field is a sequence is said by the input, which no reader knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.train.reading.datasets.stacking import Unequal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.data.array_types import AnyArray

ROWS, LENGTHS = "rows", "lengths"


def stacked(samples: Sequence[Sequence[Any]]) -> list[Any]:
    """The fields of a batch."""
    count = len(samples[0])
    for number, sample in enumerate(samples):
        if len(sample) != count:
            raise Unequal(f"it has {len(sample)} fields, and the first sample of the batch {count}", number)
    found = []
    for place in range(count):
        try:
            found.append(field([sample[place] for sample in samples]))
        except (TypeError, ValueError) as error:
            raise Unequal(f"field {place} can't be made an array: {error}", _odd(samples, place)) from error
    return found


def field(items: Sequence[Any]) -> Any:
    """One field of all samples: an array, or rows and how many of them each sequence has."""
    items = [_plain(each) for each in items]
    if all(isinstance(each, np.ndarray) for each in items):
        shapes = {each.shape for each in items}
        if len(shapes) == 1:
            return _numbers(np.stack(items))
        if 0 not in {each.ndim for each in items} and len({each.shape[1:] for each in items}) == 1:
            return {ROWS: _numbers(np.concatenate(items)), LENGTHS: [_lengths(items)]}
        items = [each.tolist() for each in items]
    if not all(isinstance(each, (list, tuple)) for each in items):
        return _numbers(np.asarray(items))
    if len({len(each) for each in items}) == 1:
        inner = field([one for each in items for one in each])
        if isinstance(inner, np.ndarray):
            return inner.reshape(len(items), len(items[0]), *inner.shape[1:])
        return {ROWS: inner[ROWS], LENGTHS: [_lengths(items), *inner[LENGTHS]]}
    inner = field([one for each in items for one in each])
    if isinstance(inner, np.ndarray):
        return {ROWS: inner, LENGTHS: [_lengths(items)]}
    return {ROWS: inner[ROWS], LENGTHS: [_lengths(items), *inner[LENGTHS]]}


def sequences(item: Any, levels: int) -> tuple[AnyArray, list[list[int]]]:
    """The rows of a field, and the offsets of so many levels of sequences. ValueError if it has fewer."""
    rows, lengths = (item[ROWS], list(item[LENGTHS])) if isinstance(item, dict) else (item, [])
    while len(lengths) < levels:
        if rows.ndim < 2:
            raise ValueError(f"it has {len(lengths)} levels of sequences instead of {levels}")
        lengths.append(np.full(rows.shape[0], rows.shape[1], np.int64))
        rows = rows.reshape(-1, *rows.shape[2:])
    if len(lengths) > levels:
        raise ValueError(f"it has {len(lengths)} levels of sequences instead of {levels}")
    return rows, [[0, *np.cumsum(each).astype(int).tolist()] for each in lengths]


def whole(item: Any) -> AnyArray:
    """A field without sequences. ValueError if its samples are of several lengths."""
    if isinstance(item, dict):
        longest, shortest = int(item[LENGTHS][0].max()), int(item[LENGTHS][0].min())
        raise ValueError(f"its samples have {shortest} to {longest} values")  # noqa: TRY004 - a value of the data
    array: AnyArray = item
    return array


def _lengths(items: Sequence[Any]) -> AnyArray:
    return np.array([len(each) for each in items], np.int64)


def _plain(item: Any) -> Any:
    """Tensors as arrays; whatever can be gone through, such as a zip, as a list."""
    if isinstance(item, (list, tuple, np.ndarray, int, float, np.generic, str, bytes)):
        return item
    if hasattr(item, "__array__"):
        return np.asarray(item)
    return list(item) if hasattr(item, "__iter__") else item


def _numbers(made: AnyArray) -> AnyArray:
    if made.dtype.kind in "US":  # PaddleRec makes numbers of texts, too
        try:
            made = made.astype(np.int64)
        except ValueError:
            made = made.astype(np.float64)
    if made.dtype.kind not in "iufb":
        raise ValueError(f"it has values that are no numbers: {made.reshape(-1)[:1].tolist()}")
    return made


def _odd(samples: Sequence[Sequence[Any]], place: int) -> int:
    """The sample whose field is none by itself; the first one if each is."""
    for number, sample in enumerate(samples):
        try:
            field([sample[place]])
        except (TypeError, ValueError):
            return number
    return 0
