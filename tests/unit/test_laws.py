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

import grimp
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


# ---- kinds of modules

PURE = ("values", "decider")
NOT_PURE_YET = {
    "umiak.train.run.context": "holds the job, the reporter and mirrors of a run: a value by its form alone"
}
"""Modules that call themselves pure and are not in the contract of import-linter."""


def test_every_module_says_its_kind() -> None:
    """Those that don't end `modules` with an error that names them."""
    generate = generator()
    modules = {module.name: module.kind for module in generate.modules()}
    assert set(modules) == set(sources())
    assert set(modules.values()) == set(generate.KINDS)
    assert [name for name in generate.UNSAID if name not in modules] == []


def test_the_kinds_that_are_allowed_to_be_unsaid_are_unsaid() -> None:
    generate = generator()
    said = []
    for name in generate.UNSAID:
        first = (ast.get_docstring(tree(sources()[name])) or "").split("\n\n")[0]
        said += [name] if generate._kind_and_text(" ".join(first.split()))[0] else []
    assert said == []


@pytest.mark.parametrize(
    ("first", "kind", "text"),
    [
        ("Reads flags. A decider.", "decider", "Reads flags"),
        ("Reads files: it only reads. An adapter; nothing else.", "adapter", "Reads files: it only reads"),
        ("How it ends: a small pure decider inside `x`.", "decider", "How it ends"),
        ("What is it? Values, and more.", "values", "What is it?"),
        ("Values of a table, and a program.", None, "Values of a table, and a program"),
    ],
)
def test_a_kind_is_a_sentence(first: str, kind: str | None, text: str) -> None:
    found, rest = generator()._kind_and_text(first)
    assert found == kind
    assert rest.rstrip("?") == text.rstrip("?")


def contract(start: str) -> dict[str, list[str]]:
    found = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    return next(each for each in found if each["name"].startswith(start))


def test_every_pure_module_is_held_to_it() -> None:
    """The list in pyproject.toml is what the docstrings say, so that no new module is forgotten in it."""
    listed = contract("Deciders do no I/O")["source_modules"]
    kinds = {module.name: module.kind for module in generator().modules()}
    covered = {name for name in kinds if any(name == each or name.startswith(f"{each}.") for each in listed)}
    pure = {name for name, kind in kinds.items() if kind in PURE}
    assert sorted(pure - covered - set(NOT_PURE_YET)) == []
    assert sorted(name for name in covered - pure if kinds[name] != "package") == []
    assert sorted(set(NOT_PURE_YET) & covered) == []
    assert sorted(set(NOT_PURE_YET) - pure) == []
    assert sorted(set(listed) - set(kinds)) == []


# ---- circles of imports

CIRCLES = [
    "umiak.ps.job umiak.ps.serving",
    """umiak.ps.lookup umiak.ps.strategies umiak.ps.strategies.asynchronous umiak.ps.strategies.geo
    umiak.ps.strategies.half_async umiak.ps.strategies.merging""",
]
"""Circles that are left, in umiak.ps alone; none is added."""


def circles(graph: grimp.ImportGraph) -> list[str]:
    """Sets of modules each of which imports, in the end, itself. Also by way of a package's own __init__."""
    below = {module: _below(graph, module) for module in graph.modules}
    inside = [module for module in below if module in below[module]]
    found = {frozenset(each for each in inside if each in below[module] and module in below[each]) for module in inside}
    return sorted(" ".join(sorted(each)) for each in found)


def _below(graph: grimp.ImportGraph, module: str) -> set[str]:
    """What a module imports, and what that imports, and so on."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        new = graph.find_modules_directly_imported_by(waiting.pop()) - found
        found |= new
        waiting += new
    return found


def test_no_circles_of_imports() -> None:
    graph = grimp.build_graph("umiak", cache_dir=str(ROOT / ".import_linter_cache"))
    assert circles(graph) == [" ".join(each.split()) for each in CIRCLES]


def test_the_check_of_circles_checks() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (("a", "a.b"), ("a.b", "c"), ("c", "a"), ("d", "a")):
        graph.add_import(importer=importer, imported=imported)
    assert circles(graph) == ["a a.b c"]
