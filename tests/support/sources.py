"""The sources of the program, read once in a process, for the laws that can be read off them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "umiak"


@cache
def python_files() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def tree(path: Path) -> ast.Module:
    """Not kept: the trees of all modules have millions of objects, and the garbage collector would look through them from then on."""
    return ast.parse(text_of(path))


class Definition(NamedTuple):
    """A class, a function or a field."""

    kind: type[ast.AST]
    name: str
    lines: int


@cache
def definitions(path: Path) -> tuple[Definition, ...]:
    """Of a module, however deep; a field is one with a type, of a class."""
    return tuple(_definitions(tree(path)))


def _definitions(module: ast.AST) -> Iterator[Definition]:
    """Statements alone are visited, a tenth of what `ast.walk` does."""
    waiting = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Definition(type(node), node.name, (node.end_lineno or 0) - node.lineno + 1)
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield Definition(ast.AnnAssign, field.target.id, 1)
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())
