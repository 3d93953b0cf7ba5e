"""Plain words: what a user reads has none of the turns for which the field has a word of its own.

Looked at are the pages of the documentation, help texts and every string of the program but docstrings: docstrings that users
read are generated into pages. Archaic words are looked for everywhere: in docstrings and comments too, in names, and in tests.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BANNED = {
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\banew\b": "again, restart, from scratch",
    r"\bwhoever\b": "any node that, anyone who",
    r"\bwhomever\b": "any",
    r"no number any more": "NaN",
    r"not a number any more": "NaN",
    r"\bSIG[A-Z0-9]+ came\b": "received SIGTERM",
    r"belongs to no flag": "unexpected argument",
    r"\bis the least\b": "expected an integer, 1 or more",
    r"\bwhole numbers?\b": "integer",
    r"\btrue or false\b": "boolean",
    r"\bmodels? for serving\b": "inference model",
    r"\bfades?(?: and|, and| in|\b)": "decay",
    r"nothing is left to (?:do|train)": "training is already complete",
    r"\bdigits only\b": "an integer",
    r"\bremedy:": "Fix:",
}
ARCHAIC = {
    r"(?<![a-z])mend(s|ed|ing)?(?![a-z])": "fix",
    r"(?<![a-z])anew(?![a-z])": "again, from scratch",
    r"(?<![a-z])who(m)?ever(?![a-z])": "the process that, anyone who, no matter who",
    r"(?<![a-z])befalls?(?![a-z])": "happens to",
}
SOURCES = ("src", "native", "tests", "testbed", "benchmarks", "tools", "examples", "docs")
ALLOWED: dict[str, dict[str, str]] = {
    "docs/reference/modules.md": {
        "fade, and": "docstring of native/src/table/ctr.rs",
    }
}
"""A turn in a file that may have it, with the reason: ALLOWED["docs/x.md"] = {"anew": "the title of a paper"}."""


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines()]


def said(text: str, name: str, banned: dict[str, str] = BANNED) -> list[str]:
    """The banned turns of a text, each with what to write instead."""
    found = []
    for pattern, instead in banned.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            if match.group().lower() not in ALLOWED.get(name, {}):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{name}:{line}: {match.group()!r}: write {instead}")
    return found


def strings(source: str) -> list[tuple[int, str]]:
    """Every string of a module that is not a docstring, with its line; an f-string as a whole."""
    tree = ast.parse(source)
    seen: set[int] = set()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            seen.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            seen.update(map(id, parts))
            found.append((node.lineno, "{}".join(str(part.value) for part in parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            found.append((node.lineno, node.value))
    return found


def is_page(path: Path) -> bool:
    name = path.relative_to(ROOT)
    return name.parts[0] != "native" and (name.suffix == ".md" or str(name) in ("Makefile", "mkdocs.yml"))


@pytest.mark.parametrize(
    "path", [path for path in tracked() if is_page(path)], ids=lambda path: str(path.relative_to(ROOT))
)
def test_pages_are_plain(path: Path) -> None:
    assert said(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))) == []


def test_what_is_allowed_is_there() -> None:
    spare = [
        f"{name}: {turn}"
        for name, turns in ALLOWED.items()
        for turn in turns
        if turn not in (ROOT / name).read_text(encoding="utf-8").lower()
    ]
    assert spare == []


def test_messages_and_help_are_plain() -> None:
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for line, text in strings(path.read_text(encoding="utf-8")):
            wrong += [f"{name}:{line}: {each}" for each in said(text, name)]
    assert wrong == []


def test_docstrings_comments_and_names_are_plain() -> None:
    wrong = []
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if name.startswith(SOURCES) and path.suffix in (".py", ".pyi", ".rs", ".txt") and path != Path(__file__):
            wrong += said(path.read_text(encoding="utf-8"), name, ARCHAIC)
    assert wrong == []


def test_what_is_printed_is_plain() -> None:
    """The help as a user sees it, with what tables add to it."""
    for command in (["launch"], ["train"], ["ps", "status"], ["token"], ["completion"], []):
        done = subprocess.run(
            [sys.executable, "-m", "umiak", *command, "--help"], capture_output=True, text=True, check=True
        )
        assert said(done.stdout, " ".join(command)) == []


def test_the_law_notices() -> None:
    assert len(said("Mend: begin anew.\nWhoever waits, SIGTERM came", "x")) == 4
    assert said("Fix: amend it, recommended; the model fades: a whole number", "x") == [
        "x:1: 'whole number': write integer",
        "x:1: 'fades': write decay",
    ]
    assert len(said("def test_is_made_anew(): # whoever mends it, what befalls; recommended", "x", ARCHAIC)) == 4
    assert [text for _, text in strings('"""anew"""\nx = f"whoever {y} mends"\n')] == ["whoever {} mends"]
