"""The files of the page: read and compressed once, when the server begins. An adapter.

    statics = load()
    statics["app.js"].body, statics["app.js"].packed, statics["app.js"].tag

``static/vendor/MANIFEST.json`` names what others wrote, with versions, licences and hashes.
"""

from __future__ import annotations

import gzip
import hashlib
import os

from umiak.core.value import value

DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "static")
PAGE = "index.html"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@value
class StaticFile:
    """One file of the page."""

    body: bytes
    packed: bytes
    kind: str
    tag: str


def load() -> dict[str, StaticFile]:
    """Every file that a page may ask for, by its name below ``/static/``."""
    found = {}
    for folder in ("", "vendor"):
        for name in sorted(os.listdir(os.path.join(DIRECTORY, folder))):
            kind = KINDS.get(os.path.splitext(name)[1])
            if kind is None:
                continue
            with open(os.path.join(DIRECTORY, folder, name), "rb") as file:
                body = file.read()
            tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
            key = f"{folder}/{name}" if folder else name
            found[key] = StaticFile(body=body, packed=gzip.compress(body, 6, mtime=0), kind=kind, tag=tag)
    return found
