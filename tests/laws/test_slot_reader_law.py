"""The slot reader equals a plain reading in Python: whatever the lines, threads, batches, cuts, compression and interruptions."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support import chance, slot_reference
from tests.support.effort import effort, times
from tests.support.slot_helpers import packed, rows
from umiak import data

SPARSE = ["click", "1", "12", "a_slot_with_a_long_name"]
DENSE = {"d": 2, "dense_feature": 3}

digits = st.text("0123456789", min_size=1, max_size=22)
ids = st.one_of(
    st.integers(0, 10**6).map(str),
    st.integers(-(2**63) - 2, 2**64 + 2).map(str),
    digits,
    st.sampled_from(["", "x", "1.5", "+1", "--1", "18446744073709551615", "1\r2", "1:2"]),
)
numbers = st.one_of(
    st.floats(0, 1).map(lambda number: f"{number:.12g}"),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.sampled_from(["", "-", "+"]), digits, digits).map(lambda parts: f"{parts[0]}{parts[1]}.{parts[2]}"),
    st.sampled_from(["", "nan", "inf", "1e999", "-1e39", "1e-60", ".5", "5.", ".", "1e5", "1e", "0x10", "1_0", "/.5"]),
)
good_tokens = st.one_of(
    st.tuples(st.sampled_from(SPARSE), st.integers(0, 2**64 - 1).map(str)).map(":".join),
    st.tuples(st.sampled_from(["other", "1x", "é"]), st.sampled_from(["", "1", "x:y"])).map(":".join),
)
any_tokens = st.one_of(
    good_tokens,
    st.tuples(st.sampled_from(SPARSE), ids).map(":".join),
    st.tuples(st.sampled_from(list(DENSE)), numbers).map(":".join),
    st.sampled_from(["x", ":", ":1", "::", "click", "click:", "dense_feature:", "\x01:1", "1\r:2", "\r", "\x0b"]),
)
dense_runs = st.sampled_from([[], ["d:0.5", "d:-1"], ["dense_feature:0.1", "dense_feature:0.25", "dense_feature:1e3"]])
spaces = st.sampled_from([" ", " ", " ", "  ", "\t", " \t "])


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    tokens = [*draw(st.lists(good_tokens, max_size=4)), *draw(dense_runs), *draw(st.lists(any_tokens, max_size=2))]
    if draw(st.booleans()):
        tokens = draw(st.permutations(tokens))
    text = draw(st.sampled_from(["", "", "", " ", "\t"]))
    for token in tokens:
        text += token + draw(spaces)
    return (text if draw(st.booleans()) else text.strip(" \t")).encode()


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Lines of which many are alike, as in real files."""
    kinds = draw(st.lists(lines(), min_size=1, max_size=5))
    chosen = draw(st.lists(st.sampled_from(kinds), max_size=40))
    ending = draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    whole = ending.join(chosen)
    return whole + draw(st.sampled_from([b"", ending, ending + ending]))


ALIKE = ["click", "1", "12", "slot_of_15_byte"]


@st.composite
def texts_of_lines_alike(draw: st.DrawFn) -> bytes:
    """Lines that all name every slot in the same order, except for a few; such lines are read many at a time."""
    dense = [name for name, dim in DENSE.items() for _ in range(dim)]
    names = draw(st.permutations([*ALIKE, *dense, *draw(st.sampled_from([[], ["other"], ["other", "other"]]))]))
    good = st.integers(0, 2**64 - 1).flatmap(lambda most: st.integers(0, most)).map(str)
    some_ids = draw(st.lists(st.one_of(good, good, good, ids), min_size=1, max_size=8))
    plain = st.tuples(st.sampled_from(["", "-"]), st.floats(0, 10**6), st.integers(0, 14))
    decimal = plain.map(lambda parts: f"{parts[0]}{parts[1]:.{parts[2]}f}")
    some_numbers = draw(st.lists(st.one_of(decimal, decimal, decimal, numbers), min_size=1, max_size=8))
    choose = draw(st.randoms(use_true_random=False))
    odd = draw(st.lists(lines(), max_size=2))
    end = draw(st.sampled_from([b"\n", b"\n", b"\r\n", b" \n", b"\t\n"]))
    made = []
    for _ in range(draw(st.integers(1, 70))):
        values = [choose.choice(some_numbers if name in DENSE else some_ids) for name in names]
        line = " ".join(f"{name}:{value}" for name, value in zip(names, values, strict=True)).encode()
        made.append(choose.choice(odd) if odd and choose.random() < 0.03 else line)
    return end.join(made) + draw(st.sampled_from([b"", end]))


