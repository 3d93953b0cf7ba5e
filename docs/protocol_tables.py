"""The messages between launchers in docs/reference/protocol.md, from the classes that they are. A program, part of `generate`."""

from __future__ import annotations

import ast
from pathlib import Path

from umiak import launch

LAUNCH = Path(launch.__file__).parent
UNIONS = ("FROM_NODE", "FROM_MASTER")


def messages(which: str) -> str:
    """Those of a union of `umiak.launch.protocol`; `parts`: what they are made of; `check`: those of a check."""
    if which == "check":
        return "\n\n".join(map(_message, _classes(LAUNCH / "preflight" / "messages.py").values()))
    source = LAUNCH / "protocol.py"
    classes = _classes(source)
    if which in UNIONS:
        return "\n\n".join(_message(classes[name]) for name in _tuple(source, which))
    sent = {name for union in UNIONS for name in _tuple(source, union)}
    return "\n\n".join(_message(node) for name, node in classes.items() if name not in sent)


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _tuple(path: Path, name: str) -> tuple[str, ...]:
    """The names in a module's tuple of classes."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and ast.unparse(node.targets[0]) == name:
            return tuple(ast.unparse(each) for each in node.value.elts)
    raise SystemExit(f"docs/generate.py: {path.name} has no {name}")


def _message(message: ast.ClassDef) -> str:
    """One class: its docstring, and a table of its fields or the words of its enumeration."""
    parts = [f"### {message.name}"]
    if text := ast.get_docstring(message):
        parts.append(_plain(text))
    rows = []
    for node, following in zip(message.body, [*message.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign):
            default = "" if node.value is None else f"`{_cell(ast.unparse(node.value))}`"
            kind = _cell(ast.unparse(node.annotation))
            rows.append(f"| `{ast.unparse(node.target)}` | `{kind}` | {default} | {_meaning(following)} |")
        elif isinstance(node, ast.Assign):
            rows.append(f"| `{ast.literal_eval(node.value)}` | | | {_meaning(following)} |")
    if rows:
        parts.append("\n".join(["| field | kind | default | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _meaning(node: ast.stmt | None) -> str:
    """The string that stands below a field."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return _cell(_plain(node.value.value))
    return ""


def _plain(text: str) -> str:
    """A docstring as Markdown in one paragraph."""
    return " ".join(text.split()).replace("``", "`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
