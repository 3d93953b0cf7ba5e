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

from tests.support.paths import ROOT
from tests.support.sources import definitions, python_files, text_of, tree

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
REMOVED_NAMES = {
    r"Errand|errand": "task",
    r"Heart": "Heartbeats",
    r"MadeUp|made_up": "generated",
    r"Manner|manners?": "settings",
    r"RoleWish|GangWish": "spec",
    r"Asked": "Request",
    r"Tell|NodeSaid|HostSaid": "message, output",
    r"Strangers|strangers": "unknown peers",
    r"Talk": "Output",
    r"keeper": "what it keeps, such as supervisor",
    r"door": "listener",
    r"glance|look_around": "latest, poll",
    r"Meeting|meetings?": "discovery, barrier",
    r"patiently": "with_retries",
    r"board|deal": "metrics, queue",
}
"""What modules, classes, fields and functions of the program are not called any more, and what to write instead."""
SOURCES = ("src", "native", "tests", "testbed", "benchmarks", "tools", "examples", "docs")
ALLOWED: dict[str, dict[str, str]] = {}
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


BETWEEN_STRINGS = re.compile(r"""["']\s*\n\s*[rf]{0,2}["']""")
"""Where one string goes on in the next line."""


def may_have(text: str) -> bool:
    """Whether a source has a banned turn anywhere, so that it is worth a look at its strings one by one."""
    whole = BETWEEN_STRINGS.sub("", text).lower()  # half the time of IGNORECASE
    return any(re.search(pattern.lower(), whole) for pattern in BANNED)


def strings(module: ast.Module) -> list[tuple[int, str]]:
    """Every string of a module that is not a docstring, with its line; an f-string as a whole."""
    seen: set[int] = set()
    found = []
    for node in ast.walk(module):
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


def test_pages_are_plain() -> None:
    pages = [path for path in tracked() if is_page(path)]
    assert len(pages) > 100
    assert [each for path in pages for each in said(text_of(path), str(path.relative_to(ROOT)))] == []


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
    for path in filter(lambda path: may_have(text_of(path)), python_files()):
        name = str(path.relative_to(ROOT))
        for line, text in strings(tree(path)):
            wrong += [f"{name}:{line}: {each}" for each in said(text, name)]
    assert wrong == []


def test_docstrings_comments_and_names_are_plain() -> None:
    wrong = []
    somewhere = re.sub(r"\(\?<?![^)]*\)", "", "|".join(ARCHAIC))
    assert all(re.search(somewhere, word) for word in ("mended", "anew", "whomever", "befalls"))
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if name.startswith(SOURCES) and path.suffix in (".py", ".pyi", ".rs", ".txt") and path != Path(__file__):
            text = path.read_text(encoding="utf-8")
            if re.search(somewhere, text.lower()):  # a third of the time of looking for whole words in every file
                wrong += said(text, name, ARCHAIC)
    assert wrong == []


def removed(names: list[str]) -> list[str]:
    """Those of these names that have been replaced by plainer ones."""
    pattern = "|".join(REMOVED_NAMES)
    return sorted(name for name in names if re.fullmatch(f"_*(?:{pattern})", name))


def test_removed_names_do_not_come_back() -> None:
    wrong = []
    for path in python_files():
        names = [path.stem, *(each.name for each in definitions(path))]
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in removed(names)]
    assert wrong == []


def test_the_law_of_names_notices(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text("class RoleWish:\n    board: str\n    number: int\n\n\ndef _look_around(): ...\n")
    assert removed([each.name for each in definitions(source)]) == ["RoleWish", "_look_around", "board"]


def test_what_is_printed_is_plain() -> None:
    """The help as a user sees it, with what tables add to it."""
    for command in (["launch"], ["train"], ["ps", "status"], ["token"], ["completion"], []):
        done = subprocess.run(
            [sys.executable, "-m", "umiak", *command, "--help"], capture_output=True, text=True, check=True
        )
        assert said(done.stdout, " ".join(command)) == []


def test_the_law_notices() -> None:
    assert may_have('x = "begin anew"')
    assert may_have('x = ("nothing is left "\n    f"to do")')
    assert not may_have('x = "all is well"')
    assert len(said("Mend: begin anew.\nWhoever waits, SIGTERM came", "x")) == 4
    assert said("Fix: amend it, recommended; the model fades: a whole number", "x") == [
        "x:1: 'whole number': write integer",
        "x:1: 'fades': write decay",
    ]
    assert len(said("def test_is_made_anew(): # whoever mends it, what befalls; recommended", "x", ARCHAIC)) == 4
    assert [text for _, text in strings(ast.parse('"""anew"""\nx = f"whoever {y} mends"\n'))] == ["whoever {} mends"]
