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

from umiak.core.value import value
from umiak.data.features.transform import keys_of
from umiak.schema.features.section import NumberingKind
from umiak.train.config.tabular import datasets
from umiak.train.reading.columns import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.data.features.transform import FeatureBatch, FeatureTransform
    from umiak.data.tables import TableBatch
    from umiak.schema.features.section import Feature

_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)


class RowEncoder(Protocol):
    """How rows become samples."""

    @property
    def wanted(self) -> Mapping[str, str]: ...
    @property
    def columns(self) -> tuple[Column, ...]: ...
    def arrays(self, batch: TableBatch) -> tuple[tuple[tuple[AnyArray, NDArray[np.int64] | None], ...], int]:
        """Of each column its values, and how many each sample has where that is not always the same; and how many samples there are."""


@value
class ChosenRows:
    """Which rows are samples."""

    before: float | None = None
    after: float | None = None
    share: tuple[float, float] | None = None
    """Of the hashes of their contents."""


class FeatureEncoder:
    """Rows as the features of a config say."""

    def __init__(self, transform: FeatureTransform, chosen: ChosenRows, *, labels: bool = True) -> None:
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
        kept = self._kept(found, made)
        if kept is None:
            return tuple(found), made.rows
        return tuple([_taken(values, lengths, kept) for values, lengths in found]), int(kept.sum())

    def _kept(
        self, found: list[tuple[AnyArray, NDArray[np.int64] | None]], made: FeatureBatch
    ) -> NDArray[np.bool_] | None:
        """Which rows are samples; None: all of them."""
        chosen, kept = self._chosen, None
        if made.time is not None and (chosen.before is not None or chosen.after is not None):
            kept = np.ones(made.rows, np.bool_)
            if chosen.before is not None:
                kept &= made.time < chosen.before
            if chosen.after is not None:
                kept &= made.time >= chosen.after
        if chosen.share is not None:
            place = hash_of_rows(found, made.rows)
            low, high = chosen.share
            inside = (place >= low) & (place < high) if high < 1.0 else place >= low
            kept = inside if kept is None else kept & inside
        return kept


def hash_of_rows(found: list[tuple[AnyArray, NDArray[np.int64] | None]], rows: int) -> NDArray[np.float64]:
    """A number from 0 up to 1 for each row that depends on everything in it: rows that are the same have the same."""
    total = np.zeros(rows, np.uint64)
    for number, (values, lengths) in enumerate(found):
        bits = np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else values.dtype).view(np.uint64)
        mixed = _mixed(bits + np.uint64(number))
        if lengths is None:
            own = mixed.reshape(rows, -1).sum(axis=1, dtype=np.uint64) if rows else total
        elif mixed.size == rows and (lengths == 1).all():
            own = mixed
        else:
            ends = np.cumsum(lengths)
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
            own = sums[ends] - sums[ends - lengths]
        total = _mixed(total * _ODD + own)
    places: NDArray[np.float64] = (total >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return places


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """As SplitMix64 does it."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    mixed: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return mixed


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
