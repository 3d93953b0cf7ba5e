"""What a Python file imports when it is imported itself, from its text. A decider.

    imported("import numpy as np\\nfrom net import DNNLayer")  ->  ("numpy", "net")

What stands in a function, under a condition, or where its absence is caught, is left out.
"""

from __future__ import annotations

from umiak.train.engines import model_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator


def imported(text: str) -> tuple[str, ...]:
    """The modules, with their dots, in order; nothing where the text is not Python."""
    return tuple([name for name, _ in lines(text)])


def lines(text: str) -> tuple[tuple[str, int], ...]:
    """The same, each with the first line that names it."""
    import ast

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found: dict[str, int] = {}
    for name, line in _names(tree.body):
        found.setdefault(name, line)
    return tuple(found.items())


def _names(body: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    import ast

    for node in body:
        if isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module, node.lineno
        elif isinstance(node, (ast.With, ast.ClassDef)):
            yield from _names(node.body)
        elif isinstance(node, ast.Try) and not model_text.catches_imports(node):
            yield from _names([*node.body, *node.orelse, *node.finalbody])
