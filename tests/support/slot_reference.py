"""What the slot reader must do, said plainly: lines to samples, in Python, one after the other."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

ID = re.compile(rb"-?[0-9]+")
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass
class Sample:
    sparse: dict[str, list[int]]
    dense: dict[str, list[float]]
    offset: int
    """The first byte of its line."""

    def plain(self) -> tuple[object, ...]:
        return tuple(map(tuple, self.sparse.values())), tuple(map(tuple, self.dense.values()))


@dataclass
class Bad:
    line: int
    column: int
    reason: str
    offset: int


@dataclass
class Read:
    samples: list[Sample] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    blank: int = 0
    unknown: dict[str, int] = field(default_factory=dict)


class _Blank(Exception):
    """A line without a token: passed over, and counted apart."""


class _Wrong(Exception):
    def __init__(self, reason: str, column: int) -> None:
        self.reason = reason
        self.column = column


def float32(text: bytes) -> float:
    """The nearest float32, found by looking at the exact fraction; infinite if it is beyond them."""
    from fractions import Fraction

    exact = Fraction(text.decode())
    try:
        near = struct.unpack("<f", struct.pack("<f", float(exact)))[0]
    except OverflowError:
        return float("inf")
    bits = struct.unpack("<I", struct.pack("<f", near))[0]
    around = [near]
    for other in (bits - 1, bits + 1):
        if 0 <= other < 2**32:
            value = struct.unpack("<f", struct.pack("<I", other))[0]
            if value == value and abs(value) != float("inf"):
                around.append(value)
    # Half-way between two, the even one.
    return min(around, key=lambda one: (abs(Fraction(one) - exact), struct.unpack("<I", struct.pack("<f", one))[0] & 1))


def read(
    text: bytes,
    sparse: list[str],
    dense: dict[str, int],
    *,
    padding: int | None = 0,
    dense_padding: float | None = 0.0,
    unknown: str = "count",
) -> Read:
    result = Read()
    offset = 0
    lines = text.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            sample, others = _sample(line, offset, number, sparse, dense, padding, dense_padding, unknown)
        except _Blank:
            result.blank += 1
        except _Wrong as wrong:
            result.bad.append(Bad(number, wrong.column, wrong.reason, offset))
        else:
            result.samples.append(sample)
            for name in others:
                result.unknown[name] = result.unknown.get(name, 0) + 1
        offset += len(line) + 1
    return result


def _sample(
    line: bytes,
    offset: int,
    number: int,
    sparse: list[str],
    dense: dict[str, int],
    padding: int | None,
    dense_padding: float | None,
    unknown: str,
) -> tuple[Sample, list[str]]:
    if offset == 0 and line.startswith(b"\xef\xbb\xbf"):
        line = b"   " + line[3:]
    line = line.removesuffix(b"\r")
    sample = Sample({name: [] for name in sparse}, {name: [] for name in dense}, offset)
    others = []
    tokens = [(match.start() + 1, match.group()) for match in re.finditer(rb"[^ \t]+", line)]
    if not tokens:
        raise _Blank
    for column, token in tokens:
        name_bytes, colon, value = token.partition(b":")
        name = name_bytes.decode(errors="replace")
        if not colon:
            raise _Wrong("no_colon", column)
        if name in sample.sparse and name.encode() == name_bytes:
            sample.sparse[name].append(_id(value, column))
        elif name in sample.dense and name.encode() == name_bytes:
            sample.dense[name].append(_number(value, column))
        elif not name_bytes:
            raise _Wrong("no_name", column)
        elif unknown == "refuse":
            raise _Wrong("unknown_slot", column)
        else:
            others.append(name)
    _fill_up(sample, dense, padding, dense_padding)
    return sample, others


def _fill_up(sample: Sample, dense: dict[str, int], padding: int | None, dense_padding: float | None) -> None:
    for name, dim in dense.items():
        if not sample.dense[name] and dense_padding is None:
            raise _Wrong("dense_missing", 1)
        if sample.dense[name] and len(sample.dense[name]) != dim:
            raise _Wrong("dense_count", 1)
    for name, dim in dense.items():
        if not sample.dense[name]:
            assert dense_padding is not None
            sample.dense[name] = [dense_padding] * dim
    for name in sample.sparse:
        if not sample.sparse[name] and padding is not None:
            sample.sparse[name] = [padding % 2**64]


def _id(value: bytes, column: int) -> int:
    if not value:
        raise _Wrong("no_value", column)
    if not ID.fullmatch(value):
        raise _Wrong("not_an_id", column)
    number = int(value)
    if not -(2**63) <= number < 2**64:
        raise _Wrong("id_range", column)
    return number % 2**64


def _number(value: bytes, column: int) -> float:
    if not value:
        raise _Wrong("no_value", column)
    if not NUMBER.fullmatch(value):
        raise _Wrong("not_a_number", column)
    number = float32(value)
    if abs(number) == float("inf"):
        raise _Wrong("number_range", column)
    return number
