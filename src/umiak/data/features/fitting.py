"""Fits features to data in one pass, in several threads, and keeps the numbers of words that an older lock has. An adapter.

lock = fit(section, tables.parts(files))
lock = fit(section, parts, previous=lock)       new words come behind those that are known
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import value
from umiak.data.features.lock import (
    FeatureLock,
    FittedColumn,
    Vocabulary,
    given_boundaries,
    made,
    tables_of,
)
from umiak.data.features.lock_files import given_vocabularies
from umiak.data.features.row_choice import RowChoice
from umiak.data.features.sketches import MEMORY_BYTES, WRONG, NumberFacts, Sketch, facts_of, quantiles_of
from umiak.data.tables import TablePart, TableReader, share
from umiak.schema.features.section import Feature, FeatureKind, FeatureSection, Fill, Numbering

BATCH_ROWS = 16_384
ALL_ROWS = RowChoice()


@value
class FitProgress:
    """How far it is."""

    rows: int
    bytes: int
    of_bytes: int
    bad: int


def fit(
    section: FeatureSection,
    parts: Sequence[TablePart],
    *,
    previous: FeatureLock | None = None,
    threads: int = 1,
    bad_rows: float = 0.0,
    memory_bytes: int = MEMORY_BYTES,
    chosen: RowChoice = ALL_ROWS,
    told: Callable[[FitProgress], None] | None = None,
) -> FeatureLock:
    """The lock of a section for those rows of these parts that are ``chosen``.

    ``told`` hears of progress, in any thread, one call at a time.
    """
    return lock_of(sketched(section, parts, threads, bad_rows, memory_bytes, chosen, told), previous)


def sketched(
    section: FeatureSection,
    parts: Sequence[TablePart],
    threads: int = 1,
    bad_rows: float = 0.0,
    memory_bytes: int = MEMORY_BYTES,
    chosen: RowChoice = ALL_ROWS,
    told: Callable[[FitProgress], None] | None = None,
) -> Sketch:
    """One pass. Each thread has parts of its own; what they found is merged, which is the same in any order."""
    shares = [share(parts, number, threads) for number in range(threads)]
    return sketched_side_by_side(section, shares, bad_rows, memory_bytes, chosen, told)


def sketched_side_by_side(
    section: FeatureSection,
    divided: Sequence[Sequence[TablePart]],
    bad_rows: float = 0.0,
    memory_bytes: int = MEMORY_BYTES,
    chosen: RowChoice = ALL_ROWS,
    told: Callable[[FitProgress], None] | None = None,
) -> Sketch:
    """The same with a thread for each of these parts of the data."""
    shares = [mine for mine in divided if mine]
    heard = _Told(sum(part.weight for mine in shares for part in mine), told)
    if len(shares) < 2:
        return _pass(section, shares[0] if shares else (), bad_rows, memory_bytes, chosen, heard)
    with ThreadPoolExecutor(len(shares)) as pool:
        running = [pool.submit(_pass, section, mine, bad_rows, memory_bytes, chosen, heard) for mine in shares]
        try:
            whole = running[0].result()
            for each in running[1:]:
                whole.merge(each.result())
        except BaseException:
            heard.stopped = True
            raise
    return whole


class _Told:
    """Adds up what threads have done."""

    def __init__(self, of_bytes: int, told: Callable[[FitProgress], None] | None) -> None:
        self.stopped = False
        self._told, self._of_bytes = told, of_bytes
        self._rows, self._bytes, self._bad = 0, 0, 0
        self._lock = threading.Lock()

    def add(self, rows: int, bad: int, weight: int) -> None:
        with self._lock:
            self._rows, self._bad, self._bytes = self._rows + rows, self._bad + bad, self._bytes + weight
            if self._told is not None:
                self._told(FitProgress(rows=self._rows, bytes=self._bytes, of_bytes=self._of_bytes, bad=self._bad))


def _pass(
    section: FeatureSection,
    parts: Sequence[TablePart],
    bad_rows: float,
    memory_bytes: int,
    chosen: RowChoice,
    heard: _Told,
) -> Sketch:
    sketch = Sketch(section, memory_bytes)
    wanted = {**sketch.wanted(), **chosen.wanted(section)}
    reader = TableReader(parts, wanted, batch_rows=BATCH_ROWS, bad_rows=bad_rows)
    part = 0
    for batch in reader:
        done = sum(each.weight for each in parts[part : batch.part])
        part = batch.part
        kept = chosen.kept(batch, section)
        sketch.add(batch if kept is None else batch.taken(kept))
        heard.add(batch.rows, batch.bad, done)
        if heard.stopped:
            break
    heard.add(0, 0, sum(each.weight for each in parts[part:]))
    return sketch


def lock_of(sketch: Sketch, previous: FeatureLock | None = None) -> FeatureLock:
    """What a pass over all rows has found, as a lock; UmiakError with everything that can't be fitted."""
    section = sketch.section
    problems: list[Problem] = []
    columns = {each.name: _column(each, sketch, problems) for each in section.features}
    vocabularies = given_vocabularies(section)
    for name, words in sketch.words.items():
        numbering = next(each.numbering for each in section.features if each.table == name and each.has_ids)
        assert numbering is not None
        before = _known(name, numbering, previous)
        vocabularies[name] = vocabulary(words.sorted(1), numbering, before)
    UmiakError.raise_any(problems)
    return made(section, columns, tables_of(section, vocabularies), sketch.rows)


