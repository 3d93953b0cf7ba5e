"""One feature's work: from the column that was read to hashes or numbers, and from these to what the model gets. An adapter to
``umiak_native``, whose kernels do it for whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import umiak_native
from numpy.typing import NDArray

from umiak.core.problem import UmiakError
from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.data.features.lock import FeatureLock
from umiak.data.hashing import stable_hash
from umiak.data.tables.columns import TableColumn
from umiak.data.tables.faults import TableFault
from umiak.schema.features.section import Feature, FeatureKind, Fill, Keep, NumberingKind

WRONG = "UM-DATA-125"
_NO_ROWS = np.zeros(0, np.bool_)


@value
class FeatureColumn:
    """One feature of some rows: ids, or numbers."""

    ids: NDArray[np.uint64] | None = None
    """One for each row, or of all rows end to end where there are ``lengths``."""
    lengths: NDArray[np.int64] | None = None
    """How many ids each row has."""
    numbers: NDArray[np.float32] | None = None
    """Rows x dim."""

    def padded(self, length: int | None = None) -> NDArray[np.uint64]:
        """Ids as a matrix, with 0 behind shorter rows; ``length`` None takes that of the longest row."""
        assert self.ids is not None
        if self.lengths is None:
            return self.ids[:, None]
        longest = int(self.lengths.max(initial=0)) if length is None else length
        made = np.zeros((len(self.lengths), longest), np.uint64)
        starts = np.cumsum(self.lengths) - self.lengths
        inside = np.arange(longest) < self.lengths[:, None]
        places = starts[:, None] + np.arange(longest)
        made[inside] = self.ids[places[inside]]
        return made


class Raw:
    """A feature's values before they are numbered: hashes, or numbers after all steps."""

    __slots__ = ("ids", "lengths", "missing", "numbers")

    def __init__(
        self,
        ids: NDArray[np.uint64] | None = None,
        missing: NDArray[np.bool_] = _NO_ROWS,
        numbers: NDArray[np.float64] | None = None,
        lengths: NDArray[np.int64] | None = None,
    ) -> None:
        self.ids, self.missing, self.numbers, self.lengths = ids, missing, numbers, lengths


