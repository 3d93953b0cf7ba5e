"""Adapter: axe-core, which looks for what keeps people with other eyes, hands or ears from using a page.

    axe.findings(page)      ["color-contrast: .dim: ...", ...]; nothing: no rule of axe finds anything
    axe.missing()           why it can't be had here; None: it is there, or can be fetched

It is one file of the npm registry, known by its hash and fetched once; the pages under test ask for nothing of it. Needs npm.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

from testbed.browser import BrowserPage
from testbed.processes import program

VERSION = "4.10.3"
SHA512 = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
FETCH_WITHIN_S = 120.0
_RUN = """
const done = arguments[0];
axe.run(document, {resultTypes: ["violations"], preload: false}).then(
  (found) => done(found.violations.map((each) => `${each.id}: ${each.nodes.slice(0, 5).map((node) => `${node.target.join(" ")} (${node.html.slice(0, 160)})`).join("; ")}: ${each.help}`)),
  (problem) => done([`axe: ${problem}`]));
"""


def missing() -> str | None:
    """Why there is no axe here. Fetches it the first time."""
    try:
        _source()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"axe-core {VERSION} can't be had: {error}"
    return None


def findings(page: BrowserPage) -> list[str]:
    """What axe finds in the page as it is shown now."""
    page.run(_source())
    found: list[str] = page.run_async(_RUN)
    return found


@functools.cache
def _source() -> str:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "umiak-testbed"
    path = cache / f"axe-core-{VERSION}.tgz"
    if not path.exists() or not _is_right(path.read_bytes()):
        _fetch(cache, path)
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        member = archive.extractfile("package/axe.min.js")
        if member is None:
            raise ValueError("no axe.min.js in it")
        return member.read().decode()


def _fetch(cache: Path, path: Path) -> None:
    if program("npm") is None:
        raise FileNotFoundError("npm is missing")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as directory:
        command = ["npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", directory]
        subprocess.run(command, cwd=directory, capture_output=True, timeout=FETCH_WITHIN_S, check=True)
        fetched = Path(directory) / path.name
        if not _is_right(fetched.read_bytes()):
            raise ValueError("what the registry gave is another file")
        fetched.replace(path)


def _is_right(data: bytes) -> bool:
    return base64.b64encode(hashlib.sha512(data).digest()).decode() == SHA512
