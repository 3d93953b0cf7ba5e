"""The file format of one variable in fluid 1.8: offsets of its sequences, shape and type, then the values. A decider.

    version u32 | levels u64 | (bytes u64, offsets u64 ...) per level | version u32 | length i32 | description | values

The description is a protobuf message: field 1 the type, field 2 the sizes. Several variables in one file stand one behind another.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from umiak.fluid.arguments import Value

TYPES = {
    0: "bool",
    1: "int16",
    2: "int32",
    3: "int64",
    4: "float16",
    5: "float32",
    6: "float64",
    20: "uint8",
    21: "int8",
}
NUMBERS = {name: number for number, name in TYPES.items()}


def packed(array: Value) -> bytes:
    """An array as such a file has it."""
    array = np.ascontiguousarray(array)
    description = b"\x08" + _varint(NUMBERS[str(array.dtype)])
    description += b"".join(b"\x10" + _varint(size) for size in array.shape)
    values: bytes = array.tobytes()
    return struct.pack("<IQIi", 0, 0, 0, len(description)) + description + values


def unpacked(content: bytes, start: int = 0) -> tuple[Any, int]:
    """The array that begins there, and where the next one does; a ValueError if there is none."""
    try:
        return _unpacked(content, start)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError(f"not a variable as fluid saves it: {error}") from None


def _unpacked(content: bytes, start: int) -> tuple[Any, int]:
    version, levels = struct.unpack_from("<IQ", content, start)
    if version:
        raise ValueError(f"expected version 0 of fluid's variables, got {version}")
    place = start + 12
    for _ in range(levels):
        (size,) = struct.unpack_from("<Q", content, place)
        place += 8 + size
    _, length = struct.unpack_from("<Ii", content, place)
    place += 8
    end = place + length
    dtype, shape = "", []
    while place < end:
        key = content[place]
        number, place = _number(content, place + 1)
        if key == 0x08:
            dtype = TYPES[number]
        elif key == 0x10:
            shape.append(number)
        else:
            raise ValueError(f"a field of unknown kind: {key}")
    count = int(np.prod(shape)) if shape else 1
    size = count * np.dtype(dtype).itemsize
    if end + size > len(content):
        raise ValueError(f"expected {size} bytes of values, got {len(content) - end}")
    return np.frombuffer(content, dtype, count, end).reshape(shape).copy(), end + size


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)
    return bytes(data)


def _number(content: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[place]
        number |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return number, place
        shift += 7
