"""`stable_hash`: XXH64, whatever the process, the machine and the length of the text."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umiak.models import stable_hash

MASK = 2**64 - 1
P1, P2, P3, P4, P5 = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)


def _left(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & MASK


def _round(lane: int, word: int) -> int:
    return _left((lane + word * P2) & MASK, 31) * P1 & MASK


def reference(data: bytes, seed: int) -> int:
    """As the specification of xxHash describes it."""
    at = 0
    if len(data) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while at + 32 <= len(data):
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        found = sum(_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        found = (seed + P5) & MASK
    found = (found + len(data)) & MASK
    while at + 8 <= len(data):
        found = (_left(found ^ _round(0, int.from_bytes(data[at : at + 8], "little")), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        found = (_left(found ^ int.from_bytes(data[at : at + 4], "little") * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        found = _left(found ^ byte * P5 & MASK, 11) * P1 & MASK
    found = (found ^ found >> 33) * P2 & MASK
    found = (found ^ found >> 29) * P3 & MASK
    return found ^ found >> 32


def test_golden_values_never_change() -> None:
    """Ids in models that were trained depend on them. The first ones are those of xxHash itself."""
    assert stable_hash("") == 0xEF46DB3751D8E999
    assert stable_hash("", seed=2654435761) == 0xAC75FDA2929B17EF
    assert stable_hash("a") == 0xD24EC4F1A98C6E5B
    assert stable_hash("abc") == 0x44BC2CF5AD770999
    assert stable_hash("user_17") == 543681862927398669
    assert [stable_hash("user_17", 1000), stable_hash("user_17", 1000, 1)] == [669, 752]


@given(data=st.binary(max_size=200), seed=st.integers(0, MASK), buckets=st.integers(1, MASK))
def test_it_is_xxh64(data: bytes, seed: int, buckets: int) -> None:
    expected = reference(data, seed)
    assert stable_hash(data, seed=seed) == expected
    assert stable_hash(data, buckets, seed) == expected % buckets


@given(text=st.text(max_size=50))
def test_a_text_is_its_bytes_in_utf_8(text: str) -> None:
    encodable = text.encode("utf-8", "replace").decode()
    assert stable_hash(encodable) == stable_hash(encodable.encode())


@pytest.mark.parametrize("number", [0, 17, -5, 2**63, 2**70])
def test_a_number_is_the_text_of_its_digits(number: int) -> None:
    assert stable_hash(number) == stable_hash(str(number))
    if number < 2**63:
        assert stable_hash(np.int64(number)) == stable_hash(str(number))  # type: ignore[arg-type]


@pytest.mark.parametrize("item", [1.5, True, None, ("a",), ["a"], bytearray(b"a"), np.float32(1)])
def test_what_has_no_text_is_refused(item: object) -> None:
    with pytest.raises(TypeError, match="a text, bytes or an integer is expected"):
        stable_hash(item)  # type: ignore[arg-type]


def test_buckets_are_one_or_more() -> None:
    assert stable_hash("a", 1) == 0
    with pytest.raises(ValueError, match="buckets: 1 or more is expected"):
        stable_hash("a", 0)
    with pytest.raises(OverflowError):
        stable_hash("a", -1)


def test_it_is_the_same_in_another_process_and_needs_no_framework() -> None:
    code = (
        "import sys; from umiak.models import stable_hash; print(stable_hash('Zürich', 10**6), 'paddle' in sys.modules)"
    )
    for seed in ("0", "1"):
        told = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        assert told.split() == [str(stable_hash("Zürich", 10**6)), "False"]
