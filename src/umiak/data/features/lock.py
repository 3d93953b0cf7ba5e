"""What features were fitted to: the values, and what is written beside a model. Values.

    lock.columns["age"].mean                what data said of a feature
    lock.tables["city"].rows                how many rows an embedding needs; 0 if any 64 bits can come
    lock.sha256                             of everything: a model is served and evaluated with this lock alone

Files: `lock_files`.
"""

from __future__ import annotations

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema.features.section import FIRST, Feature, FeatureSection, Numbering, NumberingKind, sha256_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1
"""Of the file."""


@value
class FittedColumn:
    """What data said of one feature. Numbers are those before the step that is fitted; None where nobody asked for them."""

    values: int = 0
    """How many were counted, the missing ones among them."""
    missing: int = 0
    mean: float | None = None
    std: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    fill: float | None = None
    """What a missing number counts as, where that is the mean: of the column, before all steps."""
    boundaries: tuple[float, ...] = ()
    """Between ranges; of quantiles those that differ."""
    error: float = 0.0
    """How far a fitted boundary may be from the exact quantile, as a share of its value."""


@value
class Vocabulary:
    """Words in the order of their numbers."""

    words: tuple[bytes, ...]
    counts: tuple[int, ...]

    def plain(self) -> bytes:
        """As the file has it: a line for each word, its count before it."""
        pairs = zip(self.words, self.counts, strict=True)
        return b"".join(b"%d\t%s\n" % (count, escaped(word)) for word, count in pairs)


@value
class FittedTable:
    """How the ids of one table are numbered."""

    numbering: Numbering
    dim: int
    features: tuple[str, ...]
    vocabulary: Vocabulary | None = None

    @property
    def first_word(self) -> int:
        """The number of a vocabulary's first word."""
        return FIRST + self.numbering.oov

    def rows(self, boundaries: int) -> int:
        """How many rows an embedding needs, from 0 on; 0: ids are any 64 bits."""
        kind = self.numbering.kind
        if kind is NumberingKind.OPEN:
            return 0
        if kind is NumberingKind.HASH:
            return FIRST + self.numbering.buckets
        if kind is NumberingKind.BOUNDARIES:
            return FIRST + boundaries + 1
        return self.first_word + len(self.vocabulary.words if self.vocabulary else ())


@value
class FeatureLock:
    """Everything that a transform needs to know."""

    section: FeatureSection
    columns: Mapping[str, FittedColumn]
    tables: Mapping[str, FittedTable]
    rows: int = 0
    """How many the data had."""
    sha256: str = ""

    def rows_of(self, table: str) -> int:
        """How many rows the embedding of a table needs, from 0 on; 0: ids are any 64 bits, and rows come on demand."""
        fitted = self.tables[table]
        most = max(len(self.columns[name].boundaries) for name in fitted.features)
        return fitted.rows(most)


def made(
    section: FeatureSection, columns: Mapping[str, FittedColumn], tables: Mapping[str, FittedTable], rows: int
) -> FeatureLock:
    """A lock with its hash."""
    draft = FeatureLock(section=section, columns=columns, tables=tables, rows=rows)
    return FeatureLock(section=section, columns=columns, tables=tables, rows=rows, sha256=sha256_of(plain(draft)))


def without_data(section: FeatureSection, given: Mapping[str, Vocabulary]) -> FeatureLock:
    """The lock of a section that needs no data. ``given``: the vocabularies that it has itself, by table."""
    if section.is_fitted:
        names = ", ".join(each.name for each in section.features if each.is_fitted)
        raise UmiakError.of(
            "UM-DATA-121",
            f"features must be fitted to data: {names}",
            hint="`umiak features fit -m CONFIG --data FILES`",
        )
    columns = {each.name: FittedColumn(boundaries=given_boundaries(each)) for each in section.features}
    return made(section, columns, tables_of(section, given), 0)


