"""The page of all modules, for the site, and the kind that each says it is of; a test holds values and deciders to it.

Not kept in git: `tools.site` writes it. It needs the sources alone, and imports nothing of umiak.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "umiak"
NATIVE = ROOT / "native"

KINDS = ("values", "decider", "adapter", "program", "package")
_ADJECTIVES = "(?:small |pure |frozen )*"
_KIND = re.compile(
    rf"[.?:;] (?:(?:A|An) {_ADJECTIVES}(decider|adapter|program|package|value)|(Values|Deciders|Adapters))\b"
)
_KIND_AFTER_A_COLON = re.compile(rf": (?:an? )?{_ADJECTIVES}(value|decider|adapter)s?\b")


class Module(NamedTuple):
    """What a module says of itself."""

    name: str
    kind: str
    text: str


def modules() -> list[Module]:
    """Every module of umiak with its kind. A package whose docstring names no other kind is a package."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        said = _docstring(path.read_text(encoding="utf-8"))
        first = _plain(said.split("\n\n")[0])
        kind, text = kind_and_text(first)
        if kind is None:
            kind = "package" if parts[-1] == "__init__" else None
        if kind is None:
            raise SystemExit(f"docs/modules_page.py: the docstring of {name} does not say its kind: {', '.join(KINDS)}")
        found.append(Module(name, kind, text))
    return sorted(found)


def _docstring(source: str) -> str:
    """That of a module. Nothing behind its end is parsed, which would take seconds for all modules."""
    head, _, rest = source.partition('"""')
    return ast.get_docstring(ast.parse(f'{head}"""{rest.partition(chr(34) * 3)[0]}"""')) or ""


def kind_and_text(first: str) -> tuple[str | None, str]:
    """From the first paragraph of a docstring, ``Reads flags. A decider.``, its kind and the rest."""
    match = _KIND.search(first) or _KIND_AFTER_A_COLON.search(first)
    if match is None:
        return None, first.rstrip(".")
    word = next(group for group in match.groups() if group).lower().rstrip("s")
    return "values" if word == "value" else word, first[: match.start()]


def modules_page() -> str:
    """Every module: those of umiak with their kinds, then those of the native core."""
    packages: dict[str, list[Module]] = {}
    for module in modules():
        packages.setdefault(".".join(module.name.split(".")[:2]), []).append(module)
    alone = [packages.pop(name)[0] for name in [name for name, inside in packages.items() if len(inside) == 1]]
    parts = [MODULES_HEAD]
    for title, inside in (("umiak", alone), *packages.items()):
        rows = [f"| `{each.name}` | {each.kind} | {_cell(each.text)} |" for each in inside]
        parts.append("\n".join([f"## {title}", "", "| module | kind | what is in it |", "|---|---|---|", *rows, ""]))
    rows = [f"| `native/{path.relative_to(NATIVE).as_posix()}` | {_cell(text)} |" for path, text in native_files()]
    parts.append("\n".join(["## native", "", NATIVE_TEXT, "| file | what is in it |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def native_files() -> list[tuple[Path, str]]:
    """Every file of the native core with the first sentence of its documentation."""
    found = []
    for path in sorted((NATIVE / "src").rglob("*.rs")):
        lines = re.match(r"(?:^//!.*\n)+", path.read_text(encoding="utf-8"), re.MULTILINE)
        if lines is None:
            raise SystemExit(f"docs/modules_page.py: native/{path.relative_to(NATIVE)} does not say what it is for")
        text = _plain(re.sub(r"^//! ?", "", lines[0], flags=re.MULTILINE).split("\n\n")[0])
        found.append((path, re.split(r"[.:;] (?=[A-Z])|\.$", text)[0]))
    return found


MODULES_HEAD = """\
# Modules

Every module, its kind, and the first sentence of its docstring. *Values* say what something is; *deciders* are pure: values in,
values out; *adapters* do I/O and decide nothing; *programs* put these together. Which of them a change belongs in:
[ARCHITECTURE.md](../../ARCHITECTURE.md#where-a-line-goes).
"""
NATIVE_TEXT = "The crate behind `umiak_native`: the parameter server, its client, and the slot reader.\n"


def _plain(text: str) -> str:
    """A docstring as Markdown in one paragraph."""
    return " ".join(text.split()).replace("``", "`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
