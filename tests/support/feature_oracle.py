"""A plain account of what features are, one value at a time, written from the documentation with Python's own means and numpy's scalars. It reads rows of
Python's values; what it gives is what tables and requests must give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.table_samples import of_float
from umiak.data import stable_hash
from umiak.data.features import Feature, FeatureKind, FeatureLock
from umiak.schema.features.section import Fill, Keep, NumberingKind

MASK = (1 << 64) - 1


def text_of(value: Any, numeric: bool = False) -> bytes | None:
    """Canonical; None where nothing is there."""
    if value is None or value in ("", b"") or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, float):
        return of_float(np.float64(value))
    text = value if isinstance(value, bytes) else value.encode()
    if not numeric:
        return text
    try:
        return str(int(text)).encode()
    except ValueError:
        return of_float(np.float64(text.decode()))


def number_of(value: Any) -> float:
    return math.nan if value in (None, "", b"") else float(value)


def mixed(number: int, table: str) -> int:
    if number == 0:
        return 0
    number ^= stable_hash(table)
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


def stepped(number: float, steps: Sequence[tuple[str, tuple[float, ...]]]) -> float:
    for name, (first, second) in steps:
        x = np.float64(number)
        with np.errstate(all="ignore"):
            if name == "log1p":
                x = np.copysign(np.log1p(np.abs(x)), x)
            elif name == "log10":
                x = np.float64(-3.0) if x < 1e-3 else np.log10(x)
            elif name == "sqrt":
                x = np.copysign(np.sqrt(np.abs(x)), x)
            elif name == "criteo_log2":
                x = np.floor(np.log(x) ** 2) if x > 2 else np.trunc(x)
            elif name == "clip":
                x = np.float64(min(max(float(x), first), second))
            elif name == "zscore":
                x = (x - first) / (second or 1.0)
            else:
                x = (x - first) / (second - first) if first != second else np.float64(0.0)
        number = float(x)
    return number + 0.0


class Oracle:
    """What a lock says, done one value at a time."""

    def __init__(self, lock: FeatureLock) -> None:
        self.lock = lock
        self.section = lock.section

    def ids(self, feature: Feature, rows: Sequence[dict[str, Any]]) -> list[list[int]]:
        """Of each row, its ids."""
        return [[self._numbered(feature, each) for each in self._hashes(feature, row)] for row in rows]

    def numbers(self, feature: Feature, rows: Sequence[dict[str, Any]]) -> bytes:
        """Of all rows, as float32."""
        found: list[float] = []
        for row in rows:
            value = row.get(feature.column)
            elements = (
                [value] if feature.kind is FeatureKind.NUMBER else [None] * feature.dim if value is None else value
            )
            found += [self._number(feature, each) for each in elements]
        return np.array(found, np.float64).astype(np.float32).tobytes()

    def _steps(self, feature: Feature) -> list[tuple[str, tuple[float, ...]]]:
        fitted = self.lock.columns[feature.name]
        made: list[tuple[str, tuple[Any, ...]]] = []
        for step in feature.steps:
            numbers: tuple[Any, ...] = step.numbers or (0.0, 0.0)
            if step.is_fitted:
                numbers = (fitted.mean, fitted.std) if step.name == "zscore" else (fitted.minimum, fitted.maximum)
            made.append((step.name, numbers))
        return made

    def _number(self, feature: Feature, value: Any) -> float:
        number = number_of(value)
        if math.isnan(number):
            if feature.missing is Fill.MEAN:
                number = self.lock.columns[feature.name].fill or 0.0
            elif isinstance(feature.missing, (int, float)):
                number = float(feature.missing)
            else:
                return math.nan
        return stepped(number, self._steps(feature))

    def _hashes(self, feature: Feature, row: dict[str, Any]) -> list[int | None]:
        """Before they are numbered; None is missing."""
        if feature.kind is FeatureKind.CROSS:
            parts = [self._hashes(self.section.feature(name), row)[0] for name in feature.of]
            if all(part is None for part in parts):
                return [None]
            return [stable_hash(b"".join((part or 0).to_bytes(8, "little") for part in parts))]
        value = row.get(feature.column)
        if feature.kind is FeatureKind.NUMBER:
            number = self._number(feature, value)
            if math.isnan(number):
                return [None]
            numbering = feature.numbering
            if numbering is not None and numbering.kind is NumberingKind.BOUNDARIES:
                return [2 + sum(each <= number for each in self.lock.columns[feature.name].boundaries)]
            return [stable_hash(of_float(np.float64(number)))]
        elements = value if feature.is_list else [value]
        if elements is None:
            elements = [] if feature.kind is FeatureKind.SEQUENCE else [None]
        elif feature.max_len:
            elements = elements[-feature.max_len :] if feature.keep is Keep.LAST else elements[: feature.max_len]
        texts = [text_of(each, feature.numeric) for each in elements]
        if isinstance(feature.missing, str):
            texts = [text_of(feature.missing, feature.numeric) if text is None else text for text in texts]
        return [None if text is None else stable_hash(text) for text in texts]

    def _numbered(self, feature: Feature, number: int | None) -> int:
        numbering = feature.numbering
        assert numbering is not None
        if numbering.kind is NumberingKind.OPEN:
            return mixed(1 if number is None else number, feature.table)
        if number is None:
            return 1
        if numbering.kind is NumberingKind.BOUNDARIES:
            return number
        if numbering.kind is NumberingKind.HASH:
            return 2 + number % numbering.buckets
        vocabulary = self.lock.tables[feature.table].vocabulary
        assert vocabulary is not None
        places = {stable_hash(word): place for place, word in enumerate(vocabulary.words)}
        return places[number] + 2 + numbering.oov if number in places else 2 + number % numbering.oov