class FeatureKernel:
    """One feature."""

    def __init__(self, feature: Feature, lock: FeatureLock) -> None:
        self.feature = feature
        fitted = lock.columns[feature.name]
        self.steps = steps_of(feature, lock)
        self.fill = fitted.fill if feature.missing is Fill.MEAN else None
        if isinstance(feature.missing, (int, float)):
            self.fill = float(feature.missing)
        self.word: int | None = None
        if isinstance(feature.missing, str):
            kind = "numeric_ids" if feature.numeric else "ids"
            self.word = int(column_of(feature.name, [feature.missing], kind, []).values[0])
        self.boundaries = np.array(fitted.boundaries, np.float64)
        self.seed = umiak_native.feature_seed(feature.table)

    def raw(self, column: TableColumn) -> Raw:
        feature = self.feature
        if feature.is_list != (column.offsets is not None):
            expected = "lists" if feature.is_list else "one value in each row"
            found = "one value in each row" if feature.is_list else "lists"
            hint = (
                "a list of ids is `list: true` or `kind: sequence`"
                if not feature.is_list
                else "texts are cut in CSV alone"
            )
            raise Wrong(f"{expected} are expected, and it has {found}", hint)
        if feature.reads_numbers:
            return self._numbers(column)
        if column.values.dtype != np.uint64:
            raise Wrong("it was not read as ids", "read the columns as `wanted()` says")
        ids, missing, lengths = column.values, column.missing, None
        if column.offsets is not None:
            ids, missing, lengths = self._elements(column)
        if self.word is not None:
            ids, missing = np.where(missing, np.uint64(self.word), ids), np.zeros_like(missing)
        return Raw(ids=ids, missing=missing, lengths=lengths)

    def _elements(self, column: TableColumn) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.int64]]:
        """Those that are kept. A row without a list has one missing id, but in a sequence none."""
        feature, offsets = self.feature, column.offsets
        assert offsets is not None
        ids, missing, lengths = column.values, column.missing, np.diff(offsets)
        if feature.max_len:
            places, lengths = umiak_native.feature_ends(offsets, feature.max_len, feature.keep is Keep.LAST)
            ids, missing = ids[places], missing[places]
        gone = column.missing_lists
        if feature.kind is FeatureKind.ID and gone is not None and gone.any():
            before = (np.cumsum(lengths) - lengths)[gone]
            ids, missing = np.insert(ids, before, 0), np.insert(missing, before, True)
            lengths = lengths + gone
        return ids, missing, lengths

    def _numbers(self, column: TableColumn) -> Raw:
        feature = self.feature
        if column.values.dtype != np.float64:
            raise Wrong("it was not read as numbers", "read the columns as `wanted()` says")
        numbers = column.values
        if feature.kind is FeatureKind.VECTOR:
            numbers = self._vectors(column)
        if feature.missing is Fill.REFUSE and np.isnan(numbers).any():
            row = int(np.flatnonzero(np.isnan(numbers))[0]) // (
                feature.dim if feature.kind is FeatureKind.VECTOR else 1
            )
            raise Wrong(f"a number is missing, which `missing: refuse` refuses: row {row} of these", None)
        return Raw(numbers=umiak_native.feature_transformed(numbers, self.fill, self.steps))

    def _vectors(self, column: TableColumn) -> NDArray[np.float64]:
        feature, offsets, gone = self.feature, column.offsets, column.missing_lists
        assert offsets is not None
        assert gone is not None
        lengths = np.diff(offsets)
        wrong = (lengths != feature.dim) & ~gone
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            what = f"{feature.dim} numbers are expected, and it has {lengths[row]}: row {row} of these"
            raise Wrong(what, "`dim` is the length of every vector")
        if not gone.any():
            return column.values
        made = np.full((len(gone), feature.dim), np.nan)
        made[~gone] = column.values.reshape(-1, feature.dim)
        return made.reshape(-1)

    def column(self, raw: Raw, rows: int, words: umiak_native.Vocabulary | None) -> FeatureColumn:
        """What the model gets."""
        if self.feature.numbering is not None:
            ids, missing = self._hashes(raw)
            if self.feature.numbering.kind is NumberingKind.BOUNDARIES:
                return FeatureColumn(ids=ids, lengths=raw.lengths)
            return FeatureColumn(ids=self.numbered(ids, missing, words), lengths=raw.lengths)
        assert raw.numbers is not None
        with np.errstate(over="ignore"):
            numbers = raw.numbers.astype(np.float32)
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers))[0])
            what = f"a number that no float32 has: {raw.numbers[row]!r}, row {row // self.feature.dim} of these"
            raise Wrong(what, "limit it: `transform: {clip: [low, high]}`")
        return FeatureColumn(numbers=numbers.reshape(rows, self.feature.dim))

    def part(self, raw: Raw, words: umiak_native.Vocabulary | None) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """What a cross is made of: the hash of a value, or the number of its range."""
        del words
        return self._hashes(raw)

    def _hashes(self, raw: Raw) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Ids before they are numbered; of ranges, their numbers."""
        if raw.ids is not None:
            return raw.ids, raw.missing
        assert raw.numbers is not None
        numbering = self.feature.numbering
        if numbering is not None and numbering.kind is NumberingKind.BOUNDARIES:
            ids = umiak_native.feature_ranges(raw.numbers, self.boundaries)
            return ids, np.isnan(raw.numbers)
        return umiak_native.feature_number_ids(raw.numbers)

    def numbered(
        self, ids: NDArray[np.uint64], missing: NDArray[np.bool_], words: umiak_native.Vocabulary | None
    ) -> NDArray[np.uint64]:
        """The numbers of hashes."""
        numbering = self.feature.numbering
        assert numbering is not None
        if words is not None:
            return words.numbers(ids, missing)
        if numbering.kind is NumberingKind.HASH:
            return umiak_native.feature_buckets(ids, missing, numbering.buckets)
        return umiak_native.feature_open(ids, missing, self.seed)


class Wrong(Exception):
    """A column is not what a feature needs."""

    def __init__(self, what: str, hint: str | None) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def steps_of(feature: Feature, lock: FeatureLock | None, before_fitted: bool = False) -> list[tuple[str, float, float]]:
    """The steps with all numbers; ``before_fitted``: those before the one that is fitted, all if none is."""
    made: list[tuple[str, float, float]] = []
    for step in feature.steps:
        numbers = step.numbers or (0.0, 0.0)
        if step.is_fitted:
            if before_fitted:
                break
            assert lock is not None
            fitted = lock.columns[feature.name]
            first, second = (fitted.mean, fitted.std) if step.name == "zscore" else (fitted.minimum, fitted.maximum)
            assert first is not None
            assert second is not None
            numbers = (first, second)
        made.append((step.name, numbers[0], numbers[1]))
    return made


def vocabulary_of(table: str, lock: FeatureLock) -> umiak_native.Vocabulary:
    """The words of a table, by their hashes."""
    fitted = lock.tables[table]
    assert fitted.vocabulary is not None
    words = fitted.vocabulary.words
    ids = np.fromiter((stable_hash(word) for word in words), np.uint64, len(words))
    try:
        return umiak_native.Vocabulary(ids, fitted.numbering.oov)
    except ValueError as error:
        what = f"the vocabulary of {table}: {error}"
        raise UmiakError.of("UM-DATA-127", what, hint="leave one of them out, or use `hash`") from error


def column_of(name: str, values: list[Any], kind: str, missing: Sequence[bytes]) -> TableColumn:
    """A column of Python's values, as readers of tables make one of a file's."""
    try:
        values_, state, offsets, lists = umiak_native.feature_column(name, values, kind, missing)
    except umiak_native.TableError as error:
        raise TableFault(error) from error
    except (TypeError, ValueError) as error:
        raise UmiakError.of(WRONG, one_line(f"column {name!r}: {error}")) from error
    ends, bare = values_ if isinstance(values_, tuple) else (None, values_)
    return TableColumn(
        values=bare,
        text_offsets=ends,
        missing=state.view(np.bool_),
        offsets=offsets,
        missing_lists=None if lists is None else lists.view(np.bool_),
    )
