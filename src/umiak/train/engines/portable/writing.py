"""Models for programs without Paddle: with operations that ONNX has, and tables in them as far as they are small. An adapter, for Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import value
from umiak.ps import export as ps_export
from umiak.train.engines import paddle_export
from umiak.train.modeling import lookups
from umiak.train.modeling.inputs import PADDING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.train.modeling.embedding import Embedding
    from umiak.train.reading.batches import Batch


@value
class PortableModel:
    """What was written, and what it must answer about some samples."""

    exported: paddle_export.Exported
    arrays: Mapping[str, AnyArray]
    expected: Mapping[str, AnyArray]
    outside: tuple[str, ...] = ()
    """Tables that are too large to be in it."""


def export(
    engine: paddle_export.Exportable, path: str, checkpoint: str, batch: Batch, most_bytes: int
) -> PortableModel:
    """Write a model; the smallest tables are in it, until there is no room."""
    tables = {each.table: ps_export.rows(checkpoint, each.table) for each in engine.embeddings.made}
    sizes = {name: keys.nbytes * 2 + rows.nbytes for name, (keys, rows) in tables.items()}
    inside: set[str] = set()
    for name in sorted(sizes, key=lambda each: (sizes[each], each)):
        if sum(sizes[each] for each in inside) + sizes[name] <= most_bytes:
            inside.add(name)

    def rows_of(embedding: Embedding) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        return tables[embedding.table]

    done = paddle_export.export(
        engine, path, rows_of, lookup=lookups.HALVED, is_brought=lambda each: each.table not in inside
    )
    arrays = {each.name: paddle_export.array(each, batch) for each in done.inputs if not each.table}
    for each in done.inputs:
        if each.table:
            ids = paddle_export.array(paddle_export.Input(name=each.of, kind="sparse", dtype="int64", shape=()), batch)
            arrays[each.name] = _looked_up(*tables[each.table], ids)
    outside = tuple([name for name in tables if name not in inside])
    return PortableModel(exported=done, arrays=arrays, expected=engine.predict(batch), outside=outside)


def _looked_up(keys: NDArray[np.uint64], rows: NDArray[np.float32], ids: AnyArray) -> AnyArray:
    """A row for each id, zeros where there is none: what somebody does who has the table elsewhere."""
    places = {int(key): number for number, key in enumerate(keys.view(np.int64).tolist())}
    found = np.zeros((*ids.shape, rows.shape[1]), np.float32)
    for at in np.ndindex(*ids.shape):
        place = places.get(int(ids[at]))
        if place is not None and ids[at] != PADDING:
            found[at] = rows[place]
    return found
