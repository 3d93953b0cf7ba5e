"""Which modules of umiak the launcher needs on a node, by their imports, and their sources without docstrings.
A decider.

    closure(ROOTS, read)     {"umiak": "...", "umiak.core.value": "...", ...}

Imports inside functions count: what a launch may ever import is in it. Imports under ``if TYPE_CHECKING`` don't. What
is imported by a name that is made at run time can't be seen here, so that such modules are roots: a test finds every
such import.
"""

from __future__ import annotations

import ast
import io
import tokenize

from umiak.core.value import value
from umiak.platforms import RULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOTS = (
    "umiak.__main__",
    "umiak.cli.launch",
    "umiak.launch.__main__",
    "umiak.launch.preflight.__main__",
    "umiak.submit.node.agent",
    "umiak.submit.node.session",
    "umiak.submit.payload.cloud_start",
    "umiak.submit.backends.ray.driver",
    "umiak.submit.backends.ray.sessions.driver",
    "umiak.submit.backends.shared.answers",
    "umiak.submit.payload.node_start",
    "umiak.submit.payload.transfer",
    "umiak.submit.payload.unpack",
    *sorted({f"umiak.platforms.{rule.place.partition(':')[0]}" for rule in RULES}),
)
"""Where the launcher is entered: what is started by its name, and what is imported by a name of a table."""
AGENT = ("umiak.submit.node.agent", "umiak.adapters.devices")
"""Begins on every host at once: what it needs until a launcher runs lies by itself,
so that the rest need not be unpacked for it.
"""


@value
class ModuleSource:
    """One module: where it lies below the directory of the package, and its text."""

    name: str
    path: str
    text: str

    @property
    def is_package(self) -> bool:
        return self.path.endswith("/__init__.py")


def closure(
    roots: Iterable[str], read: Callable[[str], str | None], *, at_once: bool = False
) -> dict[str, ModuleSource]:
    """All modules that are imported from these on, in order of their names. ``read`` gives the text of a path, or None.

    ``at_once``: only those that are imported when the roots are, and not in their functions.
    """
    sources: dict[str, ModuleSource] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        source = None if name in sources else _source(name, read)
        if source:
            sources[name] = source
            waiting += [name.rpartition(".")[0], *imports(source.text, at_once=at_once)]
    missing = [name for name in roots if name not in sources]
    if missing:
        raise ValueError(f"no such module: {', '.join(missing)}")
    return dict(sorted(sources.items()))


def imports(text: str, *, at_once: bool = False) -> set[str]:
    """Every name of umiak that a module may import: modules, and names in them, which are no modules."""
    names = _imported(ast.parse(text).body, at_once=at_once)
    return {name for name in names if name.partition(".")[0] == "umiak"}


def stripped(text: str) -> str:
    """The text without comments and docstrings: a third smaller. Every line of code keeps its number."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    starts_statement = True
    for number, token in enumerate(tokens):
        follows = tokens[number + 1].type if number + 1 < len(tokens) else tokenize.ENDMARKER
        if token.type == tokenize.COMMENT:
            _cut(lines, token, "")
        elif token.type == tokenize.STRING and starts_statement and follows in (tokenize.NEWLINE, tokenize.COMMENT):
            _cut(lines, token, '""')
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            starts_statement = True
        elif token.type not in (tokenize.NL, tokenize.COMMENT):
            starts_statement = False
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _source(name: str, read: Callable[[str], str | None]) -> ModuleSource | None:
    base = name.replace(".", "/")
    for path in (f"{base}/__init__.py", f"{base}.py"):
        text = read(path)
        if text is not None:
            return ModuleSource(name=name, path=path, text=text)
    return None


def _imported(nodes: Iterable[ast.AST], *, at_once: bool = False) -> Iterator[str]:
    for node in nodes:
        if at_once and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from _imported(node.orelse, at_once=at_once)
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{each.name}" for each in node.names)
        yield from _imported(ast.iter_child_nodes(node), at_once=at_once)


def _cut(lines: list[str], token: tokenize.TokenInfo, instead: str) -> None:
    """Replace a token, which nothing but a comment follows in its last line."""
    (first, begin), (last, end) = token.start, token.end
    rest = lines[last - 1][end:]
    if first == last:
        lines[first - 1] = lines[first - 1][:begin] + instead + rest
        return
    lines[first - 1] = lines[first - 1][:begin] + instead + "\n"
    for number in range(first, last - 1):
        lines[number] = "\n"
    lines[last - 1] = rest
