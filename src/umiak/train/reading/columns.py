"""Samples of a user's reader class as arrays. A decider.

The first sample decides what a slot is: whole numbers only are ids (sparse, any number of them), anything with a fraction is dense, and has
as many values in every sample. All trainers look at the same first sample, so they agree. A later sample that does not fit is a
`Misfit`; nothing is cut, filled or rounded in silence. A dense slot may well have whole numbers in it later on.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from umiak.core.value import value

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray


@value
class Column:
    """A slot."""

    name: str
    width: int | None
    """How many values a dense slot has; None: a sparse one."""


class Misfit(ValueError):
    """A sample that is none, or another one than those before it."""


Row = list[list[Any]]
"""A sample's values, slot by slot."""


def columns_of(sample: object) -> tuple[Column, ...]:
    """What a first sample says about all of them."""
    made = []
    for name, values in _pairs(sample):
        sparse = all(_is_whole(each) for each in values)
        made.append(Column(name=name, width=None if sparse else len(values)))
    names = [column.name for column in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Misfit(f"a sample has slot {', '.join(twice)} twice")
    return tuple(made)


def row_of(sample: object, columns: Sequence[Column]) -> Row:
    """A sample's values, checked as far as it is cheap."""
    pairs = _pairs(sample)
    if len(pairs) != len(columns):
        raise Misfit(f"a sample has {len(pairs)} slots, the first one has {len(columns)}")
    row = []
    for (name, values), column in zip(pairs, columns, strict=True):
        if name != column.name:
            raise Misfit(f"a sample has slot {name} where the first one has {column.name}")
        if column.width is not None and len(values) != column.width:
            raise Misfit(f"slot {name} has {len(values)} values, in the first sample it has {column.width}")
        row.append(values)
    return row


def arrays_of(rows: Sequence[Row], columns: Sequence[Column]) -> list[tuple[AnyArray, NDArray[np.int64] | None]]:
    """For each column all its values, and for a sparse one how many each sample has. Misfit has the number of the sample."""
    made: list[tuple[AnyArray, NDArray[np.int64] | None]] = []
    for at, column in enumerate(columns):
        flat = [each for row in rows for each in row[at]]
        if column.width is None:
            lengths = np.fromiter((len(row[at]) for row in rows), np.int64, len(rows))
            made.append((_ids(flat, rows, at, column.name), lengths))
        else:
            made.append((_numbers(flat, rows, at, column.name).reshape(len(rows), column.width), None))
    return made


def _pairs(sample: object) -> list[tuple[str, list[Any]]]:
    if isinstance(sample, (str, bytes, dict)) or not hasattr(sample, "__iter__"):
        raise Misfit(f"a sample is a list of (name, values), not {_short(sample)}")
    pairs = []
    for pair in sample:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise Misfit(f"a sample has pairs (name, values), not {_short(pair)}")
        name, values = pair
        if isinstance(values, np.ndarray):
            values = values.reshape(-1).tolist()
        if not isinstance(values, (list, tuple)):
            raise Misfit(f"slot {name}: its values are a list, not {_short(values)}")
        pairs.append((str(name), values if isinstance(values, list) else list(values)))
    if not pairs:
        raise Misfit("a sample without slots")
    return pairs


def _ids(flat: list[Any], rows: Sequence[Row], at: int, name: str) -> NDArray[np.int64]:
    if not flat:
        return np.empty(0, np.int64)
    if not {type(each) for each in flat} <= {int, bool}:
        for number, row in enumerate(rows):
            for each in row[at]:
                if not _is_whole(each):
                    raise _at(number, f"slot {name} has {_short(each)}, in the first sample it has integers only")
        flat = [operator.index(each) for each in flat]
    try:
        return np.array(flat, np.int64)
    except OverflowError:
        pass
    for number, row in enumerate(rows):
        for each in row[at]:
            if not -(2**63) <= operator.index(each) < 2**64:
                raise _at(number, f"slot {name} has {each}, which is no number of 64 bits")
    return np.array([each % 2**64 for each in flat], np.uint64).view(np.int64)


def _numbers(flat: list[Any], rows: Sequence[Row], at: int, name: str) -> NDArray[np.float32]:
    if {type(each) for each in flat} <= {int, float, bool}:
        with np.errstate(over="ignore"):
            return np.array(flat, np.float64).astype(np.float32)
    for number, row in enumerate(rows):
        for each in row[at]:
            if not isinstance(each, (int, float, np.number)):
                raise _at(number, f"slot {name} has {_short(each)}, which is no number")
    return np.array(flat, np.float32)


def _is_whole(item: object) -> bool:
    return isinstance(item, (int, np.integer))


def _at(number: int, what: str) -> Misfit:
    misfit = Misfit(what)
    misfit.args = (what, number)
    return misfit


def _short(item: object) -> str:
    text = repr(item)
    return text if len(text) <= 60 else f"{text[:57]}..."