def given_boundaries(feature: Feature) -> tuple[float, ...]:
    """Those that the section has."""
    return feature.numbering.boundaries if feature.numbering is not None else ()


def tables_of(section: FeatureSection, vocabularies: Mapping[str, Vocabulary]) -> dict[str, FittedTable]:
    """All tables of ids, with their vocabularies."""
    found: dict[str, FittedTable] = {}
    for feature in section.features:
        if feature.numbering is None or feature.table in found:
            continue
        found[feature.table] = FittedTable(
            numbering=feature.numbering,
            dim=feature.dim,
            features=tuple(each.name for each in section.features if each.table == feature.table and each.has_ids),
            vocabulary=vocabularies.get(feature.table),
        )
    return found


def plain(lock: FeatureLock) -> dict[str, Any]:
    """As JSON has it, without its own hash and the names of files. Whatever stands here is part of the hash."""
    section = lock.section
    return {
        "schema": SCHEMA,
        "version": section.version,
        "hash": section.hash,
        "rows": lock.rows,
        "section_sha256": section.sha256,
        "section": section.plain(),
        "columns": {each.name: _column(each, lock.columns[each.name]) for each in section.features},
        "tables": {name: _table(name, table, lock) for name, table in lock.tables.items()},
    }


def _column(feature: Feature, fitted: FittedColumn) -> dict[str, Any]:
    rate = fitted.missing / fitted.values if fitted.values else None
    told: dict[str, Any] = {"kind": feature.kind.value, "table": feature.table or None, "dim": feature.dim}
    told |= {"values": fitted.values, "missing": fitted.missing, "missing_rate": rate}
    numbers = {name: getattr(fitted, name) for name in NUMBERS}
    told |= {name: number for name, number in numbers.items() if number is not None}
    if fitted.boundaries:
        told["boundaries"] = list(fitted.boundaries)
        told["error"] = fitted.error
    return told


NUMBERS = ("mean", "std", "minimum", "maximum", "fill")


def _table(name: str, table: FittedTable, lock: FeatureLock) -> dict[str, Any]:
    told: dict[str, Any] = {"numbering": table.numbering.kind.value, "dim": table.dim, "rows": lock.rows_of(name)}
    told["features"] = list(table.features)
    if table.vocabulary is not None:
        words = table.vocabulary
        told["vocabulary"] = {"words": len(words.words), "first_word": table.first_word, "sha256": _sha256(words)}
    return told


def _sha256(words: Vocabulary) -> str:
    import hashlib

    return hashlib.sha256(words.plain()).hexdigest()


_ESCAPES = {0x5C: b"\\\\", 0x0A: b"\\n", 0x0D: b"\\r", 0x09: b"\\t"}


def escaped(word: bytes) -> bytes:
    """A word on one line, in UTF-8 whatever its bytes are."""
    if b"\\" not in word and word.isascii() and word.decode("ascii").isprintable():
        return word
    try:
        word.decode()
    except UnicodeDecodeError:
        return b"".join(
            _ESCAPES.get(byte) or (bytes([byte]) if 32 <= byte < 127 else b"\\x%02x" % byte) for byte in word
        )
    return b"".join(
        _ESCAPES.get(byte) or (bytes([byte]) if byte >= 32 and byte != 127 else b"\\x%02x" % byte) for byte in word
    )


def unescaped(line: bytes) -> bytes:
    """The word of a line; ValueError if it is none."""
    if b"\\" not in line:
        return line
    made, at = bytearray(), 0
    while at < len(line):
        if line[at] != 0x5C:
            made.append(line[at])
            at += 1
            continue
        letter = line[at + 1 : at + 2]
        if letter == b"x":
            made.append(int(line[at + 2 : at + 4], 16))
            at += 4
        else:
            made += {b"\\": b"\\", b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(letter) or _no_escape(line)
            at += 2
    return bytes(made)


def _no_escape(line: bytes) -> bytes:
    raise ValueError(f"no such escape: {line!r}")