def vocabulary(counted: Sequence[tuple[bytes, int]], numbering: Numbering, known: Sequence[bytes] = ()) -> Vocabulary:
    """Words that are known keep their places, with their counts of now; those that came often enough come behind them."""
    counts = dict(counted) if known else {}
    old = set(known)
    new = [(word, count) for word, count in counted if count >= numbering.min_count and word not in old]
    if numbering.max_words:
        new = new[: max(0, numbering.max_words - len(known))]
    return Vocabulary(
        words=(*known, *(word for word, _ in new)),
        counts=(*(counts.get(word, 0) for word in known), *(count for _, count in new)),
    )


def _known(table: str, numbering: Numbering, previous: FeatureLock | None) -> tuple[bytes, ...]:
    """The words that keep their numbers."""
    fitted = None if previous is None else previous.tables.get(table)
    if fitted is None or fitted.vocabulary is None:
        return ()
    if fitted.numbering.oov != numbering.oov:
        what = f"the older lock has `oov: {fitted.numbering.oov}` for {table}, and the section {numbering.oov}: words would get other numbers"
        raise UmiakError.of(
            WRONG, what, hint="write the same, or forget the older lock with --fresh, and train from the beginning"
        )
    return fitted.vocabulary.words


def _column(feature: Feature, sketch: Sketch, problems: list[Problem]) -> FittedColumn:
    values, missing = sketch.values.get(feature.name, (0, 0))
    if feature.kind is not FeatureKind.NUMBER:
        return FittedColumn(values=values, missing=missing, boundaries=given_boundaries(feature))
    facts = facts_of(sketch.staged[feature.name])
    fill = None
    if feature.missing is Fill.MEAN:
        raw = facts_of(sketch.raw[feature.name])
        _needed(feature, raw, problems)
        fill = raw.mean
    boundaries, error = given_boundaries(feature), 0.0
    parts = feature.numbering.quantiles if feature.numbering is not None else 0
    if parts or any(step.is_fitted for step in feature.steps):
        _needed(feature, facts, problems)
    if parts and not facts.infinite:
        boundaries, error = quantiles_of(sketch.staged[feature.name], parts)
    return FittedColumn(
        values=values,
        missing=missing,
        mean=facts.mean,
        std=facts.std,
        minimum=facts.minimum,
        maximum=facts.maximum,
        fill=fill,
        boundaries=boundaries,
        error=error,
    )


def _needed(feature: Feature, facts: NumberFacts, problems: list[Problem]) -> None:
    what, hint = None, None
    if not facts.count:
        what = f"feature {feature.name}: the column {feature.column} has no values to be fitted to"
    elif facts.infinite:
        what = f"feature {feature.name}: {facts.infinite} numbers are infinite"
        hint = "limit them before: `transform: [{clip: [low, high]}, ...]`"
    if what is not None and all(each.what != what for each in problems):
        problems.append(Problem(code=WRONG, what=what, hint=hint))
