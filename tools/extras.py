"""Measures how much each extra of pyproject.toml adds to an environment, into docs/extras.json.

    python -m tools.extras               all of them, each in an environment of its own; packages come from the index
    python -m tools.extras ssh train     these

The table of docs/how-to/install.md shows the numbers, and a test compares the two with pyproject.toml: measure it again after changing an extra.
The native core is not on the index: where an extra brings it, it is built from native/.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "extras.json"
TABLE = re.compile(r"^\[tool\.hatch\.metadata\.hooks\.custom\.extras\]\n(.*?)^\[", re.MULTILINE | re.DOTALL)
MIB = 1 << 20


def main(argv: list[str]) -> int:
    """Measure the extras that are named, or all, and write them down."""
    known = extras()
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in argv or known:
        results[name] = {"needs": known[name], "megabytes": measured(known[name])}
        print(f"{name}: {results[name]['megabytes']} MB")
    ordered = {name: results[name] for name in known if name in results}
    RESULTS.write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")
    return 0


def extras() -> dict[str, list[str]]:
    """Every extra with what it needs, as pyproject.toml has them."""
    table = TABLE.search((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if table is None:
        raise SystemExit("tools/extras.py: expected a table of extras in pyproject.toml, got none")
    rows = re.findall(r"^(\w+) = (\[.*\])$", table[1], re.MULTILINE)
    return {name: re.findall(r'"([^"]*)"', needed) for name, needed in rows}


def measured(needed: list[str]) -> float:
    """How many megabytes these packages take, with all that they bring, once they have been imported."""
    with tempfile.TemporaryDirectory() as directory:
        environment = Path(directory) / "environment"
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, environment], check=True)
        packages = next(environment.glob("lib/python*/site-packages"))
        before = _size(packages)
        sources = [str(ROOT / "native") if name == "umiak-native" else name for name in needed]
        command = [
            "uv",
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            "--python",
            str(environment / "bin" / "python"),
        ]
        subprocess.run([*command, *sources], check=True)
        size = (_size(packages) - before) / MIB
    return round(size, 1) if size < 1 else round(size)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
