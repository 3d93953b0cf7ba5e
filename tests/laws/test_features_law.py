"""The same rows give the same ids and the same bits of numbers from CSV, Parquet, JSON lines and a request, and they are what the documentation says; what
is fitted in pieces, merged in any order, is what is fitted at once."""

from __future__ import annotations

import collections
import csv
import datetime as dt
import decimal
import io
import json
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support import chance
from tests.support.effort import times
from tests.support.feature_oracle import Oracle
from tests.support.table_samples import WORDS
from umiak.data import features, tables
from umiak.data.features import fitting, sketches
from umiak.schema.features import reading
from umiak.schema.findings import Findings
from umiak.schema.yaml_tree import parse

SECTION = """
columns:
  - {name: user, from: text, kind: id}
  - {name: few, from: text, kind: id, hash: 7, missing: nobody, table: few}
  - {name: known, from: text, kind: id, vocab: {words: ["1", "é", w1, w2, w3, nobody], oov: 3}}
  - {name: whole, kind: id, numeric: true}
  - {name: big, kind: id, numeric: true, hash: 1000}
  - {name: part, kind: id, numeric: true}
  - {name: truth, kind: id}
  - {name: when, kind: id}
  - {name: exact, kind: id, numeric: true}
  - {name: price, kind: number, transform: [log1p, {zscore: [1.5, 0.7]}, {clip: [-5, 5]}]}
  - {name: price_range, from: price, kind: number, boundaries: [-1, 0, 0.5, 10]}
  - {name: price_id, from: price, kind: number, transform: criteo_log2, as: id, hash: 50}
  - {name: root, from: other, kind: number, missing: -4, transform: [sqrt, {minmax: [-2, 9]}]}
  - {name: ten, from: other, kind: number, transform: log10}
  - {name: hidden, from: other, kind: number, as: id, only_crossed: true}
  - {name: crossed, kind: cross, of: [few, price_range], hash: 100}
  - {name: open_cross, kind: cross, of: [hidden, user, truth]}
  - {name: tags, kind: id, separator: "|", max_len: 2, keep: first}
  - {name: clicks, kind: sequence, from: tags, of: user, separator: "|", max_len: 3}
  - {name: vector, kind: vector, dim: 3, separator: "|", transform: log1p}
label: {click: label}
weight: weight
group: user
"""
EXTREMES = [2**63 - 1, -(2**63), 0, 1, -1, 2**53 + 1, None]
FLOATS = [0.1, 1.0, -0.0, 1e300, 1e-7, 2.5, 123456789012345680.0, 1e21, 2.0, -3.0, None]
PRICES = [0.0, -0.0, 1.0, 2.0, 10.0, 0.5, 1e30, -1.0, 3.7, None, math.nan]


def section_of(text: str) -> features.FeatureSection:
    findings = Findings()
    node = parse(text, "features.yaml", findings)
    assert node is not None
    made = reading.read(node, findings)
    assert made is not None, findings.problems
    return made


def a_row(dice: random.Random) -> dict[str, Any]:
    def word() -> str:
        text = dice.choice([*WORDS, f"w{dice.randrange(9)}", "".join(dice.choices('a"\n\r, \té', k=dice.randrange(6)))])
        return text.replace("|", "")

    # In CSV no list, an empty one and one with a missing value are all nothing.
    tags = [dice.choice([word() or None, None]) for _ in range(dice.randrange(2, 6))]
    return {
        "text": dice.choice([None, word()]),
        "whole": dice.choice(EXTREMES),
        "big": dice.choice([2**63, 2**64 - 1, 7, None]),
        "part": dice.choice([*FLOATS, dice.random()]),
        "truth": dice.choice([True, False, None]),
        "when": dice.choice([None, dice.getrandbits(50)]),
        "exact": dice.choice([None, dice.randrange(-(10**9), 10**9)]),
        "price": dice.choice([*PRICES, dice.gauss(0, 100)]),
        "other": dice.choice([0.0, 1e-9, 0.01, None, dice.expovariate(0.01)]),
        "tags": dice.choice([None, [word() or "x"], tags]),
        "vector": dice.choice([None, [dice.gauss(0, 1), None, 1.0]]),
        "label": float(dice.random() < 0.5),
        "weight": dice.random(),
    }


