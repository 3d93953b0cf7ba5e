"""All items that there are, as a model gets them: a table with a row for each. An adapter.

catalogue = read(retrieval, lock)
catalogue.keys                          what tells items apart, in the order of the table
taken(catalogue.items, index)           the slots of some of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import UmiakError
from umiak.core.value import replace, value
from umiak.data.features.row_choice import RowChoice
from umiak.data.features.transform import FeatureTransform
from umiak.data.tables import TableReader, look
from umiak.data.tables.sources import parts
from umiak.train.reading import finding
from umiak.train.reading.batches import Arrays
from umiak.train.reading.tables import looking
from umiak.train.reading.tables.encoding import FeatureEncoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.data.features.lock import FeatureLock
    from umiak.train.config.objectives.retrieval import Retrieval
    from umiak.train.reading.batches import Batch


@value
class Catalogue:
    """Items, and how often each is chosen."""

    items: Arrays
    keys: NDArray[np.int64]
    order: NDArray[np.int64]
    """Places in the order of keys."""
    weights: NDArray[np.float64] | None = None

    @property
    def slots(self) -> tuple[str, ...]:
        """What an item has."""
        return (*self.items.sparse, *self.items.dense)

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of items by their keys; -1: it is not there."""
        found = np.searchsorted(self.keys, keys, sorter=self.order)
        places = self.order[np.minimum(found, self.keys.size - 1)]
        return np.where(self.keys[places] == keys, places, -1)


def read(retrieval: Retrieval, lock: FeatureLock) -> Catalogue:
    """UmiakError if a column is missing, an item is there twice, or none is there."""
    section = lock.section
    parts_of_crosses = {name for each in section.features if each.name in retrieval.features for name in each.of}
    features = tuple(
        [
            replace(each, only_crossed=each.name not in retrieval.features)
            for each in section.features
            if each.name in retrieval.features or each.name in parts_of_crosses
        ]
    )
    own = replace(section, features=features, labels={}, weight=None, group=None, time=None)
    encoder = FeatureEncoder(FeatureTransform(replace(lock, section=own)), RowChoice(), labels=False)
    wanted = dict(encoder.wanted)
    if retrieval.weight is not None and wanted.setdefault(retrieval.weight, "numbers") != "numbers":
        what = f"retrieval: weight: the column {retrieval.weight} is read as ids by a feature"
        raise UmiakError.of("UM-DATA-140", what, hint="name a column of numbers")
    names = finding.names_of(retrieval.items, "of items")
    tables = [look(name) for name in names]
    for table in tables:
        looking.check_columns(table, wanted)
    arrays, sizes, weights = [], [], []
    for batch in TableReader(parts(tables), wanted):
        found, count = encoder.arrays(batch)
        arrays.append(found)
        sizes.append(count)
        if retrieval.weight is not None:
            weights.append(batch.columns[retrieval.weight].values.astype(np.float64))
    if not sum(sizes):
        raise UmiakError.of("UM-DATA-140", f"{retrieval.items}: there is no item in it")
    columns = {column.name: _joined([each[number] for each in arrays]) for number, column in enumerate(encoder.columns)}
    items = Arrays(
        size=sum(sizes),
        dense={name: values for name, (values, lengths) in columns.items() if lengths is None},
        sparse={name: (values, _ends(lengths)) for name, (values, lengths) in columns.items() if lengths is not None},
    )
    keys = items.sparse[retrieval.features[0]][0]
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if twice.size:
        rows = sorted((int(order[twice[0]]) + 1, int(order[twice[0] + 1]) + 1))
        what = f"{retrieval.items}: two items have the same {retrieval.features[0]}: rows {rows[0]} and {rows[1]}"
        raise UmiakError.of(
            "UM-DATA-140", what, hint="let the catalogue have a row for each item; missing values are one item"
        )
    return Catalogue(items=items, keys=keys, order=order, weights=_weights(weights, retrieval))


def taken(batch: Batch, index: NDArray[np.int64], names: tuple[str, ...] | None = None) -> Arrays:
    """Samples of a batch by their places, some of them perhaps several times."""
    dense = {name: values[index] for name, values in batch.dense.items() if names is None or name in names}
    sparse = {name: rows_of(column, index) for name, column in batch.sparse.items() if names is None or name in names}
    return Arrays(size=len(index), dense=dense, sparse=sparse)


def rows_of(column: tuple[AnyArray, NDArray[np.int64]], index: NDArray[np.int64]) -> tuple[AnyArray, NDArray[np.int64]]:
    """Of ids and offsets those of some samples."""
    ids, offsets = column
    ends = _ends(np.diff(offsets)[index])
    places = np.repeat(offsets[:-1][index] - ends[:-1], np.diff(ends)) + np.arange(ends[-1])
    return ids[places], ends


def beside(users: Arrays, items: Arrays) -> Arrays:
    """The slots of both, of as many samples."""
    return Arrays(size=users.size, dense={**users.dense, **items.dense}, sparse={**users.sparse, **items.sparse})


def _ends(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _joined(
    pieces: list[tuple[AnyArray, NDArray[np.int64] | None]],
) -> tuple[AnyArray, NDArray[np.int64] | None]:
    lengths = [each for _, each in pieces if each is not None]
    return np.concatenate([values for values, _ in pieces]), np.concatenate(lengths) if lengths else None


def _weights(found: list[NDArray[np.float64]], retrieval: Retrieval) -> NDArray[np.float64] | None:
    if retrieval.weight is None:
        return None
    weights = np.concatenate(found)
    if not (np.isfinite(weights) & (weights > 0)).all():
        row = int(np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))[0])
        what = f"{retrieval.items}: weight {retrieval.weight} is {weights[row]:g} in row {row + 1}"
        raise UmiakError.of("UM-DATA-140", what, hint="how often an item is chosen is more than 0; add 1 to counts")
    return weights