how_read = st.fixed_dictionaries(
    {
        "threads": st.sampled_from([1, 1, 2, 3]),
        "batch_size": st.sampled_from([1, 2, 3, 7, 100]),
        "block_bytes": st.sampled_from([16, 64, 300, None]),
    }
)
settings_of_slots = st.fixed_dictionaries(
    {
        "padding": st.sampled_from([0, None, -1, 2**64 - 1]),
        "dense_padding": st.sampled_from([0.0, None, 1.5]),
        "unknown": st.sampled_from(["count", "skip", "refuse"]),
    }
)


@given(
    texts(), how_read, settings_of_slots, st.sampled_from(["plain", "gzip", "zstd", "bzip2", "xz"]), st.integers(1, 3)
)
@example(b"click:1\n" * 3 + b"1:2\r\n", {"threads": 1, "batch_size": 2, "block_bytes": 16}, {}, "plain", 1)
@example(b"\xef\xbb\xbfclick:1\n", {"threads": 1, "batch_size": 2, "block_bytes": None}, {}, "gzip", 1)
@effort(3)
def test_reading_equals_the_plain_reading(text: bytes, how: dict, slots: dict, packing: str, members: int) -> None:
    _reading_equals_the_plain_reading(packed(text, packing, members), text, SPARSE, how, slots)


@given(texts_of_lines_alike(), how_read, settings_of_slots)
@effort(1)
def test_reading_lines_alike_equals_the_plain_reading(text: bytes, how: dict, slots: dict) -> None:
    _reading_equals_the_plain_reading(text, text, ALIKE, how, slots)


def _reading_equals_the_plain_reading(source: bytes, text: bytes, sparse: list[str], how: dict, slots: dict) -> None:
    expected = slot_reference.read(text, sparse, DENSE, **slots)
    reader = data.SlotReader(source, sparse=sparse, dense=DENSE, bad_lines=10**6, **how, **slots)
    batches = list(reader)
    assert [batch.size for batch in batches[:-1]] == [how["batch_size"]] * (len(batches) - 1)
    assert rows(batches) == [sample.plain() for sample in expected.samples]
    seen = reader.statistics()
    assert seen.samples == len(expected.samples)
    assert seen.bad_lines == len(expected.bad)
    assert seen.blank_lines == expected.blank
    assert seen.bad_by_reason == Counter(bad.reason for bad in expected.bad)
    assert [(bad.line, bad.column, bad.reason, bad.offset) for bad in seen.bad_examples] == [
        (bad.line, bad.column, bad.reason, bad.offset) for bad in expected.bad[:8]
    ]
    if slots.get("unknown") != "skip":
        assert {name: counts.values for name, counts in seen.unknown.items()} == expected.unknown