def arrow_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    kinds = {
        "text": pa.string(),
        "whole": pa.int64(),
        "big": pa.uint64(),
        "truth": pa.bool_(),
        "when": pa.timestamp("us", "Europe/Berlin"),
        "tags": pa.list_(pa.string()),
        "vector": pa.list_(pa.float64()),
    }
    made = {
        name: pa.array([row[name] for row in rows], kinds.get(name, pa.float64()))
        for name in rows[0]
        if name != "exact"
    }
    made["exact"] = pa.array([_exact(row["exact"]) for row in rows], pa.decimal128(15, 3))
    return pa.table(made)


def _exact(thousandths: int | None) -> decimal.Decimal | None:
    return None if thousandths is None else decimal.Decimal(thousandths).scaleb(-3)


def request_of(row: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: times are texts, decimals are floats."""
    made = dict(row)
    if row["when"] is not None:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=row["when"])
        text = moment.strftime("%Y-%m-%dT%H:%M:%S")
        made["when"] = text + (f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else "") + "Z"
    if row["exact"] is not None:
        made["exact"] = float(_exact(row["exact"]))  # type: ignore[arg-type]
    return made


def cell_of(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list):
        return "|".join(cell_of(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


def written(rows: Sequence[dict[str, Any]], directory: Path, dice: random.Random) -> list[Path]:
    files = [directory / name for name in ("t.parquet", "t.jsonl", "t.csv")]
    dictionary: Any = dice.choice([True, False, ["text"]])
    pq.write_table(arrow_of(rows), files[0], use_dictionary=dictionary, row_group_size=dice.choice([7, 1000]))
    requests = [request_of(row) for row in rows]
    without = [{name: None if cell_of(each) == "" else each for name, each in row.items()} for row in requests]
    files[1].write_text("".join(json.dumps(row, ensure_ascii=dice.random() < 0.5) + "\n" for row in without))
    out = io.StringIO(newline="")
    table = [list(rows[0]), *([cell_of(each) for each in row.values()] for row in requests)]
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(table)
    files[2].write_bytes(out.getvalue().encode())
    return files


def shown(found: features.FeatureBatch) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, column in found.features.items():
        made[name] = [None if each is None else each.tobytes() for each in (column.ids, column.lengths, column.numbers)]
    made["others"] = [each.tobytes() for each in found.labels.values()]
    made["others"] += [None if each is None else each.tobytes() for each in (found.weight, found.group, found.time)]
    return made


def test_one_row_is_the_same_from_every_format_and_from_a_request(tmp_path: Path) -> None:
    dice = chance()
    transform = features.FeatureTransform(features.of_section(section_of(SECTION)))
    for _ in range(times(25)):
        rows = [a_row(dice) for _ in range(dice.randrange(1, 40))]
        requests = [request_of(row) for row in rows]
        expected = transform.rows(requests, labels=True)
        for file in written(rows, tmp_path, dice):
            table = tables.look(file, tables.TextReading(delimiter=","))
            reader = tables.TableReader(tables.parts([table]), transform.wanted(), batch_rows=1000)
            start = 0
            for batch in reader:
                piece = transform.rows(requests[start : start + batch.rows], labels=True)
                assert shown(transform.batch(batch)) == shown(piece), file.name
                start += batch.rows
            assert start == len(rows)
        oracle = Oracle(transform.lock)
        for feature in transform.section.fed:
            column = expected.features[feature.name]
            if column.numbers is not None:
                assert column.numbers.tobytes() == oracle.numbers(feature, requests), feature.name
                continue
            assert column.ids is not None
            ids = oracle.ids(feature, requests)
            assert column.ids.tolist() == [each for row in ids for each in row], feature.name
            if column.lengths is not None:
                assert column.lengths.tolist() == [len(row) for row in ids]


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    words = [b"\xff\xfe", b"a\x00b", b"\xc3", b"x" * 100_000, b"plain"]
    section = section_of("columns: [{name: a, kind: id}, {name: v, from: a, kind: id, vocab: fit}]")
    pq.write_table(pa.table({"a": pa.array(words, pa.binary())}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes(b"a\n" + b"\n".join(words) + b"\n")
    whole = [
        tables.parts([tables.look(tmp_path / name, tables.TextReading(delimiter=","))])
        for name in ("t.parquet", "t.csv")
    ]
    locks = [features.fit(section, parts) for parts in whole]
    assert locks[0] == locks[1]
    features.write_lock(locks[0], str(tmp_path / "features.lock.json"))
    lock = features.read_lock(str(tmp_path / "features.lock.json"), section)
    assert lock == locks[0]
    transform = features.FeatureTransform(lock)
    found = [shown(transform.batch(next(tables.TableReader(parts, transform.wanted())))) for parts in whole]
    assert found[0] == found[1] == shown(transform.rows([{"a": word} for word in words]))


FITTED = """
columns:
  - {name: word, kind: id, vocab: {min_count: 2, max_words: 20}, table: words}
  - {name: words, kind: id, separator: "|", vocab: {min_count: 2, max_words: 20}, table: words}
  - {name: filled, from: word, kind: id, missing: none, vocab: fit}
  - {name: rounded, from: price, kind: number, transform: criteo_log2, as: id, vocab: fit}
  - {name: price, kind: number, missing: mean, transform: [sqrt, zscore]}
  - {name: unit, from: price, kind: number, transform: [{clip: [-50, 50]}, minmax]}
  - {name: ranges, from: price, kind: number, boundaries: {quantiles: 7}}
"""


def test_pieces_merged_in_any_order_are_the_whole_and_what_definitions_say(tmp_path: Path) -> None:
    dice = chance()
    section = section_of(FITTED)
    for _ in range(times(10)):
        rows = dice.choice([1, 5, 700])
        price = [
            dice.choice([None, math.nan, 0.1, dice.gauss(5, 1e3), dice.gauss(0, 1e-3)]) for _ in range(rows - 1)
        ] + [3.25]
        word = [dice.choice([None, "", "\n", f"w{dice.randrange(30)}", "é"]) for _ in range(rows)]
        several = [dice.choice([None, [], [f"w{dice.randrange(40)}", None]]) for _ in range(rows)]
        arrow = pa.table({"price": price, "word": word, "words": pa.array(several, pa.list_(pa.string()))})
        pq.write_table(arrow, tmp_path / "t.parquet", row_group_size=dice.choice([1, 50, 1000]))
        parts = tables.parts([tables.look(tmp_path / "t.parquet")])
        lock = features.fit(section, parts)
        assert lock == features.fit(section, parts, threads=3)
        pieces = [fitting.sketched(section, [part]) for part in parts]
        dice.shuffle(pieces)
        while len(pieces) > 1:
            pieces[0].merge(pieces.pop(dice.randrange(1, len(pieces))))
            dice.shuffle(pieces)
        assert fitting.lock_of(pieces[0]) == lock
        numbers = [each for each in price if each is not None and not math.isnan(each)]
        roots = [math.copysign(math.sqrt(abs(each)), each) for each in numbers]
        column = lock.columns["price"]
        assert (column.fill, column.mean) == (statistics.mean(numbers), statistics.mean(roots))
        assert column.std == statistics.pstdev(roots)
        clipped = np.clip(numbers, -50, 50)
        assert (lock.columns["unit"].minimum, lock.columns["unit"].maximum) == (clipped.min(), clipped.max())
        in_order = np.sort(numbers)
        at = [part * len(numbers) // 7 for part in range(1, 7)]
        assert lock.columns["ranges"].boundaries == tuple(
            each for each in np.unique(in_order[at]) if each > in_order[0]
        )
        counts = collections.Counter(each.encode() for each in word if each)
        joint = counts + collections.Counter(one.encode() for each in several for one in each or () if one)
        vocabulary = lock.tables["words"].vocabulary
        assert vocabulary is not None
        expected = sorted(((n, w) for w, n in joint.items() if n >= 2), key=lambda pair: (-pair[0], pair[1]))[:20]
        assert list(zip(vocabulary.counts, vocabulary.words, strict=True)) == expected
        filled = lock.tables["filled"].vocabulary
        assert filled is not None
        assert dict(zip(filled.words, filled.counts, strict=True)) == counts + collections.Counter(
            {b"none": rows - counts.total()}
        )
        assert lock.columns["word"].missing == rows - counts.total()


def test_quantiles_of_many_values_are_within_the_bound_that_is_told(tmp_path: Path) -> None:
    numbers = np.random.default_rng(chance().getrandbits(32)).lognormal(0, 3, 200_000)
    pq.write_table(pa.table({"price": numbers}), tmp_path / "t.parquet", row_group_size=30_000)
    section = section_of("columns: [{name: price, kind: number, boundaries: {quantiles: 50}}]")
    parts = tables.parts([tables.look(tmp_path / "t.parquet")])
    lock = features.fit(section, parts)
    assert lock == features.fit(section, parts[::-1], threads=2)
    column = lock.columns["price"]
    assert column.error == sketches.CELL_ERROR
    exact = np.sort(numbers)[[part * len(numbers) // 50 for part in range(1, 50)]]
    assert np.all(np.abs(np.array(column.boundaries) - exact) <= column.error * np.abs(exact))
