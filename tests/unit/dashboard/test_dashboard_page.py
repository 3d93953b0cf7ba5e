"""The files of the page: what others wrote is as they published it, small, and named with its licence."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from umiak.dashboard.http import statics

STATIC = Path(statics.DIRECTORY)
VENDOR = STATIC / "vendor"
MOST_VENDORED_BYTES = 75_000


def test_what_others_wrote_is_as_they_published_it() -> None:
    rows = json.loads((VENDOR / "MANIFEST.json").read_text())["files"]
    assert {row["file"] for row in rows} == {path.name for path in VENDOR.iterdir() if path.suffix in (".js", ".css")}
    for row in rows:
        data = (VENDOR / row["file"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (row["size_bytes"], row["sha256"])
        licences = [row["licence_file"], *(each["licence_file"] for each in row["includes"])]
        assert all((VENDOR / name).stat().st_size > 500 for name in licences)
        assert re.fullmatch(r"\d+\.\d+\.\d+", row["version"])
    assert sum(row["size_bytes"] for row in rows) < MOST_VENDORED_BYTES


def test_the_page_names_only_files_that_it_has() -> None:
    files = statics.load()
    named = set()
    for path in [*STATIC.glob("*.js"), STATIC / "index.html"]:
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r'"/static/([\w./-]+)"', text))
        assert "innerHTML" not in text
        assert "eval(" not in text
        assert re.findall(r"https?://", text) == []
    assert named - set(files) == set()
    assert set(files) - named == {statics.PAGE}
    assert not re.search(r"<script(?![^>]* src=)|<style| on\w+=| style=", (STATIC / "index.html").read_text())
