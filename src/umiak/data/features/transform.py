"""From the columns of a table, or from a request, to the ids and numbers that a model gets. An adapter to ``umiak_native``.

    transform = FeatureTransform(lock)
    reader = TableReader(parts, transform.wanted())
    for batch in reader:
        ready = transform.batch(batch)
        ready.features["user"].ids, ready.features["price"].numbers, ready.labels["click"]
    transform.rows([{"user": "u1", "price": 3}])            the same, of Python's values

All work on values is done by native kernels, the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import umiak_native
from numpy.typing import NDArray

from umiak.core.problem import UmiakError
from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.data.features.kernels import WRONG, FeatureColumn, FeatureKernel, Wrong, column_of, vocabulary_of
from umiak.data.features.lock import FeatureLock
from umiak.data.tables.columns import TableBatch, TableColumn
from umiak.schema.features.reading import how
from umiak.schema.features.section import Feature, FeatureKind


@value
class FeatureBatch:
    """What some rows are for a model. Without labels, ``labels`` is empty; the rest is None if the section does not name it."""

    rows: int
    features: Mapping[str, FeatureColumn]
    labels: Mapping[str, NDArray[np.float32]]
    weight: NDArray[np.float32] | None = None
    group: NDArray[np.uint64] | None = None
    """Hashes of the group's values."""
    time: NDArray[np.float64] | None = None


def keys_of(table: str, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers of a table with buckets, words or ranges as keys of 64 bits that no other table has: for tables that share a server's. Ids of
    open tables are such keys already. Padding stays 0."""
    return umiak_native.feature_spread(ids, umiak_native.feature_seed(table))


class FeatureTransform:
    """What a lock says, done."""

    def __init__(self, lock: FeatureLock) -> None:
        self.lock = lock
        self.section = lock.section
        self._kernels = {each.name: FeatureKernel(each, lock) for each in self.section.features}
        self._words = {
            name: vocabulary_of(name, lock) for name in lock.tables if lock.tables[name].vocabulary is not None
        }

    def wanted(self, *, labels: bool = True) -> dict[str, str]:
        """The columns that are read, and as what, as `TableReader` takes them. Without ``labels``: to predict."""
        section = self.section
        found = {each.column: how(each) for each in section.features if each.column}
        if labels:
            others = [*section.labels.values(), section.weight, section.time]
            found |= {column: "numbers" for column in others if column is not None}
            if section.group is not None:
                found.setdefault(section.group, "ids")
        return found

    def batch(self, batch: TableBatch, *, labels: bool = True) -> FeatureBatch:
        """The rows of a batch of a table that was read as `wanted` says."""
        where = f"{batch.place or f'part {batch.part}'}, rows from {batch.first} on"
        return self._made(batch.columns, batch.rows, where, labels)

    def rows(
        self, instances: Sequence[Mapping[str, Any]], *, labels: bool = False, missing: Sequence[str] = ()
    ) -> FeatureBatch:
        """Rows by the names of the columns, with texts, numbers, truths, None and lists of these. A name that is not there is missing; one that no
        feature has is an error."""
        wanted = self.wanted(labels=labels)
        known = self.wanted().keys()
        for number, row in enumerate(instances):
            if not isinstance(row, Mapping):
                what = f"row {number}: an object with columns is expected, not {type(row).__name__}"
                raise UmiakError.of(WRONG, what)
            if unknown := [name for name in row if name not in known]:
                hint = f"columns are {one_line(', '.join(wanted))}"
                raise UmiakError.of(
                    WRONG, one_line(f"row {number}: no feature has the column {unknown[0]!r}"), hint=hint
                )
        texts = [word.encode() for word in missing]
        columns = {
            name: column_of(name, [row.get(name) for row in instances], kind, texts) for name, kind in wanted.items()
        }
        return self._made(columns, len(instances), "request", labels)

    def _made(self, columns: Mapping[str, TableColumn], rows: int, where: str, labels: bool) -> FeatureBatch:
        made: dict[str, FeatureColumn] = {}
        crossed: dict[str, tuple[NDArray[np.uint64], NDArray[np.bool_]]] = {}
        parts = {name for each in self.section.features for name in each.of}
        for feature in self.section.features:
            if feature.kind is FeatureKind.CROSS:
                continue
            kernel = self._kernels[feature.name]
            with _Place(feature, where):
                raw = kernel.raw(columns[feature.column])
                if feature.name in parts:
                    crossed[feature.name] = kernel.part(raw, self._words.get(feature.table))
                if not feature.only_crossed:
                    made[feature.name] = kernel.column(raw, rows, self._words.get(feature.table))
        for feature in self.section.features:
            if feature.kind is FeatureKind.CROSS:
                ids, missing = umiak_native.feature_crossed([crossed[name] for name in feature.of])
                kernel = self._kernels[feature.name]
                made[feature.name] = FeatureColumn(ids=kernel.numbered(ids, missing, None))
        features = {each.name: made[each.name] for each in self.section.fed}
        if not labels:
            return FeatureBatch(rows=rows, features=features, labels={})
        return self._with_labels(columns, features, rows, where)

    def _with_labels(
        self, columns: Mapping[str, TableColumn], features: Mapping[str, FeatureColumn], rows: int, where: str
    ) -> FeatureBatch:
        section = self.section
        labels = {name: _whole(columns[column], f"label {name}", where) for name, column in section.labels.items()}
        weight = None if section.weight is None else _whole(columns[section.weight], "weight", where)
        time = None if section.time is None else _single(columns[section.time], "time", where)
        group = None if section.group is None else _single(columns[section.group], "group", where)
        return FeatureBatch(rows=rows, features=features, labels=labels, weight=weight, group=group, time=time)


class _Place:
    """Says of a complaint which feature it is about."""

    def __init__(self, feature: Feature, where: str) -> None:
        self.feature, self.where = feature, where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Wrong):
            feature = self.feature
            what = f"{self.where}: column {feature.column!r} of feature {feature.name}: {error.what}"
            raise UmiakError.of(WRONG, one_line(what), hint=error.hint) from error


def _single(column: TableColumn, what: str, where: str) -> NDArray[Any]:
    if column.offsets is not None:
        raise UmiakError.of(WRONG, f"{where}: {what}: one value in each row is expected, and it has lists")
    return column.values


def _whole(column: TableColumn, what: str, where: str) -> NDArray[np.float32]:
    numbers = _single(column, what, where).astype(np.float32)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        hint = f"leave such rows out of the data: where there is no {what.partition(' ')[0]}, nothing can be learned"
        how = "infinite" if np.isinf(numbers[row]) else "missing"
        raise UmiakError.of(WRONG, f"{where}: the {what} is {how}: row {row} of these, counted from 0", hint=hint)
    return numbers
