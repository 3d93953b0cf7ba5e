"""XXH64, the hash of 64 bits that `layers.hash` of 1.8 is defined by. A decider."""

from __future__ import annotations

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotated(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes, seed: int) -> int:
    """The hash of some bytes."""
    place, size = 0, len(data)
    if size >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed & MASK, (seed - P1) & MASK]
        while place + 32 <= size:
            for number in range(4):
                word = int.from_bytes(data[place : place + 8], "little")
                lanes[number] = _round(lanes[number], word)
                place += 8
        digest = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            digest = ((digest ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        digest = (seed + P5) & MASK
    digest = (digest + size) & MASK
    while place + 8 <= size:
        digest ^= _round(0, int.from_bytes(data[place : place + 8], "little"))
        digest = (_rotated(digest, 27) * P1 + P4) & MASK
        place += 8
    if place + 4 <= size:
        digest ^= int.from_bytes(data[place : place + 4], "little") * P1 & MASK
        digest = (_rotated(digest, 23) * P2 + P3) & MASK
        place += 4
    for byte in data[place:]:
        digest ^= byte * P5 & MASK
        digest = _rotated(digest, 11) * P1 & MASK
    for shift, prime in ((33, P2), (29, P3)):
        digest = (digest ^ (digest >> shift)) * prime & MASK
    return digest ^ (digest >> 32)
