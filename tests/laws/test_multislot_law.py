"""Laws of MultiSlot text: what is written is read, and samples that are cut, picked, joined and sent stay what they are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import umiak_native
from hypothesis import given
from hypothesis import strategies as st
from umiak_native import MultiSlotParser, MultiSlotSamples

ID = st.integers(-(2**63), 2**64 - 1)
FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def written(draw: st.DrawFn) -> tuple[list[bool], list[list[list[Any]]]]:
    """Kinds of slots, and samples with some values for each."""
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=5))
    slots = st.tuples(*(st.lists(FLOAT if is_float else ID, min_size=1, max_size=4) for is_float in kinds))
    return kinds, [list(sample) for sample in draw(st.lists(slots, max_size=12))]


def text_of(samples: list[list[list[Any]]], between: str = " ", end: str = "\n") -> bytes:
    return "".join(
        between.join(f"{len(slot)}{between}{between.join(map(str, slot))}" for slot in sample) + end
        for sample in samples
    ).encode()


def read(kinds: list[bool], text: bytes) -> MultiSlotSamples:
    samples, surplus = MultiSlotParser([(is_float, 0, False) for is_float in kinds]).parse(text)
    assert surplus is None
    return samples


def as_lists(samples: MultiSlotSamples) -> list[list[list[Any]]]:
    columns = [[values[a:b].tolist() for a, b in pairwise(at)] for values, at in samples.arrays()]
    return [list(sample) for sample in zip(*columns, strict=True)]


def signed(samples: list[list[list[Any]]], kinds: list[bool]) -> list[list[list[Any]]]:
    """Ids as int64, floats as float32: what the arrays hold."""

    def one(value: Any, is_float: bool) -> Any:
        return float(np.float32(value)) if is_float else (value + 2**63) % 2**64 - 2**63

    return [[[one(v, k) for v in slot] for slot, k in zip(s, kinds, strict=True)] for s in samples]


@given(written(), st.sampled_from([" ", "  ", "\t"]), st.sampled_from(["\n", "\r\n", " \n"]))
def test_what_is_written_is_read(given: tuple[list[bool], list[list[list[Any]]]], between: str, end: str) -> None:
    kinds, samples = given
    assert as_lists(read(kinds, text_of(samples, between, end))) == signed(samples, kinds)


@given(written(), st.data())
def test_parts_are_the_whole(given: tuple[list[bool], list[list[list[Any]]]], data: st.DataObject) -> None:
    kinds, samples = given
    whole = read(kinds, text_of(samples))
    at = data.draw(st.integers(0, len(whole)))
    assert as_lists(MultiSlotSamples.join([whole.cut(0, at), whole.cut(at, len(whole))])) == as_lists(whole)
    assert as_lists(MultiSlotSamples.decode(whole.encode())) == as_lists(whole)
    if len(whole):
        picked = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=20))
        taken = whole.take(np.array(picked, np.int64))
        assert as_lists(taken) == [as_lists(whole)[number] for number in picked]


@given(st.binary(max_size=200))
def test_any_bytes_are_samples_or_an_error(text: bytes) -> None:
    try:
        samples = read([False, True], text)
    except (umiak_native.ReaderError, AssertionError):
        return
    assert all(len(sample) == 2 for sample in as_lists(samples))


@given(st.binary(max_size=200))
def test_any_bytes_are_sent_samples_or_an_error(sent: bytes) -> None:
    try:
        samples = MultiSlotSamples.decode(sent)
    except ValueError:
        return
    assert MultiSlotSamples.decode(samples.encode()).encode() == samples.encode()


def test_samples_of_other_slots_are_not_joined() -> None:
    with pytest.raises(ValueError, match="other slots"):
        MultiSlotSamples.join([read([False], b"1 1\n"), read([True], b"1 1\n")])
    with pytest.raises(ValueError, match="sample 1 of 1"):
        read([False], b"1 1\n").take(np.array([1], np.int64))
    with pytest.raises(ValueError, match="samples 0 to 2 of 1"):
        read([False], b"1 1\n").cut(0, 2)
