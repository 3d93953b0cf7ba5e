"""Laws of the house that can be read off the source: the map leads somewhere, modules say their kind and keep to it.

An exception stands in an allow list of its law with its reason, and has to go when the reason has.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import types
from functools import cache
from pathlib import Path

import pytest
from importlinter.api import read_configuration

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "umiak"


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    """The dotted name of a module, as the allow lists write it."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, Path]:
    return {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def generator() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the map

PLACE = re.compile(r"`([\w./]+\.(?:py|pyi|rs)):(\w+)`")
RUST = r"\b(?:fn|struct|enum|trait|const|static|type|mod|macro_rules!)\s+{}\b"


def rows_of_the_map() -> list[str]:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = page.split("| a line that ... | belongs in |")[1].split("\n\n", maxsplit=1)[0]
    return [row for row in table.splitlines()[2:] if not row.startswith("| **")]


def exists(path: Path, symbol: str) -> bool:
    """Whether a file has a symbol: at the top of a Python module, anywhere in a Rust file."""
    if not path.is_file():
        return False
    if path.suffix == ".rs":
        return re.search(RUST.format(symbol), path.read_text(encoding="utf-8")) is not None
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == symbol:
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if is_typed(node) else []
        if any(isinstance(target, ast.Name) and target.id == symbol for target in targets):
            return True
    return False


def is_typed(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign)


@pytest.mark.parametrize("row", rows_of_the_map(), ids=lambda row: row.split(" | ")[0].strip("| "))
def test_the_map_leads_somewhere(row: str) -> None:
    places = PLACE.findall(row)
    assert places, f"names no path:symbol: {row}"
    assert [f"{path}:{symbol}" for path, symbol in places if not exists(ROOT / path, symbol)] == []


def test_the_map_is_large_enough() -> None:
    rows = rows_of_the_map()
    assert len(rows) >= 40
    assert len([row for row in rows if "native/src" in row]) >= 8


def test_the_map_has_a_row_in_each_layer() -> None:
    contract = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"][0]
    layers = {name.strip().removeprefix("umiak.") for row in contract["layers"] for name in row.split("|")}
    named = {
        path.split("/")[2] for row in rows_of_the_map() for path, _ in PLACE.findall(row) if path.startswith("src")
    }
    assert layers - named == set()


def test_the_check_of_the_map_checks() -> None:
    assert exists(SOURCE / "launch" / "plan.py", "plan")
    assert not exists(SOURCE / "launch" / "plan.py", "plans")
    assert not exists(SOURCE / "launch" / "nowhere.py", "plan")
    assert exists(ROOT / "native" / "src" / "wire" / "frame.rs", "Op")
    assert not exists(ROOT / "native" / "src" / "wire" / "frame.rs", "Opera")
