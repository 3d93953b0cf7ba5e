"""Generated tables with nasty values, and a plain account of what readers give for them: written from the documentation, with Python's own
means alone."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa

from umiak.data import stable_hash

Decimal = decimal.Decimal
WORDS = [
    "",
    "1",
    "1.0",
    "01",
    "é",
    "a,b",
    'say "hi"',
    "two\nlines",
    "\r",
    " padded ",
    "NA",
    "nan",
    "0x1",
    "x" * 3000,
    "\ufeff",
    "#",
    "\\N",
    "true",
]
LONGEST_ROWS = 3000


def table(chance: random.Random, rows: int) -> pa.Table:
    """A column of each kind, each with missing values, in chunks of its own."""

    def some(make: Any, gaps: float = 0.2) -> list[Any]:
        return [None if chance.random() < gaps else make() for _ in range(rows)]

    def word() -> str:
        return chance.choice([*WORDS, f"w{chance.randrange(40)}", str(chance.getrandbits(60))])

    gaps = chance.choice([0, 0.01, 0.5, 1])
    extremes = [2**63 - 1, -(2**63), 0, -1, 1, 2**53 + 1]
    columns = {
        "int64": pa.array(some(lambda: chance.choice([*extremes, chance.getrandbits(40)]), gaps), pa.int64()),
        "uint64": pa.array(some(lambda: chance.choice([2**63, 2**64 - 1, 0]), gaps), pa.uint64()),
        "uint32": pa.array(some(lambda: chance.choice([2**31, 2**32 - 1, 7])), pa.uint32()),
        "int8": pa.array(some(lambda: chance.randrange(-128, 128), 0), pa.int8()),
        "truth": pa.array(some(lambda: chance.random() < 0.5), pa.bool_()),
        "float32": pa.array(
            some(lambda: chance.choice([0.1, 1.0, math.nan, -0.0, 3e38, chance.random()])), pa.float32()
        ),
        "float64": pa.array(
            some(
                lambda: chance.choice(
                    [0.1, 1.0, 1e300, 1e-7, math.inf, math.nan, chance.random(), chance.getrandbits(40) / 256]
                )
            )
        ),
        "half": pa.array(np.array([chance.random() * 99 for _ in range(rows)], np.float16)),
        "text": pa.array(some(word, gaps), pa.string()),
        "few": pa.array(some(lambda: chance.choice(["a", "b", ""])), pa.string()).dictionary_encode(),
        "bytes": pa.array(some(lambda: chance.randbytes(chance.randrange(6))), pa.binary()),
        "short": pa.array(some(lambda: Decimal(chance.randrange(-(10**9), 10**9)).scaleb(-3)), pa.decimal128(15, 3)),
        "long": pa.array(some(lambda: Decimal(chance.randrange(-(10**25), 10**25)).scaleb(-7)), pa.decimal256(60, 7)),
        "instant": pa.array(some(lambda: chance.getrandbits(50)), pa.timestamp("us", "Europe/Berlin")),
        "moment": pa.array(some(lambda: chance.getrandbits(60) - 2**58), pa.timestamp("ns")),
        "day": pa.array(some(lambda: chance.randrange(-30000, 30000)), pa.date32()),
        "clock": pa.array(some(lambda: chance.randrange(86_400_000)), pa.time32("ms")),
        "tags": pa.array(
            some(lambda: [None if chance.random() < 0.2 else word() for _ in range(chance.randrange(4))]),
            pa.list_(pa.string()),
        ),
        "hist": pa.array(
            some(lambda: [chance.getrandbits(30) for _ in range(chance.choice([0, 1, 90]))]), pa.list_(pa.int64())
        ),
        "in": pa.array(
            some(lambda: {"a": chance.randrange(5), "b": None}), pa.struct([("a", pa.int64()), ("b", pa.string())])
        ),
        "nothing": pa.nulls(rows),
    }
    return pa.table(columns)


def plain_values(whole: pa.Table, name: str) -> list[Any]:
    """A column's values as Python has them; times as the integers that they are stored as."""
    if "." in name:
        outer, inner = name.split(".")
        return [None if each is None else each[inner] for each in whole[outer].to_pylist()]
    column = whole[name]
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return column.to_pylist()  # type: ignore[no-any-return]


def canonical(value: Any, kind: pa.DataType) -> bytes | None:
    """The text that an id is the hash of; None where nothing is there."""
    if value is None or value in ("", b"") or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal):
        return _plain(value)
    if pa.types.is_floating(kind):
        return of_float(np.float32(value) if kind.bit_width < 64 else np.float64(value))
    if pa.types.is_date32(kind):
        return str(dt.date(1970, 1, 1) + dt.timedelta(days=value)).encode()
    if pa.types.is_time(kind):
        return _of_time(value, 1000)
    if pa.types.is_timestamp(kind):
        per_second = {"us": 10**6, "ns": 10**9}[kind.unit]
        days, rest = divmod(value, 86_400 * per_second)
        date = str(dt.date(1970, 1, 1) + dt.timedelta(days=days)).encode()
        return date + b"T" + _of_time(rest, per_second) + (b"Z" if kind.tz else b"")
    return str(value).encode()


def id_of(value: Any, kind: pa.DataType) -> int | None:
    """What `ids` gives."""
    text = canonical(value, kind)
    return None if text is None else stable_hash(text)


def _of_time(value: int, per_second: int) -> bytes:
    seconds, part = divmod(value, per_second)
    digits = f".{part:0{len(str(per_second)) - 1}d}".rstrip("0").rstrip(".")
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}".encode()


def _plain(value: Decimal) -> bytes:
    if value != value.to_integral_value() and (
        abs(value) < Decimal("1e-6") or len(value.normalize().as_tuple().digits) > 15
    ):
        return of_float(np.float64(value))
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return b"0" if text in ("-0", "") else text.encode()


def of_float(value: np.floating[Any]) -> bytes:
    if np.isinf(value):
        return b"inf" if value > 0 else b"-inf"
    if value == 0:
        return b"0"
    if 1e-6 <= abs(value) < 1e21:
        return np.format_float_positional(value, unique=True, trim="-").encode()
    mantissa, exponent = np.format_float_scientific(value, unique=True, trim="-").split("e")
    return f"{mantissa}e{int(exponent)}".encode()