@given(texts(), how_read, st.integers(0, 3))
@effort(1)
def test_a_limit_stops_every_reader_at_the_same_line(text: bytes, how: dict, limit: int) -> None:
    expected = slot_reference.read(text, SPARSE, DENSE)
    reader = data.SlotReader(text, sparse=SPARSE, dense=DENSE, bad_lines=limit, **how)
    found = []
    if len(expected.bad) <= limit:
        assert len(rows(reader)) == len(expected.samples)
        return
    with pytest.raises(data.ReadError) as caught:
        found.extend(reader)
    bad = expected.bad[limit]
    assert (caught.value.line, caught.value.column, caught.value.reason) == (bad.line, bad.column, bad.reason)
    before = sum(sample.offset < bad.offset for sample in expected.samples)
    # Whole batches before the line were given out, and nothing behind it.
    assert (
        rows(found)
        == [sample.plain() for sample in expected.samples][: before // how["batch_size"] * how["batch_size"]]
    )


@given(
    st.lists(texts(), min_size=1, max_size=3),
    how_read,
    how_read,
    st.sampled_from([0, 0, 3, 10, 1000]),
    st.sampled_from(["plain", "gzip"]),
    st.booleans(),
    st.data(),
)
@effort(1.5)
def test_a_reader_goes_on_where_another_one_was(
    several: list[bytes], how: dict, other_how: dict, shuffle: int, packing: str, cached: bool, choice: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for number, text in enumerate(several):
            paths.append(Path(directory, f"part-{number}"))
            paths[-1].write_bytes(packed(text, packing))
        common = {"sparse": SPARSE, "dense": DENSE, "bad_lines": 10**6, "shuffle": shuffle, "seed": 7}
        if cached:
            common["cache"] = Path(directory, "cache")
        whole = rows(data.SlotReader(paths, **common))
        first = data.SlotReader(paths, **common, **how)
        taken = []
        for _ in range(choice.draw(st.integers(0, len(whole) // how["batch_size"] + 1))):
            taken += rows(batch for batch in [next(first, None)] if batch is not None)
        second = data.SlotReader(paths, **common, **other_how, position=first.position())
        rest = rows(second)
        assert taken + rest == whole
        expected = [slot_reference.read(text, SPARSE, DENSE) for text in several]
        assert Counter(whole) == Counter(sample.plain() for one in expected for sample in one.samples)


@given(st.lists(texts(), min_size=1, max_size=4), st.integers(1, 6), how_read, st.integers(0, 2), st.booleans())
@effort(1.5)
def test_over_any_split_each_sample_is_read_once(
    several: list[bytes], parts: int, how: dict, packed_files: int, cached: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for number, text in enumerate(several):
            paths.append(Path(directory, f"part-{number}"))
            paths[-1].write_bytes(packed(text, "zstd" if number < packed_files else "plain"))
        cache = Path(directory, "cache") if cached else None
        common = {"sparse": SPARSE, "dense": DENSE, "bad_lines": 10**6, "cache": cache, **how}
        readers = [data.SlotReader(list(share), **common) for share in data.split(paths, parts)]
        found = [row for reader in readers for row in rows(reader)]
        expected = [slot_reference.read(text, SPARSE, DENSE) for text in several]
        assert found == [sample.plain() for one in expected for sample in one.samples]
        bad = sum(len(one.bad) for one in expected)
        assert sum(reader.statistics().bad_lines for reader in readers) == bad
        for reader in readers:
            for line in reader.statistics().bad_examples:
                number = paths.index(Path(line.file))
                assert (line.line, line.offset) in [(one.line, one.offset) for one in expected[number].bad]


@given(texts(), st.lists(st.integers(0, 400), max_size=6), how_read)
@effort(1)
def test_ranges_may_be_cut_anywhere(text: bytes, cuts: list[int], how: dict) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "train")
        path.write_bytes(text)
        edges = [0, *sorted(min(cut, len(text)) for cut in cuts), None]
        common = {"sparse": SPARSE, "dense": DENSE, "bad_lines": 10**6, **how}
        found = []
        for start, end in itertools.pairwise(edges):
            found += rows(data.SlotReader(data.Part(path=str(path), start=start, end=end), **common))
        assert found == [sample.plain() for sample in slot_reference.read(text, SPARSE, DENSE).samples]


@given(texts(), st.integers(1, 20), st.integers(0, 5), how_read)
@effort(0.5)
def test_a_shuffle_depends_on_its_seed_and_epoch_alone(text: bytes, window: int, epoch: int, how: dict) -> None:
    common = {"sparse": SPARSE, "dense": DENSE, "bad_lines": 10**6, "shuffle": window, "seed": 3, "epoch": epoch}
    one = rows(data.SlotReader(text, **common))
    assert one == rows(data.SlotReader(text, **common, **how))
    samples = [sample.plain() for sample in slot_reference.read(text, SPARSE, DENSE).samples]
    for start in range(0, len(samples), window):
        assert Counter(one[start : start + window]) == Counter(samples[start : start + window])


# ---- rough treatment

FUZZ_LINES = times(20_000)
"""How many lines of noise are read; more by hand."""


def test_noise_is_survived() -> None:
    """Arbitrary bytes, and good lines with damage, are read to their end; what is read is what the plain reading reads."""
    draw = chance()
    alphabet = b"  \t\n\r::click1 2d dense_feature:0.5-+eE.\x00\xff\x80\xef\xbb\xbf9876"
    good = b"click:1 1:5 12:7 12:8 d:0.5 d:1 dense_feature:0.1 dense_feature:2 dense_feature:3e-4\n"
    done = 0
    while done < FUZZ_LINES:
        pieces = []
        for _ in range(200):
            kind = draw.randrange(3)
            if kind == 0:
                line = bytearray(good)
                for _ in range(draw.randrange(4)):
                    line[draw.randrange(len(line))] = draw.randrange(256)
            elif kind == 1:
                line = bytearray(draw.choice(alphabet) for _ in range(draw.randrange(60)))
            else:
                line = bytearray(draw.randbytes(draw.randrange(60)))
            pieces.append(bytes(line))
        text = b"".join(pieces)
        expected = slot_reference.read(text, SPARSE, DENSE)
        how = {"threads": draw.choice([1, 2]), "block_bytes": draw.choice([16, 100, 4096])}
        reader = data.SlotReader([text], sparse=SPARSE, dense=DENSE, bad_lines=10**9, **how)
        if text[:2] != b"\x1f\x8b":
            assert rows(reader) == [sample.plain() for sample in expected.samples]
            assert reader.statistics().bad_lines == len(expected.bad)
            assert reader.statistics().blank_lines == expected.blank
        done += text.count(b"\n") + 1


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_damaged_packing_ends_in_an_error_or_in_samples(packing: str) -> None:
    draw = chance()
    whole = packed(b"click:1 1:5\n" * 500, packing, 3)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        if draw.randrange(2):
            del damaged[draw.randrange(len(damaged)) :]
        with contextlib.suppress(data.ReadError):
            rows(data.SlotReader(bytes(damaged), sparse=["click", "1"], bad_lines=10**9))
