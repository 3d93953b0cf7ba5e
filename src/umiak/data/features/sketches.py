"""What one pass over some rows finds out for fitting. Pieces that are merged, in whatever order, are the same as the
whole. An adapter to ``umiak_native``, which counts.

    sketch = Sketch(section)
    for batch in tables.read(part, sketch.wanted()): sketch.add(batch)
    sketch.merge(of_another_part)

Words are counted exactly. Of numbers the sums of themselves and of their squares are exact, as whole numbers; for quantiles up to 65,536 different
values are counted one by one, more in cells whose middle is at most 1/4096 of a value away.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import umiak_native

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.data.features.kernels import column_of, steps_of
from umiak.data.tables.columns import TableBatch, TableColumn
from umiak.schema.features.reading import how
from umiak.schema.features.section import Feature, FeatureKind, FeatureSection, NumberingKind

CELL_ERROR = 1 / 4096
MEMORY_BYTES = 4 << 30
WRONG = "UM-DATA-126"


class Sketch:
    """Of the rows of some batches."""

    def __init__(self, section: FeatureSection, memory_bytes: int = MEMORY_BYTES) -> None:
        self.section = section
        self.rows = 0
        self._memory_bytes = memory_bytes
        self.words: dict[str, umiak_native.WordCounts] = {}
        """By table, of those whose words are fitted."""
        self.raw: dict[str, umiak_native.NumberSketch] = {}
        """By feature, of numbers as they are in the table."""
        self.staged: dict[str, umiak_native.NumberSketch] = {}
        """By feature, of numbers before the step that is fitted."""
        self.values: dict[str, tuple[int, int]] = {}
        """By feature, how many values there were, and how many of them are missing."""
        for feature in section.features:
            if _is_counted(feature):
                self.words.setdefault(feature.table, umiak_native.WordCounts())
            if feature.kind is FeatureKind.NUMBER:
                self.raw[feature.name] = umiak_native.NumberSketch(False)
                self.staged[feature.name] = umiak_native.NumberSketch(_quantiles(feature) > 0)

    def wanted(self) -> dict[str, str]:
        """The columns that are read, and as what."""
        found: dict[str, str] = {}
        for feature in self.section.features:
            if feature.column:
                word = how(feature)
                if _is_counted(feature) and not feature.reads_numbers:
                    word = word.replace("ids", "texts")
                if found.get(feature.column, "").partition("[")[0] not in ("texts", "numeric_texts"):
                    found[feature.column] = word
        return found

    def add(self, batch: TableBatch) -> None:
        """Take in a batch that was read as `wanted` says."""
        self.rows += batch.rows
        for feature in self.section.features:
            if not feature.column:
                continue
            column = batch.columns[feature.column]
            _check(feature, column)
            self._add_values(feature.name, len(column.missing), int(column.missing.sum()))
            if feature.kind is FeatureKind.NUMBER:
                self._add_numbers(feature, column)
            elif _is_counted(feature):
                self._add_words(feature, column)
        self._check_memory()

    def _add_numbers(self, feature: Feature, column: TableColumn) -> None:
        self.raw[feature.name].add(column.values)
        steps = steps_of(feature, None, before_fitted=True)
        self.staged[feature.name].add(umiak_native.feature_transformed(column.values, None, steps))
        if _is_counted(feature):
            fill = float(feature.missing) if isinstance(feature.missing, (int, float)) else None
            self.words[feature.table].add_numbers(umiak_native.feature_transformed(column.values, fill, steps))

    def _add_words(self, feature: Feature, column: TableColumn) -> None:
        assert column.text_offsets is not None
        fill = None
        if isinstance(feature.missing, str):
            kind = "numeric_texts" if feature.numeric else "texts"
            fill = column_of(feature.name, [feature.missing], kind, []).values.tobytes()
        self.words[feature.table].add(column.text_offsets, column.values, column.missing, fill)

    def merge(self, other: Sketch) -> None:
        """Take in what another sketch has of the same section."""
        self.rows += other.rows
        for table, words in self.words.items():
            words.merge(other.words[table])
        for name, numbers in self.raw.items():
            numbers.merge(other.raw[name])
        for name, numbers in self.staged.items():
            numbers.merge(other.staged[name])
        for name, (values, missing) in other.values.items():
            self._add_values(name, values, missing)
        self._check_memory()

    def packed(self, most: int) -> Iterator[tuple[list[str], bytes]]:
        """All of it in pieces for another process to `take`; one of words has about ``most`` bytes. The first says rows and values alone."""
        plain = {"rows": self.rows, "values": self.values}
        yield ["plain"], json.dumps(plain).encode()
        for table, words in self.words.items():
            for piece in words.packed(most):
                yield ["words", table], piece
        for kind, sketches in (("raw", self.raw), ("staged", self.staged)):
            for name, numbers in sketches.items():
                yield [kind, name], numbers.packed()

    def take(self, what: Sequence[str], piece: bytes) -> None:
        """Take in a piece of another sketch of the same section."""
        kind, *names = what
        if kind == "plain":
            told = json.loads(piece)
            self.rows += int(told["rows"])
            for name, (values, missing) in told["values"].items():
                self._add_values(name, values, missing)
        elif kind == "words":
            self.words[names[0]].take(piece)
        else:
            (self.raw if kind == "raw" else self.staged)[names[0]].take(piece)
        self._check_memory()

    def _add_values(self, name: str, values: int, missing: int) -> None:
        before = self.values.get(name, (0, 0))
        self.values[name] = (before[0] + values, before[1] + missing)

    def _check_memory(self) -> None:
        most = max(self.words, key=lambda table: self.words[table].bytes, default=None)
        if most is not None and sum(words.bytes for words in self.words.values()) > self._memory_bytes:
            what = f"the words of all vocabularies take more than {self._memory_bytes / (1 << 30):.3g} GiB"
            hint = f"{most} has {len(self.words[most])} different ones: give it `hash`, or no `vocab`, or allow more with --memory"
            raise UmiakError.of(WRONG, what, hint=hint)


def _is_counted(feature: Feature) -> bool:
    numbering = feature.numbering
    return numbering is not None and numbering.kind is NumberingKind.VOCABULARY and numbering.is_fitted


def _quantiles(feature: Feature) -> int:
    return feature.numbering.quantiles if feature.numbering is not None else 0


def _check(feature: Feature, column: TableColumn) -> None:
    if feature.is_list != (column.offsets is not None):
        expected, found = ("lists", "one value in each row") if feature.is_list else ("one value in each row", "lists")
        what = f"column {feature.column!r} of feature {feature.name}: {expected} are expected, and it has {found}"
        raise UmiakError.of("UM-DATA-125", what, hint="a list of ids is `list: true` or `kind: sequence`")


@value
class NumberFacts:
    """What a sketch knows of numbers; None where there are none, or infinite ones."""

    count: int
    infinite: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None


def facts_of(sketch: umiak_native.NumberSketch) -> NumberFacts:
    """Mean and standard deviation of the population are those of the exact sums, rounded once."""
    count, _, infinite, minimum, maximum = sketch.counts
    if not count or infinite:
        return NumberFacts(count=count, infinite=infinite, minimum=None, maximum=None, mean=None, std=None)
    total, squares = Fraction(0), Fraction(0)
    for exponent, whole, high, middle, low in sketch.sums:
        scale = Fraction(2) ** exponent
        total += whole * scale
        squares += ((high << 54) + (middle << 28) + low) * scale * scale
    mean = total / count
    return NumberFacts(
        count=count,
        infinite=0,
        minimum=minimum,
        maximum=maximum,
        mean=float(mean),
        std=_root(squares / count - mean * mean),
    )


def _root(number: Fraction) -> float:
    whole = number.numerator * number.denominator
    return float(Fraction(math.isqrt(whole << 256), number.denominator << 128))


def quantiles_of(sketch: umiak_native.NumberSketch, parts: int) -> tuple[tuple[float, ...], float]:
    """The boundaries between parts with as many values in each, every one once and above the lowest value; and how far they may be from the exact
    ones, as a share of their value."""
    values, counts, in_cells = sketch.values()
    if not len(values):
        return (), 0.0
    ends = np.cumsum(counts.astype(np.int64))
    total = int(ends[-1])
    places = [part * total // parts for part in range(1, parts)]
    found = values[np.searchsorted(ends, places, side="right")]
    kept = tuple(float(each) for each in np.unique(found) if each > values[0])
    return kept, CELL_ERROR if in_cells else 0.0
