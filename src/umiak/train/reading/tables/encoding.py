"""Rows of a table as the columns of a batch. An adapter to the kernels of features.

    encoder.wanted              what is read, and as what: {"user": "ids", "price": "numbers"}
    encoder.columns             the slots of every batch: labels first, then ids, then numbers
    encoder.arrays(batch)       the values of each, and how many samples there are

The ids of a feature are keys of 64 bits that no other table has: features with the same `table` share rows, and no others do, wherever a model looks them up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from umiak.data.features.transform import keys_of
from umiak.schema.features.section import NumberingKind
from umiak.train.config.tabular import datasets
from umiak.train.reading.columns import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.data.features.row_choice import RowChoice
    from umiak.data.features.transform import FeatureBatch, FeatureTransform
    from umiak.data.tables import TableBatch
    from umiak.schema.features.section import Feature


class RowEncoder(Protocol):
    """How rows become samples."""

    @property
    def wanted(self) -> Mapping[str, str]: ...
    @property
    def columns(self) -> tuple[Column, ...]: ...
    def arrays(self, batch: TableBatch) -> tuple[tuple[tuple[AnyArray, NDArray[np.int64] | None], ...], int]:
        """Of each column its values, and how many each sample has where that is not always the same; and how many samples there are."""


class FeatureEncoder:
    """Rows as the features of a config say."""

    def __init__(self, transform: FeatureTransform, chosen: RowChoice, *, labels: bool = True) -> None:
        """``labels``: False reads neither labels nor weights, for predictions."""
        self._transform = transform
        self._chosen = chosen
        section = transform.section
        self._has_labels = labels
        self._labels = tuple(section.labels) if labels else ()
        self._ids = tuple([(each.name, _numbered(each)) for each in section.fed if each.has_ids])
        self._numbers = tuple([(each.name, each.dim or 1) for each in section.fed if not each.has_ids])
        self._extra = datasets.of_section(section) if labels else ()
        self.wanted: Mapping[str, str] = transform.wanted(labels=labels)
        sparse = [*self._labels, *(name for name, _ in self._ids), *self._extra]
        self.columns = (
            *(Column(name=name, width=None) for name in sparse),
            *(Column(name=name, width=width) for name, width in self._numbers),
        )

    def arrays(self, batch: TableBatch) -> tuple[tuple[tuple[AnyArray, NDArray[np.int64] | None], ...], int]:
        """Of each column its values, and how many each sample has; and how many samples there are."""
        made = self._transform.batch(batch, labels=self._has_labels)
        ones = np.ones(made.rows, np.int64)
        found: list[tuple[AnyArray, NDArray[np.int64] | None]] = [(made.labels[name], ones) for name in self._labels]
        for name, table in self._ids:
            feature = made.features[name]
            assert feature.ids is not None
            keys = feature.ids if table is None else keys_of(table, feature.ids)
            found.append((keys.view(np.int64), ones if feature.lengths is None else feature.lengths.astype(np.int64)))
        found += [(_extra(made, name), ones) for name in self._extra]
        for name, width in self._numbers:
            numbers = made.features[name].numbers
            assert numbers is not None
            found.append((numbers.reshape(-1, width), None))
        kept = self._chosen.kept(batch, self._transform.section)
        if kept is None:
            return tuple(found), made.rows
        return tuple([_taken(values, lengths, kept) for values, lengths in found]), int(kept.sum())


def _numbered(feature: Feature) -> str | None:
    """Its table, where ids are small numbers; None: they are keys already."""
    assert feature.numbering is not None
    return None if feature.numbering.kind is NumberingKind.OPEN else feature.table


def _extra(made: FeatureBatch, name: str) -> AnyArray:
    found: AnyArray | None = made.weight if name == datasets.WEIGHT else made.group
    assert found is not None
    return found.view(np.int64) if found.dtype == np.uint64 else found


def _taken(
    values: AnyArray, lengths: NDArray[np.int64] | None, kept: NDArray[np.bool_]
) -> tuple[AnyArray, NDArray[np.int64] | None]:
    if lengths is None:
        return values[kept], None
    return values[np.repeat(kept, lengths)], lengths[kept]
