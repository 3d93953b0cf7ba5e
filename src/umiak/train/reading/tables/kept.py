"""Columns of a table as they are, beside what a model gets of it: what a prediction keeps. An adapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import UmiakError
from umiak.data.tables import TableReader
from umiak.train.reading.batches import mask_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.data.tables import TableColumn, TablePart


def columns_of(part: TablePart, names: Sequence[str], rows: int) -> Iterator[tuple[AnyArray, ...]]:
    """These columns of a part, so many rows at a time; nothing where none are named."""
    if not names:
        return
    lists = {column.name for column in part.table.columns if column.is_list}
    wanted = {name: "values[]" if name in lists else "values" for name in names}
    for batch in TableReader((part,), wanted, batch_rows=rows):
        yield tuple([_column(batch.columns[name], name) for name in names])


def joined(pieces: Sequence[AnyArray]) -> AnyArray:
    """One behind the other."""
    if not isinstance(pieces[0], np.ma.MaskedArray):
        return np.concatenate(pieces)
    masks = np.concatenate([mask_of(piece) for piece in pieces])
    return _masked(np.concatenate([np.asarray(piece) for piece in pieces]), masks)


def _masked(values: AnyArray, mask: NDArray[np.bool_]) -> AnyArray:
    found: AnyArray = np.ma.MaskedArray(values, mask=mask)  # type: ignore[no-untyped-call, unused-ignore]
    return found


def _column(found: TableColumn, name: str) -> AnyArray:
    if found.offsets is not None:
        what = f"--keep: column {name} has lists, and a kept column has one value in each row"
        raise UmiakError.of("UM-PREDICT-004", what)
    if found.text_offsets is None:
        return _masked(found.values, found.missing)
    texts = np.empty(len(found.missing), object)
    texts[:] = [None if each is None else each.decode(errors="replace") for each in found.plain()]
    return texts
