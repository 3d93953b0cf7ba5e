"""When a certificate ends: the one date of it that is needed, read without a library for certificates. A decider."""

from __future__ import annotations

import base64
import binascii
import calendar

_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17


def ends_at(pem: bytes) -> float | None:
    """Seconds since 1970; None if it can't be told."""
    try:
        inner = pem.split(b"-----BEGIN CERTIFICATE-----", 1)[1].split(b"-----END", 1)[0]
        return _not_after(base64.b64decode(inner))
    except (IndexError, ValueError, binascii.Error):
        return None


def _not_after(der: bytes) -> float:
    (_, certificate), *_ = _items(der)
    (_, signed), *_ = _items(certificate)
    parts = [part for part in _items(signed) if part[0] != _VERSION]
    # serial number, algorithm, issuer, validity
    tag, text = _items(parts[3][1])[1]
    digits = text.decode("ascii").rstrip("Z")
    if tag == _UTC_TIME:
        digits = ("19" if int(digits[:2]) >= 50 else "20") + digits
    numbers = [int(digits[:4]), *(int(digits[at : at + 2]) for at in range(4, 14, 2))]
    return float(calendar.timegm((*numbers, 0, 0, 0)))


def _items(der: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents of what stands one behind the other."""
    found, at = [], 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(der[at : at + count], "big")
            at += count
        if at + length > len(der):
            raise ValueError("cut off")
        found.append((tag, der[at : at + length]))
        at += length
    return found
