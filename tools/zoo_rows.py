"""Copies a PaddleRec checkout with smaller embeddings, so that its models can be compared on a small machine. A program.

    python -m tools.zoo_rows /tmp/zoo /tmp/zoo-rows 131101
    python -m tools.zoo_compare /tmp/zoo-rows

Many configs have a table of a million rows, of which plain Paddle keeps, initializes and moves all, while the sample data has some thousand ids. In the copy such a
table has ROWS rows, and every id of the sample data is taken modulo ROWS: other ids, for both sides alike. `zoo_compare` notes it for each model (`rows`).
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

NOTE = "fewer-rows.json"
SIZE = re.compile(r"^(\s*(?:sparse_feature_num(?:ber)?)\s*:\s*)(\d+)", re.MULTILINE)
DIRECTORY = re.compile(r"^\s*train_data_dir\s*:\s*[\"']?([^\"'\s#]+)", re.MULTILINE)
ID = re.compile(r"(?<=:)\d+(?![.\d])")
SLOTS = re.compile(r"^[^\s]*(?:[\w]+:[-.\w]+[\s,]+){4}")
"""Text of `slot:id`, as five such words in a row show it."""


def smaller(config: str, rows: int) -> str:
    """A config whose tables have so many rows at most."""
    return SIZE.sub(lambda found: found[1] + str(min(int(found[2]), rows)), config)


def modulo(text: str, rows: int) -> str:
    """Lines of `slot:id` with all ids below so many. Numbers with a point are values, and stay."""
    return ID.sub(lambda found: str(int(found[0]) % rows), text)


def copy(zoo: Path, to: Path, rows: int) -> list[str]:
    """Names of the models that are others in the copy."""
    shutil.copytree(zoo, to)
    changed = []
    for config in sorted((to / "models").rglob("config.yaml")):
        text = config.read_text(encoding="utf-8")
        found = DIRECTORY.search(text)
        data = config.parent / found[1] if found else config.parent
        files = [each for each in data.rglob("*") if each.is_file()] if found and data.is_dir() else []
        if smaller(text, rows) == text or not files or not all(_is_slots(each) for each in files):
            continue
        config.write_text(smaller(text, rows), encoding="utf-8")
        for each in files:
            each.write_text(modulo(each.read_text(encoding="utf-8"), rows), encoding="utf-8")
        changed.append(config.parent.relative_to(to / "models").as_posix())
    (to / NOTE).write_text(json.dumps({"rows": rows, "models": changed}), encoding="utf-8")
    return changed


def _is_slots(file: Path) -> bool:
    with file.open("rb") as opened:
        return bool(SLOTS.match(opened.readline().decode("utf-8", "replace")))


def main(argv: list[str]) -> int:
    """The exit status."""
    zoo, to, rows = argv
    print("\n".join(copy(Path(zoo), Path(to), int(rows))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
