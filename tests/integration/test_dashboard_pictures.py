"""The pictures of the dashboard in the docs are what its pages show now."""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from pathlib import Path

import pytest

from testbed import browser
from tests.support import dashboard_pictures
from tests.support.dashboard_pictures import HEIGHTS, LARGEST_BYTES, MADE_FROM, NAMES, PICTURES, WIDTH

PAGE = PICTURES.parent / "how-to" / "dashboard.md"


def size_of(data: bytes) -> tuple[int, int]:
    """Of a picture that can be read to its end."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, kinds = 8, []
    while at < len(data):
        length = struct.unpack(">I", data[at : at + 4])[0]
        kinds.append(data[at + 4 : at + 8])
        body = data[at + 4 : at + 8 + length]
        assert zlib.crc32(body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        at += 12 + length
    assert (kinds[0], kinds[-1], at) == (b"IHDR", b"IEND", len(data))
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_the_pictures_are_not_stale() -> None:
    """They are not compared by pixels: those are of the fonts of a machine."""
    recorded = json.loads(MADE_FROM.read_text(encoding="utf-8"))["made_from"]
    hint = "the page has changed: look at it, and run `python -m tests.support.dashboard_pictures`"
    assert recorded == dashboard_pictures.fingerprint(), hint


def test_the_docs_show_them() -> None:
    named = re.findall(r"!\[([^\]]+)\]\(\.\./pictures/(dashboard[\w-]*\.png)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(name for _, name in named) == sorted(NAMES)
    assert all(len(text) > 30 for text, _ in named), "somebody who can't see a picture reads what is on it"
    for name, height in zip(NAMES, HEIGHTS, strict=True):
        data = (PICTURES / name).read_bytes()
        assert size_of(data) == (WIDTH, height)
        assert len(data) < LARGEST_BYTES


@pytest.mark.skipif(bool(browser.missing()) and "CI" not in os.environ, reason=f"without {browser.missing()}")
def test_they_can_be_taken_again(tmp_path: Path) -> None:
    taken = [path.read_bytes() for path in dashboard_pictures.take(tmp_path)]
    assert [size_of(data) for data in taken] == [(WIDTH, height) for height in HEIGHTS]
    assert all(10_000 < len(data) < LARGEST_BYTES for data in taken), "an empty page is smaller"
