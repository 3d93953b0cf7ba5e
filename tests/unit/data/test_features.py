"""Features: a lock's files, refits, what is refused, and matrices of ids."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from umiak.core.problem import UmiakError
from umiak.data import features, stable_hash, tables
from umiak.data.features.lock import escaped, unescaped
from umiak.data.features.row_choice import RowChoice
from umiak.schema.features import reading

CONFIG = """features:
  columns:
    - {name: word, kind: id, vocab: {min_count: 2}}
    - {name: price, kind: number, missing: mean, transform: zscore}
    - {name: hist, kind: sequence, hash: 10, max_len: 2}
    - {name: pair, kind: vector, dim: 2}
  label: click
"""


def section(directory: Path, text: str = CONFIG) -> features.FeatureSection:
    (directory / "config.yaml").write_text(text)
    return reading.load(directory)


def parts(directory: Path, **columns: list[object]) -> tuple[tables.TablePart, ...]:
    pq.write_table(pa.table(columns), directory / "t.parquet")
    return tables.parts([tables.look(directory / "t.parquet")])


def some(directory: Path, words: list[str]) -> tuple[tables.TablePart, ...]:
    count = len(words)
    return parts(
        directory,
        word=words,
        price=[1.0] * count,
        hist=[[1, 2, 3]] * count,
        pair=[[1.0, 2.0]] * count,
        click=[1] * count,
    )


def code_of(caught: pytest.ExceptionInfo[UmiakError]) -> str:
    return caught.value.problems[0].code


def test_rows_of_other_times_are_not_fitted_to(tmp_path: Path) -> None:
    """The lock is that of a table that has the other rows only, to the byte, in any number of threads."""
    rng = np.random.default_rng(3)
    count = 400
    rows: dict[str, list[object]] = {
        "at": [None if number % 17 == 0 else float(rng.integers(0, 100)) for number in range(count)],
        "word": [None if number % 7 == 0 else f"w{rng.integers(0, 30)}" for number in range(count)],
        "price": [None if number % 5 == 0 else float(rng.normal()) for number in range(count)],
        "hist": [None if number % 11 == 0 else [*range(int(rng.integers(0, 4)))] for number in range(count)],
        "pair": [[1.0, 2.0]] * count,
        "click": [1] * count,
    }
    own = section(tmp_path, CONFIG.replace("label: click", "label: click\n  time: at"))
    for after, before in ((None, 50.0), (20.0, None), (20.0, 50.0), (1000.0, None)):
        kept = [
            number
            for number, at in enumerate(rows["at"])
            if isinstance(at, float) and (after is None or at >= after) and (before is None or at < before)
        ]
        pq.write_table(pa.table(rows), tmp_path / "whole.parquet", row_group_size=90)
        schema = pq.read_schema(tmp_path / "whole.parquet")
        less = pa.table({name: [column[number] for number in kept] for name, column in rows.items()}, schema=schema)
        pq.write_table(less, tmp_path / "less.parquet")
        whole, smaller = (tables.parts([tables.look(tmp_path / f"{name}.parquet")]) for name in ("whole", "less"))
        if not kept:
            with pytest.raises(UmiakError, match="has no values to be fitted to"):
                features.fit(own, whole, chosen=RowChoice(after=after, before=before))
            continue
        expected = features.fit(own, smaller)
        for threads in (1, 3):
            found = features.fit(own, whole, chosen=RowChoice(after=after, before=before), threads=threads)
            assert found == expected
            assert found.sha256 == expected.sha256


def test_a_lock_is_written_and_read(tmp_path: Path) -> None:
    lock = features.fit(section(tmp_path), some(tmp_path, ["a", "b", "b", "c", "c", "a", "\n\\"]))
    path = str(tmp_path / "out" / "features.lock.json")
    written = features.write_lock(lock, path)
    assert [Path(each).name.startswith("features.word.") for each in written] == [True, False]
    assert features.read_lock(path, section(tmp_path)) == lock
    assert features.read_lock(path).sha256 == lock.sha256
    told = json.loads(Path(path).read_text())
    assert (told["columns"]["word"]["missing_rate"], told["tables"]["word"]["rows"]) == (0.0, 6)
    assert Path(written[0]).read_bytes() == b"2\ta\n2\tb\n2\tc\n"
    assert not list((tmp_path / "out").glob("*.draft"))
    assert features.FeatureTransform(lock).rows([{"word": "b"}]).features["word"].ids.tolist() == [4]  # type: ignore[union-attr]


def test_a_lock_that_is_damaged_or_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "features.lock.json"
    words, _ = features.write_lock(features.fit(section(tmp_path), some(tmp_path, ["a", "a"])), str(path))
    whole = path.read_text()

    def refused(text: str) -> str:
        path.write_text(text)
        with pytest.raises(UmiakError) as caught:
            features.read_lock(str(path), section(tmp_path))
        assert caught.value.problems[0].hint
        return code_of(caught)

    told = json.loads(whole)
    for change in (
        lambda: whole[:-40],
        lambda: "[1]",
        lambda: "[" * 100_000,
        lambda: json.dumps({**told, "rows": 3}),
        lambda: json.dumps({**told, "sha256": "0" * 64}),
        lambda: json.dumps({**told, "tables": {}}),
        lambda: json.dumps({**told, "columns": None}),
        lambda: json.dumps({**told, "also": 1}),
        lambda: whole.replace('"missing_rate": 0.0', '"missing_rate": 0.5'),
        lambda: whole.replace(Path(words).name, "../" + Path(words).name),
    ):
        assert refused(change()) == "UM-DATA-122", change()
    assert refused(json.dumps({**told, "schema": 2})) == "UM-DATA-123"
    assert refused(json.dumps({**told, "version": 2})) == "UM-DATA-123"
    path.write_text(whole)
    with pytest.raises(UmiakError) as caught:
        features.read_lock(str(path), section(tmp_path, CONFIG.replace("hash: 10", "hash: 11")))
    assert (code_of(caught), caught.value.problems[0].why) == ("UM-DATA-124", "different: hist")
    Path(words).write_bytes(b"2\tb\n")
    assert refused(whole) == "UM-DATA-122"
    Path(words).unlink()
    assert refused(whole) == "UM-DATA-121"
    path.unlink()
    with pytest.raises(UmiakError, match="can't be read") as caught:
        features.read_lock(str(path))
    assert code_of(caught) == "UM-DATA-121"


def test_words_keep_their_numbers_when_others_come(tmp_path: Path) -> None:
    here = section(tmp_path)
    first = features.fit(here, some(tmp_path, ["b", "b", "a", "a", "c"]))
    second = features.fit(here, some(tmp_path, ["z", "z", "z", "c", "c", "b"]), previous=first)
    words = second.tables["word"].vocabulary
    assert words is not None
    assert list(zip(words.words, words.counts, strict=True)) == [(b"a", 0), (b"b", 1), (b"z", 3), (b"c", 2)]
    limited = section(tmp_path, CONFIG.replace("min_count: 2", "max_words: 3"))
    third = features.fit(limited, some(tmp_path, ["z", "c", "c"]), previous=first)
    assert third.tables["word"].vocabulary == features.Vocabulary(words=(b"a", b"b", b"c"), counts=(0, 0, 2))
    with pytest.raises(UmiakError, match="words would get other numbers"):
        features.fit(section(tmp_path, CONFIG.replace("min_count: 2", "oov: 2")), some(tmp_path, ["a"]), previous=first)


def test_what_can_not_be_fitted_is_told_at_once(tmp_path: Path) -> None:
    text = CONFIG.replace("  label", "    - {name: wide, kind: number, boundaries: {quantiles: 3}}\n  label")
    here = section(tmp_path, text)
    both = parts(
        tmp_path,
        word=["a"],
        price=pa.array([None], pa.float64()),
        wide=[float("inf")],
        hist=[[1]],
        pair=[[1.0, 2.0]],
        click=[1],
    )
    with pytest.raises(UmiakError) as caught:
        features.fit(here, both)
    assert [each.code for each in caught.value.problems] == ["UM-DATA-126"] * 2
    assert [each.what.partition(":")[0] for each in caught.value.problems] == ["feature price", "feature wide"]
    with pytest.raises(UmiakError, match="more than"):
        features.fit(section(tmp_path), some(tmp_path, [f"w{number}" for number in range(50)]), memory_bytes=1000)
    with pytest.raises(UmiakError, match="must be fitted to data: word, price"):
        features.of_section(section(tmp_path))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"hist": 5}, "a list is expected, not int"),
        ({"word": {}}, "a text, a number, a truth or nothing is expected, not dict"),
        ({"word": ["a"]}, "a text, a number, a truth or nothing is expected, not list"),
        ({"price": "cheap"}, "a number is expected"),
        ({"price": 1e300}, "a number that no float32 has"),
        ({"pair": [1.0]}, "2 numbers are expected, and it has 1"),
        ({"other": 1}, "no feature has the column 'other'"),
        (7, "an object with columns is expected, not int"),
    ],
)
def test_a_request_that_is_wrong_says_why(row: object, words: str, tmp_path: Path) -> None:
    transform = features.FeatureTransform(features.fit(section(tmp_path), some(tmp_path, ["a", "a"])))
    with pytest.raises(UmiakError, match=words) as caught:
        transform.rows([{"word": "a"}, row])  # type: ignore[list-item]
    assert code_of(caught) in ("UM-DATA-125", "UM-DATA-112")


def test_a_table_that_is_wrong_says_where(tmp_path: Path) -> None:
    transform = features.FeatureTransform(features.fit(section(tmp_path), some(tmp_path, ["a", "a"])))
    flat = parts(tmp_path, word=["a"], price=[1.0], hist=[1], pair=[[1.0, 2.0]], click=[1])
    with pytest.raises(
        UmiakError, match=r"row group 0, rows from 0 on: column 'hist' of feature hist: lists are expected"
    ):
        transform.batch(next(tables.TableReader(flat, transform.wanted())))
    no_label = parts(tmp_path, word=["a", "b"], price=[1.0] * 2, hist=[[1]] * 2, pair=[[1.0, 2.0]] * 2, click=[1, None])
    with pytest.raises(
        UmiakError, match=r"t.parquet: row group 0, rows from 0 on: the label click is missing: row 1 of these"
    ):
        transform.batch(next(tables.TableReader(no_label, transform.wanted())))
    without = tables.TableReader(no_label, transform.wanted(labels=False))
    assert transform.batch(next(without), labels=False).labels == {}


def test_ids_as_a_matrix_and_as_keys_of_all_tables() -> None:
    column = features.FeatureColumn(ids=np.array([5, 6, 7], np.uint64), lengths=np.array([2, 0, 1]))
    assert column.padded().tolist() == [[5, 6], [0, 0], [7, 0]]
    assert column.padded(1).tolist() == [[5], [0], [7]]
    assert features.FeatureColumn(ids=np.array([5], np.uint64)).padded().tolist() == [[5]]
    ids = np.array([0, 1, 2], np.uint64)
    one, other = features.keys_of("a", ids), features.keys_of("b", ids)
    assert (one[0], other[0]) == (0, 0)
    assert not set(one[1:].tolist()) & set(other[1:].tolist())


def test_given_words_come_from_the_section_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("b\na\n")
    text = "features:\n  columns:\n    - {name: w, kind: id, vocab: {file: words.txt, oov: 2}}\n    - {name: v, kind: id, vocab: [x, 7]}\n"
    transform = features.FeatureTransform(features.of_section(section(tmp_path, text)))
    found = transform.rows([{"w": "a", "v": 7}, {"w": None, "v": "y"}]).features
    assert found["w"].ids is not None
    assert found["v"].ids is not None
    assert (found["w"].ids.tolist(), found["v"].ids.tolist()) == ([5, 1], [4, 2])
    assert stable_hash("7") == stable_hash(7)
    (tmp_path / "words.txt").write_text("b\nb\n")
    with pytest.raises(UmiakError, match="each word must be there once"):
        features.of_section(section(tmp_path, text))


def test_words_stand_on_one_line_whatever_they_are() -> None:
    for word in (b"plain", b"a\tb\nc\\d\re", "é\u2028".encode(), b"\xff\x00\x7f", b"\\x41", b" "):
        line = escaped(word)
        assert b"\n" not in line
        assert b"\t" not in line
        line.decode()
        assert unescaped(line) == word
    with pytest.raises(ValueError, match="no such escape"):
        unescaped(b"\\q")
