"""Writes what is made from the code: tables in the pages of docs, the JSON schemas of configs and jobs, manifests in deploy/. A program.

    python docs/generate.py           write them
    python docs/generate.py --check   write nothing; exit 1 and name every file that would change

Pages are written by hand. What stands in one between the marks

    <!-- begin: generated flags submit -->
    <!-- end -->

is made by the function of `docs/tables.py` that the mark names. A variable, a platform or a message without its line fails the build.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for modules beside this one

from docs.tables import BLOCKS
from umiak import platforms
from umiak.adapters.version import version
from umiak.cli.deploy import chart
from umiak.submit import job_schema
from umiak.train.config import json_schema

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SOURCE = Path(platforms.__file__).resolve().parents[1]
MARKED = re.compile(r"^<!-- begin: generated (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


def main(argv: list[str]) -> int:
    """Write the files, or compare them with what is there."""
    stale = []
    for path, make in files().items():
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT).as_posix())
        if "--check" not in argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if not stale:
        return 0
    if "--check" in argv:
        print(f"error: not what the code says: {', '.join(stale)}\n  hint: run `make docs`", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale)}")
    return 0


def files() -> dict[Path, Callable[[], str]]:
    """Every file that is made, or has parts that are, with what makes it."""
    made: dict[Path, Callable[[], str]] = {
        SOURCE / "train" / json_schema.FILE: json_schema.text,
        SOURCE / "submit" / job_schema.FILE: job_schema.text,
    }
    made |= {ROOT / name: partial(str, content) for name, content in chart.files(version()).items()}
    pages = [path for path in sorted(DOCS.rglob("*.md")) if path not in made]
    return made | {path: partial(filled, path.read_text(encoding="utf-8")) for path in pages}


def filled(page: str) -> str:
    """A page with new contents between its marks."""
    return MARKED.sub(lambda match: f"<!-- begin: generated {match[1]} -->\n\n{block(match[1])}\n\n<!-- end -->", page)


def block(mark: str) -> str:
    """What stands between two marks."""
    name, _, rest = mark.partition(" ")
    if name not in BLOCKS:
        raise SystemExit(f"docs/generate.py: expected one of {', '.join(BLOCKS)} in a mark, got {name}")
    return BLOCKS[name](rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
